"""Sliding windows: exact in memory against a model, exact in PostgreSQL under real load."""

import asyncio
import copy
import itertools
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.audit import INVARIANTS
from vintem.kit.clock import utc_now
from vintem.runtime import shared_limits
from vintem.runtime.db import Connection, Database, DatabaseOptions
from vintem.runtime.rate_limit import NANOSECONDS, Decision, MemoryLimiter, Window
from vintem.runtime.shared_limits import WINDOW_SECONDS_MAX, SharedLimiter, forget_idle_windows

companies = itertools.count(1_000_001)


# The model: the plainest words for what a window is, in whole units of time


@dataclass
class Model:
    """All moments ever admitted; a window is the stretch (moment - length, moment]."""

    length: int
    moments: list[int] = field(default_factory=list)

    def inside(self, moment: int) -> int:
        return sum(moment - self.length < one <= moment for one in self.moments)

    def admit(self, moment: int, limit: int) -> bool:
        if self.inside(moment) >= limit:
            return False
        self.moments.append(moment)
        return True

    def remaining(self, moment: int, limit: int) -> int:
        return max(0, limit - self.inside(moment))

    def next_at(self, moment: int, limit: int) -> int:
        """The first moment from this one on with fewer calls inside than the limit."""
        candidates = [moment, *(one + self.length for one in self.moments)]
        return min(
            candidate
            for candidate in candidates
            if candidate >= moment and self.inside(candidate) < limit
        )


def most_in_any_window(moments: Sequence[int], length: int) -> int:
    """The most moments that any half-open stretch of this length holds."""
    return max(
        (sum(start <= one < start + length for one in moments) for start in moments), default=0
    )


# In memory

SECONDS = 2
LENGTH = SECONDS * NANOSECONDS
steps = st.one_of(
    st.integers(0, 3 * LENGTH),
    st.sampled_from([0, 1, LENGTH - 1, LENGTH, LENGTH + 1, LENGTH // 2, LENGTH // 3]),
)
limits = st.integers(1, 5)


def window(limit: int, *, key_id: str = "key", group: str = "requests") -> Window:
    return Window(company_id=1, key_id=key_id, group=group, limit=limit, seconds=SECONDS)


@given(st.lists(st.tuples(steps, limits), max_size=40), st.integers(0, 4 * 10**18))
def test_memory_windows_decide_as_the_model_does(
    calls: list[tuple[int, int]], wall_offset: int
) -> None:
    limiter, model, now = MemoryLimiter(), Model(LENGTH), 0
    for step, limit in calls:
        now += step
        decision = limiter.admit_at(window(limit), now_ns=now, wall_ns=now + wall_offset)
        assert decision.admitted == model.admit(now, limit)
        assert decision.limit == limit
        assert decision.remaining == model.remaining(now, limit)
        assert decision.decided_at == (now + wall_offset) / NANOSECONDS
        assert decision.next_at == (model.next_at(now, limit) + wall_offset) / NANOSECONDS


@given(st.lists(steps, max_size=60), limits)
def test_memory_windows_never_hold_more_than_a_constant_limit(gaps: list[int], limit: int) -> None:
    limiter, now, moments = MemoryLimiter(), 0, []
    for gap in gaps:
        now += gap
        if limiter.admit_at(window(limit), now_ns=now, wall_ns=now).admitted:
            moments.append(now)
    assert most_in_any_window(moments, LENGTH) <= limit


@given(st.lists(st.tuples(steps, limits), min_size=1, max_size=30), limits)
def test_one_more_call_is_admitted_exactly_at_next_at_and_not_a_nanosecond_before(
    calls: list[tuple[int, int]], limit: int
) -> None:
    limiter, model, now = MemoryLimiter(), Model(LENGTH), 0
    for step, earlier_limit in calls:
        now += step
        limiter.admit_at(window(earlier_limit), now_ns=now, wall_ns=now)
        model.admit(now, earlier_limit)
    at = model.next_at(now, limit)
    if at > now:
        early = copy.deepcopy(limiter).admit_at(window(limit), now_ns=at - 1, wall_ns=at - 1)
        assert not early.admitted
    assert limiter.admit_at(window(limit), now_ns=at, wall_ns=at).admitted


@given(st.integers(1, 20), st.integers(0, LENGTH - 1))
def test_refused_calls_in_memory_leave_no_trace(refused: int, later: int) -> None:
    limiter = MemoryLimiter()
    limiter.admit_at(window(1), now_ns=0, wall_ns=0)
    before = copy.deepcopy(limiter._calls)
    for _ in range(refused):
        assert not limiter.admit_at(window(1), now_ns=later, wall_ns=later).admitted
    assert limiter._calls == before


def test_memory_windows_of_other_keys_and_groups_do_not_count() -> None:
    limiter = MemoryLimiter()
    for key_id, group in itertools.product(("a", "b"), ("requests", "transactions")):
        mine = window(1, key_id=key_id, group=group)
        assert limiter.admit_at(mine, now_ns=5, wall_ns=5).admitted
        assert not limiter.admit_at(mine, now_ns=5, wall_ns=5).admitted


# A float tells quarters of a microsecond of the years 2004 to 2038.
@given(
    st.integers(1_100_000_000 * NANOSECONDS, 2_100_000_000 * NANOSECONDS), st.integers(0, LENGTH)
)
def test_the_whole_seconds_that_are_told_are_never_too_few(wall: int, waited: int) -> None:
    limiter = MemoryLimiter()
    limiter.admit_at(window(1), now_ns=0, wall_ns=wall)
    decision = limiter.admit_at(window(1), now_ns=waited, wall_ns=wall + waited)
    assert decision.reset >= decision.next_at
    assert decision.reset - decision.next_at < 1
    assert decision.retry_after_seconds >= 1
    assert decision.retry_after_seconds >= decision.next_at - decision.decided_at
    assert decision.retry_after_seconds <= SECONDS


async def test_memory_forgets_only_windows_that_are_idle() -> None:
    limiter = MemoryLimiter()
    now = time.monotonic_ns()
    limiter.admit_at(window(1, key_id="old"), now_ns=now - 100 * NANOSECONDS, wall_ns=0)
    assert (await limiter.admit(window(1, key_id="new"))).admitted
    limiter.forget_idle(idle_seconds=60)
    assert set(limiter._calls) == {("new", "requests")}
    assert not (await limiter.admit(window(1, key_id="new"))).admitted


# In PostgreSQL


@pytest.fixture
def company() -> int:
    return next(companies)


MakeLimiter = Callable[[], SharedLimiter]


@pytest.fixture
async def shared_limiter(database: Database) -> AsyncIterator[MakeLimiter]:
    """Makes limiters, each with a connection of its own, as every process has one."""
    made: list[SharedLimiter] = []

    def make() -> SharedLimiter:
        made.append(SharedLimiter(database))
        return made[-1]

    yield make
    for limiter in made:
        await limiter.close()


@pytest.fixture
async def crowd(database_url: str) -> AsyncIterator[Database]:
    """Eight connections that are already open."""
    database = Database(database_url, DatabaseOptions(connections_max=8))
    await database.open()
    await asyncio.gather(*(database.execute("select pg_sleep(0.05)") for _ in range(8)))
    yield database
    await database.close()


def microseconds(moment: datetime | float) -> int:
    seconds = moment if isinstance(moment, float) else moment.timestamp()
    return round(seconds * 1_000_000)


@dataclass(frozen=True)
class SharedDecision:
    """What the function of the database says, in whole microseconds."""

    admitted: bool
    decided_at: int
    remaining: int
    next_at: int


async def admit_shared(
    db: Connection, company: int, *, limit: int, length_ms: int, key_id: str = "key"
) -> SharedDecision:
    row = await db.fetchrow(
        """
        select * from admit_calls(
            'holder', $1, $2, '{requests}', $3, $4, '{1}', '{0}', '{0}', '{0}', '{0}', '{0}', 4
        )
        """,
        [company],
        [key_id],
        [limit],
        [length_ms / 1_000],
    )
    assert row is not None
    return SharedDecision(
        row["admitted"] == 1,
        microseconds(row["decided_at"]),
        row["remaining"],
        microseconds(row["next_at"]),
    )


async def assert_windows_are_whole(database: Database) -> None:
    [whole] = [invariant for invariant in INVARIANTS if invariant.name == "L1"]
    assert [dict(row) for row in await database.fetch(whole.statement)] == []  # type: ignore[call-overload]


async def trace_of(database: Database, company: int) -> list[str]:
    """Every version of every row that a company's windows have now."""
    rows = await database.fetch(
        """
        select 'window ' || w.ctid || ' ' || w.xmin || ' ' || w::text as version
        from rate_window w where company_id = $1
        union all
        select 'call ' || c.ctid || ' ' || c.xmin || ' ' || c::text
        from rate_call c where company_id = $1
        order by 1
        """,
        company,
    )
    return [row["version"] for row in rows]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_shared_windows_decide_as_the_model_does_while_the_limit_changes(
    database: Database, company: int, seed: int
) -> None:
    dice = random.Random(seed)
    length_ms = 30
    model = Model(length_ms * 1_000)
    outcomes = set()
    limit = 3
    async with asyncio.timeout(30):
        for _ in range(150):
            if dice.random() < 0.15:
                limit = dice.randint(1, 12)
            if dice.random() < 0.3:
                await asyncio.sleep(dice.choice([0.001, 0.004, 0.010, 0.031]))
            decision = await admit_shared(database, company, limit=limit, length_ms=length_ms)
            at = decision.decided_at
            assert decision.admitted == model.admit(at, limit)
            assert decision.remaining == model.remaining(at, limit)
            assert decision.next_at == model.next_at(at, limit)
            outcomes.add(decision.admitted)
    assert outcomes == {True, False}
    await assert_windows_are_whole(database)


async def test_calls_decided_together_are_decided_as_if_one_came_after_the_other(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    dice = random.Random(7)
    limiter = shared_limiter()
    model = Model(1_000_000)
    outcomes = set()
    for _ in range(40):
        limit = dice.randint(1, 12)
        window = Window(company, "key", "requests", limit, 1)
        decisions = await asyncio.gather(
            *(limiter.admit(window) for _ in range(dice.randint(1, 9)))
        )
        # The first call may have gone out alone, before the others were there.
        for decision in decisions:
            at = microseconds(decision.decided_at)
            assert decision.admitted == model.admit(at, limit)
            assert decision.remaining == model.remaining(at, limit)
            assert microseconds(decision.next_at) == model.next_at(at, limit)
            outcomes.add((decision.admitted, decision.remaining > 0))
        await assert_windows_are_whole(database)
        await asyncio.sleep(dice.choice([0, 0.05, 0.2]))
    assert outcomes == {(True, True), (True, False), (False, False)}


async def test_of_calls_decided_together_the_last_one_knows_the_limit(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limiter = shared_limiter()
    before, after = (Window(company, "key", "requests", limit, 60) for limit in (9, 2))
    decisions = await asyncio.gather(*(limiter.admit(each) for each in (before, before, after)))
    assert [(one.admitted, one.limit, one.remaining) for one in decisions] == [
        (True, 2, 1),
        (True, 2, 0),
        (False, 2, 0),
    ]
    await assert_windows_are_whole(database)


async def hammer(
    database: Database,
    shared_limiter: MakeLimiter,
    company: int,
    *,
    limits: Sequence[int],
    seconds: float,
) -> list[Decision]:
    """Call one window of a second from eight connections at once, the limit changing on the way."""
    limiters = [shared_limiter() for _ in range(8)]
    decisions: list[Decision] = []
    started = time.monotonic()

    async def call_all_the_time(limiter: SharedLimiter) -> None:
        while (elapsed := time.monotonic() - started) < seconds:
            limit = limits[int(elapsed / seconds * len(limits))]
            decisions.append(await limiter.admit(Window(company, "key", "requests", limit, 1)))

    async def look_all_the_time() -> None:
        while time.monotonic() - started < seconds:
            await assert_windows_are_whole(database)
            await asyncio.sleep(0.05)

    await asyncio.gather(look_all_the_time(), *map(call_all_the_time, limiters))
    return decisions


async def test_eight_connections_never_get_more_than_the_limit_in_any_window(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limit = 50
    decisions = await hammer(database, shared_limiter, company, limits=[limit], seconds=2.5)
    admitted = [microseconds(one.decided_at) for one in decisions if one.admitted]
    assert most_in_any_window(admitted, 1_000_000) == limit
    # Two windows at least ended within the time, each filled; the last may have been cut short.
    assert 2 * limit <= len(admitted) <= 3 * limit
    # So at least one call was refused for each that a window holds.
    assert len(decisions) > 4 * limit
    for decision in decisions:
        if not decision.admitted:
            inside = [
                one
                for one in admitted
                if microseconds(decision.decided_at) - 1_000_000
                < one
                <= microseconds(decision.decided_at)
            ]
            assert len(inside) == limit, "a call was refused though there was room"
            assert decision.remaining == 0
            assert microseconds(decision.next_at) == min(inside) + 1_000_000


async def test_a_limit_that_changes_under_load_holds_from_its_first_call(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    decisions = await hammer(database, shared_limiter, company, limits=[40, 7, 60], seconds=3.0)
    admitted = sorted(
        (microseconds(one.decided_at), one.limit) for one in decisions if one.admitted
    )
    assert {limit for _, limit in admitted} == {40, 7, 60}
    for place, (moment, limit) in enumerate(admitted):
        inside = sum(moment - 1_000_000 < earlier for earlier, _ in admitted[: place + 1])
        assert inside <= limit


async def test_refused_calls_in_the_database_leave_no_trace(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limiter = shared_limiter()
    for limit in (3, 3, 3):
        assert (await limiter.admit(Window(company, "key", "requests", limit, 60))).admitted
    before = await trace_of(database, company)
    for limit in (3, 2, 1, 3):
        assert not (await limiter.admit(Window(company, "key", "requests", limit, 60))).admitted
    assert await trace_of(database, company) == before
    assert len(before) == 4


async def test_the_next_call_is_admitted_at_next_at_and_not_before(
    database: Database, company: int
) -> None:
    async def call_until_admitted(limit: int, admitted: int) -> None:
        key_id = f"{limit} of {admitted}"

        async def call(limit: int) -> SharedDecision:
            return await admit_shared(database, company, limit=limit, length_ms=500, key_id=key_id)

        for _ in range(admitted):
            assert (await call(9)).admitted
            await asyncio.sleep(0.004)
        told = await call(limit)
        assert not told.admitted
        refused_at = told.decided_at
        async with asyncio.timeout(5):
            while not (tried := await call(limit)).admitted:
                assert tried.next_at == told.next_at
                refused_at = tried.decided_at
                await asyncio.sleep(0.002)
        assert refused_at < told.next_at <= tried.decided_at

    await asyncio.gather(*itertools.starmap(call_until_admitted, ((1, 1), (3, 3), (2, 5))))


async def test_shared_windows_of_other_companies_keys_and_groups_do_not_count(
    shared_limiter: MakeLimiter,
) -> None:
    limiter = shared_limiter()
    for company, key_id, group in itertools.product(
        (next(companies), next(companies)), ("a", "b"), ("requests", "transactions")
    ):
        mine = Window(company, key_id, group, 1, 60)
        assert (await limiter.admit(mine)).admitted
        assert not (await limiter.admit(mine)).admitted


async def test_the_first_calls_of_a_window_at_once_are_counted_together(
    database: Database, shared_limiter: MakeLimiter
) -> None:
    limiters = [shared_limiter() for _ in range(4)]
    for company in itertools.islice(companies, 20):
        decisions = await asyncio.gather(
            *(limiter.admit(Window(company, "key", "requests", 5, 60)) for limiter in limiters * 2)
        )
        assert sum(decision.admitted for decision in decisions) == 5
        remaining = sorted(one.remaining for one in decisions if one.admitted)
        assert remaining == [0, 1, 2, 3, 4]
    await assert_windows_are_whole(database)


async def test_moments_are_those_of_the_database_clock(
    shared_limiter: MakeLimiter, company: int
) -> None:
    decision = await shared_limiter().admit(Window(company, "key", "requests", 1, 60))
    assert abs(decision.decided_at - utc_now().timestamp()) < 5
    assert microseconds(decision.next_at) - microseconds(decision.decided_at) == 60_000_000
    assert decision.retry_after_seconds == 60


async def test_a_clock_that_is_set_back_locks_nobody_out(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limiter = shared_limiter()
    mine = Window(company, "key", "requests", 2, 60)
    for _ in range(2):
        assert (await limiter.admit(mine)).admitted
    for table, column in (("rate_window", "last_at"), ("rate_call", "admitted_at")):
        await database.execute(
            f"update {table} set {column} = {column} + interval '1 day' where company_id = $1",
            company,
        )
    decisions = [await limiter.admit(mine) for _ in range(3)]
    assert [one.admitted for one in decisions] == [True, True, False]
    assert decisions[-1].retry_after_seconds == 60
    await assert_windows_are_whole(database)


async def test_a_clock_that_is_set_back_a_little_never_lets_more_through(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limiter = shared_limiter()
    mine = Window(company, "key", "requests", 2, 60)
    first = await limiter.admit(mine)
    for table, column in (("rate_window", "last_at"), ("rate_call", "admitted_at")):
        await database.execute(
            f"update {table} set {column} = {column} + interval '20 s' where company_id = $1",
            company,
        )
    ahead = microseconds(first.decided_at) + 20_000_000
    second, third = [await limiter.admit(mine) for _ in range(2)]
    assert (second.admitted, third.admitted) == (True, False)
    assert microseconds(second.decided_at) == ahead
    assert microseconds(third.next_at) == ahead + 60_000_000
    await assert_windows_are_whole(database)


async def test_the_cost_of_a_call_does_not_grow_with_the_limit(
    database_url: str, database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limiter = shared_limiter()
    patient = Database(database_url, DatabaseOptions(statement_timeout_ms=100_000))
    filler = await patient.connect()
    keys = itertools.count()

    async def few() -> float:
        """What a call costs with a limit of 10, on windows of which none is over it."""
        names = [f"few {next(keys)}" for _ in range(10)]
        windows = [Window(company, name, "requests", 10, 60) for name in names for _ in range(10)]
        return await median_seconds(limiter, windows)

    try:
        # A plan that is made while the tables are small must do when they are big.
        for table in ("rate_call", "rate_window"):
            await filler.execute(f"delete from {table}")
            await filler.execute(f"vacuum analyze {table}")
        await few()
        before = [await few() for _ in range(3)]
        await filler.execute(
            f"""
            insert into rate_window
            values ({company}, 'many', 'requests', 1, 20000, clock_timestamp());
            insert into rate_call
            select {company}, 'many', 'requests', number, clock_timestamp()
            from generate_series(1, 20000) as number
            """
        )
        # Nothing is taken ahead of windows that are as long.
        many = Window(company, "many", "requests", 100_000, WINDOW_SECONDS_MAX + 1)
        assert (await limiter.admit(many)).remaining == 100_000 - 20_001
        after = [await median_seconds(limiter, [many] * 100) for _ in range(3)]
    finally:
        await filler.close()
    await forget_idle_windows(database, company_id=company, idle_seconds=0)
    # Reading the whole window would cost 15 times as much and more.
    assert min(after) <= 6 * min(before)


async def median_seconds(limiter: SharedLimiter, windows: Sequence[Window]) -> float:
    taken = []
    for mine in windows:
        started = time.perf_counter()
        assert (await limiter.admit(mine)).admitted
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


# Calls that are taken ahead


async def told(database: Database, company: int) -> int:
    """The calls that the windows of a company hold, as the database knows them."""
    count: int = await database.fetchval(
        "select coalesce(sum(calls), 0)::bigint from rate_call where company_id = $1", company
    )
    return count


async def lend(database: Database, mine: Window, *, held: int, seconds: float) -> None:
    """Let another process hold calls of a window."""
    await database.execute(
        """
        insert into rate_lease
        values ($1, $2, $3, 'another', $4, clock_timestamp() + make_interval(secs => $5))
        """,
        mine.company_id,
        mine.key_id,
        mine.group,
        held,
        seconds,
    )


async def test_a_process_that_is_called_often_asks_seldom_and_tells_of_all(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limiter, mine = shared_limiter(), Window(company, "key", "requests", 1_000_000, 60)
    decisions = [await limiter.admit(mine) for _ in range(1_000)]
    assert all(decision.admitted for decision in decisions)
    assert [one.remaining for one in decisions] == list(range(999_999, 998_999, -1))
    moments = [decision.decided_at for decision in decisions]
    assert moments == sorted(moments)
    asked = await database.fetchval("select count(*) from rate_call where company_id = $1", company)
    assert asked < 30
    await limiter.close()
    assert await told(database, company) == 1_000
    held = await database.fetchval(
        "select sum(held) from rate_lease where company_id = $1", company
    )
    assert held == 0
    await assert_windows_are_whole(database)


async def test_nothing_is_taken_ahead_of_a_small_limit(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limiter, mine = shared_limiter(), Window(company, "key", "requests", 60, 60)
    for number in range(1, 61):
        assert (await limiter.admit(mine)).remaining == 60 - number
        assert await told(database, company) == number
    assert (
        await database.fetchval("select count(*) from rate_lease where company_id = $1", company)
        == 0
    )


async def test_processes_that_take_calls_ahead_admit_exactly_the_limit(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    mine = Window(company, "key", "requests", 1_000, 60)
    limiters = [shared_limiter() for _ in range(4)]
    decisions: list[Decision] = []

    async def call(limiter: SharedLimiter) -> None:
        decisions.extend([await limiter.admit(mine) for _ in range(60)])

    async with asyncio.timeout(20):
        await asyncio.gather(*(call(limiter) for limiter in limiters for _ in range(5)))
    assert len(decisions) == 1_200
    assert sum(decision.admitted for decision in decisions) == 1_000
    assert await database.fetchval("select count(*) from rate_lease where company_id = $1", company)
    for limiter in limiters:
        await limiter.close()
    assert await told(database, company) == 1_000
    await assert_windows_are_whole(database)


async def test_processes_that_take_calls_ahead_never_exceed_the_limit_in_any_window(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    mine = Window(company, "key", "requests", 300, 1)
    limiters = [shared_limiter() for _ in range(4)]
    decisions: list[Decision] = []
    ends_at = time.monotonic() + 3.0

    async def call(limiter: SharedLimiter, pause: float) -> None:
        while time.monotonic() < ends_at:
            decisions.append(await limiter.admit(mine))
            await asyncio.sleep(pause)

    pauses = (0.001, 0.003, 0.01, 0.02)
    await asyncio.gather(*map(call, limiters * 4, sorted(pauses * 4)))
    admitted = [microseconds(one.decided_at) for one in decisions if one.admitted]
    assert most_in_any_window(admitted, 1_000_000) <= 300
    # What is told of late leaves its window late, by a fifth of it and a little.
    assert len(admitted) >= 2 * 300
    assert not all(decision.admitted for decision in decisions)
    asked = await database.fetchval(
        "select last_call from rate_window where company_id = $1", company
    )
    assert asked <= len(admitted)
    await assert_windows_are_whole(database)


async def test_a_call_waits_for_what_another_process_may_give_back(
    database: Database,
    shared_limiter: MakeLimiter,
    company: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_limits, "GIVEN_BACK_SECONDS", 1.0)
    limiter, mine = shared_limiter(), Window(company, "key", "requests", 3, 60)
    await lend(database, mine, held=2, seconds=0.3)
    assert (await limiter.admit(mine)).remaining == 0
    calls = [asyncio.create_task(limiter.admit(mine)) for _ in range(3)]
    await asyncio.sleep(0.1)
    await database.execute("update rate_lease set held = 0 where company_id = $1", company)
    decisions = await asyncio.gather(*calls)
    assert sorted(decision.admitted for decision in decisions) == [False, True, True]
    assert not (await limiter.admit(mine)).admitted


async def test_what_a_dead_process_had_taken_counts_as_made_until_it_has_left_the_window(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limiter, mine = shared_limiter(), Window(company, "key", "requests", 5, 2)
    began = time.monotonic()
    await lend(database, mine, held=3, seconds=0.2)
    decisions = await asyncio.gather(*(limiter.admit(mine) for _ in range(5)))
    assert sum(decision.admitted for decision in decisions) == 2
    while not (await limiter.admit(mine)).admitted:
        assert time.monotonic() - began < 10
    assert time.monotonic() - began >= 2.0
    await asyncio.sleep(max(0.0, began + 2.3 - time.monotonic()))
    await limiter.admit(mine)
    assert (
        await database.fetchval("select first_call from rate_window where company_id = $1", company)
        > 1
    )
    late = [await limiter.admit(mine) for _ in range(5)]
    assert sum(decision.admitted for decision in late) >= 3


async def test_what_is_due_to_be_given_back_is_waited_for_as_well(
    database: Database,
    shared_limiter: MakeLimiter,
    company: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_limits, "GIVEN_BACK_SECONDS", 1.0)
    limiter, mine = shared_limiter(), Window(company, "key", "requests", 1, 60)
    await lend(database, mine, held=1, seconds=-0.02)
    call = asyncio.create_task(limiter.admit(mine))
    await asyncio.sleep(0.08)
    assert not call.done()
    await database.execute("update rate_lease set held = 0 where company_id = $1", company)
    assert (await call).admitted


async def held_by(database: Database, company: int) -> int:
    held: int = await database.fetchval(
        "select coalesce(sum(held), 0)::bigint from rate_lease where company_id = $1", company
    )
    return held


async def test_what_is_in_use_is_given_back_when_the_window_fills(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    limiter, mine = shared_limiter(), Window(company, "key", "requests", 12_800, 60)
    for _ in range(300):
        await limiter.admit(mine)
    assert await held_by(database, company) > 0
    await database.execute(
        """
        select admit_calls('another', array[$1::bigint], '{key}', '{requests}', '{12800}', '{60}',
            '{6400}', '{0}', '{0}', '{0}', '{0}', '{0}', 4)
        """,
        company,
    )
    async with asyncio.timeout(5):
        while await held_by(database, company):
            assert (await limiter.admit(mine)).admitted
            await asyncio.sleep(0.02)
        for _ in range(50):
            assert (await limiter.admit(mine)).admitted
    assert await held_by(database, company) == 0


async def test_what_is_told_together_with_calls_does_not_bring_the_old_limit_back(
    shared_limiter: MakeLimiter, company: int
) -> None:
    limiter, before = shared_limiter(), Window(company, "key", "requests", 100_000, 60)
    for _ in range(100):
        await limiter.admit(before)
    [ahead] = limiter._ahead.values()
    after = msgspec.structs.replace(before, limit=10)
    decisions, _ = await asyncio.gather(
        asyncio.gather(*(limiter.admit(after) for _ in range(5))), limiter._settle([ahead])
    )
    assert [(one.admitted, one.limit) for one in decisions] == [(False, 10)] * 5


async def test_nothing_is_held_by_a_process_that_has_ended_while_it_was_called(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    for _ in range(5):
        limiter, mine = shared_limiter(), Window(company, "key", "requests", 1_000_000, 60)
        for _ in range(20):
            await limiter.admit(mine)
        calls = [asyncio.create_task(limiter.admit(mine)) for _ in range(2_000)]
        await next_turns(calls)
        await limiter.close()
        await asyncio.gather(*calls, return_exceptions=True)
        assert await held_by(database, company) == 0


async def next_turns(calls: Sequence[asyncio.Task[Decision]]) -> None:
    """Let some of the calls be decided, and leave some of them waiting."""
    while not any(call.done() for call in calls):
        await asyncio.sleep(0)


async def test_leases_of_dead_processes_do_not_pile_up(database: Database, company: int) -> None:
    await database.execute(
        """
        insert into rate_lease
        select $1, 'key', 'requests', 'dead ' || number, 5, clock_timestamp() - interval '1 hour'
        from generate_series(1, 40) as number
        """,
        company,
    )
    for _ in range(4):
        for _ in range(20):
            await admit_shared(database, company, limit=1_000, length_ms=20)
        await asyncio.sleep(0.025)
    left = await database.fetchval("select count(*) from rate_lease where company_id = $1", company)
    assert left == 0


async def test_no_more_than_the_limit_is_admitted_though_connections_break(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    mine = Window(company, "key", "requests", 2_000, 60)
    limiters = [shared_limiter() for _ in range(3)]
    decisions: list[Decision] = []
    kills = 0

    async def call(limiter: SharedLimiter) -> None:
        while kills < 15 or len(decisions) < 3_000:
            decisions.append(await limiter.admit(mine))
            await asyncio.sleep(0.001)

    async def kill() -> None:
        nonlocal kills
        while kills < 15:
            await asyncio.sleep(0.03)
            kills += await database.fetchval(
                """
                select count(*) from (
                    select pid from pg_stat_activity
                    where query like 'select * from admit_calls%' and datname = current_database()
                    offset 0
                ) as limiter where pg_terminate_backend(pid)
                """
            )

    async with asyncio.timeout(60):
        await asyncio.gather(kill(), *(call(limiter) for limiter in limiters for _ in range(6)))
    admitted = sum(decision.admitted for decision in decisions)
    # What a broken connection had been asked may be counted for nobody.
    assert 1_000 <= admitted <= 2_000
    assert min(decision.remaining for decision in decisions) == 0
    await assert_windows_are_whole(database)


async def test_expired_calls_are_not_kept_for_long(database: Database, company: int) -> None:
    for _ in range(4):
        for _ in range(20):
            await admit_shared(database, company, limit=1_000, length_ms=20)
        await asyncio.sleep(0.025)
        assert (await admit_shared(database, company, limit=1_000, length_ms=20)).remaining == 999
    kept = await database.fetchval("select count(*) from rate_call where company_id = $1", company)
    assert 1 <= kept <= 32
    await assert_windows_are_whole(database)


async def test_idle_windows_are_forgotten_with_their_calls_and_busy_ones_are_not(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    other = next(companies)
    limiter = shared_limiter()
    idle, busy = (Window(company, name, "requests", 2, 60) for name in ("idle", "busy"))
    for mine in (idle, idle, busy, busy, Window(other, "idle", "requests", 2, 60)):
        assert (await limiter.admit(mine)).admitted
    await database.execute(
        "update rate_window set last_at = last_at - interval '1 hour'"
        " where key_id = 'idle' and company_id = any($1::bigint[])",
        [company, other],
    )
    assert await forget_idle_windows(database, company_id=company, idle_seconds=600) == 1
    await assert_windows_are_whole(database)
    for table, rows in (("rate_window", {"busy": 1}), ("rate_call", {"busy": 2})):
        found = await database.fetch(
            f"select key_id, count(*) from {table} where company_id = $1 group by key_id", company
        )
        assert {row["key_id"]: row["count"] for row in found} == rows
    assert len(await trace_of(database, other)) == 2, "another company's window was forgotten"
    assert (await limiter.admit(idle)).remaining == 1
    assert not (await limiter.admit(busy)).admitted


async def test_forgetting_waits_for_a_call_in_flight_and_takes_it_along(
    database: Database, company: int
) -> None:
    await admit_shared(database, company, limit=9, length_ms=10)
    async with database.atomic() as block:
        await admit_shared(block, company, limit=9, length_ms=60_000)
        forgetting = asyncio.create_task(
            forget_idle_windows(database, company_id=company, idle_seconds=0)
        )
        async with asyncio.timeout(5):
            while not await database.fetchval(
                "select count(*) from pg_locks where not granted and locktype = 'transactionid'"
            ):
                await asyncio.sleep(0.005)
    assert await forgetting == 1
    assert await trace_of(database, company) == []
    for remaining in (8, 7, 6):
        decision = await admit_shared(database, company, limit=9, length_ms=60_000)
        assert decision.remaining == remaining


async def test_forgetting_under_load_breaks_no_call_and_no_window(
    crowd: Database, database: Database, company: int
) -> None:
    forgotten = 0
    ends_at = time.monotonic() + 1.0

    async def forget_all_the_time() -> None:
        nonlocal forgotten
        while time.monotonic() < ends_at:
            forgotten += await forget_idle_windows(database, company_id=company, idle_seconds=0)
            await assert_windows_are_whole(database)

    async def call_all_the_time() -> None:
        while time.monotonic() < ends_at:
            await admit_shared(crowd, company, limit=5, length_ms=10)

    await asyncio.gather(forget_all_the_time(), *(call_all_the_time() for _ in range(7)))
    assert forgotten > 0
    assert (
        await database.fetchval(
            """
        select count(*) from rate_call c where company_id = $1 and not exists (
            select from rate_window w where w.company_id = c.company_id
                and w.key_id = c.key_id and w.group_name = c.group_name
        )
        """,
            company,
        )
        == 0
    ), "calls without a window were left behind"


async def test_a_window_says_how_many_calls_it_holds(
    shared_limiter: MakeLimiter, company: int
) -> None:
    for limiter in (MemoryLimiter(), shared_limiter()):
        counted = Window(company, f"key_{type(limiter).__name__}", "requests", 2, 60)
        assert await limiter.count(counted) == 0
        for _ in range(3):
            await limiter.admit(counted)
        assert await limiter.count(counted) == 2
        assert await limiter.count(msgspec.structs.replace(counted, group="other")) == 0


async def test_a_call_that_is_given_back_leaves_room_for_another(
    database: Database, shared_limiter: MakeLimiter, company: int
) -> None:
    window = Window(company, "key", "requests", 3, 60)
    for limiter in (shared_limiter(), MemoryLimiter()):
        # Those that come together are one row.
        together = await asyncio.gather(*(limiter.admit(window) for _ in range(4)))
        assert [decision.admitted for decision in together] == [True, True, True, False]
        for free in (1, 2, 3, 3):
            await limiter.give_back(window)
            await assert_windows_are_whole(database)
            decisions = [await limiter.admit(window) for _ in range(free + 1)]
            assert [decision.admitted for decision in decisions] == [True] * free + [False]
            for _ in range(free):
                await limiter.give_back(window)
    await assert_windows_are_whole(database)
