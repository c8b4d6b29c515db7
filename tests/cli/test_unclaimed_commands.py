"""The operator's commands about money that belongs to no payment."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.acquirer import send, told
from support.api import TEST_PEPPER, Api, Shop, complaints, new_shop
from support.cards import suspense
from support.platform import Said, vintem
from vintem.kit.clock import utc_now
from vintem.ledger import unclaimed
from vintem.runtime.db import Connection, Database
from vintem.trail import service as trail
from vintem.trail.model import ActFilter


@pytest.fixture
async def shop(api: Api, database: Database) -> AsyncIterator[Shop]:
    made = await new_shop(api, database)
    yield made
    assert await complaints(database) == {}


async def say(shop: Shop, *words: str) -> Said:
    settings = {"DATABASE_URL": shop.database.url, "VINTEM_PEPPER": TEST_PEPPER}
    return await vintem("unclaimed", *words, settings=settings)


async def decide(shop: Shop, verb: str, reference: str, *, by: str = "ana") -> Said:
    company = shop.tenant.company.public_id
    return await say(shop, verb, company, reference, "--reason", "Pago duas vezes", "--by", by)


async def bring(shop: Shop, amount: int, *, kind: str = "payment.received") -> str:
    """Let money come that belongs to no payment; gives what the books call it."""
    notice: dict[str, Any] = told(shop, kind, "nobody", amount=amount)
    assert (await send(shop.api, notice)).status == 200
    return f"simulator/{notice['callbackId']}"


async def test_unclaimed_money_is_listed_and_credited_once(shop: Shop) -> None:
    reference = await bring(shop, 5_000)
    listed = (await say(shop, "list")).out
    [line] = [line for line in listed.splitlines() if reference in line]
    for word in (shop.tenant.company.public_id, "test", "5000", "bank"):
        assert word in line
    assert (await decide(shop, "credit", reference)).out.endswith("5000 cents are credited\n")
    assert await shop.balance() == {"available": 5_000}
    assert reference not in (await say(shop, "list")).out
    for verb in ("credit", "returned"):
        again = await decide(shop, verb, reference)
        assert (again.status, "no unclaimed money" in again.err) == (2, True)
    assert await shop.balance() == {"available": 5_000}
    reply = await shop.api.get("/v1/balance/entries", key=shop.key)
    [entry] = reply.data["entries"]
    assert (entry["kind"], entry["amount"]) == ("suspense_ended", 5_000)


async def test_unclaimed_money_that_was_sent_back_leaves_suspense_and_nobody_has_it(
    shop: Shop,
) -> None:
    reference = await bring(shop, 700)
    assert "700 cents have gone back" in (await decide(shop, "returned", reference)).out
    assert await shop.balance() == {}
    assert await books(shop, "suspense") == await books(shop, "bank") == 0


async def test_money_that_has_left_is_never_credited_and_may_come_back(shop: Shop) -> None:
    reference = await bring(shop, 900, kind="refund.done")
    assert await suspense(shop) == -900
    refused = await decide(shop, "credit", reference)
    assert (refused.status, "has left: charge it" in refused.err) == (2, True)
    assert "900 cents have come back" in (await decide(shop, "returned", reference)).out
    assert await books(shop, "suspense") == 0


async def test_money_that_has_left_is_charged_and_what_is_missing_becomes_debt(shop: Shop) -> None:
    await shop.paid(500)
    came, left = await bring(shop, 100), await bring(shop, 900, kind="refund.done")
    refused = await decide(shop, "charge", came)
    assert (refused.status, "has come: credit it" in refused.err) == (2, True)
    assert "900 cents are charged" in (await decide(shop, "charge", left)).out
    assert await shop.balance() == {"debt": 400}
    await decide(shop, "credit", came)
    assert await shop.balance() == {"debt": 300}
    assert await books(shop, "suspense") == 0


async def test_what_is_credited_pays_off_debt_first(shop: Shop) -> None:
    await shop.agree(dispute_fee_cents=4_500)
    first, second = await shop.paid(3_000), await shop.paid(1_000)
    for transaction_id in (first, second):
        await shop.move(transaction_id, "chargeback")
    assert await shop.balance() == {"debt": 9_000}
    reference = await bring(shop, 10_000)
    await decide(shop, "credit", reference)
    assert await shop.balance() == {"available": 1_000}


async def test_many_who_decide_at_once_decide_once(shop: Shop) -> None:
    reference = await bring(shop, 1_000)

    async def end(block: Connection) -> bool:
        found = await unclaimed.find_and_lock(block, shop.scope.company_id, reference)
        if found is not None:
            await unclaimed.give_to_company(block, found, now=utc_now())
        return found is not None

    ended = await asyncio.gather(*(shop.database.atomically(end) for _ in range(8)))
    assert sorted(ended) == [False] * 7 + [True]
    assert await shop.balance() == {"available": 1_000}


@pytest.mark.parametrize(
    ("verb", "action"), [("credit", "unclaimed.credited"), ("returned", "unclaimed.returned")]
)
async def test_a_decision_is_in_the_company_s_trail(shop: Shop, verb: str, action: str) -> None:
    reference = await bring(shop, 400)
    await decide(shop, verb, reference, by="bia")
    wanted = ActFilter(environment="test")
    [act] = await trail.list_older(shop.database, shop.scope.company_id, wanted, rows_max=5)
    assert act.action == action
    assert (act.actor_name, act.target_id, act.reason) == ("bia", reference, "Pago duas vezes")


async def test_what_is_not_there_is_said_to_be_so(shop: Shop) -> None:
    said = await decide(shop, "credit", "simulator/none")
    assert (said.status, "no unclaimed money simulator/none" in said.err) == (2, True)
    said = await say(shop, "credit", "cmp_nobody", "simulator/none", "--reason", "x")
    assert (said.status, "does not exist" in said.err) == (2, True)


async def books(shop: Shop, code: str) -> int:
    """What all postings of a company leave on an account."""
    return int(
        await shop.database.fetchval(
            """
            select coalesce(sum(amount), 0) from posting, unnest(codes, amounts) as l (code, amount)
            where company_id = $1 and code = $2
            """,
            shop.scope.company_id,
            code,
        )
    )
