"""Databases that are spoilt on purpose, to see that the audit notices it."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg

from conftest import new_database, running_api
from support.api import TEST_PEPPER, Api, complaints
from vintem.runtime.db import Database
from vintem.runtime.migrations import migrate
from vintem.settings import read_settings

numbers = itertools.count(1)


@asynccontextmanager
async def sound(url: str) -> AsyncIterator[tuple[Api, Database]]:
    """An empty database and the API on it, for a life of which the audit finds nothing."""
    database = Database(url)
    await database.open()
    await migrate(database)
    settings = read_settings({"DATABASE_URL": url, "VINTEM_PEPPER": TEST_PEPPER})
    async with running_api(settings) as api:
        yield api, database
        assert await complaints(database) == {}
    await database.close()


@asynccontextmanager
async def copied(url: str) -> AsyncIterator[Database]:
    """A copy of a database to which nobody is connected."""
    source = urlsplit(url).path.removeprefix("/")
    name = f"{source}_{next(numbers)}"
    await new_database(f"{name} template {source}")
    opened = Database(url.replace(f"/{source}?", f"/{name}?"))
    await opened.open()
    yield opened
    await opened.close()


async def spoil(database: Database, breach: str, *, tables: Sequence[str]) -> None:
    """Do what the database would refuse: the checks of these tables go first, and the triggers."""
    connection = await asyncpg.connect(database.url)
    try:
        for checked in await connection.fetch(
            """
            select conrelid::regclass::text as name, conname from pg_constraint
            where contype = 'c' and conrelid = any($1::text[]::regclass[])
            """,
            tables,
        ):
            await connection.execute(
                f'alter table {checked["name"]} drop constraint "{checked["conname"]}"'
            )
        for table in tables:
            await connection.execute(f"alter table {table} disable trigger user")
        await connection.execute(breach)
    finally:
        await connection.close()
