"""A platform whose sandbox may call this machine, a worker that delivers, and somebody to call."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from conftest import client, serving
from support.api import Api, Shop, new_shop
from support.sink import Sink, running_sink
from support.webhooks import delivering
from vintem.resources import Resources, open_resources
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.webhooks.dispatch import Dispatcher


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
