"""Refunds that a provider tells us of: money has left, so each is in the books exactly once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from support.acquirer import alarms, send, send_all, state_of, told
from support.api import Shop, assert_refused, complaints, new_shop
from support.cards import charge, events_of, suspense
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.transactions import service as transactions

REPEATS = 16


@pytest.fixture(autouse=True)
async def _books(database: Database) -> AsyncIterator[None]:
    """Whatever a test did, the books agree when it is done."""
    yield
    assert await complaints(database) == {}


@pytest.fixture
async def shop(api: Any, database: Database) -> Shop:
    return await new_shop(api, database)


def done(shop: Shop, reference: str, amount: int = 10_000, **changed: object) -> dict[str, Any]:
    return told(shop, "refund.done", reference, amount=amount, **changed)


async def left_bank(shop: Shop) -> int:
    """What has left for good, wherever it came from, besides what came in."""
    total = await shop.database.fetchval(
        """
        select sum(leg.amount) from posting cross join lateral unnest(codes, amounts)
            as leg (code, amount)
        where company_id = $1 and kind <> 'capture' and leg.code in ('bank', 'receivable')
        """,
        shop.scope.company_id,
    )
    return int(total or 0)


async def assert_missed(shop: Shop, notice: dict[str, Any], cause: str) -> None:
    """Hold one callback, told many times, against one booking of what left and one alarm."""
    before, counted, left = await suspense(shop), alarms(cause), await left_bank(shop)
    await asyncio.gather(*(send(shop.api, notice) for _ in range(4)))
    assert await state_of(shop, notice["callbackId"]) == ("unclaimed", cause)
    assert await suspense(shop) == before - notice["amount"]
    assert await left_bank(shop) == left + notice["amount"]
    assert alarms(cause) == counted + 1


# The provider's own


@pytest.mark.parametrize("method", ["pix", "credit_card"])
async def test_a_whole_refund_of_the_provider_s_own_is_booked_once(shop: Shop, method: str) -> None:
    made = await shop.paid() if method == "pix" else (await charge(shop)).data["id"]
    notice = done(shop, made, message="Returned by the bank")
    replies = await asyncio.gather(*(send(shop.api, notice) for _ in range(REPEATS)))
    assert Counter(reply.data["isRepeat"] for reply in replies) == {False: 1, True: REPEATS - 1}
    shown = await shop.read(made)
    assert (shown["status"], shown["refundedAmount"]) == ("refunded", 10_000)
    [refund] = shown["refunds"]
    assert (refund["amount"], refund["status"]) == (10_000, "completed")
    assert refund["reason"] == "Returned by the bank"
    assert await events_of(shop, refund["id"]) == ["refund.completed"]
    assert (await events_of(shop, made))[-1] == "refunded"
    assert await state_of(shop, notice["callbackId"]) == ("applied", None)
    assert (await shop.balance(), await suspense(shop)) == ({}, 0)


async def test_partial_refunds_of_the_provider_s_own_add_up_and_no_further(shop: Shop) -> None:
    made = await shop.paid()
    # Names of the payment's own transfer say nothing about which return is meant.
    parts = [done(shop, made, amount, endToEndId="E1") for amount in (3_000, 3_000, 1_000)]
    await asyncio.gather(*(send(shop.api, part) for part in parts for _ in range(4)))
    shown = await shop.read(made)
    assert (shown["status"], shown["refundedAmount"]) == ("paid", 7_000)
    assert sorted(refund["amount"] for refund in shown["refunds"]) == [1_000, 3_000, 3_000]
    assert await shop.balance() == {"available": 3_000}
    await assert_missed(shop, done(shop, made, 3_001), "exceeds_amount")
    await send_all(shop.api, [done(shop, made, 3_000)])
    assert (await shop.read(made))["status"] == "refunded"
    await assert_missed(shop, done(shop, made, 1), "is_refunded")
    assert await left_bank(shop) == 10_000 + 3_001 + 1


async def test_a_return_told_under_two_ids_is_known_by_its_own_name(shop: Shop) -> None:
    made = await shop.paid()
    first, again = (done(shop, made, 2_000, endToEndId="D1") for _ in range(2))
    await send_all(shop.api, [first, again, done(shop, "?", 2_000, endToEndId="D1")])
    assert await state_of(shop, again["callbackId"]) == ("ignored", "repeated")
    assert (await shop.read(made))["refundedAmount"] == 2_000
    await send_all(shop.api, [done(shop, made, 2_000, endToEndId="D2")])
    assert (await shop.read(made))["refundedAmount"] == 4_000
    assert await suspense(shop) == 0


async def test_what_a_merchant_would_be_refused_is_booked_all_the_same(shop: Shop) -> None:
    made = await shop.paid()
    await shop.database.execute(
        "update transaction set paid_at = paid_at - interval '91 days' where company_id = $1",
        shop.scope.company_id,
    )
    assert_refused(await shop.refund(made), ErrorCode.REFUND_WINDOW_EXPIRED, status=422)
    await send_all(shop.api, [done(shop, made, 4_000)])
    assert (await shop.read(made))["refundedAmount"] == 4_000


async def test_what_the_company_no_longer_has_becomes_its_debt(shop: Shop) -> None:
    await shop.charge(fixed_cents=1_000)
    made = await shop.paid()
    await send_all(shop.api, [done(shop, made, 4_000), done(shop, made, 6_000)])
    assert await shop.balance() == {"debt": 1_000}


@pytest.mark.parametrize("held", ["blocked", "pre_chargeback"])
async def test_a_part_of_what_is_held_leaves_from_there(shop: Shop, held: str) -> None:
    await shop.agree(reserve_basis_points=1_000, pix_release_days=30)
    made = await shop.paid()
    before = await shop.balance()
    await shop.move(made, held)
    await send_all(shop.api, [done(shop, made, 2_500)])
    shown = await shop.read(made)
    assert (shown["status"], shown["refundedAmount"]) == (held, 2_500)
    assert (await shop.balance())["reserve"] == 7_500
    await shop.move(made, "paid")
    assert await shop.balance() == {**before, "waitingFunds": before["waitingFunds"] - 2_500}
    await shop.move(made, held)
    await send_all(shop.api, [done(shop, made, 7_500)])
    shown = await shop.read(made)
    assert (shown["status"], shown["refundedAmount"]) == ("refunded", 10_000)
    assert await shop.balance() == {}
    assert await events_of(shop, made) == ["pending", "paid", held, "paid", held, "refunded"]


async def test_after_a_part_has_left_a_lost_dispute_takes_the_rest_alone(shop: Shop) -> None:
    made = await shop.paid()
    await shop.move(made, "pre_chargeback")
    await send_all(shop.api, [done(shop, made, 2_500)])
    await shop.move(made, "chargeback")
    assert await left_bank(shop) == 10_000
    await shop.move(made, "paid")
    assert await shop.balance() == {"available": 7_500}


@pytest.mark.parametrize("status", ["paid", "pre_chargeback"])
async def test_a_pix_that_was_returned_over_its_head_is_a_lost_dispute(
    shop: Shop, status: str
) -> None:
    await shop.agree(dispute_fee_cents=500)
    made = await shop.paid()
    if status != "paid":
        await shop.move(made, status)
    notice = done(shop, made, code="FR01")
    await send_all(shop.api, [notice, notice])
    shown = await shop.read(made)
    assert (shown["status"], shown["refundedAmount"]) == ("chargeback", 0)
    assert await state_of(shop, notice["callbackId"]) == ("applied", "dispute")
    assert await shop.balance() == {"debt": 500}


# Refunds that we asked for


async def test_word_of_a_refund_that_we_asked_for_refunds_nothing_more(shop: Shop) -> None:
    made = await shop.paid()
    first, second = [(await shop.refund(made, amount)).data["id"] for amount in (5_000, 2_000)]
    by_amount, by_name = done(shop, made, 5_000), done(shop, second, 2_000)
    await send_all(shop.api, [by_amount, by_name, by_amount])
    for notice in (by_amount, by_name):
        assert await state_of(shop, notice["callbackId"]) == ("applied", "confirmed")
    again = done(shop, first, 5_000)
    await send_all(shop.api, [again])
    assert await state_of(shop, again["callbackId"]) == ("ignored", "repeated")
    assert (await shop.read(made))["refundedAmount"] == 7_000
    assert (await shop.balance(), await suspense(shop)) == ({"available": 3_000}, 0)
    # Each is confirmed once: what is told beside them is the provider's own.
    await send_all(shop.api, [done(shop, made, 2_000)])
    assert (await shop.read(made))["refundedAmount"] == 9_000


async def test_a_whole_refund_that_was_confirmed_is_not_confirmed_again(shop: Shop) -> None:
    made = await shop.paid()
    await shop.move(made, "refunded")
    await send_all(shop.api, [done(shop, made)])
    assert await suspense(shop) == 0
    await assert_missed(shop, done(shop, made), "is_refunded")


@pytest.mark.parametrize("amount", [4_999, 5_001])
async def test_what_left_beside_the_refund_we_asked_for_is_kept_in_suspense(
    shop: Shop, amount: int
) -> None:
    made = await shop.paid()
    refund_id = (await shop.refund(made, 5_000)).data["id"]
    counted = alarms("amount_mismatch")
    notice = done(shop, refund_id, amount)
    await send_all(shop.api, [notice, notice])
    assert await state_of(shop, notice["callbackId"]) == ("unclaimed", "amount_mismatch")
    assert (await suspense(shop), await left_bank(shop)) == (5_000 - amount, amount)
    assert alarms("amount_mismatch") == counted + 1
    assert (await shop.read(made))["refundedAmount"] == 5_000


# Payments that cannot be refunded


async def test_a_refund_of_nothing_we_know_is_kept_in_suspense(shop: Shop) -> None:
    stranger = await new_shop(shop.api, shop.database)
    theirs = await stranger.paid()
    their_refund = (await stranger.refund(theirs, 1_000)).data["id"]
    for reference in ("?", "rf_01jd0000000000000000000000", theirs, their_refund):
        await assert_missed(shop, done(shop, reference, 1_000), "unknown_reference")
    assert (await stranger.read(theirs))["refundedAmount"] == 1_000


async def test_a_refund_of_a_payment_that_failed_empties_its_suspense(shop: Shop) -> None:
    made = await shop.create()
    await shop.move(made["id"], "failed")
    await send_all(shop.api, [told(shop, "payment.received", made["id"], endToEndId="E1")])
    assert await suspense(shop) == 10_000
    back = done(shop, made["id"])
    await send_all(shop.api, [back])
    assert await state_of(shop, back["callbackId"]) == ("applied", "was_unclaimed")
    assert await suspense(shop) == 0
    # What is given back once more was never here.
    await assert_missed(shop, done(shop, made["id"]), "is_failed")


async def test_a_refund_of_a_charged_back_payment_is_kept_in_suspense(shop: Shop) -> None:
    made = await shop.paid()
    await shop.move(made, "chargeback")
    await assert_missed(shop, done(shop, made), "is_chargeback")
    assert (await shop.read(made))["status"] == "chargeback"


async def test_a_refund_told_before_its_payment_waits_for_it(shop: Shop) -> None:
    made = await shop.create()
    early = done(shop, made["id"], 4_000)
    await send_all(shop.api, [early])
    assert await state_of(shop, early["callbackId"]) == ("waiting", None)
    await send_all(shop.api, [told(shop, "payment.received", made["id"], endToEndId="E1")])
    shown = await shop.read(made["id"])
    assert (shown["status"], shown["refundedAmount"]) == ("paid", 4_000)


async def test_a_refund_whose_payment_never_comes_does_not_wait_for_ever(shop: Shop) -> None:
    made = await shop.create()
    early = done(shop, made["id"])
    await send_all(shop.api, [early])
    await transactions.look_again(shop.database, now=utc_now() + timedelta(minutes=9))
    assert await state_of(shop, early["callbackId"]) == ("waiting", None)
    await transactions.look_again(shop.database, now=utc_now() + timedelta(minutes=11))
    assert await state_of(shop, early["callbackId"]) == ("unclaimed", "is_pending")
    assert await suspense(shop) == -10_000


async def test_a_refund_that_was_overtaken_in_its_provider_s_count_is_booked(shop: Shop) -> None:
    made = (await charge(shop)).data
    late = done(shop, made["id"], 4_000, sequence=1)
    overtaking = told(shop, "dispute.opened", made["id"], sequence=2)
    await send_all(shop.api, [overtaking])
    await transactions.look_again(shop.database, now=utc_now() + timedelta(minutes=11))
    assert (await shop.read(made["id"]))["status"] == "pre_chargeback"
    await send_all(shop.api, [late])
    assert await state_of(shop, late["callbackId"]) == ("applied", None)
    assert (await shop.read(made["id"]))["refundedAmount"] == 4_000
