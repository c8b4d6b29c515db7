"""A company with something to sell for each test, on a server whose public limits are wide."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from conftest import client, running_api, serving
from support.api import Api
from support.storefront import Storefront, new_storefront
from vintem.providers.faults import Fault
from vintem.resources import Resources, open_resources
from vintem.runtime.db import Database
from vintem.settings import Settings

WIDE = {
    "public_reads_of_one_per_minute": 1_000_000,
    "public_reads_per_minute": 1_000_000,
    "public_coupons_per_minute": 1_000_000,
    "public_payments_per_minute": 1_000_000,
    "public_card_tokens_per_minute": 1_000_000,
    "public_link_sessions_per_minute": 1_000_000,
    "public_refused_cards_per_hour": 1_000_000,
    "public_wrong_codes_per_hour": 1_000_000,
}


@pytest.fixture(scope="session")
async def door(settings: Settings) -> AsyncIterator[Api]:
    """A server that lets one address call as often as tests do."""
    wide = replace(settings, allow_loopback_webhooks=True, **WIDE)  # type: ignore[arg-type]
    async with running_api(wide) as running:
        yield running


@pytest.fixture
async def store(door: Api, database: Database) -> Storefront:
    """A company that sells one thing for R$ 149,90."""
    return await new_storefront(door, database)


@asynccontextmanager
async def faulty(
    settings: Settings, database: Database, *faults: Fault
) -> AsyncIterator[tuple[Storefront, Resources]]:
    """A company on a server whose acquirer disappoints, and what a worker would hold."""
    shares = tuple((fault, 100) for fault in faults)
    changed = replace(settings, simulator_faults=shares, **WIDE)  # type: ignore[arg-type]
    async with (
        open_resources(changed, shared_limits=False) as resources,
        serving(resources) as base_url,
        client() as session,
    ):
        yield await new_storefront(Api(base_url, session), database), resources
