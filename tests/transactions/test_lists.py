"""The list of payments: filters, days, pages and cursors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from support.api import Api, Shop, assert_refused, complaints, new_shop, pix_order
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.transactions.listing import SHRINKING_LIST_KEPT
from vintem.transactions.model import Status

MIDNIGHT = datetime(2026, 3, 11, 3, 0, tzinfo=UTC)
"""The first moment of 11 March 2026 in Brasilia."""


@pytest.fixture
async def shop(api: Api, database: Database) -> Shop:
    return await new_shop(api, database)


@pytest.fixture
async def audited(database: Database) -> AsyncIterator[None]:
    """For tests that move money: no invariant complains afterwards."""
    yield
    assert await complaints(database) == {}


def ids(listed: Any) -> list[str]:
    return [each["id"] for each in listed["transactions"]]


async def date_back(shop: Shop, transaction_id: str, moment: datetime) -> None:
    await shop.database.execute(
        "update transaction set created_at = $3 where company_id = $1 and transaction_id = $2",
        shop.scope.company_id,
        transaction_id,
        moment,
    )


async def fill(shop: Shop, count: int) -> list[str]:
    """So many payments, the newest first."""
    replies = await asyncio.gather(
        *(shop.order(pix_order(1_000 + number)) for number in range(count))
    )
    made = [reply.data for reply in replies]
    rows = await shop.database.fetch(
        "select transaction_id from transaction where company_id = $1"
        " order by created_at desc, transaction_id desc",
        shop.scope.company_id,
    )
    found = [row["transaction_id"] for row in rows]
    assert sorted(found)[-count:] == sorted(each["id"] for each in made)
    return found


@pytest.mark.usefixtures("audited")
async def test_each_filter_finds_its_own_and_all_of_them_together(shop: Shop) -> None:
    cnpj = {"type": "cnpj", "number": "11444777000161"}
    buyer = {"name": "Outra Empresa", "email": "b@example.com", "document": cnpj}
    plain = (await shop.create(1_000))["id"]
    named = (await shop.create(2_000, externalRef="pedido 7/ç"))["id"]
    company = (await shop.create(3_000, customer=buyer, externalRef="pedido 7/ç"))["id"]
    await shop.move(named, "paid")
    await shop.move(company, "paid", "pre_chargeback")
    ref = quote("pedido 7/ç", safe="")
    for query, expected in {
        "": [company, named, plain],
        "?status=pending": [plain],
        "?status=paid,pre_chargeback": [company, named],
        "?status=paid,paid": [named],
        "?status=refunded": [],
        "?paymentMethod=pix": [company, named, plain],
        "?paymentMethod=boleto": [],
        f"?externalRef={ref}": [company, named],
        "?externalRef=pedido": [],
        "?externalRef=": [],
        "?customerDocument=529.982.247-25": [named, plain],
        "?customerDocument=11.444.777%2F0001-61": [company],
        "?customerDocument=11144477735": [],
        "?minAmount=2000": [company, named],
        "?maxAmount=2000": [named, plain],
        "?minAmount=2000&maxAmount=2000": [named],
        "?minAmount=2001&maxAmount=2999": [],
        f"?externalRef={ref}&customerDocument=52998224725&status=paid&minAmount=1": [named],
        f"?externalRef={ref}&status=pending": [],
        "?customerDocument=52998224725&maxAmount=1000&paymentMethod=pix": [plain],
        "?status=paid,pre_chargeback&paymentMethod=pix&minAmount=2001": [company],
        "?status=pending&paymentMethod=pix": [plain],
        "?status=pending&paymentMethod=boleto": [],
    }.items():
        listed = await shop.list(query)
        assert ids(listed) == expected, query
        assert listed["pagination"]["total"] == len(expected)
        assert listed["pagination"]["nextCursor"] is None


async def test_days_are_brasilia_days_and_both_ends_belong_to_the_range(shop: Shop) -> None:
    moments = {
        "last of the 10th": MIDNIGHT - timedelta(microseconds=1),
        "first of the 11th": MIDNIGHT,
        "last of the 11th": MIDNIGHT + timedelta(days=1, microseconds=-1),
        "first of the 12th": MIDNIGHT + timedelta(days=1),
    }
    made = {}
    for name, moment in moments.items():
        made[name] = (await shop.create())["id"]
        await date_back(shop, made[name], moment)
    names = {transaction_id: name for name, transaction_id in made.items()}
    tenth, eleventh, last, twelfth = moments
    for query, expected in {
        "startDate=2026-03-11": [twelfth, last, eleventh],
        "endDate=2026-03-11": [last, eleventh, tenth],
        "startDate=2026-03-11&endDate=2026-03-11": [last, eleventh],
        "startDate=2026-03-10&endDate=2026-03-10": [tenth],
        "startDate=2026-03-12&endDate=2026-03-11": [],
        "startDate=2026-03-11T00:00:00.000Z": [twelfth, last, eleventh],
        "startDate=2026-03-11T00:00:00Z&endDate=2026-03-11T00:00:00Z": [eleventh],
        "endDate=2026-03-10T23:59:59.999Z": [tenth],
        "startDate=2026-03-11T23:59:59.999Z&endDate=2026-03-12": [twelfth, last],
        "startDate=0001-01-01&endDate=2026-03-10": [tenth],
        "startDate=2026-03-11&endDate=9998-12-31": [twelfth, last, eleventh],
    }.items():
        assert [names[each] for each in ids(await shop.list(f"?{query}"))] == expected, query


async def test_the_shown_time_of_a_payment_finds_it(shop: Shop) -> None:
    made = [await shop.create() for _ in range(3)]
    shown = made[1]["createdAt"]
    found = (await shop.list(f"?startDate={shown}&endDate={shown}"))["transactions"]
    assert made[1]["id"] in [each["id"] for each in found]
    assert all(each["createdAt"] == shown for each in found)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=payed", "status"),
        ("status=", "status"),
        ("status=paid,", "status"),
        ("status=paid, failed", "status"),
        ("status=PAID", "status"),
        ("paymentMethod=cash", "paymentMethod"),
        ("startDate=2026-02-30", "startDate"),
        ("startDate=20260310", "startDate"),
        ("startDate=2026-W11-2", "startDate"),
        ("startDate=10/03/2026", "startDate"),
        ("startDate=", "startDate"),
        ("startDate=2026-03-10T10:00:00-03:00", "startDate"),
        ("startDate=2026-03-10T24:00:00Z", "startDate"),
        ("endDate=9999-12-31", "endDate"),
        ("endDate=tomorrow", "endDate"),
        ("customerDocument=52998224724", "customerDocument"),
        ("customerDocument=", "customerDocument"),
        ("minAmount=1.5", "minAmount"),
        ("maxAmount=x", "maxAmount"),
        ("page=0", "page"),
        ("page=-1", "page"),
        ("page=1.0", "page"),
        ("pageSize=0", "pageSize"),
        ("pageSize=101", "pageSize"),
        ("cursor=", "cursor"),
        ("cursor=x", "cursor"),
        ("cursor=AAAA", "cursor"),
        ("page=2&cursor=MTIzOnR4XzE", "cursor"),
        ("sort=amount", "sort"),
        ("Status=paid", "Status"),
        ("status=paid&status=failed", "status"),
    ],
)
async def test_a_query_that_cannot_be_read_is_refused_by_name(
    shop: Shop, query: str, field: str
) -> None:
    query = query.replace(" ", "%20")
    reply = await shop.api.get(f"/v1/transactions?{query}", key=shop.key)
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert field in [error["field"] for error in reply.json["error"]["details"]["errors"]]


async def test_all_that_is_wrong_with_a_query_is_said_at_once_and_in_words(shop: Shop) -> None:
    query = (
        "status=paid,lost&paymentMethod=cash&startDate=yesterday&endDate=x&customerDocument=1"
        "&minAmount=1.5&page=0&pageSize=101&cursor=x&odd=1"
    )
    reply = await shop.api.get(f"/v1/transactions?{query}", key=shop.key)
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    said = {error["field"]: error["message"] for error in reply.json["error"]["details"]["errors"]}
    day = "must be a day (YYYY-MM-DD) or a public time (YYYY-MM-DDTHH:MM:SS.mmmZ)"
    assert said == {
        "status": f"must be one or more of {', '.join(Status)}, separated by commas",
        "paymentMethod": "must be pix, credit_card or boleto",
        "startDate": day,
        "endDate": day,
        "customerDocument": "is not a CPF or CNPJ",
        "minAmount": "must be a whole number",
        "page": "must be at least 1",
        "pageSize": "must be from 1 to 100",
        "cursor": "cannot be combined with page",
        "odd": "is not a known field",
    }


@pytest.mark.parametrize("query", ["page=101&pageSize=100", "page=501", "page=10001&pageSize=1"])
async def test_a_page_too_deep_is_refused_and_the_way_on_is_named(shop: Shop, query: str) -> None:
    reply = await shop.api.get(f"/v1/transactions?{query}", key=shop.key)
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert "cursor" in reply.json["error"]["message"]


@pytest.mark.parametrize("query", ["page=100&pageSize=100", "page=500", "page=10000&pageSize=1"])
async def test_the_deepest_page_is_served(shop: Shop, query: str) -> None:
    await shop.create()
    listed = await shop.list(f"?{query}")
    assert listed["transactions"] == []
    assert listed["pagination"]["total"] == 1
    assert listed["pagination"]["nextCursor"] is None


@pytest.mark.parametrize("query", ["", "&paymentMethod=pix", "&status=pending&maxAmount=2000"])
async def test_pages_by_number_hold_every_payment_once(shop: Shop, query: str) -> None:
    made = await fill(shop, 47)
    seen: list[str] = []
    for page in range(1, 6):
        listed = await shop.list(f"?page={page}&pageSize=10{query}")
        seen += ids(listed)
        where = listed["pagination"]
        assert (where["page"], where["pageSize"]) == (page, 10)
        assert (where["total"], where["totalPages"], where["totalCapped"]) == (47, 5, False)
        assert (where["nextCursor"] is None) == (page == 5)
    assert seen == made
    assert (await shop.list(f"?page=6&pageSize=10{query}"))["transactions"] == []
    assert ids(await shop.list(f"?pageSize=20{query}")) == made[:20]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "&status=pending",
        "&customerDocument=52998224725",
        "&paymentMethod=pix",
        "&minAmount=1000&status=pending,paid",
    ],
)
async def test_cursors_miss_and_repeat_nothing_while_new_payments_arrive(
    shop: Shop, query: str
) -> None:
    made = await fill(shop, 33)
    seen: list[str] = []
    cursor = ""
    while True:
        listed = await shop.list(f"?pageSize=7{query}{cursor}")
        seen += ids(listed)
        if listed["pagination"]["nextCursor"] is None:
            break
        cursor = f"&cursor={listed['pagination']['nextCursor']}"
        assert listed["pagination"]["page"] == (None if len(seen) > 7 else 1)
        await shop.create()
    assert seen == made


async def test_payments_of_the_same_microsecond_are_ordered_by_id(shop: Shop) -> None:
    made = await fill(shop, 12)
    await shop.database.execute(
        "update transaction set created_at = $2 where company_id = $1",
        shop.scope.company_id,
        MIDNIGHT,
    )
    expected = sorted(made, reverse=True)
    seen: list[str] = []
    cursor = ""
    while True:
        listed = await shop.list(f"?pageSize=5{cursor}")
        seen += ids(listed)
        following = listed["pagination"]["nextCursor"]
        if following is None:
            break
        cursor = f"&cursor={following}"
    assert seen == expected
    assert ids(await shop.list("?pageSize=5&page=2")) == expected[5:10]
    day = date(2026, 3, 11)
    assert ids(await shop.list(f"?startDate={day}&endDate={day}")) == expected


async def test_microseconds_decide_where_milliseconds_look_alike(shop: Shop) -> None:
    made = await fill(shop, 6)
    for number, transaction_id in enumerate(sorted(made)):
        # The later the id, the older the payment: only the moment may decide.
        await date_back(shop, transaction_id, MIDNIGHT - timedelta(microseconds=number))
    expected = sorted(made)
    seen, cursor = [], ""
    for _ in range(6):
        listed = await shop.list(f"?pageSize=1{cursor}")
        seen += ids(listed)
        cursor = f"&cursor={listed['pagination']['nextCursor']}"
    assert seen == expected


@pytest.mark.usefixtures("audited")
async def test_a_list_shows_refunds_and_the_status_as_they_are_now(shop: Shop) -> None:
    first, second = await shop.paid(2_000), await shop.paid(3_000)
    await shop.refund(first, 500)
    await shop.refund(first, 500)
    await shop.refund(second)
    listed = {each["id"]: each for each in (await shop.list())["transactions"]}
    assert [refund["amount"] for refund in listed[first]["refunds"]] == [500, 500]
    assert (listed[first]["status"], listed[first]["refundedAmount"]) == ("paid", 1_000)
    assert [refund["amount"] for refund in listed[second]["refunds"]] == [3_000]
    assert listed[second]["status"] == "refunded"
    for transaction_id, each in listed.items():
        whole = await shop.read(transaction_id)
        assert each == {**whole, "customer": each["customer"]}
        assert each["customer"]["document"]["number"] == "***.982.247-**"


async def test_a_cursor_of_one_company_shows_another_only_its_own(shop: Shop) -> None:
    await fill(shop, 3)
    cursor = (await shop.list("?pageSize=1"))["pagination"]["nextCursor"]
    other = await new_shop(shop.api, shop.database)
    assert (await other.list(f"?cursor={cursor}"))["transactions"] == []


async def test_several_statuses_are_one_list_in_order(shop: Shop) -> None:
    made = await fill(shop, 24)
    statuses = ("pending", "paid", "failed", "processing")
    for number, transaction_id in enumerate(made):
        if number % 4:
            await shop.move(transaction_id, statuses[number % 4])
    wanted = [each for number, each in enumerate(made) if number % 4 != 2]
    seen: list[str] = []
    for page in (1, 2, 3, 4):
        listed = await shop.list(f"?status=processing,paid,pending&pageSize=5&page={page}")
        seen += ids(listed)
        assert listed["pagination"]["total"] == 18
    assert seen == wanted
    seen, cursor = [], ""
    for _ in range(5):
        listed = await shop.list(f"?status=pending,processing,paid&pageSize=4{cursor}")
        seen += ids(listed)
        assert listed["pagination"]["total"] == 18
        cursor = f"&cursor={listed['pagination']['nextCursor']}"
    assert seen == wanted
    assert cursor == "&cursor=None"


@asynccontextmanager
async def ten_thousand_and_one(shop: Shop) -> AsyncIterator[Shop]:
    """A company with copies of one payment, as no test has the time to make them one by one."""
    await shop.create()
    columns = await shop.database.fetchval(
        """
        select string_agg(column_name, ', ') from information_schema.columns
        where table_name = 'transaction'
            and column_name not in ('transaction_id', 'idempotency_key', 'created_at')
        """
    )
    company = await new_shop(shop.api, shop.database)
    kept = columns.replace("company_id", f"{company.scope.company_id}::bigint as company_id")
    async with shop.database.atomic() as block:
        await block.execute(
            f"""
            insert into transaction ({columns}, transaction_id, idempotency_key, created_at)
            select {kept}, 'tx_' || lpad(n::text, 26, '0'), 'k' || n,
                created_at - n * interval '1 second'
            from transaction cross join generate_series(1, 10001) as n
            where company_id = $1
            """,
            shop.scope.company_id,
        )
    try:
        yield company
    finally:
        await shop.database.execute(
            "delete from transaction where company_id = $1", company.scope.company_id
        )


async def test_no_more_than_ten_thousand_are_counted(shop: Shop) -> None:
    async with ten_thousand_and_one(shop) as company:
        where = (await company.list("?pageSize=100&page=100"))["pagination"]
        assert (where["total"], where["totalPages"], where["totalCapped"]) == (10_000, 100, True)
        last = await company.list(f"?pageSize=100&cursor={where['nextCursor']}")
        assert len(last["transactions"]) == 1
        assert last["pagination"]["nextCursor"] is None
        assert (await company.list())["pagination"]["totalCapped"]


async def test_a_list_by_status_that_becomes_shorter_is_counted_again(shop: Shop) -> None:
    async with ten_thousand_and_one(shop) as company:
        query = "?status=pending&pageSize=1"
        assert (await company.list(query))["pagination"]["totalCapped"]
        await shop.database.execute(
            "update transaction set status = 'failed' where company_id = $1"
            " and idempotency_key in ('k1', 'k2')",
            company.scope.company_id,
        )
        await asyncio.sleep(SHRINKING_LIST_KEPT.total_seconds())
        where = (await company.list(query))["pagination"]
        assert (where["total"], where["totalCapped"]) == (9_999, False)
        # The whole list only grows, and nobody else's is meant.
        assert (await company.list())["pagination"]["totalCapped"]
        assert (await shop.list())["pagination"]["total"] == 1
