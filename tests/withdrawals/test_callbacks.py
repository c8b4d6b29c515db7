"""What a provider tells of payouts by itself, over HTTP and signed."""

import asyncio
import json
from typing import Any

from support.acquirer import PATH, callback, send
from support.api import assert_refused, new_shop
from vintem.kit.errors import ErrorCode
from vintem.runtime import metrics
from withdrawals.till import Till

END_TO_END_ID = "E99999999202601011200abcdefghijk"


def told(till: Till, made: Any, kind: str, **changed: object) -> dict[str, Any]:
    account = till.shop.tenant.company.public_id
    return {**callback(account, kind, made["id"].replace("_", "")), **changed}


async def on_its_way(till: Till) -> Any:
    """A withdrawal of whose end the provider has not said a word."""
    made = await till.take(10_002)
    await till.work()
    assert await till.status(made["id"]) == "processing"
    return made


async def test_a_callback_completes_a_withdrawal_once(till: Till) -> None:
    made = await on_its_way(till)
    word = told(till, made, "payout.paid", amount=10_002, endToEndId=END_TO_END_ID)
    replies = await asyncio.gather(*(send(till.api, word) for _ in range(8)))
    assert {reply.status for reply in replies} == {200}
    assert sorted(reply.data["isRepeat"] for reply in replies) == [False] + [True] * 7
    shown = await till.read(made["id"])
    assert (shown["status"], shown["endToEndId"]) == ("completed", END_TO_END_ID)
    assert await till.balance() == {"available": 100_000 - 10_002}


async def notices(till: Till) -> list[tuple[object, ...]]:
    """What was kept of the provider's words, in the order of their amounts and outcomes."""
    rows = await till.database.fetch(
        """
        select environment, kind, amount, outcome from payout_notice where company_id = $1
        order by amount, outcome
        """,
        till.company_id,
    )
    return [(row["environment"], row["kind"], row["amount"], row["outcome"]) for row in rows]


async def test_what_was_told_is_kept_with_what_came_of_it(till: Till) -> None:
    made = await on_its_way(till)
    for kind, amount in (
        ("payout.paid", 9_999),
        ("payout.paid", 10_002),
        ("payout.rejected", 10_002),
        ("payout.paid", 10_002),
    ):
        word = told(till, made, kind, amount=amount)
        assert (await send(till.api, word)).status == 200
        assert (await send(till.api, word)).data["isRepeat"]
    assert await notices(till) == [
        ("test", "payout.paid", 9_999, "contradicts"),
        ("test", "payout.paid", 10_002, "applied"),
        ("test", "payout.rejected", 10_002, "contradicts"),
        ("test", "payout.paid", 10_002, "unchanged"),
    ]
    assert await till.status(made["id"]) == "completed"


async def test_a_callback_gives_a_rejected_withdrawal_back(till: Till) -> None:
    made = await on_its_way(till)
    word = told(till, made, "payout.rejected", amount=10_002, code="AC03", message="Closed.")
    assert (await send(till.api, word)).status == 200
    shown = await till.read(made["id"])
    assert (shown["status"], shown["failureCode"]) == ("failed", "AC03")
    assert await till.balance() == {"available": 100_000}


async def test_a_callback_of_another_company_or_request_is_not_acknowledged(till: Till) -> None:
    made = await on_its_way(till)
    other = await new_shop(till.api, till.database)
    for word in (
        told(till, made, "payout.paid", account=other.tenant.company.public_id),
        told(till, made, "payout.paid", reference="wd00000000000000000000000000"),
    ):
        assert_refused(await send(till.api, word), ErrorCode.NOT_FOUND, status=404)
    assert await till.status(made["id"]) == "processing"


async def test_a_payout_of_another_amount_moves_nothing_and_raises_the_alarm(till: Till) -> None:
    made = await on_its_way(till)
    before = metrics.PAYOUT_CONTRADICTIONS._value.get()
    for amount in (1, 10_001, 10_003):
        word = told(till, made, "payout.paid", amount=amount)
        assert (await send(till.api, word)).status == 200
    assert metrics.PAYOUT_CONTRADICTIONS._value.get() == before + 3
    assert await till.status(made["id"]) == "processing"


async def test_an_unknown_kind_and_a_wrong_signature_are_refused(till: Till) -> None:
    made = await on_its_way(till)
    unknown = told(till, made, "payout.lost")
    assert_refused(await send(till.api, unknown), ErrorCode.VALIDATION_ERROR, status=400)
    body = json.dumps(told(till, made, "payout.paid")).encode()
    headers = {"Content-Type": "application/json"}
    unsigned = await till.api.post(PATH, data=body, headers=headers)
    assert_refused(unsigned, ErrorCode.INVALID_API_KEY, status=401)
    assert await till.status(made["id"]) == "processing"
