"""A company with a million payments is served as fast as one with a thousand."""

import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from statistics import median

import pytest

from conftest import new_database, running_api
from support.api import TEST_PEPPER, HttpReply, Shop, new_shop, pix_order
from support.history import (
    AMOUNT,
    DAYS,
    POPULAR_REF,
    POSTBACK_ORIGIN,
    write_figures,
    write_histories,
    write_waiting_days,
)
from support.plans import blocks_read, rows_read
from support.team import sign_in
from vintem.dashboard.pages import PAGES as PAGES_OF_DASHBOARD
from vintem.kit.clock import business_day, public_time, utc_now
from vintem.kit.paging import COUNTED_ROWS_MAX, Cursor
from vintem.ledger.model import Scope
from vintem.ledger.service import RELEASES_AT_ONCE_MAX
from vintem.ledger.store import CLAIM_DUE_RELEASES, COMPANIES_WITH_DUE_DAYS
from vintem.members.model import Role
from vintem.runtime.db import Database
from vintem.runtime.migrations import migrate
from vintem.settings import read_settings
from vintem.transactions.listing import count_statement, page_statement
from vintem.transactions.model import Filter, PaymentMethod, Status
from vintem.transactions.store import COMPANIES_WITH_DUE, LOCK_DUE

# A third of them are told to somebody: enough to fill a page of deliveries.
ROWS_TINY = 150
ROWS_FEW = 1_000
ROWS_MANY = int(os.environ.get("PROOF_GROWTH_ROWS", "1000000"))
ROWS_MUCH = min(ROWS_MANY, 100_000)
CALLS = 80
PAGE_CALLS = 16
ATTEMPTS_MAX = 4
RATIO_MAX = 1.25
COUNTED_RATIO_MAX = 1.5
"""What a list may cost whose total is all but too long to be counted, against a tenth of it."""
PAGE_RATIO_MAX = 1.5
OTHER_COMPANIES = 1_000
BLOCKS_MAX = 30
"""What a look may read that finds next to nothing: an index from its root, and a few rows."""

Work = Callable[[Shop], Awaitable[HttpReply]]
Pairs = dict[str, tuple[Callable[[], Awaitable[HttpReply]], Callable[[], Awaitable[HttpReply]]]]


@dataclass(frozen=True)
class Companies:
    tiny: Shop
    few: Shop
    much: Shop
    many: Shop


@pytest.fixture(scope="module")
async def companies(worker_id: str) -> AsyncIterator[Companies]:
    """Companies of one database, whose histories differ in nothing but their length."""
    url = await new_database(f"growth_{worker_id}")
    database = Database(url)
    await database.open()
    await migrate(database)
    settings = read_settings({"DATABASE_URL": url, "VINTEM_PEPPER": TEST_PEPPER})
    async with running_api(settings) as api:
        tiny, few, much, many = [await new_shop(api, database) for _ in range(4)]
        rows = {tiny: ROWS_TINY, few: ROWS_FEW, much: ROWS_MUCH, many: ROWS_MANY}
        await write_histories(database, rows)
        yield Companies(tiny, few, much, many)
    await database.close()


def get(path: str) -> Work:
    return lambda shop: shop.api.get(path, key=shop.key)


def day(days_ago: int) -> str:
    return business_day(utc_now() - timedelta(days=days_ago)).isoformat()


CALLS_OF_A_COMPANY: dict[str, Callable[[], Work]] = {
    "create": lambda: lambda shop: shop.order(pix_order(AMOUNT)),
    "create with a postback": lambda: (
        lambda shop: shop.order(pix_order(AMOUNT, postbackUrl=f"{POSTBACK_ORIGIN}/pedidos"))
    ),
    "read": lambda: get("/v1/transactions/tx_" + "3".zfill(26)),
    "list": lambda: get("/v1/transactions"),
    "list by a frequent status": lambda: get("/v1/transactions?status=pending"),
    "list by a rare status": lambda: get("/v1/transactions?status=blocked"),
    "list by three statuses": lambda: get("/v1/transactions?status=blocked,paid,failed"),
    "list by a day": lambda: get(f"/v1/transactions?startDate={day(10)}&endDate={day(10)}"),
    "list by weeks": lambda: get(f"/v1/transactions?startDate={day(30)}&endDate={day(10)}"),
    "list by status and weeks": lambda: get(f"/v1/transactions?status=paid&endDate={day(10)}"),
    "list by reference": lambda: get("/v1/transactions?externalRef=pedido%20777"),
    "list by a frequent reference": lambda: get(f"/v1/transactions?externalRef={POPULAR_REF}"),
    "list by document": lambda: get("/v1/transactions?customerDocument=52998224725"),
    "balance": lambda: get("/v1/balance"),
    "balance, short": lambda: get("/v1/balance/available"),
    "statement": lambda: get("/v1/balance/entries"),
    "statement, a late page": lambda: get("/v1/balance/entries?page=5"),
}


@pytest.mark.timeout(600)
async def test_no_call_costs_more_for_a_company_with_a_long_history(companies: Companies) -> None:
    """One test, so that the history is written once."""
    await assert_pages_read_what_they_show(companies.many)
    await assert_empty_pages_stay_in_the_index(companies.many)
    await assert_a_worker_reads_what_is_due(companies.many)
    await assert_a_worker_releases_what_is_due(companies.many)
    pairs: Pairs = {}
    for name, make in CALLS_OF_A_COMPANY.items():
        work = make()
        pairs[name] = partial(work, companies.few), partial(work, companies.many)
    await assert_no_dearer(pairs, ratio_max=RATIO_MAX)
    await assert_no_dearer(counted_lists(companies.many), ratio_max=COUNTED_RATIO_MAX)


# Where a page shows one record: its id, of a company whose records all have the same ids.
IDS_OF_RECORDS = {
    "transactions": "select transaction_id from transaction where company_id = $1",
    "customers": "select encode(document_digest, 'hex') from transaction where company_id = $1",
    "sessions": "select session_id from checkout_session where company_id = $1",
    "products": "select product_id from checkout_product where company_id = $1",
    "coupons": "select coupon_id from checkout_coupon where company_id = $1",
    "links": "select link_id from checkout_link where company_id = $1",
    "withdrawals": "select withdrawal_id from withdrawal where company_id = $1",
    "webhooks": "select endpoint_id from webhook_endpoint where company_id = $1",
}
MORE_PAGES = (
    "/transactions?status=pending",
    "/transactions?method=boleto",
    "/transactions?days=30",
    "/transactions?who=52998224725",
    "/search?q=pedido+77",
)


@pytest.mark.timeout(600)
async def test_no_page_of_the_dashboard_costs_more_for_a_company_with_a_long_history(
    companies: Companies,
) -> None:
    """Every page that a member reads, with a hundred payments and with a hundred thousand."""
    pairs: Pairs = {}
    browsers = []
    for shop in (companies.tiny, companies.much):
        await write_figures(shop.database, shop.scope.company_id)
        browsers.append(await sign_in(shop.api, shop.database, shop.tenant, Role.OWNER))
    await companies.much.database.execute("analyze figures_day, figures_customer")
    read = [page.path for page in PAGES_OF_DASHBOARD if page.method == "GET" and not page.export]
    for path in (*read, *MORE_PAGES):
        few, many = [
            partial(browser.get, "/dashboard/test" + await path_of(shop, path))
            for shop, browser in zip((companies.tiny, companies.much), browsers, strict=True)
        ]
        pairs[path or "/"] = few, many
    await assert_no_dearer(pairs, ratio_max=PAGE_RATIO_MAX, calls=PAGE_CALLS)


async def path_of(shop: Shop, path: str) -> str:
    """The path with the oldest record that it can show; with none where there is none."""
    place, _, rest = path[1:].partition("/")
    if "{" not in rest:
        return path
    record_id = None
    if place in IDS_OF_RECORDS:
        statement = f"{IDS_OF_RECORDS[place]} order by created_at limit 1"
        record_id = await shop.database.fetchval(statement, shop.scope.company_id)
    return re.sub(r"\{\w+\}", str(record_id or "none"), path)


def counted_lists(shop: Shop) -> Pairs:
    """Lists of 950 and of 9,500 payments, each counted to its end every time."""
    now = utc_now() - timedelta(minutes=1)
    pairs: Pairs = {}
    for name, filtered, share in (
        ("counted list by dates", "", 1.0),
        ("counted list by status, dates", "status=pending&", 0.6),
    ):
        few, many = (
            public_time(now - timedelta(days=DAYS) * (rows / share / ROWS_MANY))
            for rows in (950, 9_500)
        )
        pairs[name] = (
            partial(get(f"/v1/transactions?{filtered}startDate={few}"), shop),
            partial(get(f"/v1/transactions?{filtered}startDate={many}"), shop),
        )
    return pairs


async def assert_no_dearer(pairs: Pairs, *, ratio_max: float, calls: int = CALLS) -> None:
    costly: dict[str, float] = {}
    for _ in range(ATTEMPTS_MAX):
        ratios = await compare(pairs, calls)
        costly = {name: ratio for name, ratio in ratios.items() if ratio > ratio_max}
        if not costly:
            return
        # What a busy machine did to one measurement it does not do to each.
        pairs = {name: pairs[name] for name in costly}
    pytest.fail(f"cost grows with the history: {costly}")


PAGES = {
    "none": (Filter(Scope(0, "test")), 1),
    "frequent status": (Filter(Scope(0, "test"), statuses=(Status.PENDING,)), 1),
    "rare status": (Filter(Scope(0, "test"), statuses=(Status.BLOCKED,)), 1),
    "no such status": (Filter(Scope(0, "test"), statuses=(Status.REFUNDED,)), 1),
    "all statuses": (Filter(Scope(0, "test"), statuses=tuple(Status)), len(Status)),
    "dates": (Filter(Scope(0, "test"), created_before=utc_now() - timedelta(days=20)), 1),
    "reference": (Filter(Scope(0, "test"), external_ref=POPULAR_REF), 1),
}


async def assert_pages_read_what_they_show(shop: Shop) -> None:
    middle = Cursor(utc_now() - timedelta(days=30), "tx_" + "z" * 26)
    for name, (asked, walks) in PAGES.items():
        wanted = replace(asked, scope=shop.scope)
        for cursor in (None, middle):
            page = page_statement(wanted, cursor=cursor, offset=0, rows_max=21)
            assert await rows_read(shop.database, *page) <= 21 * walks, name
        assert await rows_read(shop.database, *count_statement(wanted)) <= COUNTED_ROWS_MAX, name


SIFTED = {
    "no such method": Filter(Scope(0, "test"), payment_method=PaymentMethod.BOLETO),
    "no such amount": Filter(Scope(0, "test"), amount_min=AMOUNT + 1),
    "no such method of a status": Filter(
        Scope(0, "test"), statuses=(Status.PENDING,), payment_method=PaymentMethod.CREDIT_CARD
    ),
    "no such amount of two statuses": Filter(
        Scope(0, "test"), statuses=(Status.PENDING, Status.PAID), amount_max=AMOUNT - 1
    ),
}


async def assert_empty_pages_stay_in_the_index(shop: Shop) -> None:
    """A list that all payments are gone through for reads the index of the newest, and no more."""
    size = "select pg_relation_size('transaction_newest') / current_setting('block_size')::bigint"
    blocks = await shop.database.fetchval(size)
    for name, asked in SIFTED.items():
        wanted = replace(asked, scope=shop.scope)
        page = page_statement(wanted, cursor=None, offset=0, rows_max=21)
        for statement, values in (page, count_statement(wanted)):
            assert await blocks_read(shop.database, statement, values) <= blocks + BLOCKS_MAX, name
    # Of a status that few have, those few are gone through.
    few = replace(PAGES["rare status"][0], scope=shop.scope, amount_min=AMOUNT + 1)
    for statement, values in (
        page_statement(few, cursor=None, offset=0, rows_max=21),
        count_statement(few),
    ):
        assert await blocks_read(shop.database, statement, values) <= BLOCKS_MAX


async def assert_a_worker_reads_what_is_due(shop: Shop) -> None:
    """Of all that are still to end, whoever looks for those whose time is over reads no other."""
    database = shop.database
    for due in (0, 12):
        until = await database.fetchval(
            "select due_at from transaction where due_at is not null order by due_at offset $1", due
        )
        before = until - timedelta(milliseconds=1)
        assert await rows_read(database, COMPANIES_WITH_DUE, [before]) == due
        lock = [shop.scope.company_id, before, 500]
        assert await rows_read(database, LOCK_DUE, lock) <= due
        for statement, values in ((COMPANIES_WITH_DUE, [before]), (LOCK_DUE, lock)):
            assert await blocks_read(database, statement, values) <= BLOCKS_MAX


async def assert_a_worker_releases_what_is_due(shop: Shop) -> None:
    """Of all that waits for its day, whoever releases money reads what is due, and days for it."""
    database, company_id = shop.database, shop.scope.company_id
    await write_waiting_days(database, OTHER_COMPANIES)
    first = await database.fetchval("select min(due_on) from release_day")
    days_due = await database.fetchval("select count(*) from release_day where due_on = $1", first)
    now, environments = utc_now(), ["live", "test"]
    for today, days, released in (
        (first - timedelta(days=1), 0, 0),
        (first, days_due, RELEASES_AT_ONCE_MAX),
    ):
        look = [today]
        assert await rows_read(database, COMPANIES_WITH_DUE_DAYS, look) == days
        claim = [company_id, today, now, RELEASES_AT_ONCE_MAX, environments]
        # Each is found by its day and again by its key, and written; then the day itself is found.
        read = await rows_read(database, CLAIM_DUE_RELEASES, claim)
        assert read <= 3 * released + 1, today
        if not released:
            for statement, values in ((COMPANIES_WITH_DUE_DAYS, look), (CLAIM_DUE_RELEASES, claim)):
                assert await blocks_read(database, statement, values) <= BLOCKS_MAX


async def compare(pairs: Pairs, calls: int) -> dict[str, float]:
    """How many times as long the second call of each pair takes, by the medians."""
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in pairs}
    for number in range(calls):
        # Turn by turn, so that whatever else the machine does hits both alike.
        for name, pair in pairs.items():
            for place in (0, 1) if number % 2 else (1, 0):
                began = time.perf_counter()
                reply = await pair[place]()
                seconds[name][place].append(time.perf_counter() - began)
                assert reply.status in {200, 201, 303, 404, 409}, (name, reply.status, reply.body)
    ratios = {}
    for name, taken in seconds.items():
        few, many = (1_000 * median(each[calls // 8 :]) for each in taken)
        print(f"{name:30} {few:7.2f} ms {many:7.2f} ms {many / few:6.2f}")
        ratios[name] = many / few
    return ratios
