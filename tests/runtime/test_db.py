"""The database: atomic blocks, tries again, limits in force, and what its absence looks like."""

import asyncio
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from conftest import new_database
from support.platform import promised
from vintem.runtime import db
from vintem.runtime.db import (
    ATTEMPTS_MAX,
    Connection,
    Database,
    DatabaseBusyError,
    DatabaseOptions,
    DatabaseRefusedError,
    DatabaseUnavailableError,
)

AWAY_SECONDS_MAX = 4.0
SHORT = DatabaseOptions(lock_timeout_ms=50, statement_timeout_ms=1_000)


@asynccontextmanager
async def opened(url: str, options: DatabaseOptions | None = None) -> AsyncIterator[Database]:
    database = Database(url, options)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture(scope="module", autouse=True)
async def _table(database: Database) -> AsyncIterator[None]:
    await database.execute(
        "create table test_counter (company_id bigint primary key, value bigint not null)"
    )
    yield
    await database.execute("drop table test_counter")


@pytest.fixture(autouse=True)
async def _rows(database: Database) -> None:
    await database.execute("delete from test_counter")
    await database.execute("insert into test_counter values (1, 0), (2, 0)")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where somebody listens and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert isinstance(port, int)
    return port


async def value_of(connection: Connection, company_id: int) -> object:
    return await connection.fetchval(
        "select value from test_counter where company_id = $1", company_id
    )


async def add(connection: Connection, company_id: int, *, amount: int = 1) -> None:
    await connection.execute(
        "update test_counter set value = value + $2 where company_id = $1", company_id, amount
    )


async def kill(database: Database, pid: int) -> None:
    """End another connection's server process and wait until it is gone."""
    assert await database.fetchval("select pg_terminate_backend($1)", pid)
    async with asyncio.timeout(5):
        while await database.fetchval("select count(*) from pg_stat_activity where pid = $1", pid):
            await asyncio.sleep(0.005)


# Atomic blocks


async def test_an_atomic_block_commits_all_of_its_statements(database: Database) -> None:
    async with database.atomic() as block:
        await add(block, 1)
        await add(block, 2)
        assert await value_of(database, 1) == 0, "another connection saw a block before its end"
    assert [await value_of(database, company) for company in (1, 2)] == [1, 1]


async def test_an_atomic_block_that_fails_commits_nothing(database: Database) -> None:
    async def fail_in_the_database() -> None:
        async with database.atomic() as block:
            await add(block, 1)
            await block.fetchval("select 1 / 0")

    async def fail_here() -> None:
        async with database.atomic() as block:
            await add(block, 2)
            raise KeyError

    with pytest.raises(asyncpg.DivisionByZeroError):
        await fail_in_the_database()
    with pytest.raises(KeyError):
        await fail_here()
    assert [await value_of(database, company) for company in (1, 2)] == [0, 0]


async def test_a_cancelled_atomic_block_commits_nothing(database: Database) -> None:
    is_inside = asyncio.Event()

    async def linger() -> None:
        async with database.atomic() as block:
            await add(block, 1)
            is_inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(linger())
    await is_inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await value_of(database, 1) == 0
    await add(database, 1)
    assert await value_of(database, 1) == 1, "the cancelled block kept its lock"


# Trying again


async def test_a_deadlock_is_tried_again_until_both_blocks_are_committed(
    database: Database,
) -> None:
    has_first = {1: asyncio.Event(), 2: asyncio.Event()}
    tries = {1: 0, 2: 0}

    async def run(mine: int, other: int) -> None:
        async def work(block: Connection) -> None:
            tries[mine] += 1
            await block.execute("set local deadlock_timeout = '20ms'")
            await add(block, mine, amount=mine)
            has_first[mine].set()
            await has_first[other].wait()
            await add(block, other, amount=mine)

        await database.atomically(work)

    await asyncio.gather(run(1, 2), run(2, 1))
    assert sum(tries.values()) > 2, "no deadlock happened, so nothing was shown"
    assert [await value_of(database, company) for company in (1, 2)] == [3, 3]


async def test_a_serialization_failure_is_tried_again(database: Database) -> None:
    tries = 0

    async def work(block: Connection) -> None:
        nonlocal tries
        tries += 1
        await block.execute("set transaction isolation level repeatable read")
        seen = await value_of(block, 1)
        if tries == 1:
            await add(database, 1, amount=10)
        assert isinstance(seen, int)
        await block.execute("update test_counter set value = $1 where company_id = 1", seen + 1)

    await database.atomically(work)
    assert tries == 2
    assert await value_of(database, 1) == 11


async def test_a_failure_that_appears_only_at_the_commit_is_tried_again(
    database: Database,
) -> None:
    tries = 0

    async def work(block: Connection) -> None:
        nonlocal tries
        tries += 1
        await block.execute("set transaction isolation level serializable")
        await value_of(block, 1)
        await add(block, 2)
        if tries == 1:
            # A rival that reads what this block wrote, and writes what this block read.
            async with database.atomic() as rival:
                await rival.execute("set transaction isolation level serializable")
                await value_of(rival, 2)
                await add(rival, 1)

    await database.atomically(work)
    assert tries == 2
    assert [await value_of(database, company) for company in (1, 2)] == [1, 1]


async def test_a_block_that_stays_busy_is_given_up_as_busy_after_its_last_try(
    database: Database,
) -> None:
    tries = 0

    async def work(block: Connection) -> None:
        nonlocal tries
        tries += 1
        await block.execute("set transaction isolation level repeatable read")
        await value_of(block, 1)
        await add(database, 1)
        await add(block, 1, amount=1_000)

    with pytest.raises(DatabaseBusyError):
        await database.atomically(work)
    assert tries == ATTEMPTS_MAX
    assert await value_of(database, 1) == ATTEMPTS_MAX


async def test_a_bug_inside_a_block_is_not_tried_again(database: Database) -> None:
    tries = 0

    async def work(block: Connection) -> None:
        nonlocal tries
        tries += 1
        await block.execute("insert into test_counter values (1, 1)")

    with pytest.raises(asyncpg.UniqueViolationError):
        await database.atomically(work)
    assert tries == 1


# Limits


async def test_the_limits_are_in_force_on_every_pooled_connection(database_url: str) -> None:
    options = DatabaseOptions(
        connections_max=3,
        statement_timeout_ms=4_321,
        lock_timeout_ms=1_234,
        idle_in_atomic_timeout_ms=9_876,
    )
    expected = {
        "statement_timeout": "4321ms",
        "lock_timeout": "1234ms",
        "idle_in_transaction_session_timeout": "9876ms",
        "TimeZone": "UTC",
        "application_name": "vintem",
    }
    async with opened(database_url, options) as database:
        for _ in range(2):
            async with database.atomic() as one, database.atomic() as two, database.atomic() as six:
                for connection in (one, two, six):
                    for name, value in expected.items():
                        assert await connection.fetchval(f"show {name}") == value
                    # What one user changes must be gone for the next.
                    await connection.execute("set statement_timeout = 0")
                    await connection.execute("set timezone = 'America/Sao_Paulo'")


async def test_a_dedicated_connection_keeps_the_limits_and_adds_its_own(
    database: Database,
) -> None:
    connection = await database.connect(jit="off", lock_timeout="77")
    try:
        assert await connection.fetchval("show jit") == "off"
        assert await connection.fetchval("show lock_timeout") == "77ms"
        assert await connection.fetchval("show statement_timeout") == "5s"
    finally:
        await connection.close()


async def test_a_row_locked_for_too_long_is_busy(database_url: str, database: Database) -> None:
    async with opened(database_url, SHORT) as impatient, database.atomic() as holder:
        await add(holder, 1)
        with pytest.raises(DatabaseBusyError):
            await add(impatient, 1)
        tries = 0

        async def work(block: Connection) -> None:
            nonlocal tries
            tries += 1
            await add(block, 1)

        with pytest.raises(DatabaseBusyError):
            await impatient.atomically(work)
        assert tries == ATTEMPTS_MAX
    assert await value_of(database, 1) == 1


async def test_a_statement_that_takes_too_long_is_unavailability_but_not_busy(
    database_url: str,
) -> None:
    async with opened(database_url, DatabaseOptions(statement_timeout_ms=100)) as database:
        started = time.monotonic()
        with pytest.raises(DatabaseUnavailableError) as caught:
            await database.execute("select pg_sleep(30)")
        assert not isinstance(caught.value, DatabaseBusyError)
        assert time.monotonic() - started < 2
        assert await database.fetchval("select 1") == 1


async def test_a_block_that_idles_for_too_long_is_ended(
    database_url: str, database: Database
) -> None:
    async def idle(block: Connection) -> None:
        await add(block, 1)
        await asyncio.sleep(0.3)
        await add(block, 1)

    async with opened(database_url, DatabaseOptions(idle_in_atomic_timeout_ms=50)) as impatient:
        with pytest.raises(DatabaseUnavailableError):
            await impatient.atomically(idle)
        assert await impatient.fetchval("select 1") == 1
    assert await value_of(database, 1) == 0


async def test_waiting_for_a_free_connection_ends(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(database_url, DatabaseOptions(connections_max=1)) as database:
        async with database.atomic():
            with monkeypatch.context() as hurry:
                hurry.setattr(db, "CONNECT_SECONDS_MAX", 0.2)
                with pytest.raises(DatabaseUnavailableError):
                    await database.fetchval("select 1")
        assert await database.fetchval("select 1") == 1


# The server goes away


async def test_a_statement_whose_backend_is_killed_is_unavailability(
    database_url: str, database: Database
) -> None:
    async with opened(database_url, DatabaseOptions(connections_max=1)) as victim:
        pid = await victim.fetchval("select pg_backend_pid()")
        task = asyncio.create_task(victim.execute("select pg_sleep(4)"))
        async with asyncio.timeout(3):
            while not await database.fetchval(
                "select count(*) from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'",
                pid,
            ):
                await asyncio.sleep(0.005)
        await kill(database, pid)
        with pytest.raises(DatabaseUnavailableError):
            await task
        assert await victim.fetchval("select 1") == 1


async def test_a_block_whose_backend_is_killed_is_unavailability_and_commits_nothing(
    database_url: str, database: Database
) -> None:
    async def die_before_the_commit(block: Connection) -> None:
        await add(block, 1)
        await kill(database, await block.fetchval("select pg_backend_pid()"))

    async def die_before_a_statement(block: Connection) -> None:
        await die_before_the_commit(block)
        await add(block, 2)

    async with opened(database_url, DatabaseOptions(connections_max=1)) as victim:
        for work in (die_before_the_commit, die_before_a_statement):
            with pytest.raises(DatabaseUnavailableError):
                await victim.atomically(work)
        assert [await value_of(victim, company) for company in (1, 2)] == [0, 0]


async def test_an_idle_connection_that_was_killed_costs_at_most_one_call(
    database_url: str, database: Database
) -> None:
    async with opened(database_url, DatabaseOptions(connections_max=1)) as victim:
        for _ in range(20):
            await kill(database, await victim.fetchval("select pg_backend_pid()"))
            with suppress(DatabaseUnavailableError):
                await victim.fetchval("select 1")
            assert await victim.fetchval("select 1") == 1


async def test_a_server_that_goes_and_comes_back_is_found_again(
    database_url: str, database: Database
) -> None:
    address = urlsplit(database_url)
    sockets = parse_qs(address.query)["host"][0]
    with tempfile.TemporaryDirectory(prefix="vdb-") as folder:
        road = Path(folder) / "s"
        road.symlink_to(sockets)
        async with opened(database_url.replace(sockets, str(road))) as traveller:
            pid = await traveller.fetchval("select pg_backend_pid()")
            road.unlink()
            await kill(database, pid)
            for _ in range(3):
                with pytest.raises(DatabaseUnavailableError):
                    await traveller.fetchval("select 1")
            road.symlink_to(sockets)
            assert await traveller.fetchval("select 1") == 1


async def test_a_server_that_is_not_there_is_unavailability_within_four_seconds(
    closed_port: int, silent_port: int
) -> None:
    addresses = (
        f"postgresql://vintem@127.0.0.1:{closed_port}/vintem",
        f"postgresql://vintem@127.0.0.1:{silent_port}/vintem",
        "postgresql://vintem@/vintem?host=/nonexistent",
        "postgresql://vintem@no-such-host.invalid/vintem",
    )

    async def try_all_ways(url: str) -> None:
        async with opened(url) as database:
            ways = (
                database.fetch("select 1"),
                database.fetchrow("select 1"),
                database.fetchval("select 1"),
                database.execute("select 1"),
                database.atomically(lambda block: block.execute("select 1")),
                database.connect(),
            )
            for fault in await asyncio.gather(*ways, return_exceptions=True):
                assert isinstance(fault, DatabaseUnavailableError), (url, fault)
                assert not isinstance(fault, DatabaseBusyError), url

    started = time.monotonic()
    await asyncio.gather(*(try_all_ways(url) for url in addresses))
    assert time.monotonic() - started < promised(AWAY_SECONDS_MAX)


# Bugs stay bugs


@pytest.mark.parametrize(
    ("statement", "values", "fault"),
    [
        ("select $1::bigint", ("closed",), asyncpg.DataError),
        ("select $1::bigint, $2::text", (1,), asyncpg.InterfaceError),
        ("select 1", ("closed",), asyncpg.InterfaceError),
        ("select closed from nowhere", (), asyncpg.UndefinedTableError),
        ("selec 'closed'", (), asyncpg.PostgresSyntaxError),
        ("select 'closed'::bigint", (), asyncpg.InvalidTextRepresentationError),
        ("select 1 / 0", (), asyncpg.DivisionByZeroError),
        ("insert into test_counter values (1, 0)", (), asyncpg.UniqueViolationError),
    ],
)
async def test_a_wrong_statement_or_argument_is_not_turned_into_unavailability(
    database: Database, statement: str, values: tuple[object, ...], fault: type[Exception]
) -> None:
    assert not issubclass(fault, DatabaseUnavailableError)
    for way in (database.fetch, database.fetchrow, database.fetchval, database.execute):
        with pytest.raises(fault):
            await way(statement, *values)
    with pytest.raises(fault):
        async with database.atomic() as block:
            await block.execute(statement, *values)


async def test_two_statements_at_once_on_one_connection_are_a_bug(database: Database) -> None:
    async with database.atomic() as block:
        outcomes = await asyncio.gather(
            block.execute("select pg_sleep(0.05)"),
            block.execute("select 1"),
            return_exceptions=True,
        )
    assert isinstance(outcomes[1], asyncpg.InterfaceError)


async def test_use_before_open_and_after_close_is_a_bug(database_url: str) -> None:
    database = Database(database_url)
    with pytest.raises(AssertionError):
        await database.fetchval("select 1")
    await database.open()
    await database.close()
    with pytest.raises(AssertionError):
        await database.fetchval("select 1")
    await database.close()


@pytest.mark.parametrize("wrong", ["role", "database", "ssl mode"])
async def test_a_server_that_does_not_let_us_in_says_so(database_url: str, wrong: str) -> None:
    address = {
        "role": database_url.replace("//vintem@", "//nobody-of-that-name@"),
        "database": database_url.replace("/test_", "/missing_"),
        "ssl mode": f"{database_url}&sslmode=sometimes",
    }[wrong]
    database = Database(address)
    try:
        with pytest.raises(DatabaseRefusedError):
            await open_and_ask(database)
    finally:
        await database.close()


async def open_and_ask(database: Database) -> None:
    await database.open()
    await database.fetchval("select 1")


async def test_a_server_that_hangs_is_given_up_by_our_own_clock(database_url: str) -> None:
    async def hang(block: Connection) -> None:
        # The server's own limit is lifted, as if it did not answer any more.
        await block.execute("set local statement_timeout = 0")
        await block.fetchval("select pg_sleep(30)")

    async with opened(database_url, DatabaseOptions(statement_timeout_ms=300)) as database:
        started_at = time.monotonic()
        with pytest.raises(DatabaseUnavailableError):
            await database.atomically(hang)
        assert time.monotonic() - started_at < 5
        assert await database.fetchval("select 1") == 1


async def test_a_dedicated_connection_that_hangs_is_given_up_by_our_own_clock(
    database_url: str,
) -> None:
    database = Database(database_url, DatabaseOptions(statement_timeout_ms=300))
    connection = await database.connect(statement_timeout="0")
    started_at = time.monotonic()
    with pytest.raises(DatabaseUnavailableError):
        async with asyncio.timeout(10), connection.transaction():
            await connection.fetchval("select pg_sleep(30)")
    assert time.monotonic() - started_at < 5
    assert connection.is_closed()


async def test_patient_work_may_take_longer_than_a_statement_of_the_pool(database_url: str) -> None:
    database = Database(database_url, DatabaseOptions(statement_timeout_ms=200))
    async with database.patient() as block:
        assert await block.fetchval("select 1 from pg_sleep(1.5)") == 1


@pytest.mark.parametrize("fault", [FileNotFoundError, PermissionError, TimeoutError, KeyError])
async def test_a_fault_of_the_callers_own_inside_a_block_stays_its_own(
    database: Database, fault: type[Exception]
) -> None:
    async def stumble(block: AbstractAsyncContextManager[Connection]) -> None:
        async with block as connection:
            await add(connection, 1)
            raise fault

    for block in (database.atomic(), database.patient()):
        with pytest.raises(fault):
            await stumble(block)
    assert await value_of(database, 1) == 0


async def test_a_block_used_after_its_end_is_a_bug(database: Database) -> None:
    async with database.atomic() as block:
        await add(block, 1)
    with pytest.raises(AttributeError):
        await add(block, 1)


# A server that became a copy of another


async def test_a_write_to_a_read_only_server_is_unavailability_and_drops_the_connection(
    database_url: str,
) -> None:
    async with opened(database_url, DatabaseOptions(connections_max=1)) as copy:

        async def write_to_a_copy(block: Connection) -> None:
            await block.execute("set transaction read only")
            await add(block, 1)

        pid = await copy.fetchval("select pg_backend_pid()")
        with pytest.raises(DatabaseUnavailableError) as caught:
            await copy.atomically(write_to_a_copy)
        assert not isinstance(caught.value, DatabaseBusyError)
        assert await copy.fetchval("select pg_backend_pid()") != pid
        await add(copy, 1)
        assert await copy.is_writable()


async def test_a_read_only_server_is_not_writable(worker_id: str) -> None:
    name = f"copy_{worker_id}"
    url = await new_database(name)
    async with opened(url) as first:
        assert await first.is_writable()
        await first.execute("create table test_counter (company_id bigint, value bigint)")
        await first.execute("insert into test_counter values (1, 0)")
        await first.execute(f"alter database {name} set default_transaction_read_only = on")
    async with opened(url) as copy:
        assert not await copy.is_writable()
        assert await value_of(copy, 1) == 0
        with pytest.raises(DatabaseUnavailableError):
            await add(copy, 1)
