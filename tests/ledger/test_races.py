"""Many at once on the same money: nothing is lost, nothing happens twice, nobody deadlocks."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import asyncpg
import pytest

from ledger.books import Books, complaints, in_days, noon, payment
from support.api import Tenant, new_tenant
from vintem.ledger import service as ledger
from vintem.ledger import store
from vintem.ledger.model import HoldKind, Scope
from vintem.runtime.db import Connection, Database, DatabaseOptions

AT_ONCE_MAX = 16
REFUND, BLOCK, DISPUTE = HoldKind.REFUND, HoldKind.BLOCK, HoldKind.DISPUTE


@pytest.fixture
async def wide(database: Database) -> AsyncIterator[Database]:
    """The same database with room for many at once, and patience."""
    opened = Database(
        database.url,
        DatabaseOptions(
            connections_max=AT_ONCE_MAX + 4, statement_timeout_ms=30_000, lock_timeout_ms=20_000
        ),
    )
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def busy(wide: Database, tenant: Tenant) -> Books:
    return Books(wide, Scope(tenant.company.company_id, "live"))


async def at_once(calls: Sequence[Callable[[], Awaitable[object]]]) -> list[object]:
    """Start all calls together and give what each returned or raised."""
    gate = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(call: Callable[[], Awaitable[object]]) -> object:
        async with gate:
            return await call()

    return await asyncio.gather(*(one(call) for call in calls), return_exceptions=True)


async def deadlocks(database: Database) -> int:
    count = await database.fetchval(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )
    assert isinstance(count, int)
    return count


async def test_64_captures_and_holds_at_once_keep_every_invariant(busy: Books) -> None:
    def capture(number: int) -> Callable[[], Awaitable[None]]:
        return lambda: busy.capture(
            f"tx_{number}",
            1_000,
            fee=10,
            release=[(in_days(1), 300)],
            reserve=[(in_days(2), 90)],
        )

    def hold(number: int) -> Callable[[], Awaitable[None]]:
        kind = list(HoldKind)[number % 3]
        return lambda: busy.hold(kind, f"h_{number}", 1_700, transaction_id=f"tx_{number}")

    calls = [*(capture(number) for number in range(32)), *(hold(number) for number in range(32))]
    random.Random(7).shuffle(calls)
    assert await at_once(calls) == [None] * 64
    balances = await busy.balances()
    assert sum(balances.values()) == 32 * 990
    assert sum(balances[kind.account] for kind in HoldKind) == 32 * 1_700
    assert await complaints(busy.database) == {}
    numbers = [line.number for line in await busy.statement()]
    assert numbers == list(range(len(numbers), 0, -1))


async def test_the_first_payments_of_a_company_at_once_open_its_accounts_once(busy: Books) -> None:
    def capture(number: int) -> Callable[[], Awaitable[None]]:
        return lambda: busy.capture(f"tx_{number}", 100)

    assert await at_once([capture(number) for number in range(16)]) == [None] * 16
    assert await busy.balances() == {"available": 1_600}


async def test_batches_over_the_same_companies_in_any_order_do_not_deadlock(busy: Books) -> None:
    scopes = [busy.scope]
    for environment in ("live", "test", "live"):
        tenant = await new_tenant(busy.database)
        scopes.append(Scope(tenant.company.company_id, environment))
    for number, scope in enumerate(scopes):
        await Books(busy.database, scope).capture(f"tx_first_{number}", 1)
        await Books(busy.database, scope).hold(DISPUTE, f"dp_{number}", 500)

    def batch(number: int) -> Callable[[], Awaitable[None]]:
        async def capture() -> None:
            order = random.Random(number).sample(scopes, len(scopes))
            async with busy.database.atomic() as block:
                payments = [payment(scope, f"tx_{number}", 100) for scope in order]
                await ledger.capture_many(block, payments, now=noon(in_days(0)))

        return capture

    before = await deadlocks(busy.database)
    assert await at_once([batch(number) for number in range(32)]) == [None] * 32
    assert await deadlocks(busy.database) == before
    for scope in scopes:
        assert await Books(busy.database, scope).balances() == {
            "available": 3_200 + 1 - 500,
            "dispute": 500,
        }


async def test_one_of_many_equal_captures_wins(busy: Books) -> None:
    results = await at_once([lambda: busy.capture("tx_1", 100)] * 16)
    assert sorted(map(type, results), key=str) == [
        type(None),
        *[asyncpg.UniqueViolationError] * 15,
    ]
    assert await busy.balances() == {"available": 100}


async def test_one_of_many_ends_of_a_hold_wins(busy: Books) -> None:
    await busy.capture("tx_1", 100)
    await busy.hold(DISPUTE, "dp_1", 60)
    results = await at_once(
        [lambda: busy.restore(DISPUTE, "dp_1"), lambda: busy.pay_out(DISPUTE, "dp_1")] * 8
    )
    assert results.count(None) == 1
    assert all(isinstance(result, AssertionError) for result in results if result is not None)
    assert await complaints(busy.database) == {}


async def test_four_workers_release_each_row_once(busy: Books) -> None:
    async with busy.database.atomic() as block:
        await ledger.capture_many(
            block,
            [
                payment(busy.scope, f"tx_{number}", 10, release=[(in_days(number % 3), 7)])
                for number in range(500)
            ],
            now=noon(in_days(0)),
        )
    workers: list[Callable[[], Awaitable[object]]] = [lambda: busy.release_due(in_days(2))] * 4
    released = await at_once(workers)
    assert sum(count for count in released if isinstance(count, int)) >= 500
    assert await busy.balances() == {"available": 5_000}
    rows = await busy.database.fetch(
        "select 1 as one from posting where company_id = $1 and kind = 'release'",
        busy.scope.company_id,
    )
    assert len(rows) == 500
    assert await busy.release_due(in_days(2)) == 0


async def test_a_hold_and_a_release_wait_for_each_other_in_the_same_order(busy: Books) -> None:
    await busy.capture("tx_1", 100, release=[(in_days(1), 100)])
    before = await deadlocks(busy.database)
    async with busy.database.atomic() as block:
        await store.lock_balances(block, busy.scope)
        releasing = asyncio.create_task(busy.release_due(in_days(1)))
        await asyncio.sleep(0.3)
        await ledger.hold(
            block,
            busy.scope,
            DISPUTE,
            "dp_1",
            transaction_id="tx_1",
            amount=60,
            now=noon(in_days(0)),
        )
    await releasing
    assert await deadlocks(busy.database) == before
    assert await busy.balances() == {"available": 40, "dispute": 60}


async def test_a_release_sees_what_a_hold_took_while_it_waited(busy: Books) -> None:
    """The hold commits after the release has begun and before it has the row."""
    await busy.capture("tx_1", 100, release=[(in_days(1), 100)])

    async def hold(block: Connection) -> None:
        await ledger.hold(
            block,
            busy.scope,
            DISPUTE,
            "dp_1",
            transaction_id="tx_1",
            amount=60,
            now=noon(in_days(0)),
        )

    async with busy.database.atomic() as block:
        await hold(block)
        releasing = asyncio.create_task(busy.release_due(in_days(1)))
        await asyncio.sleep(0.3)
    assert await releasing == 1
    assert await busy.balances() == {"available": 40, "dispute": 60}


async def test_releases_holds_and_their_ends_at_once_keep_every_invariant(busy: Books) -> None:
    for number in range(24):
        await busy.capture(
            f"tx_{number}",
            100,
            release=[(in_days(number % 4), 60)],
            reserve=[(in_days(2 + number % 4), 30)],
        )

    def dispute(number: int) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            reference = f"dp_{number}"
            await busy.hold(DISPUTE, reference, 130, transaction_id=f"tx_{number}")
            if number % 3:
                await busy.restore(DISPUTE, reference, on=in_days(number % 5))
            else:
                await busy.pay_out(DISPUTE, reference)
                await busy.take_back(reference, on=in_days(number % 5))

        return run

    calls: list[Callable[[], Awaitable[object]]] = [dispute(number) for number in range(24)]
    for day in (0, 1, 1, 2, 2, 3):
        calls.insert(4 * day, lambda day=day: busy.release_due(in_days(day)))  # type: ignore[misc]
    before = await deadlocks(busy.database)
    results = await at_once(calls)
    assert [result for result in results if isinstance(result, BaseException)] == []
    assert await deadlocks(busy.database) == before
    assert await complaints(busy.database) == {}
    await busy.release_due(in_days(10))
    assert await busy.balances() == {"available": 2_400}
