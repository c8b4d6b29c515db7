"""Giving money back: how much, how often, until when, and whose money it is."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from support.api import Api, HttpReply, Shop, assert_refused, complaints, new_shop
from vintem.kit.errors import ErrorCode
from vintem.kit.ids import Prefix, is_id
from vintem.runtime.db import Database

RACERS = 64
ABOVE = {"field": "amount", "maximum": 9_999_999_999}


@pytest.fixture
async def shop(api: Api, database: Database) -> AsyncIterator[Shop]:
    yield await new_shop(api, database)
    assert await complaints(database) == {}


async def date_payment_back(shop: Shop, transaction_id: str, by: timedelta) -> None:
    await shop.database.execute(
        "update transaction set paid_at = now() - $3::interval"
        " where company_id = $1 and transaction_id = $2",
        shop.scope.company_id,
        transaction_id,
        by,
    )


async def test_a_part_keeps_the_payment_paid_and_the_rest_refunds_it(shop: Shop) -> None:
    transaction_id = await shop.paid(10_000)
    reply = await shop.api.post(
        f"/v1/transactions/{transaction_id}/refund",
        key=shop.key,
        json={"amount": 4_000, "reason": "Troca"},
    )
    assert reply.status == 201
    assert is_id(reply.data["id"], Prefix.REFUND)
    assert reply.data == {
        "id": reply.data["id"],
        "transactionId": transaction_id,
        "amount": 4_000,
        "status": "completed",
        "reason": "Troca",
        "createdAt": reply.json["meta"]["timestamp"],
        "completedAt": reply.json["meta"]["timestamp"],
    }
    part = await shop.read(transaction_id)
    assert (part["status"], part["refundedAmount"], part["refundedAt"]) == ("paid", 4_000, None)
    assert part["refunds"] == [reply.data]
    assert part["updatedAt"] == reply.data["createdAt"]
    assert await shop.balance() == {"available": 6_000}

    rest = await shop.refund(transaction_id)
    assert (rest.status, rest.data["amount"], rest.data["reason"]) == (201, 6_000, None)
    whole = await shop.read(transaction_id)
    assert (whole["status"], whole["refundedAmount"]) == ("refunded", 10_000)
    assert whole["refundedAt"] == rest.data["createdAt"]
    assert whole["refunds"] == [reply.data, rest.data]
    assert await shop.balance() == {}


async def test_each_refund_and_the_last_move_are_told_in_their_order(shop: Shop) -> None:
    transaction_id = await shop.paid(300)
    for amount in (100, 200):
        await shop.refund(transaction_id, amount)
    rows = await shop.database.fetch(
        "select * from webhook_event where company_id = $1", shop.scope.company_id
    )
    refunds = [row for row in rows if row["kind"] == "refund.completed"]
    assert len(refunds) == 2
    for row in refunds:
        body = json.loads(row["body"])
        assert row["event_id"].startswith("evt_")
        assert (row["sequence"], body["sequence"], body["previousStatus"]) == (1, 1, None)
        assert body["data"]["id"] == row["entity_id"]
        assert body["data"]["transactionId"] == transaction_id
    last = [json.loads(row["body"]) for row in rows if row["kind"] == "transaction.refunded"]
    assert [body["sequence"] for body in last] == [3]
    assert [refund["amount"] for refund in last[0]["data"]["refunds"]] == [100, 200]
    assert last[0]["data"]["refundedAmount"] == 300


@pytest.mark.parametrize("amount", [100, None])
async def test_the_event_of_a_refund_names_the_call_that_made_it(
    shop: Shop, amount: int | None
) -> None:
    transaction_id = await shop.paid(300)
    path, body = f"/v1/transactions/{transaction_id}/refund", {"amount": amount}
    headers = {"X-Correlation-Id": "troca-77", "X-Idempotency-Key": "troca"}
    made = await shop.api.post(path, key=shop.key, json=body, headers=headers)
    assert (made.status, made.headers["x-correlation-id"]) == (201, "troca-77")
    other = {"X-Correlation-Id": "troca-78", "X-Idempotency-Key": "troca"}
    assert (await shop.api.post(path, key=shop.key, json=body, headers=other)).status == 200
    told = await events_of(shop, made.data["id"])
    assert [event["metadata"].get("correlationId") for event in told] == ["troca-77"]
    # What became of the payment is no first event: that named the call that created it.
    later = await events_of(shop, transaction_id)
    assert all("correlationId" not in event["metadata"] for event in later)


async def test_the_event_of_a_refund_without_a_name_for_its_call_has_none(shop: Shop) -> None:
    refund = await shop.refund(await shop.paid(300), 100)
    (event,) = await events_of(shop, refund.data["id"])
    assert "correlationId" not in event["metadata"]


async def events_of(shop: Shop, record_id: str) -> list[Any]:
    """What was told of a record, in its order."""
    rows = await shop.database.fetch(
        "select body from webhook_event where company_id = $1 and entity_id = $2 order by sequence",
        shop.scope.company_id,
        record_id,
    )
    return [json.loads(row["body"]) for row in rows]


@pytest.mark.parametrize("amount", [10_001, 9_999_999_999])
async def test_more_than_was_paid_is_not_given_back(shop: Shop, amount: int) -> None:
    transaction_id = await shop.paid(10_000)
    reply = await shop.refund(transaction_id, amount)
    assert_refused(reply, ErrorCode.REFUND_EXCEEDS_AMOUNT, status=422)
    assert reply.json["error"]["details"] == {"refundable": 10_000}
    assert await shop.balance() == {"available": 10_000}


async def test_more_than_is_left_is_not_given_back(shop: Shop) -> None:
    transaction_id = await shop.paid(10_000)
    assert (await shop.refund(transaction_id, 9_999)).status == 201
    reply = await shop.refund(transaction_id, 2)
    assert_refused(reply, ErrorCode.REFUND_EXCEEDS_AMOUNT, status=422)
    assert (await shop.refund(transaction_id, 1)).status == 201
    reply = await shop.refund(transaction_id, 1)
    assert_refused(reply, ErrorCode.TRANSACTION_NOT_REFUNDABLE, status=409)


@pytest.mark.parametrize(
    "body",
    [
        {"amount": "100"},
        {"amount": 1.5},
        {"amount": True},
        {"reason": "x" * 141},
        {"amuont": 100},
        [],
    ],
)
async def test_a_refund_of_the_wrong_form_is_refused(shop: Shop, body: object) -> None:
    transaction_id = await shop.paid(10_000)
    path = f"/v1/transactions/{transaction_id}/refund"
    reply = await shop.api.post(path, key=shop.key, json=body)
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert await shop.balance() == {"available": 10_000}


@pytest.mark.parametrize(
    ("amount", "code", "details"),
    [
        (0, ErrorCode.AMOUNT_BELOW_MINIMUM, {"field": "amount", "minimum": 1}),
        (-1, ErrorCode.AMOUNT_BELOW_MINIMUM, {"field": "amount", "minimum": 1}),
        (10_000_000_000, ErrorCode.AMOUNT_ABOVE_MAXIMUM, ABOVE),
        (2**63, ErrorCode.AMOUNT_ABOVE_MAXIMUM, ABOVE),
    ],
)
async def test_a_refund_out_of_bounds_is_refused_with_its_bound(
    shop: Shop, amount: int, code: ErrorCode, details: dict[str, object]
) -> None:
    transaction_id = await shop.paid(10_000)
    reply = await shop.refund(transaction_id, amount)
    assert_refused(reply, code, status=422)
    assert reply.json["error"]["details"] == details
    assert await shop.balance() == {"available": 10_000}


async def test_a_refund_out_of_bounds_is_looked_at_after_its_payment_and_its_key(
    shop: Shop,
) -> None:
    unknown = await shop.refund(f"tx_{'0' * 26}", 0)
    assert_refused(unknown, ErrorCode.TRANSACTION_NOT_FOUND, status=404)
    transaction_id = await shop.paid(10_000)
    assert (await shop.refund(transaction_id, 1, idempotency_key="used")).status == 201
    reused = await shop.refund(transaction_id, 0, idempotency_key="used")
    assert_refused(reused, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
    refused = await shop.refund(transaction_id, 0, idempotency_key="free")
    assert_refused(refused, ErrorCode.AMOUNT_BELOW_MINIMUM, status=422)
    assert (await shop.refund(transaction_id, 1, idempotency_key="free")).status == 201


@pytest.mark.parametrize(
    "body", [None, {}, {"amount": None}, {"reason": None}, {"reason": "x" * 140}]
)
async def test_what_is_left_out_means_all_that_is_left(
    shop: Shop, body: dict[str, object] | None
) -> None:
    transaction_id = await shop.paid(777)
    path = f"/v1/transactions/{transaction_id}/refund"
    reply = await shop.api.post(path, key=shop.key, json=body)
    assert (reply.status, reply.data["amount"]) == (201, 777)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ((), ErrorCode.TRANSACTION_NOT_REFUNDABLE),
        (("processing",), ErrorCode.TRANSACTION_NOT_REFUNDABLE),
        (("failed",), ErrorCode.TRANSACTION_NOT_REFUNDABLE),
        (("cancelled",), ErrorCode.TRANSACTION_NOT_REFUNDABLE),
        (("blocked",), ErrorCode.TRANSACTION_NOT_REFUNDABLE),
        (("paid", "blocked"), ErrorCode.TRANSACTION_NOT_REFUNDABLE),
        (("paid", "refunded"), ErrorCode.TRANSACTION_NOT_REFUNDABLE),
        (("paid", "pre_chargeback"), ErrorCode.TRANSACTION_UNDER_DISPUTE),
        (("paid", "chargeback"), ErrorCode.TRANSACTION_UNDER_DISPUTE),
    ],
)
async def test_only_a_paid_payment_is_given_back(
    shop: Shop, path: tuple[str, ...], code: ErrorCode
) -> None:
    transaction_id = (await shop.create())["id"]
    await shop.move(transaction_id, *path)
    before = await shop.read(transaction_id), await shop.balance()
    assert_refused(await shop.refund(transaction_id, 100), code, status=409)
    assert (await shop.read(transaction_id), await shop.balance()) == before


@pytest.mark.parametrize(
    "path", [("pre_chargeback", "paid"), ("chargeback", "paid"), ("blocked", "paid")]
)
async def test_a_payment_that_is_paid_again_can_be_given_back(
    shop: Shop, path: tuple[str, ...]
) -> None:
    transaction_id = await shop.paid(1_000)
    await shop.refund(transaction_id, 300)
    await shop.move(transaction_id, *path)
    assert await shop.balance() == {"available": 700}
    assert (await shop.refund(transaction_id)).data["amount"] == 700
    assert await shop.balance() == {}


async def test_a_payment_can_be_given_back_for_ninety_days(shop: Shop) -> None:
    early, late = await shop.paid(), await shop.paid()
    await date_payment_back(shop, early, timedelta(days=90, seconds=-20))
    await date_payment_back(shop, late, timedelta(days=90, seconds=1))
    assert (await shop.refund(early)).status == 201
    assert_refused(await shop.refund(late, 1), ErrorCode.REFUND_WINDOW_EXPIRED, status=422)
    assert (await shop.read(late))["refundedAmount"] == 0


async def test_the_simulator_gives_back_no_longer_than_a_refund_and_says_so(shop: Shop) -> None:
    early, late = await shop.paid(), await shop.paid()
    await date_payment_back(shop, early, timedelta(days=90, seconds=-20))
    await date_payment_back(shop, late, timedelta(days=90, seconds=1))
    assert (await shop.move(early, "refunded"))["refundedAmount"] == 10_000
    reply = await shop.simulate(late, "refunded")
    assert_refused(reply, ErrorCode.REFUND_WINDOW_EXPIRED, status=422)
    assert (await shop.read(late))["status"] == "paid"
    description = (await shop.api.get("/openapi.json")).json
    path = description["paths"]["/v1/sandbox/transactions/{id}/simulate"]["post"]
    assert ErrorCode.REFUND_WINDOW_EXPIRED in json.dumps(path["responses"]["422"])


async def test_a_refund_is_replayed_whatever_has_happened_since(shop: Shop) -> None:
    transaction_id = await shop.paid(1_000)
    first = await shop.refund(transaction_id, 400, idempotency_key="rf-1")
    assert first.status == 201
    assert first.headers["X-Idempotency-Replayed"] == "false"
    await shop.move(transaction_id, "pre_chargeback")
    await date_payment_back(shop, transaction_id, timedelta(days=400))
    again = await shop.refund(transaction_id, 400, idempotency_key="rf-1")
    assert (again.status, again.data) == (200, first.data)
    assert again.headers["X-Idempotency-Replayed"] == "true"
    assert again.headers["X-Idempotency-Key"] == "rf-1"
    assert again.headers["X-Idempotency-Key-Source"] == "client"
    assert again.headers["X-Idempotency-Processed-At"] == first.data["createdAt"]
    for amount in (401, None):
        reused = await shop.refund(transaction_id, amount, idempotency_key="rf-1")
        assert_refused(reused, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
        assert reused.headers["X-Idempotency-Processed-At"] == first.data["createdAt"]
        assert "X-Idempotency-Replayed" not in reused.headers
    assert (await shop.read(transaction_id))["refundedAmount"] == 400


async def test_an_empty_body_and_none_at_all_are_the_same_intent(shop: Shop) -> None:
    transaction_id = await shop.paid(1_000)
    first = await shop.refund(transaction_id, idempotency_key="rf-1")
    path = f"/v1/transactions/{transaction_id}/refund"
    again = await shop.api.post(path, key=shop.key, json={}, headers={"X-Idempotency-Key": "rf-1"})
    assert (again.status, again.data) == (200, first.data)


async def test_one_key_serves_the_refunds_of_two_payments_and_a_creation(shop: Shop) -> None:
    one, two = await shop.paid(1_000), await shop.paid(1_000)
    replies = [
        await shop.refund(one, 100, idempotency_key="same"),
        await shop.refund(two, 200, idempotency_key="same"),
        await shop.order(
            {
                "paymentMethod": "pix",
                "amount": 300,
                "customer": {
                    "name": "Ana",
                    "email": "a@example.com",
                    "document": {"type": "cpf", "number": "52998224725"},
                },
            },
            idempotency_key="same",
        ),
    ]
    assert [reply.status for reply in replies] == [201, 201, 201]


async def test_without_a_key_each_refund_is_a_new_one(shop: Shop) -> None:
    transaction_id = await shop.paid(1_000)
    replies = [await shop.refund(transaction_id, 100) for _ in range(3)]
    assert len({reply.data["id"] for reply in replies}) == 3
    assert {reply.headers["X-Idempotency-Key-Source"] for reply in replies} == {"generated"}
    assert len({reply.headers["X-Idempotency-Key"] for reply in replies}) == 3


async def test_a_short_balance_becomes_debt_that_the_next_payment_recovers(shop: Shop) -> None:
    await shop.charge(fixed_cents=100)
    transaction_id = await shop.paid(1_000)
    assert await shop.balance() == {"available": 900}
    assert (await shop.refund(transaction_id)).status == 201
    # The fee is not returned.
    assert await shop.balance() == {"debt": 100}
    await shop.paid(150)
    assert await shop.balance() == {"debt": 50}
    await shop.paid(1_000)
    assert await shop.balance() == {"available": 850}


async def test_money_that_waits_pays_a_refund_before_debt_does(shop: Shop) -> None:
    await shop.agree(pix_release_days=10, reserve_basis_points=1_000)
    first, second = await shop.paid(1_000), await shop.paid(1_000)
    assert await shop.balance() == {"waitingFunds": 1_800, "reserve": 200}
    await shop.refund(first)
    assert await shop.balance() == {"waitingFunds": 800, "reserve": 200}
    await shop.refund(second)
    # The reserve is not for refunds.
    assert await shop.balance() == {"reserve": 200, "debt": 200}


async def test_refunds_at_once_never_exceed_the_payment(shop: Shop) -> None:
    transaction_id = await shop.paid(10_000)
    replies = await asyncio.gather(
        *(persist(shop, transaction_id, 300, f"race-{number}") for number in range(RACERS))
    )
    made = [reply for reply in replies if reply.status in {200, 201}]
    refused = [reply for reply in replies if reply not in made]
    assert len(made) == 33
    for reply in refused:
        assert_refused(reply, ErrorCode.REFUND_EXCEEDS_AMOUNT, status=422)
    data = await shop.read(transaction_id)
    assert (data["status"], data["refundedAmount"], len(data["refunds"])) == ("paid", 9_900, 33)
    assert await shop.balance() == {"available": 100}


async def test_the_last_cent_is_given_back_once(shop: Shop) -> None:
    transaction_id = await shop.paid(100)
    await shop.refund(transaction_id, 99)
    replies = await asyncio.gather(
        *(persist(shop, transaction_id, 1, f"cent-{number}") for number in range(24))
    )
    assert sorted(reply.status for reply in replies) == [201, *[409] * 23]
    assert (await shop.read(transaction_id))["status"] == "refunded"
    assert await shop.balance() == {}


async def test_one_refund_sent_many_times_at_once_is_made_once(shop: Shop) -> None:
    transaction_id = await shop.paid(10_000)
    replies = await asyncio.gather(
        *(persist(shop, transaction_id, 100, "one") for _ in range(RACERS))
    )
    assert sorted(reply.status for reply in replies) == [*[200] * (RACERS - 1), 201]
    assert len({reply.data["id"] for reply in replies}) == 1
    assert await shop.balance() == {"available": 9_900}


async def test_a_refund_and_a_dispute_at_once_take_the_money_once(shop: Shop) -> None:
    await shop.charge(fixed_cents=10)
    for number in range(16):
        transaction_id = await shop.paid(1_000)
        status = ("pre_chargeback", "chargeback", "blocked")[number % 3]
        refund, dispute = await asyncio.gather(
            persist(shop, transaction_id, None, "all"), shop.simulate(transaction_id, status)
        )
        assert sorted((refund.status, dispute.status)) in ([200, 409], [201, 409])
        data = await shop.read(transaction_id)
        assert data["status"] == ("refunded" if refund.status == 201 else status)
        assert data["refundedAmount"] == (1_000 if refund.status == 201 else 0)


async def test_a_part_given_back_is_no_longer_disputed(shop: Shop) -> None:
    transaction_id = await shop.paid(1_000)
    await shop.refund(transaction_id, 400)
    await shop.move(transaction_id, "pre_chargeback")
    assert await shop.balance() == {"reserve": 600}
    accepted = await shop.move(transaction_id, "refunded")
    assert [refund["amount"] for refund in accepted["refunds"]] == [400, 600]
    assert accepted["refundedAmount"] == 1_000
    assert await shop.balance() == {}


async def persist(shop: Shop, transaction_id: str, amount: int | None, key: str) -> HttpReply:
    """Ask as an integrator does: again with the same key while the service is busy."""
    while True:
        reply = await shop.refund(transaction_id, amount, idempotency_key=key)
        if reply.status != 503:
            return reply
        await asyncio.sleep(0.2)
