"""A company with a million payments is served as fast as one with a thousand."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from statistics import median

import pytest

from conftest import new_database, running_api
from support.api import TEST_PEPPER, HttpReply, Shop, new_shop, pix_order
from support.history import AMOUNT, DAYS, POPULAR_REF, POSTBACK_ORIGIN, write_histories
from support.plans import rows_read
from vintem.kit.clock import business_day, public_time, utc_now
from vintem.kit.paging import COUNTED_ROWS_MAX, Cursor
from vintem.ledger.model import Scope
from vintem.runtime.db import Database
from vintem.runtime.migrations import migrate
from vintem.settings import read_settings
from vintem.transactions.listing import count_statement, page_statement
from vintem.transactions.model import Filter, Status

ROWS_FEW = 1_000
ROWS_MANY = int(os.environ.get("PROOF_GROWTH_ROWS", "1000000"))
CALLS = 80
ATTEMPTS_MAX = 4
RATIO_MAX = 1.25
COUNTED_RATIO_MAX = 1.5
"""What a list may cost whose total is all but too long to be counted, against a tenth of it."""

Work = Callable[[Shop], Awaitable[HttpReply]]
Pairs = dict[str, tuple[Callable[[], Awaitable[HttpReply]], Callable[[], Awaitable[HttpReply]]]]


@dataclass(frozen=True)
class Companies:
    few: Shop
    many: Shop


@pytest.fixture
async def companies(worker_id: str) -> AsyncIterator[Companies]:
    """Two companies of one database, whose histories differ in nothing but their length."""
    url = await new_database(f"growth_{worker_id}")
    database = Database(url)
    await database.open()
    await migrate(database)
    settings = read_settings({"DATABASE_URL": url, "VINTEM_PEPPER": TEST_PEPPER})
    async with running_api(settings) as api:
        few, many = await new_shop(api, database), await new_shop(api, database)
        await write_histories(database, {few: ROWS_FEW, many: ROWS_MANY})
        yield Companies(few, many)
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
}


@pytest.mark.timeout(600)
async def test_no_call_costs_more_for_a_company_with_a_long_history(companies: Companies) -> None:
    """One test, so that the history is written once."""
    await assert_pages_read_what_they_show(companies.many)
    pairs: Pairs = {}
    for name, make in CALLS_OF_A_COMPANY.items():
        work = make()
        pairs[name] = partial(work, companies.few), partial(work, companies.many)
    await assert_no_dearer(pairs, ratio_max=RATIO_MAX)
    await assert_no_dearer(counted_lists(companies.many), ratio_max=COUNTED_RATIO_MAX)


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


async def assert_no_dearer(pairs: Pairs, *, ratio_max: float) -> None:
    costly: dict[str, float] = {}
    for _ in range(ATTEMPTS_MAX):
        ratios = await compare(pairs)
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


async def compare(pairs: Pairs) -> dict[str, float]:
    """How many times as long the second call of each pair takes, by the medians."""
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in pairs}
    for number in range(CALLS):
        # Turn by turn, so that whatever else the machine does hits both alike.
        for name, pair in pairs.items():
            for place in (0, 1) if number % 2 else (1, 0):
                began = time.perf_counter()
                reply = await pair[place]()
                seconds[name][place].append(time.perf_counter() - began)
                assert reply.status in {200, 201}, reply.json
    ratios = {}
    for name, taken in seconds.items():
        few, many = (1_000 * median(each[CALLS // 10 :]) for each in taken)
        print(f"{name:30} {few:7.2f} ms {many:7.2f} ms {many / few:6.2f}")
        ratios[name] = many / few
    return ratios
