"""Migrations: once, in order, all or nothing, and never changed behind the database's back."""

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import resources
from pathlib import Path

import asyncpg
import pytest

from conftest import new_database
from vintem.runtime import migrations
from vintem.runtime.db import Database, DatabaseOptions
from vintem.runtime.migrations import Migration, MigrationError, is_current, known, migrate

numbers = itertools.count(1)

PUBLISHED = Path(__file__).with_name("published_migrations.txt")

TWO = (
    Migration(1, "shelves", "create table shelf (company_id bigint primary key)"),
    Migration(
        2,
        "books",
        "create table book (company_id bigint primary key references shelf);"
        " insert into shelf values (1); insert into book values (1)",
    ),
)


@pytest.fixture
async def empty_url(worker_id: str) -> str:
    return await new_database(f"migrations_{worker_id}_{next(numbers)}")


@asynccontextmanager
async def opened(url: str, options: DatabaseOptions | None = None) -> AsyncIterator[Database]:
    database = Database(url, options)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def bring(monkeypatch: pytest.MonkeyPatch, brought: Sequence[Migration]) -> None:
    """Let the program bring these migrations instead of its own."""
    monkeypatch.setattr(migrations, "known", lambda: tuple(brought))


async def tables(database: Database) -> set[str]:
    rows = await database.fetch(
        "select relname from pg_class where relnamespace = 'public'::regnamespace"
        " and relkind in ('r', 'p')"
    )
    return {row["relname"] for row in rows}


async def register(database: Database) -> Sequence[tuple[int, str, str]]:
    rows = await database.fetch("select * from schema_migration order by applied_at, version")
    return [(row["version"], row["name"], row["checksum"]) for row in rows]


def test_the_program_brings_every_file_of_its_folder_numbered_from_one() -> None:
    folder = resources.files("vintem").joinpath("migrations")
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    assert [f"{one.version:04}_{one.name}.sql" for one in known()] == files
    assert [one.version for one in known()] == list(range(1, len(files) + 1))
    for one, file in zip(known(), files, strict=True):
        assert one.statements == folder.joinpath(file).read_text(encoding="utf-8")


async def test_five_at_once_apply_each_migration_once(empty_url: str) -> None:
    async with AsyncExitStack() as stack:
        databases = [await stack.enter_async_context(opened(empty_url)) for _ in range(5)]
        assert not await is_current(databases[0])
        async with asyncio.timeout(60):
            shares = await asyncio.gather(*(migrate(database) for database in databases))
        applied = sorted(itertools.chain(*shares), key=lambda migration: migration.version)
        assert applied == list(known())
        assert await register(databases[0]) == [
            (migration.version, migration.name, migration.checksum) for migration in known()
        ]
        for database in databases:
            assert await is_current(database)


async def test_a_process_that_waited_sees_what_the_other_did_meanwhile(empty_url: str) -> None:
    one_connection = DatabaseOptions(connections_max=1)
    async with opened(empty_url) as first, opened(empty_url, one_connection) as second:
        # The server now remembers for this connection that there is no such table.
        assert not await is_current(second)
        async with first.atomic() as block:
            await block.execute(migrations.LOCK)
            waiting = asyncio.create_task(migrate(second))
            async with asyncio.timeout(5):
                while not await first.fetchval(
                    "select count(*) from pg_locks where locktype = 'advisory' and not granted"
                ):
                    await asyncio.sleep(0.005)
            await migrations._make_register(block)
        assert await waiting == list(known())


async def test_a_second_run_applies_nothing(empty_url: str) -> None:
    async with opened(empty_url) as database:
        assert await migrate(database) == list(known())
        before = await register(database)
        assert await migrate(database) == []
        assert await register(database) == before


async def test_migrations_are_applied_in_their_order(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(monkeypatch, TWO)
    async with opened(empty_url) as database:
        assert await migrate(database) == list(TWO)
        assert [version for version, _, _ in await register(database)] == [1, 2]


async def test_a_database_is_current_only_with_the_newest_migration(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(empty_url) as database:
        bring(monkeypatch, TWO[:1])
        assert not await is_current(database)
        await migrate(database)
        assert await is_current(database)
        bring(monkeypatch, TWO)
        assert not await is_current(database)
        assert await migrate(database) == [TWO[1]]
        assert await is_current(database)
        # An older program may run beside a newer one while they are exchanged.
        bring(monkeypatch, TWO[:1])
        assert await is_current(database)
        assert await migrate(database) == []


async def test_a_changed_file_is_refused_with_what_to_do(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(empty_url) as database:
        bring(monkeypatch, TWO[:1])
        await migrate(database)
        changed = dataclasses.replace(TWO[0], statements=TWO[0].statements + " ")
        bring(monkeypatch, (changed, TWO[1]))
        with pytest.raises(MigrationError) as refused:
            await migrate(database)
        assert str(refused.value) == (
            "Migration 0001 (shelves) was changed after it was applied;"
            " restore the file and write a new migration instead."
        )
        assert await tables(database) == {"schema_migration", "shelf"}


async def test_a_migration_that_fails_leaves_nothing_behind(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = dataclasses.replace(
        TWO[1], statements="create table book (company_id bigint); select 1 / 0; select 1"
    )
    async with opened(empty_url) as database:
        bring(monkeypatch, (dataclasses.replace(broken, version=1),))
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(database)
        assert await tables(database) == set()

        bring(monkeypatch, (TWO[0], broken))
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(database)
        assert await tables(database) == {"schema_migration", "shelf"}
        assert [version for version, _, _ in await register(database)] == [1]
        assert not await is_current(database)

        bring(monkeypatch, TWO)
        assert await migrate(database) == [TWO[1]]
        assert await is_current(database)


async def test_a_migration_may_take_longer_than_a_statement_of_the_service(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(monkeypatch, (Migration(1, "slow", "select pg_sleep(0.2)"),))
    async with opened(empty_url, DatabaseOptions(statement_timeout_ms=50)) as database:
        assert len(await migrate(database)) == 1
        assert await database.fetchval("show statement_timeout") == "50ms"


def test_a_migration_that_was_published_is_never_changed() -> None:
    """A database that ran it as it was would be refused; what is to change is a new one."""
    brought = [f"{each.checksum} {each.version:04}_{each.name}" for each in known()]
    published = PUBLISHED.read_text().splitlines()
    assert brought[: len(published)] == published
    assert brought[len(published) :] == [], f"write these down in {PUBLISHED.name}"
