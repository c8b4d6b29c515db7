"""A platform whose sandbox may call this machine, a worker that delivers, and somebody to call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from conftest import client, serving
from support.api import Api, Shop, new_shop
from support.sink import Sink, running_sink
from vintem.resources import Resources, open_resources
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.webhooks.dispatch import Dispatcher
from vintem.webhooks.model import Pace

QUICK = Pace(
    call_seconds_max=1.0,
    retry_seconds=(0.1,) * 9,
    breaker_seconds=0.3,
    breaker_seconds_max=0.3,
    lease_seconds=3.0,
)


@pytest.fixture(scope="session")
async def resources(settings: Settings) -> AsyncIterator[Resources]:
    lenient = replace(settings, allow_loopback_webhooks=True)
    async with open_resources(lenient, shared_limits=False) as opened:
        yield opened


@pytest.fixture(scope="session")
async def lenient_api(resources: Resources) -> AsyncIterator[Api]:
    async with serving(resources) as base_url, client() as session:
        yield Api(base_url, session)


@pytest.fixture
async def shop(lenient_api: Api, database: Database) -> Shop:
    return await new_shop(lenient_api, database)


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with running_sink() as running:
        yield running


@pytest.fixture
async def worker(resources: Resources) -> AsyncIterator[Dispatcher]:
    """A worker that delivers while the test runs."""
    async with delivering(resources) as dispatcher:
        yield dispatcher


@asynccontextmanager
async def delivering(resources: Resources, pace: Pace = QUICK) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(
        resources.database,
        resources.sealer,
        resources.outbound,
        allows_loopback=True,
        pace=pace,
    )

    async def tick_for_ever() -> None:
        while True:
            await dispatcher.tick()
            await asyncio.sleep(0.05)

    ticking = asyncio.create_task(tick_for_ever())
    yield dispatcher
    ticking.cancel()
    await asyncio.wait({ticking})
    assert ticking.cancelled(), ticking.exception()
    await dispatcher.close()
