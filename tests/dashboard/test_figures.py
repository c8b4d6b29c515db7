"""Figures are counted once, and truly, whoever writes meanwhile and however late."""

import asyncio
from datetime import timedelta

import pytest

from support.api import TEST_PEPPER, Api, Shop, complaints, new_shop, pix_order
from vintem.figures import service as figures
from vintem.figures import store
from vintem.figures.model import DayFigures, Figures, by_day, difference, total
from vintem.kit.clock import business_day, utc_now
from vintem.ledger.model import Scope
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.transactions import moves
from vintem.transactions import service as transactions

SEALER = Sealer(TEST_PEPPER.encode())
LATER = timedelta(hours=27)
"""After so long nothing is looked at again."""
TODAY = business_day(utc_now())


@pytest.fixture
async def shop(api: Api, database: Database) -> Shop:
    return await new_shop(api, database)


async def count(shop: Shop, *, later: timedelta = timedelta()) -> None:
    await store.insert_cursor(shop.database, shop.scope, now=utc_now())
    is_done = False
    while not is_done:
        _, is_done = await figures.count(shop.database, SEALER, shop.scope, now=utc_now() + later)


async def settle(shop: Shop) -> None:
    """Count all there is, and look at it again until nothing can come late any more."""
    await count(shop)
    while await shop.database.fetchval(
        "select count(*) from figures_stretch where company_id = $1", shop.scope.company_id
    ):
        await count(shop, later=LATER)


async def read(shop: Shop) -> Figures:
    today = business_day(utc_now())
    found = await figures.list_days(
        shop.database, shop.scope, first=today - timedelta(days=1), last=today
    )
    return total(part.figures for part in found)


async def test_a_payment_is_counted_where_it_goes(shop: Shop) -> None:
    paid, cancelled = await shop.create(10_000), await shop.create(2_000)
    await shop.simulate(paid["id"], "paid")
    await shop.simulate(cancelled["id"], "failed")
    await shop.refund(paid["id"], amount=2_500)
    await count(shop)
    await count(shop)
    assert await read(shop) == Figures(
        created_count=2,
        created_cents=12_000,
        paid_count=1,
        paid_cents=10_000,
        failed_count=1,
        failed_cents=2_000,
        refunded_count=1,
        refunded_cents=2_500,
    )
    await settle(shop)
    assert await complaints(shop.database) == {}


async def test_a_dispute_that_is_won_is_not_another_payment(shop: Shop) -> None:
    paid = await shop.create(10_000)
    for status in ("paid", "pre_chargeback", "chargeback", "paid", "chargeback"):
        await shop.simulate(paid["id"], status)
        await count(shop)
    counted = await read(shop)
    assert (counted.paid_count, counted.disputed_count) == (1, 1)
    await settle(shop)
    assert await complaints(shop.database) == {}


async def test_what_is_committed_late_is_counted_when_looked_at_again(shop: Shop) -> None:
    moment = utc_now()
    late, other = await shop.create(5_000), await shop.create(3_000)
    await shop.simulate(other["id"], "paid")
    await count(shop)
    assert (await read(shop)).paid_cents == 3_000
    # Its moment lies in a stretch that was counted before it was committed.
    async with shop.database.atomic() as block:
        locked = await transactions.lock(block, shop.scope, late["id"])
        await moves.pay(block, locked, end_to_end_id=None, now=moment)
    await count(shop)
    assert (await read(shop)).paid_cents == 3_000
    await count(shop, later=timedelta(minutes=3))
    assert (await read(shop)).paid_cents == 8_000
    [customer] = await figures.list_customers(shop.database, shop.scope, rows_max=10)
    assert (customer.purchases, customer.paid_cents) == (2, 8_000)
    await settle(shop)
    assert await complaints(shop.database) == {}


async def test_figures_are_true_while_others_write(shop: Shop) -> None:
    """Several counters at once, and payments made and paid all the while."""
    is_over = asyncio.Event()

    async def sell(number: int) -> None:
        made = (await shop.order(pix_order(1_000 + number))).data
        await shop.simulate(made["id"], "paid" if number % 3 else "failed")
        if number % 5 == 0 and number % 3:
            await shop.refund(made["id"], amount=100)

    async def keep_counting() -> None:
        await store.insert_cursor(shop.database, shop.scope, now=utc_now())
        while not is_over.is_set():
            await figures.count(shop.database, SEALER, shop.scope, now=utc_now(), events_max=7)

    counters = [asyncio.create_task(keep_counting()) for _ in range(3)]
    for start in range(0, 60, 10):
        await asyncio.gather(*(sell(number) for number in range(start, start + 10)))
    is_over.set()
    await asyncio.gather(*counters)
    await settle(shop)
    counted = await read(shop)
    assert (counted.created_count, counted.paid_count, counted.failed_count) == (60, 40, 20)
    assert (counted.refunded_count, counted.refunded_cents) == (8, 800)
    assert await complaints(shop.database) == {}


async def test_the_audit_finds_wrong_figures(shop: Shop) -> None:
    made = await shop.create()
    await shop.simulate(made["id"], "paid")
    await settle(shop)
    for name, wrong, right in (
        (
            "F1",
            "update figures_day set paid_cents = paid_cents + 1 where company_id = $1",
            "update figures_day set paid_cents = paid_cents - 1 where company_id = $1",
        ),
        (
            "F2",
            "update figures_customer set purchases = purchases + 1 where company_id = $1",
            "update figures_customer set purchases = purchases - 1 where company_id = $1",
        ),
    ):
        await shop.database.execute(wrong, shop.scope.company_id)
        assert set(await complaints(shop.database)) == {name}
        await shop.database.execute(right, shop.scope.company_id)
    assert await complaints(shop.database) == {}


async def test_buyers_are_found_by_their_address_in_their_company_alone(
    shop: Shop, api: Api, database: Database
) -> None:
    await shop.create()
    await count(shop)
    [found] = await figures.find_by_email(database, SEALER, shop.scope, " Cliente@Example.com ")
    assert (found.purchases, found.payments) == (0, 1)
    other = await new_shop(api, database)
    for scope in (other.scope, Scope(shop.scope.company_id, "live")):
        assert not await figures.find_by_email(database, SEALER, scope, "cliente@example.com")
        assert await figures.find_customer(database, scope, found.customer_id) is None
    assert await figures.find_customer(database, shop.scope, found.customer_id) == found
    assert await figures.find_customer(database, shop.scope, "zz") is None


async def test_the_worker_counts_for_whoever_is_new_and_leaves_the_quiet_alone(shop: Shop) -> None:
    now = utc_now()
    await shop.create()
    await figures.begin_new(shop.database, now=now)
    while shop.scope in await store.list_due(shop.database, now=now, rows_max=100_000):
        await figures.count_due(shop.database, SEALER, now=now)
    assert (await read(shop)).created_count == 1
    for _ in range(12):
        now += timedelta(hours=27)
        await figures.count_due(shop.database, SEALER, now=now)
        await figures.count(shop.database, SEALER, shop.scope, now=now)
    quiet = await shop.database.fetchval(
        "select look_at from figures_cursor where company_id = $1 and environment = 'test'",
        shop.scope.company_id,
    )
    assert quiet == now + timedelta(hours=1)


def test_days_and_differences_add_up() -> None:
    pix = DayFigures(TODAY, "pix", Figures(1, 100, 1, 100))
    card = DayFigures(TODAY, "credit_card", Figures(2, 300))
    assert by_day([pix, card]) == {TODAY: Figures(3, 400, 1, 100)}
    more = DayFigures(TODAY, "pix", Figures(2, 150, 1, 100))
    assert difference([more, card], [pix]) == [
        card,
        DayFigures(TODAY, "pix", Figures(1, 50)),
    ]
    assert difference([pix], [pix]) == []
    assert Figures().approval_basis_points is None
    assert Figures().average_cents is None
    assert (more.figures.approval_basis_points, more.figures.average_cents) == (5_000, 100)
