"""Several API processes on one address: counted together, stopped gently, and patient."""

import asyncio
import re
import signal
import subprocess
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import asyncpg
import psutil
import pytest

from support.api import TEST_PEPPER, Api, HttpReply, Tenant, assert_refused, new_key, new_tenant
from support.platform import (
    Running,
    client,
    free_port,
    get_once,
    is_free,
    leftovers,
    promised,
    served,
    try_once,
    until,
)
from support.postgres import debian_postgres_15, end
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.runtime.embedded import ask, read_pid
from vintem.runtime.group_commit import RETRY_SECONDS_MAX
from vintem.runtime.unprivileged import server_account, spawn

PROCESSES = 4
CALLS = 20_000
CONNECTIONS = 64
LIMIT = 500
WINDOW_SECONDS = 60.0
RUN_SECONDS_MAX = 55.0
EFFECT_SECONDS_MAX = 5.0
RECOVERY_SECONDS_MAX = 5.0
CALL_SECONDS_MAX = 6.0
DRAIN_SECONDS_MAX = 10.0
CALLS_PER_SECOND = 200
LEFT_CALLS = 8_000
COLLECTED = re.compile(r"^python_gc_objects_collected_total\{.*\} (\S+)$", re.MULTILINE)
COUNT = re.compile(
    r'^vintem_http_request_seconds_count\{.*"/v1/balance".*\} ([\d.]+)', re.MULTILINE
)


@dataclass(frozen=True)
class Served:
    """A platform of several processes, and where each of them shows its metrics."""

    running: Running
    metrics_port: int


@pytest.fixture(scope="module")
async def four(module_path: Path, database_url: str, database: Database) -> AsyncIterator[Served]:
    """Four API processes on the database of this test worker."""
    del database
    port = free_port(PROCESSES)
    settings = {
        "DATABASE_URL": database_url,
        "VINTEM_PEPPER": TEST_PEPPER,
        "VINTEM_METRICS_PORT": str(port),
    }
    data = module_path / "data"
    async with served(data, workers=PROCESSES, settings=settings) as running:
        platform = Served(running, port)
        await until_measured(platform)
        yield platform


async def until_measured(four: Served) -> None:
    """Wait until every process shows its metrics: it answers calls moments later."""
    for port in range(four.metrics_port, four.metrics_port + PROCESSES):
        await until(lambda at=port: not is_free(at), seconds=30)


async def answered_by_each(four: Served) -> list[int]:
    """How many balance calls each process has answered, by its own count."""
    return await counted_by_each(four, COUNT)


async def counted_by_each(four: Served, what: re.Pattern[str]) -> list[int]:
    """What each process has counted so far."""
    counts = []
    async with aiohttp.ClientSession() as session:
        for number in range(PROCESSES):
            address = f"http://127.0.0.1:{four.metrics_port + number}/metrics"
            async with session.get(address) as response:
                text = await response.text()
            counts.append(int(sum(map(float, what.findall(text)))))
    return counts


async def test_a_call_leaves_nothing_for_the_collector(four: Served, database: Database) -> None:
    tenant = await new_tenant(database, requests_per_minute=LEFT_CALLS * 2)
    await hammer(four.running, tenant.sk_test, calls=LEFT_CALLS // 4)
    before = sum(await counted_by_each(four, COLLECTED))
    await hammer(four.running, tenant.sk_test, calls=LEFT_CALLS)
    found = sum(await counted_by_each(four, COLLECTED)) - before
    # One circle of references a call would be a dozen objects each.
    assert found < LEFT_CALLS, found


@pytest.mark.timeout(300)
async def test_four_processes_admit_exactly_the_limit_of_20_000_calls(
    four: Served, database: Database
) -> None:
    for _ in range(2):
        tenant = await new_tenant(database, requests_per_minute=LIMIT)
        before = await answered_by_each(four)
        began = time.monotonic()
        statuses = await hammer(four.running, tenant.sk_test, calls=CALLS)
        if time.monotonic() - began < RUN_SECONDS_MAX:
            break
    else:
        pytest.fail("the calls took longer than a window is long")
    # The whole run lies within one window, so exactly the limit is admitted.
    assert statuses == {200: LIMIT, 429: CALLS - LIMIT}
    shares = [now - then for now, then in zip(await answered_by_each(four), before, strict=True)]
    assert sum(shares) == CALLS
    assert all(share > 0 for share in shares), shares
    company = tenant.company.public_id
    admitted = sorted(
        line["admitted"]
        for line in four.running.log_lines()
        if line.get("company") == company and "admitted" in line
    )
    assert len(admitted) == LIMIT
    assert most_in_a_window(admitted) <= LIMIT


async def hammer(running: Running, key: str, *, calls: int) -> Counter[int]:
    """So many calls over many connections at once."""
    statuses: Counter[int] = Counter()
    left = iter(range(calls))

    async def call_on(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.get("/v1/balance", headers={"x-api-key": key}) as response:
                await response.read()
                statuses[response.status] += 1

    async with aiohttp.ClientSession(
        running.base_url, connector=aiohttp.TCPConnector(limit=CONNECTIONS)
    ) as session:
        await asyncio.gather(*(call_on(session) for _ in range(CONNECTIONS)))
    return statuses


def most_in_a_window(moments: list[float]) -> int:
    """The most moments that any stretch of a window's length holds."""
    return max(
        bisect_left(moments, moment + WINDOW_SECONDS) - number
        for number, moment in enumerate(moments)
    )


async def test_revoked_key_is_refused_by_all_four_processes_within_5_seconds(
    four: Served, database: Database
) -> None:
    tenant = await new_tenant(database)
    made = await new_key(database, tenant.company.company_id)
    before = await answered_by_each(four)
    assert set(await hammer(four.running, made.key, calls=800)) == {200}
    shares = [now - then for now, then in zip(await answered_by_each(four), before, strict=True)]
    assert all(share > 0 for share in shares), shares
    await companies.revoke_key(database, made.record.key_id, now=utc_now())
    await asyncio.sleep(EFFECT_SECONDS_MAX)
    assert 200 not in await hammer(four.running, made.key, calls=800)


async def test_killed_process_of_four_is_replaced_and_no_call_is_lost(
    four: Served, database: Database
) -> None:
    tenant = await new_tenant(database)
    children = four.running.children("api")
    assert len(children) == PROCESSES
    killed = children[0]
    killed.kill()
    began = time.monotonic()
    # Connections that wait for the killed one are answered by its successor.
    assert await hammer(four.running, tenant.sk_test, calls=200) == {200: 200}
    assert time.monotonic() - began < promised(RECOVERY_SECONDS_MAX)
    assert len(four.running.children("api")) == PROCESSES
    assert killed.pid not in {child.pid for child in four.running.children("api")}
    await until_measured(four)


@asynccontextmanager
async def on_postgres_15(
    tmp: Path, *, settings: dict[str, str] | None = None
) -> AsyncIterator[tuple[Running, str, Tenant]]:
    """One API process on Debian's PostgreSQL 15, and a company there."""
    async with debian_postgres_15(tmp) as url:
        wanted = {"DATABASE_URL": url, "VINTEM_PEPPER": TEST_PEPPER, **(settings or {})}
        async with served(tmp / "data", settings=wanted) as running:
            database = Database(url)
            await database.open()
            try:
                tenant = await new_tenant(database)
            finally:
                await database.close()
            yield running, url, tenant


async def test_serve_runs_on_postgresql_15_and_drains_before_it_ends(tmp_path: Path) -> None:
    # The notice is shorter than the slow call, so the call outlives the listening socket.
    settings = {"VINTEM_DRAIN_NOTICE_SECONDS": "1.6", "VINTEM_LOCK_TIMEOUT_MS": "4000"}
    async with on_postgres_15(tmp_path, settings=settings) as (running, url, tenant):
        assert str(await ask(url, "show server_version")).startswith("15.")
        assert (await get_once(running, "/v1/balance", key=tenant.sk_live)).status == 200
        assert (await get_once(running, "/readyz")).status == 200
        async with client(running) as api, locked(url, "api_key") as unlock:
            slow = asyncio.create_task(api.get("/v1/balance", key=tenant.sk_test))
            await until_waiting(url)
            running.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            notice = await until_not_ready(running)
            assert notice.json["draining"] is True
            assert (await get_once(running, "/healthz")).status == 200
            await until_closed(running)
            assert not slow.done()
            await unlock()
            reply = await slow
            assert reply.status == 200
            assert await running.ended() == 0
            assert time.monotonic() - began < promised(DRAIN_SECONDS_MAX)
        assert not leftovers(running)
        assert not (tmp_path / "data").exists()


@asynccontextmanager
async def locked(url: str, table: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Hold a table so that nobody can read it, until the yielded function is called."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("begin")
        await connection.execute(f"lock table {table} in access exclusive mode")

        async def unlock() -> None:
            await connection.execute("rollback")

        yield unlock
    finally:
        await connection.close()


async def until_not_ready(running: Running) -> HttpReply:
    async with asyncio.timeout(5):
        while True:
            reply = await get_once(running, "/readyz")
            if reply.status == 503:
                return reply
            await asyncio.sleep(0.01)


async def until_closed(running: Running) -> None:
    async def is_closed() -> bool:
        return await try_once(running, "/healthz") is None

    await until(is_closed, seconds=5)


async def until_waiting(url: str) -> None:
    async def is_waiting() -> bool:
        query = "select exists (select from pg_locks where not granted)"
        return await ask(url, query) is True

    await until(is_waiting, seconds=5)


async def test_calls_get_an_answer_while_the_database_is_away_and_succeed_when_it_is_back(
    tmp_path: Path,
) -> None:
    # Counted in PostgreSQL, no call can be answered without it.
    settings = {"VINTEM_SHARED_LIMITS": "1"}
    async with (
        AsyncExitStack() as cleanup,
        on_postgres_15(tmp_path, settings=settings) as (running, url, tenant),
    ):
        api_process = running.children("api")[0].pid
        async with client(running) as api, load(api, tenant.sk_test) as log:
            await asyncio.sleep(1.0)
            async with postgres_away(tmp_path / "postgres-15/cluster", cleanup):
                # Longer than a call waits for the database.
                await asyncio.sleep(RETRY_SECONDS_MAX + 1.5)
            back_at = await until_answering(url)
            await asyncio.sleep(EFFECT_SECONDS_MAX + 1.0)
        wanted = 0.5 * CALLS_PER_SECOND * (EFFECT_SECONDS_MAX + 4)
        assert len(log) > wanted / promised(1.0)
        for call in log:
            assert call.seconds < promised(CALL_SECONDS_MAX)
            if call.reply.status != 200:
                assert_refused(call.reply, ErrorCode.SERVICE_UNAVAILABLE, status=503)
                assert int(call.reply.headers["Retry-After"]) >= 1
        assert Counter(call.reply.status for call in log).keys() == {200, 503}
        late = [call for call in log if call.began > back_at + EFFECT_SECONDS_MAX]
        assert late
        assert {call.reply.status for call in late} == {200}
        assert running.children("api")[0].pid == api_process


@dataclass(frozen=True)
class Timed:
    """An answer, and when and how long it was waited for."""

    began: float
    seconds: float
    reply: HttpReply


@asynccontextmanager
async def load(api: Api, key: str) -> AsyncIterator[list[Timed]]:
    """Steady calls, whatever becomes of the earlier ones; every one of them must be answered."""
    answered: list[Timed] = []

    async def call() -> None:
        began = time.monotonic()
        reply = await api.get("/v1/balance", key=key)
        answered.append(Timed(began, time.monotonic() - began, reply))

    async def go_on() -> None:
        async with asyncio.TaskGroup() as calls:
            while not stopping.is_set():
                calls.create_task(call())
                await asyncio.sleep(1 / CALLS_PER_SECOND)

    stopping = asyncio.Event()
    going = asyncio.create_task(go_on())
    try:
        yield answered
    finally:
        stopping.set()
        await going


@asynccontextmanager
async def postgres_away(cluster: Path, cleanup: AsyncExitStack) -> AsyncIterator[None]:
    """Stop a PostgreSQL as its operator would; it is started again when the block ends."""
    pid = read_pid(cluster / "postmaster.pid")
    assert pid is not None
    postmaster = psutil.Process(pid)
    words = postmaster.cmdline()
    postmaster.send_signal(signal.SIGINT)
    await until(lambda: not (cluster / "postmaster.pid").exists(), seconds=10)
    yield
    account = server_account(cluster)
    server = await spawn(words, account, death_signal=signal.SIGINT, output=subprocess.DEVNULL)
    cleanup.push_async_callback(end, server)


async def until_answering(url: str) -> float:
    """Wait for a PostgreSQL, and say since when it answers."""

    async def answers() -> bool:
        try:
            return await ask(url, "select 1") == 1
        except (OSError, asyncpg.PostgresError):
            return False

    await until(answers, seconds=30)
    return time.monotonic()
