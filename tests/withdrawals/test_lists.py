"""Lists of withdrawals: filters, pages, cursors, and nothing of anybody else."""

import pytest

from support.api import Api, assert_refused
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.record import masked_destination
from withdrawals.till import Till, crypto_body, new_till


async def test_a_list_shows_the_newest_first_and_can_be_narrowed(till: Till) -> None:
    first = await till.take(1_000, externalRef="ref-1")
    second = (await till.ask(crypto_body())).data
    third = await till.take(2_000)
    await till.cancel(third["id"])

    async def ids(query: str = "") -> list[str]:
        return [each["id"] for each in (await till.list(query))["withdrawals"]]

    assert await ids() == [third["id"], second["id"], first["id"]]
    assert await ids("?status=cancelled") == [third["id"]]
    assert await ids("?status=pending,cancelled&method=pix") == [third["id"], first["id"]]
    assert await ids("?method=crypto") == [second["id"]]
    assert await ids("?externalRef=ref-1") == [first["id"]]
    today = first["createdAt"][:10]
    assert len(await ids(f"?startDate={today}&endDate={today}")) == 3
    assert await ids("?endDate=2020-01-01") == []
    assert await ids("?startDate=2999-01-01") == []


async def test_pages_and_cursors_give_every_withdrawal_once(till: Till) -> None:
    made = [(await till.take(1_000 + number))["id"] for number in range(5)]
    page = await till.list("?pageSize=2&page=2")
    assert [each["id"] for each in page["withdrawals"]] == [made[2], made[1]]
    assert (page["pagination"]["total"], page["pagination"]["totalPages"]) == (5, 3)
    seen, query = [], "?pageSize=2"
    while True:
        page = await till.list(query)
        seen += [each["id"] for each in page["withdrawals"]]
        cursor = page["pagination"]["nextCursor"]
        if cursor is None:
            break
        query = f"?pageSize=2&cursor={cursor}"
    assert seen == made[::-1]


async def test_a_method_has_the_names_that_it_has_when_a_withdrawal_is_made(till: Till) -> None:
    made = [(await till.take(1_000, method=method))["id"] for method in ("pix", "fiat")]
    for method, expected in (("pix", made), ("fiat", made), ("crypto", [])):
        listed = (await till.api.get(f"/v1/withdrawals?method={method}", key=till.key)).data
        assert sorted(each["id"] for each in listed["withdrawals"]) == sorted(expected)
        assert {each["method"] for each in listed["withdrawals"]} <= {"pix"}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?status=paid", "status"),
        ("?method=boleto", "method"),
        ("?startDate=yesterday", "startDate"),
        ("?endDate=2026-13-01", "endDate"),
        ("?pageSize=101", "pageSize"),
        ("?page=0", "page"),
        ("?cursor=nonsense", "cursor"),
        ("?customerDocument=1", "customerDocument"),
    ],
)
async def test_a_wrong_query_is_refused_by_its_field(till: Till, query: str, field: str) -> None:
    reply = await till.api.get(f"/v1/withdrawals{query}", key=till.key)
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert [fault["field"] for fault in reply.json["error"]["details"]["errors"]] == [field]


async def test_nobody_sees_or_moves_the_withdrawals_of_another(
    till: Till, api: Api, database: Database
) -> None:
    made = await till.take()
    other = await new_till(api, database, funds=1_000)
    assert (await other.list())["withdrawals"] == []
    path = f"/v1/withdrawals/{made['id']}"
    for key in (other.key, till.shop.tenant.sk_live):
        replies = [
            await api.get(path, key=key),
            await api.call("PATCH", f"{path}/cancel", key=key),
        ]
        for reply in replies:
            assert_refused(reply, ErrorCode.WITHDRAWAL_NOT_FOUND, status=404)
    assert_refused(
        await other.simulate(made["id"], "failed"), ErrorCode.WITHDRAWAL_NOT_FOUND, status=404
    )
    assert await till.status(made["id"]) == "pending"


@pytest.mark.parametrize(
    ("order", "shown"),
    [
        ({"pixKey": "52998224725", "pixKeyType": "cpf"}, "cpf ***.982.247-**"),
        ({"pixKey": "cliente@example.com", "pixKeyType": "email"}, "email c***@example.com"),
        ({"pixKey": "+5511987654321", "pixKeyType": "phone"}, "phone …4321"),
        (
            {"pixKey": "123e4567-e89b-12d3-a456-426655440000", "pixKeyType": "random"},
            "evp …55440000",
        ),
    ],
)
async def test_operators_see_enough_of_a_destination_and_no_more(
    till: Till, order: dict[str, object], shown: str
) -> None:
    made = await till.take(1_000, **order)
    found = await withdrawals.find_anywhere(till.database, made["id"])
    assert masked_destination(found) == shown


async def test_operators_see_both_ends_of_a_wallet(till: Till) -> None:
    reply = await till.ask(crypto_body())
    found = await withdrawals.find_anywhere(till.database, reply.data["id"])
    address = reply.data["walletAddress"]
    assert masked_destination(found) == (
        f"USDT {reply.data['walletNetwork']} {address[:6]}…{address[-6:]}"
    )
    assert address not in masked_destination(found)
