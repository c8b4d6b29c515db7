"""A payment's status: every move of the table, none other, and what each leaves behind."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from support.api import TIMESTAMP, Api, Shop, assert_refused, complaints, new_shop, pix_order
from vintem.audit import INVARIANTS
from vintem.kit.clock import public_time, utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.transactions import service as transactions

STATUSES = (
    "pending",
    "processing",
    "paid",
    "failed",
    "cancelled",
    "blocked",
    "refunded",
    "pre_chargeback",
    "chargeback",
)

# How each place of the table is reached, and where it leads.
PLACES: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "pending": ((), {"paid", "processing", "failed", "blocked", "cancelled"}),
    "processing": (("processing",), {"paid", "failed", "blocked", "cancelled"}),
    "paid": (("paid",), {"refunded", "blocked", "pre_chargeback", "chargeback"}),
    "blocked, never paid": (("blocked",), {"paid", "processing", "failed", "cancelled"}),
    "blocked, paid before": (("paid", "blocked"), {"paid", "refunded"}),
    "pre_chargeback": (("paid", "pre_chargeback"), {"paid", "refunded", "chargeback"}),
    "chargeback": (("paid", "chargeback"), {"paid"}),
    "chargeback after its notice": (("paid", "pre_chargeback", "chargeback"), {"paid"}),
    "cancelled": (("cancelled",), {"paid"}),
    "failed": (("failed",), set()),
    "refunded": (("paid", "refunded"), set()),
    "paid again": (
        ("paid", "chargeback", "paid"),
        {"refunded", "blocked", "pre_chargeback", "chargeback"},
    ),
}
REASONS = {"failed": "provider", "cancelled": "provider", "blocked": "risk"}


@pytest.fixture
async def shop(api: Api, database: Database) -> AsyncIterator[Shop]:
    yield await new_shop(api, database)
    assert await complaints(database) == {}


async def history(shop: Shop, transaction_id: str) -> list[tuple[int, str | None, str]]:
    rows = await shop.database.fetch(
        """
        select sequence, from_status, to_status from transaction_history
        where company_id = $1 and transaction_id = $2 order by sequence
        """,
        shop.scope.company_id,
        transaction_id,
    )
    return [(row["sequence"], row["from_status"], row["to_status"]) for row in rows]


async def events(shop: Shop, transaction_id: str) -> list[dict[str, Any]]:
    rows = await shop.database.fetch(
        """
        select event_id, kind, sequence, environment, body from webhook_event
        where company_id = $1 and entity_id = $2 order by sequence
        """,
        shop.scope.company_id,
        transaction_id,
    )
    found = []
    for row in rows:
        body = json.loads(row["body"])
        assert body["eventId"] == row["event_id"]
        assert body["event"] == row["kind"]
        assert body["sequence"] == row["sequence"]
        assert body["environment"] == row["environment"] == "test"
        found.append(body)
    return found


async def traces(shop: Shop, transaction_id: str) -> tuple[object, ...]:
    """All that a move would change."""
    postings = await shop.database.fetchval(
        "select count(*) from posting where company_id = $1", shop.scope.company_id
    )
    told = await shop.database.fetchval(
        "select count(*) from webhook_event where company_id = $1", shop.scope.company_id
    )
    standing = await shop.database.fetchrow(
        "select * from transaction where company_id = $1 and transaction_id = $2",
        shop.scope.company_id,
        transaction_id,
    )
    return (
        postings,
        told,
        standing,
        await shop.read(transaction_id),
        await history(shop, transaction_id),
        await shop.balance(),
    )


@pytest.mark.parametrize(
    ("place", "status"),
    [
        (place, status)
        for place, status in itertools.product(PLACES, STATUSES)
        if status in PLACES[place][1]
    ],
)
async def test_a_move_of_the_table_is_made(shop: Shop, place: str, status: str) -> None:
    path, _ = PLACES[place]
    made = await shop.create(5_000)
    transaction_id = made["id"]
    before = await shop.move(transaction_id, *path) or made
    reply = await shop.simulate(transaction_id, status)
    assert reply.status == 200, reply.json
    after = reply.data
    assert after["status"] == status
    is_late = (before["status"], status) == ("cancelled", "paid")
    assert after["statusReason"] == ("late_payment" if is_late else REASONS.get(status))
    assert after == await shop.read(transaction_id)
    assert (after["paidAt"] is not None) == ("paid" in (*path, status))
    assert (after["cancelledAt"] is not None) == ("cancelled" in (*path, status))
    assert (after["refundedAt"] is not None) == (status == "refunded")
    assert after["refundedAmount"] == (5_000 if status == "refunded" else 0)
    assert sum(refund["amount"] for refund in after["refunds"]) == after["refundedAmount"]
    assert (after["pix"]["endToEndId"] is not None) == ("paid" in (*path, status))

    entered = ["pending", *path, status]
    expected = [
        (number, entered[number - 2] if number > 1 else None, name)
        for number, name in enumerate(entered, 1)
    ]
    assert await history(shop, transaction_id) == expected
    told = await events(shop, transaction_id)
    assert [
        (body["sequence"], body["previousStatus"], body["data"]["status"]) for body in told
    ] == (expected)
    assert told[-1]["data"] == {**after, "customer": told[-1]["data"]["customer"]}
    for number, body in enumerate(told):
        assert body["event"] == f"transaction.{entered[number]}"
        if entered[number] in entered[:number]:
            assert body["eventId"].startswith("evt_")
        else:
            assert body["eventId"] == f"tx:{transaction_id}:{entered[number].upper()}"


@pytest.mark.parametrize("place", PLACES)
async def test_no_other_move_is_made_and_nothing_changes(shop: Shop, place: str) -> None:
    path, allowed = PLACES[place]
    transaction_id = (await shop.create(5_000))["id"]
    await shop.move(transaction_id, *path)
    before = await traces(shop, transaction_id)
    for status in STATUSES:
        if status not in allowed:
            reply = await shop.simulate(transaction_id, status)
            assert_refused(reply, ErrorCode.INVALID_STATE, status=409)
            assert reply.json["error"]["details"]["status"] == (path or ("pending",))[-1]
    assert await traces(shop, transaction_id) == before


async def test_an_event_says_all_of_it_and_shows_the_document_masked(shop: Shop) -> None:
    reply = await shop.api.post(
        "/v1/transactions",
        key=shop.key,
        json={
            "paymentMethod": "pix",
            "amount": 1_234,
            "customer": {
                "name": "Cliente de Teste",
                "email": "a@example.com",
                "document": {"type": "cpf", "number": "52998224725"},
            },
            "metadata": {"number": "***.982.247-**", "x": 1.0},
        },
        headers={"X-Idempotency-Key": "key-of-the-event", "x-correlation-id": "corr-1"},
    )
    made = reply.data
    assert made["customer"]["document"]["number"] == "52998224725"
    await shop.move(made["id"], "paid")
    first, second = await events(shop, made["id"])
    for body in (first, second):
        assert set(body) == {
            *("eventId", "event", "version", "environment", "timestamp", "sequence"),
            *("previousStatus", "data", "metadata"),
        }
        assert body["version"] == "v1"
        assert TIMESTAMP.fullmatch(body["timestamp"])
        assert body["data"]["customer"]["document"] == {"type": "cpf", "number": "***.982.247-**"}
        assert set(body["data"]) == set(made)
    assert first["metadata"] == {"correlationId": "corr-1", "idempotencyKey": "key-of-the-event"}
    assert second["metadata"]["idempotencyKey"] == "key-of-the-event"
    assert first["timestamp"] == made["createdAt"]
    assert second["timestamp"] == second["data"]["paidAt"] == second["data"]["updatedAt"]
    raw = await shop.database.fetchval(
        "select string_agg(body, '') from webhook_event where company_id = $1",
        shop.scope.company_id,
    )
    assert "52998224725" not in raw
    details = await shop.database.fetchval(
        "select string_agg(details, '') from transaction where company_id = $1",
        shop.scope.company_id,
    )
    assert "52998224725" not in details


async def test_a_status_entered_again_has_an_event_id_of_its_own_each_time(shop: Shop) -> None:
    transaction_id = await shop.paid()
    await shop.move(
        transaction_id,
        *("pre_chargeback", "paid", "chargeback", "paid", "blocked", "paid", "pre_chargeback"),
    )
    told = await events(shop, transaction_id)
    ids = [body["eventId"] for body in told]
    assert len(set(ids)) == len(ids) == 9
    assert [body["sequence"] for body in told] == list(range(1, 10))
    assert [event_id for event_id in ids if event_id.startswith("tx:")] == [
        f"tx:{transaction_id}:{status}"
        for status in ("PENDING", "PAID", "PRE_CHARGEBACK", "CHARGEBACK", "BLOCKED")
    ]


async def test_a_pending_payment_is_cancelled_by_the_merchant_once(shop: Shop) -> None:
    transaction_id = (await shop.create())["id"]
    path = f"/v1/transactions/{transaction_id}/cancel"
    reply = await shop.api.post(path, key=shop.key)
    assert reply.status == 200
    assert (reply.data["status"], reply.data["statusReason"]) == ("cancelled", "merchant")
    assert reply.data["cancelledAt"] == reply.data["updatedAt"]
    assert reply.data == await shop.read(transaction_id)
    assert_refused(await shop.api.post(path, key=shop.key), ErrorCode.INVALID_STATE, status=409)


@pytest.mark.parametrize(
    "path",
    [
        ("processing",),
        ("paid",),
        ("failed",),
        ("blocked",),
        ("paid", "blocked"),
        ("paid", "refunded"),
    ],
)
async def test_nothing_but_a_pending_payment_can_be_cancelled(
    shop: Shop, path: tuple[str, ...]
) -> None:
    transaction_id = (await shop.create())["id"]
    await shop.move(transaction_id, *path)
    before = await traces(shop, transaction_id)
    reply = await shop.api.post(f"/v1/transactions/{transaction_id}/cancel", key=shop.key)
    assert_refused(reply, ErrorCode.INVALID_STATE, status=409)
    assert await traces(shop, transaction_id) == before


async def test_the_body_of_a_cancel_is_optional_and_checked(shop: Shop) -> None:
    transaction_id = (await shop.create())["id"]
    path = f"/v1/transactions/{transaction_id}/cancel"
    typo = await shop.api.post(path, key=shop.key, json={"reson": "typo"})
    assert_refused(typo, ErrorCode.VALIDATION_ERROR, status=400)
    assert (await shop.read(transaction_id))["status"] == "pending"
    assert (await shop.api.post(path, key=shop.key, json={})).status == 200


async def test_a_code_expires_and_nothing_else_does(shop: Shop) -> None:
    now = utc_now()
    short = await shop.create(pix={"expiresInSeconds": 60})
    others = [(await shop.create(pix={"expiresInSeconds": 60}))["id"] for _ in range(4)]
    for transaction_id, status in zip(
        others, ("paid", "failed", "cancelled", "processing"), strict=True
    ):
        await shop.move(transaction_id, status)
    long = await shop.create()
    assert short["expiresAt"] == short["pix"]["expiresAt"]

    await transactions.move_due(shop.database, now=now + timedelta(seconds=59))
    assert (await shop.read(short["id"]))["status"] == "pending"

    later = now + timedelta(seconds=75)
    await transactions.move_due(shop.database, now=later)
    expired = await shop.read(short["id"])
    assert (expired["status"], expired["statusReason"]) == ("cancelled", "expired")
    assert expired["cancelledAt"] == public_time(later)
    assert [(await shop.read(each))["status"] for each in others] == [
        *("paid", "failed", "cancelled", "processing"),
    ]
    assert (await shop.read(long["id"]))["status"] == "pending"
    assert (await events(shop, short["id"]))[-1]["eventId"] == f"tx:{short['id']}:CANCELLED"

    # Asked again, the worker finds nothing more to do here.
    told = len(await events(shop, short["id"]))
    await transactions.move_due(shop.database, now=later + timedelta(seconds=1))
    assert len(await events(shop, short["id"])) == told


async def test_many_codes_expire_however_many_workers_look_for_them(shop: Shop) -> None:
    made = [
        reply.data["id"]
        for reply in await asyncio.gather(
            *(shop.order(_short_order(number)) for number in range(130))
        )
    ]
    later = utc_now() + timedelta(seconds=120)
    await asyncio.gather(*(transactions.move_due(shop.database, now=later) for _ in range(4)))
    await transactions.move_due(shop.database, now=later)
    listed = await shop.list("?status=cancelled&pageSize=100")
    assert listed["pagination"]["total"] == len(made)
    for transaction_id in made[:3]:
        assert len(await events(shop, transaction_id)) == 2


def _short_order(number: int) -> dict[str, Any]:
    return pix_order(1_000 + number, pix={"expiresInSeconds": 60})


async def test_money_for_an_expired_code_is_kept_and_flagged(shop: Shop) -> None:
    transaction_id = (await shop.create(7_000, pix={"expiresInSeconds": 60}))["id"]
    await transactions.move_due(shop.database, now=utc_now() + timedelta(seconds=61))
    late = await shop.move(transaction_id, "paid")
    assert (late["status"], late["statusReason"]) == ("paid", "late_payment")
    assert late["cancelledAt"] is not None
    assert late["paidAt"] is not None
    assert await shop.balance() == {"available": 7_000}
    assert [entry[2] for entry in await history(shop, transaction_id)] == [
        *("pending", "cancelled", "paid"),
    ]
    # It is a payment like any other: what was due before it is off.
    await transactions.move_due(shop.database, now=utc_now() + timedelta(days=2))
    assert (await shop.read(transaction_id))["status"] == "paid"


async def test_a_live_key_is_told_about_the_sandbox_before_anything_is_looked_up(
    shop: Shop,
) -> None:
    made = await shop.create()
    for transaction_id in (made["id"], "tx_unknown", "tx_01k9zzzzzzzzzzzzzzzzzzzzzz"):
        reply = await shop.api.post(
            f"/v1/sandbox/transactions/{transaction_id}/simulate",
            key=shop.tenant.sk_live,
            json={"status": "paid"},
        )
        assert_refused(reply, ErrorCode.SANDBOX_ONLY, status=403)


@pytest.mark.parametrize("transaction_id", ["tx_unknown", "tx_01k9zzzzzzzzzzzzzzzzzzzzzz", "1"])
async def test_an_unknown_payment_cannot_be_moved(shop: Shop, transaction_id: str) -> None:
    reply = await shop.simulate(transaction_id, "paid")
    assert_refused(reply, ErrorCode.TRANSACTION_NOT_FOUND, status=404)


async def test_nobody_moves_the_payments_of_another_company(shop: Shop) -> None:
    other = await new_shop(shop.api, shop.database)
    transaction_id = (await shop.create())["id"]
    for reply in (
        await other.simulate(transaction_id, "paid"),
        await other.refund(transaction_id),
        await other.api.post(f"/v1/transactions/{transaction_id}/cancel", key=other.key),
    ):
        assert_refused(reply, ErrorCode.TRANSACTION_NOT_FOUND, status=404)
    assert (await shop.read(transaction_id))["status"] == "pending"


@pytest.mark.parametrize("status", ["PAID", "", "settled", None, 1])
async def test_an_unknown_status_is_refused_by_name(shop: Shop, status: object) -> None:
    transaction_id = (await shop.create())["id"]
    path = f"/v1/sandbox/transactions/{transaction_id}/simulate"
    reply = await shop.api.post(path, key=shop.key, json={"status": status})
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert reply.json["error"]["details"]["errors"][0]["field"] == "status"


async def test_payments_confirmed_at_once_are_answered_as_they_are_kept(shop: Shop) -> None:
    made = [(await shop.create(1_000))["id"] for _ in range(24)]
    replies = await asyncio.gather(*(shop.simulate(each, "paid") for each in made))
    assert {reply.status for reply in replies} == {200}
    for transaction_id, reply in zip(made, replies, strict=True):
        assert reply.data == await shop.read(transaction_id)
        assert (await events(shop, transaction_id))[-1]["data"]["paidAt"] == reply.data["paidAt"]
    assert await shop.balance() == {"available": 24_000}


async def test_one_payment_confirmed_many_times_at_once_is_booked_once(shop: Shop) -> None:
    transaction_id = (await shop.create(1_000))["id"]
    replies = await asyncio.gather(*(shop.simulate(transaction_id, "paid") for _ in range(24)))
    assert sorted(reply.status for reply in replies) == [200] + [409] * 23
    assert await shop.balance() == {"available": 1_000}
    assert len(await events(shop, transaction_id)) == 2


async def test_a_payment_and_its_cancellation_at_once_end_in_one_of_two_ways(shop: Shop) -> None:
    for _ in range(12):
        transaction_id = (await shop.create(1_000))["id"]
        cancel = shop.api.post(f"/v1/transactions/{transaction_id}/cancel", key=shop.key)
        paid, cancelled = await asyncio.gather(shop.simulate(transaction_id, "paid"), cancel)
        # Money that arrived is never lost, whichever came first.
        assert paid.status == 200
        data = await shop.read(transaction_id)
        assert data["status"] == "paid"
        assert data["statusReason"] == ("late_payment" if cancelled.status == 200 else None)
    assert await shop.balance() == {"available": 12_000}


class TakenBack(Exception):  # noqa: N818 - nothing went wrong
    """What a test has spoiled is put right again."""


@pytest.mark.parametrize(
    ("broken", "breach"),
    [
        ({"I6"}, "update transaction set amount = amount + 1 where refunded_amount = 0"),
        ({"I6"}, "update transaction set late_amount = 1 where status = 'paid'"),
        ({"I6"}, "update transaction set late_amount = 1 where status = 'pending'"),
        ({"I6"}, "update transaction set paid_at = null where status = 'paid'"),
        ({"I6"}, "update transaction set paid_at = now() where status = 'pending'"),
        # What left is not that payment's, or not what it says was given back.
        ({"I6", "I7a"}, "update transaction set environment = 'live' where status = 'paid'"),
        ({"I7"}, "update refund set amount = amount + 1"),
        ({"I7", "I7a"}, "delete from refund"),
        ({"I7", "I7a"}, "update transaction set refunded_amount = 0"),
        ({"I7", "I7a"}, "update refund set transaction_id = 'tx_other'"),
        ({"I7"}, "update refund set status = 'failed'"),
        ({"I11"}, "update transaction set sequence = sequence + 1"),
        ({"I11"}, "delete from transaction_history where to_status = 'paid'"),
        ({"I11"}, "update transaction_history set sequence = 9 where to_status = 'pending'"),
        ({"I11"}, "update transaction_history set from_status = 'failed' where to_status = 'paid'"),
        ({"I11"}, "update transaction_history set transaction_id = 'x' || transaction_id"),
        ({"I11"}, "delete from webhook_event where kind = 'transaction.paid'"),
        ({"I11"}, "update webhook_event set sequence = 9 where kind = 'transaction.paid'"),
        ({"I11"}, "update webhook_event set kind = 'transaction.failed' where sequence = 2"),
        ({"I11"}, "update webhook_event set entity_id = 'x' || entity_id where sequence = 2"),
        ({"I11"}, "update transaction set status = 'processing' where status = 'pending'"),
        ({"I12"}, "update transaction set idempotency_key = 'same'"),
        ({"I12"}, "update refund set idempotency_key = 'same'"),
    ],
)
async def test_a_breach_is_found_by_its_invariant_alone(
    shop: Shop, broken: set[str], breach: str
) -> None:
    await shop.create()
    await shop.paid()
    parts = await shop.paid()
    await shop.refund(parts, 100)
    await shop.refund(parts, 200)
    found: set[str] = set()
    with suppress(TakenBack):
        async with shop.database.atomic() as block:
            # The barriers that would refuse it.
            await block.execute(LOOSEN)
            where = "and" if " where " in breach else "where"
            await block.execute(f"{breach} {where} company_id = {shop.scope.company_id}")
            for invariant in INVARIANTS:
                if await block.fetch(invariant.statement):
                    found.add(invariant.name)
            raise TakenBack
    assert found == broken


LOOSEN = """
    alter table transaction drop constraint transaction_company_id_environment_idempotency_key_key;
    alter table refund drop constraint refund_company_id_transaction_id_idempotency_key_key
"""
