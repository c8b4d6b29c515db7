"""Whether calls should be sent here, and the chores that go on behind every call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import uuid4

import asyncpg
import pytest

from conftest import new_database, running_api
from support.api import Api, Tenant
from vintem import resources as resources_module
from vintem.companies import keyring
from vintem.companies.keyring import Keyring
from vintem.resources import open_resources
from vintem.runtime.db import Database
from vintem.runtime.migrations import migrate
from vintem.settings import Settings


@asynccontextmanager
async def migrated_copy(settings: Settings) -> AsyncIterator[Settings]:
    """A database that takes no writes, as one that another has taken the place of."""
    name = f"copy_{uuid4().hex[:12]}"
    url = await new_database(name)
    database = Database(url)
    await database.open()
    await migrate(database)
    await database.close()
    connection = await asyncpg.connect(url)
    await connection.execute(f"alter database {name} set default_transaction_read_only = on")
    await connection.close()
    yield replace(settings, database_url=url)


async def test_a_database_that_takes_writes_is_ready(api: Api) -> None:
    reply = await api.get("/readyz")
    assert (reply.status, reply.json["database"]) == (200, "reachable")


async def test_a_database_that_only_reads_is_not_ready_and_answers_503(
    settings: Settings,
) -> None:
    async with migrated_copy(settings) as copy, running_api(copy) as api:
        reply = await api.get("/readyz")
        assert (reply.status, reply.json["status"]) == (503, "not ready")
        assert reply.json["database"] == "read-only"
        assert reply.json["migrations"] == "current"
        assert (await api.get("/healthz")).status == 200


async def test_keys_go_on_being_checked_after_any_fault(
    settings: Settings, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps = 0

    async def sweep(_self: Keyring) -> None:
        nonlocal sweeps
        sweeps += 1
        if sweeps == 1:
            raise RuntimeError("a bug of the sweep")

    monkeypatch.setattr(keyring, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(Keyring, "sweep", sweep)
    async with running_api(settings) as api, asyncio.timeout(5):
        while sweeps < 3:
            await asyncio.sleep(0.01)
        assert (await api.get("/v1/balance", key=tenant.sk_test)).status == 200


async def test_everything_is_closed_though_a_chore_has_died(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_limiters: object) -> None:
        raise RuntimeError("a bug of a chore")

    monkeypatch.setattr(resources_module, "_forget_idle", die)
    async with open_resources(settings, shared_limits=False) as resources:
        await asyncio.sleep(0.01)
    with pytest.raises(AssertionError, match="after close"):
        await resources.database.fetchval("select 1")
