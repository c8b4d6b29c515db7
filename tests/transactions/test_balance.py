"""A company's balance after every flow, equal to what the postings alone say."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from conftest import running_api
from support.api import (
    TIMESTAMP,
    Api,
    HttpReply,
    Shop,
    assert_refused,
    complaints,
    new_shop,
)
from vintem.kit.clock import business_day, parse_public_time, utc_now
from vintem.kit.errors import ErrorCode
from vintem.kit.paging import Cursor
from vintem.ledger import service as ledger
from vintem.runtime.db import Database
from vintem.settings import Settings

ACCOUNTS = (
    *("available", "blocked", "debt", "dispute"),
    *("payout", "refund", "release", "reserve"),
)
FIELDS = {
    "available": ("available",),
    "waitingFunds": ("release",),
    "reserve": ("reserve", "dispute", "blocked"),
    "inTransit": ("payout", "refund"),
}
SOME_TIME = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture
async def shop(api: Api, database: Database) -> AsyncIterator[Shop]:
    opened = await new_shop(api, database)
    yield opened
    await assert_balanced(opened)
    assert await complaints(database) == {}


async def sums(shop: Shop) -> dict[str, int]:
    """What each account holds, from the legs of postings and nothing else."""
    rows = await shop.database.fetch(
        """
        select leg.code, sum(leg.amount)::bigint as total
        from posting cross join lateral unnest(codes, amounts) as leg (code, amount)
        where company_id = $1 and environment = 'test' group by leg.code
        """,
        shop.scope.company_id,
    )
    return {row["code"]: row["total"] for row in rows}


async def assert_balanced(shop: Shop) -> None:
    """Hold every form in which the balance is shown against the postings."""
    posted = await sums(shop)
    data = (await shop.api.get("/v1/balance", key=shop.key)).data
    expected = {
        name: sum(posted.get(code, 0) for code in codes) for name, codes in FIELDS.items()
    } | {"debt": -posted.get("debt", 0), "currency": "BRL"}
    assert {name: data[name] for name in expected} == expected
    assert TIMESTAMP.fullmatch(data["updatedAt"])
    short = (await shop.api.get("/v1/balance/available", key=shop.key)).data
    assert short == {
        "amount": expected["available"],
        "waitingFunds": expected["waitingFunds"],
        "reserve": expected["reserve"],
        "maxAntecipable": expected["waitingFunds"],
    }
    entries = await statement(shop)
    assert sum(entry["amount"] for entry in entries) == expected["available"]
    after = 0
    for entry in reversed(entries):
        after += entry["amount"]
        assert entry["balanceAfter"] == after
        assert entry["amount"]
    waiting = posted.get("release", 0) + posted.get("reserve", 0)
    assert len(data["nextReleases"]) <= 10
    if len(data["nextReleases"]) < 10:
        assert sum(each["amount"] for each in data["nextReleases"]) == waiting


async def statement(shop: Shop, page_size: int = 100) -> list[dict[str, Any]]:
    """The whole statement, the newest first, page by page."""
    entries: list[dict[str, Any]] = []
    cursor = ""
    while True:
        path = f"/v1/balance/entries?pageSize={page_size}{cursor}"
        data = (await shop.api.get(path, key=shop.key)).data
        assert set(data) == {"entries", "pagination"}
        assert len(data["entries"]) <= page_size
        entries += data["entries"]
        if data["pagination"]["nextCursor"] is None:
            return entries
        cursor = f"&cursor={data['pagination']['nextCursor']}"


FLOWS: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "pending": ((), {}),
    "paid": (("paid",), {"available": 9_000}),
    "failed": (("failed",), {}),
    "blocked before": (("blocked",), {}),
    "blocked after": (("paid", "blocked"), {"reserve": 10_000, "debt": 1_000}),
    "unblocked": (("paid", "blocked", "paid"), {"available": 9_000}),
    "given back when blocked": (("paid", "blocked", "refunded"), {"debt": 1_000}),
    "disputed": (("paid", "pre_chargeback"), {"reserve": 10_000, "debt": 1_000}),
    "dispute won": (("paid", "pre_chargeback", "paid"), {"available": 9_000}),
    "alert accepted": (("paid", "pre_chargeback", "refunded"), {"debt": 1_000}),
    "dispute lost": (("paid", "pre_chargeback", "chargeback"), {"debt": 1_250}),
    "lost at once": (("paid", "chargeback"), {"debt": 1_250}),
    # The dispute fee stays.
    "represented": (("paid", "chargeback", "paid"), {"available": 8_750}),
    "refunded": (("paid", "refunded"), {"debt": 1_000}),
    "paid late": (("cancelled", "paid"), {"available": 9_000}),
}


@pytest.mark.parametrize("flow", FLOWS)
async def test_every_flow_leaves_the_balance_it_should(shop: Shop, flow: str) -> None:
    await shop.agree(dispute_fee_cents=250)
    await shop.charge(percent_basis_points=1_000)
    path, expected = FLOWS[flow]
    transaction_id = (await shop.create(10_000))["id"]
    for status in path:
        await shop.move(transaction_id, status)
        await assert_balanced(shop)
    assert await shop.balance() == expected


WAITING: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "paid": ((), {"waitingFunds": 8_500, "reserve": 500}),
    "disputed": (("pre_chargeback",), {"reserve": 10_000, "debt": 1_000}),
    "dispute won": (("pre_chargeback", "paid"), {"waitingFunds": 8_500, "reserve": 500}),
    "blocked and freed": (("blocked", "paid"), {"waitingFunds": 8_500, "reserve": 500}),
    "dispute lost": (("chargeback",), {"debt": 1_000}),
    "represented": (("chargeback", "paid"), {"waitingFunds": 8_500, "reserve": 500}),
    "refunded": (("refunded",), {"reserve": 500, "debt": 1_500}),
}


@pytest.mark.parametrize("flow", WAITING)
async def test_money_that_waits_is_held_and_put_back_where_it_waited(shop: Shop, flow: str) -> None:
    await shop.agree(pix_release_days=7, reserve_basis_points=500, reserve_days=60)
    await shop.charge(percent_basis_points=1_000)
    path, expected = WAITING[flow]
    transaction_id = await shop.paid(10_000)
    before = (await shop.api.get("/v1/balance", key=shop.key)).data["nextReleases"]
    for status in path:
        await shop.move(transaction_id, status)
        await assert_balanced(shop)
    assert await shop.balance() == expected
    if expected == WAITING["paid"][1]:
        assert (await shop.api.get("/v1/balance", key=shop.key)).data["nextReleases"] == before


async def test_waiting_money_and_the_reserve_become_available_on_their_days(shop: Shop) -> None:
    await shop.agree(pix_release_days=7, reserve_basis_points=1_000, reserve_days=60)
    await shop.charge(fixed_cents=50)
    transaction_id = await shop.paid(1_005)
    # Ten percent of the amount, half a cent up.
    assert await shop.balance() == {"waitingFunds": 1_005 - 50 - 101, "reserve": 101}
    data = (await shop.api.get("/v1/balance", key=shop.key)).data
    paid_at = parse_public_time((await shop.read(transaction_id))["paidAt"])
    days = [date.fromisoformat(each["date"]) for each in data["nextReleases"]]
    assert [each["amount"] for each in data["nextReleases"]] == [854, 101]
    assert days[0] >= business_day(paid_at) + timedelta(days=7)
    assert days[1] >= business_day(paid_at) + timedelta(days=60)
    assert all(day.weekday() < 5 for day in days)

    await ledger.release_due(shop.database, now=noon(days[0] - timedelta(days=1)))
    assert await shop.balance() == {"waitingFunds": 854, "reserve": 101}
    await ledger.release_due(shop.database, now=noon(days[0]))
    assert await shop.balance() == {"available": 854, "reserve": 101}
    await assert_balanced(shop)
    await ledger.release_due(shop.database, now=noon(days[1]))
    assert await shop.balance() == {"available": 955}
    await ledger.release_due(shop.database, now=noon(days[1]))
    assert [(entry["kind"], entry["amount"]) for entry in await statement(shop)] == [
        ("reserve_release", 101),
        ("release", 854),
    ]


async def test_what_waited_for_a_day_now_past_is_free_when_a_dispute_is_won(shop: Shop) -> None:
    await shop.agree(pix_release_days=1)
    transaction_id = await shop.paid(1_000)
    await shop.move(transaction_id, "pre_chargeback")
    for table in ("release_schedule", "release_day"):
        await shop.database.execute(
            f"update {table} set due_on = due_on - 30 where company_id = $1",
            shop.scope.company_id,
        )
    await shop.database.execute(
        """
        update hold set split = replace(split, s.was::text, s.due_on::text)
        from (
            select due_on + 30 as was, due_on from release_schedule where company_id = $1
        ) as s
        where company_id = $1
        """,
        shop.scope.company_id,
    )
    await ledger.release_due(shop.database, now=utc_now())
    await shop.move(transaction_id, "paid")
    assert await shop.balance() == {"available": 1_000}


async def test_debt_is_recovered_from_the_next_money_that_is_free(shop: Shop) -> None:
    await shop.agree(pix_release_days=3, dispute_fee_cents=700)
    first = await shop.paid(1_000)
    await shop.move(first, "chargeback")
    assert await shop.balance() == {"debt": 700}
    await shop.paid(2_000)
    # What waits is not free: it pays nothing yet.
    assert await shop.balance() == {"debt": 700, "waitingFunds": 2_000}
    await ledger.release_due(shop.database, now=utc_now() + timedelta(days=30))
    assert await shop.balance() == {"available": 1_300}
    kinds = [(entry["kind"], entry["amount"]) for entry in await statement(shop)]
    assert kinds == [("debt_recovery", -700), ("release", 2_000)]


async def test_a_debt_made_while_a_payment_waits_for_its_lock_is_recovered_from_it(
    shop: Shop,
) -> None:
    await shop.paid(10_000)
    waiting = await shop.create(5_000)
    async with shop.database.atomic() as block:
        await ledger.charge_dispute_fee(block, shop.scope, "late", amount=12_000, now=utc_now())
        paying = asyncio.create_task(shop.move(waiting["id"], "paid"))
        async with asyncio.timeout(5):
            while not await shop.database.fetchval(
                "select count(*) from pg_locks where not granted and locktype = 'transactionid'"
            ):
                await asyncio.sleep(0.005)
    assert (await paying)["status"] == "paid"
    assert await shop.balance() == {"available": 3_000}


async def test_the_environments_have_nothing_in_common(shop: Shop) -> None:
    await shop.paid(5_000)
    live = (await shop.api.get("/v1/balance", key=shop.tenant.sk_live)).data
    assert (live["available"], live["debt"], live["nextReleases"]) == (0, 0, [])
    entries = await shop.api.get("/v1/balance/entries", key=shop.tenant.sk_live)
    assert entries.data["entries"] == []


async def test_the_statement_is_a_chain_that_can_be_read_page_by_page(shop: Shop) -> None:
    await shop.charge(fixed_cents=10)
    for number in range(5):
        transaction_id = await shop.paid(1_000 + number)
        await shop.refund(transaction_id, 300)
        await shop.move(transaction_id, "pre_chargeback", "paid")
    whole = await statement(shop)
    assert whole[-1]["kind"] == "capture"
    assert whole[-1]["reference"].startswith("tx_")
    assert set(whole[0]) == {"kind", "amount", "balanceAfter", "reference", "createdAt"}
    assert {entry["kind"] for entry in whole} <= {
        *("capture", "refund", "dispute", "dispute_won", "debt_recovery"),
    }
    for page_size in (1, 3, 7, len(whole)):
        assert await statement(shop, page_size) == whole
    times = [parse_public_time(entry["createdAt"]) for entry in whole]
    assert times == sorted(times, reverse=True)


async def test_the_statement_is_also_read_by_the_numbers_of_its_pages(shop: Shop) -> None:
    for _ in range(7):
        await shop.paid(1_000)
    whole = await statement(shop)
    assert len(whole) == 7
    pages = []
    for number in range(1, 5):
        data = await entries_of(shop, f"page={number}&pageSize=3")
        where = data["pagination"]
        assert set(where) == PAGINATION
        assert (where["page"], where["pageSize"]) == (number, 3)
        assert (where["total"], where["totalPages"], where["totalCapped"]) == (7, 3, False)
        assert (where["nextCursor"] is None) == (number >= 3)
        pages += data["entries"]
    assert pages == whole
    first = await entries_of(shop, "pageSize=3")
    assert first["pagination"]["page"] == 1
    further = await entries_of(shop, f"pageSize=3&cursor={first['pagination']['nextCursor']}")
    assert further["entries"] == whole[3:6]
    assert further["pagination"]["page"] is None
    assert further["pagination"]["total"] == 7


@pytest.mark.parametrize(
    ("movements", "total", "is_capped"),
    [(9_999, 9_999, False), (10_000, 10_000, False), (10_001, 10_000, True)],
)
async def test_a_long_statement_is_counted_no_further_than_any_list(
    shop: Shop, movements: int, total: int, is_capped: bool
) -> None:
    await shop.paid(1_000)
    await number_last_movement(shop, movements)
    where = (await entries_of(shop, "pageSize=100"))["pagination"]
    assert (where["total"], where["totalPages"], where["totalCapped"]) == (total, 100, is_capped)
    await number_last_movement(shop, 1)
    reply = await shop.api.get("/v1/balance/entries?page=101&pageSize=100", key=shop.key)
    assert "cursor" in reply.json["error"]["details"]["errors"][0]["message"]
    assert (await entries_of(shop, "page=100&pageSize=100"))["entries"] == []


async def number_last_movement(shop: Shop, number: int) -> None:
    """Pretend that the available balance has moved so often: nobody counts its movements."""
    await shop.database.execute(
        "update account set version = $2"
        " where company_id = $1 and environment = 'test' and code = 'available'",
        shop.scope.company_id,
        number,
    )


async def entries_of(shop: Shop, query: str) -> Any:
    reply = await shop.api.get(f"/v1/balance/entries?{query}", key=shop.key)
    assert reply.status == 200, reply.json
    return reply.data


PAGINATION = {"page", "pageSize", "total", "totalPages", "totalCapped", "nextCursor"}


async def test_the_statement_misses_nothing_while_money_moves(shop: Shop) -> None:
    for _ in range(6):
        await shop.paid(1_000)
    expected = await statement(shop)
    seen, cursor = [], ""
    while True:
        path = f"/v1/balance/entries?pageSize=2{cursor}"
        data = (await shop.api.get(path, key=shop.key)).data
        seen += data["entries"]
        if data["pagination"]["nextCursor"] is None:
            break
        cursor = f"&cursor={data['pagination']['nextCursor']}"
        await shop.paid(2_000)
    assert seen == expected


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("pageSize=0", "pageSize"),
        ("pageSize=101", "pageSize"),
        ("cursor=0", "cursor"),
        ("cursor=-1", "cursor"),
        ("cursor=x", "cursor"),
        ("cursor=", "cursor"),
        ("cursor=5%0A", "cursor"),
        ("cursor=9999999999999999999", "cursor"),
        ("cursor=5", "cursor"),
        ("page=0", "page"),
        ("page=x", "page"),
        ("page=101&pageSize=100", "page"),
        (f"page=1&cursor={Cursor(SOME_TIME, '5').encode()}", "cursor"),
        (f"cursor={Cursor(SOME_TIME, 'tx_' + '0' * 26).encode()}", "cursor"),
        (f"cursor={Cursor(SOME_TIME, '0').encode()}", "cursor"),
        (f"cursor={Cursor(SOME_TIME, '9' * 19).encode()}", "cursor"),
        ("kind=capture", "kind"),
    ],
)
async def test_a_statement_cannot_be_asked_for_so(shop: Shop, query: str, field: str) -> None:
    reply = await shop.api.get(f"/v1/balance/entries?{query}", key=shop.key)
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert reply.json["error"]["details"]["errors"][0]["field"] == field


async def test_everything_at_once_loses_no_cent(shop: Shop, settings: Settings) -> None:
    """Payments, refunds, disputes, blocks and releases of one company, over two servers."""
    await shop.agree(pix_release_days=1, reserve_basis_points=500, dispute_fee_cents=30)
    await shop.charge(fixed_cents=10)
    chance = random.Random(7)
    made = [(await shop.create(1_000 + number))["id"] for number in range(16)]
    statuses = ("paid", "paid", "blocked", "pre_chargeback", "chargeback", "refunded")
    async with running_api(settings) as two:
        shops = (shop, replace(shop, api=two))
        for _ in range(4):
            calls: list[Coroutine[object, object, object]] = [
                chance.choice(shops).simulate(each, chance.choice(statuses))
                for each in made
                for _ in range(2)
            ]
            calls += [chance.choice(shops).refund(each, chance.randint(1, 400)) for each in made]
            calls += [
                ledger.release_due(shop.database, now=utc_now() + timedelta(days=days))
                for days in (0, 10)
            ]
            chance.shuffle(calls)
            replies = [
                reply for reply in await asyncio.gather(*calls) if isinstance(reply, HttpReply)
            ]
            assert {reply.status for reply in replies} <= {200, 201, 409, 422, 503}
            assert all("INTERNAL_ERROR" not in reply.body.decode() for reply in replies)
    posted = await sums(shop)
    # What came in and did not go out again is ours or the company's.
    own = sum(posted.get(code, 0) for code in ACCOUNTS)
    assert own + posted.get("fee", 0) == -posted.get("bank", 0)


async def test_no_more_than_ten_days_of_releases_are_shown(shop: Shop) -> None:
    await shop.agree(pix_release_days=1)
    for _ in range(12):
        await shop.paid(1_000)
    rows = await shop.database.fetch(
        "select transaction_id from release_schedule where company_id = $1", shop.scope.company_id
    )
    for number, row in enumerate(rows):
        await shop.database.execute(
            "update release_schedule set due_on = $2 where transaction_id = $1",
            row["transaction_id"],
            date(2030, 1, 1) + timedelta(days=number),
        )
    await shop.database.execute(
        """
        with counted as (delete from release_day where company_id = $1)
        insert into release_day (company_id, environment, account, due_on, waiting)
        select company_id, environment, account, due_on, open from release_schedule
        where company_id = $1 and due_on >= '2030-01-01'
        """,
        shop.scope.company_id,
    )
    shown = (await shop.api.get("/v1/balance", key=shop.key)).data["nextReleases"]
    assert shown == [{"date": f"2030-01-{day:02}", "amount": 1_000} for day in range(1, 11)]


def noon(day: date) -> datetime:
    """The middle of a day in Brasilia."""
    return parse_public_time(f"{day}T12:00:00Z")
