"""A payment of a session whose acquirer has not answered: a repeat waits, then comes back."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from checkout.conftest import faulty
from support.api import HttpReply, assert_refused, complaints
from support.storefront import Basket, buyer
from vintem.kit.clock import public_time, utc_now
from vintem.kit.errors import ErrorCode
from vintem.providers.faults import Fault
from vintem.runtime.db import Database
from vintem.settings import Settings

KEY = "k-1"


@dataclass(frozen=True)
class Held:
    """A first call that waits for a slow acquirer, and the payment that it has written down."""

    basket: Basket
    order: dict[str, Any]
    transaction_id: str
    first: "asyncio.Task[HttpReply]"

    async def again(self, **changed: object) -> tuple[HttpReply, float]:
        """What a repeat is answered, and after how many seconds."""
        began = time.monotonic()
        reply = await self.basket.pay(key=KEY, **{**self.order, **changed})
        return reply, time.monotonic() - began

    async def begun(self, moment: datetime) -> None:
        """Let the first call have begun at a moment."""
        await self.basket.store.database.execute(
            "update transaction set created_at = $3 where company_id = $1 and transaction_id = $2",
            self.basket.store.company_id,
            self.transaction_id,
            moment,
        )


@pytest.fixture
async def held(settings: Settings, database: Database) -> AsyncIterator[Held]:
    async with faulty(settings, database, Fault.SLOW_ANSWERS) as (store, _):
        basket = await store.open()
        order = {"paymentMethod": "credit_card", "card": {"token": await basket.card_token()}}
        async with first_call(basket, order) as first:
            yield Held(basket, order, await written_down(basket), first)
            assert (await first).status == 201
        assert await complaints(database) == {}


@asynccontextmanager
async def first_call(
    basket: Basket, order: dict[str, Any]
) -> AsyncIterator["asyncio.Task[HttpReply]"]:
    first = asyncio.create_task(basket.pay(key=KEY, **order))
    try:
        yield first
    finally:
        await asyncio.wait({first})


async def written_down(basket: Basket) -> str:
    """The id of a session's only payment, once there is one."""
    async with asyncio.timeout(10):
        while True:
            transaction_id: str | None = await basket.store.database.fetchval(
                "select transaction_id from transaction"
                " where company_id = $1 and checkout_session_id = $2",
                basket.store.company_id,
                basket.session_id,
            )
            if transaction_id is not None:
                return transaction_id
            await asyncio.sleep(0.02)


async def test_a_repeat_in_flight_waits_a_second_and_is_told_to_come_back(held: Held) -> None:
    reply, seconds = await held.again()
    assert 0.9 < seconds < 2.5
    assert_refused(reply, ErrorCode.IDEMPOTENCY_IN_PROGRESS, status=409)
    assert reply.headers["Retry-After"] == "1"
    assert reply.headers["X-Idempotency-Key"] == KEY
    assert "X-Idempotency-Replayed" not in reply.headers
    other, _ = await held.again(customer=buyer(name="Outra Pessoa"))
    assert_refused(other, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
    made = await held.first
    assert (made.status, made.data["transactionId"]) == (201, held.transaction_id)
    assert made.data["payment"]["status"] == "paid"
    after, _ = await held.again()
    assert (after.status, after.data) == (200, made.data)
    assert after.headers["X-Idempotency-Replayed"] == "true"
    charges = await held.basket.store.database.fetchval(
        "select count(*) from simulator_charge where company_id = $1", held.basket.store.company_id
    )
    assert charges == 1


async def test_a_repeat_that_comes_just_before_the_answer_gets_it(held: Held) -> None:
    replies = []
    while not held.first.done():
        replies.append(asyncio.create_task(held.again()))
        await asyncio.sleep(0.25)
    answered = [reply for reply, _ in await asyncio.gather(*replies)]
    assert {reply.status for reply in answered} == {200, 409}
    made = (await held.first).data
    assert [each.data for each in answered if each.status == 200 and each.data != made] == []


async def test_a_first_call_of_less_than_30_seconds_ago_is_waited_for(held: Held) -> None:
    await held.begun(utc_now() - timedelta(seconds=28))
    reply, seconds = await held.again()
    assert_refused(reply, ErrorCode.IDEMPOTENCY_IN_PROGRESS, status=409)
    assert seconds > 0.9


async def test_a_first_call_of_more_than_30_seconds_ago_is_replayed_as_it_is(held: Held) -> None:
    long_ago = utc_now() - timedelta(seconds=30)
    await held.begun(long_ago)
    reply, seconds = await held.again()
    assert seconds < 0.9
    assert (reply.status, reply.data["payment"]["status"]) == (200, "processing")
    assert reply.data["transactionId"] == held.transaction_id
    assert reply.headers["X-Idempotency-Replayed"] == "true"
    assert reply.headers["X-Idempotency-Processed-At"] == public_time(long_ago)


async def test_whoever_sends_no_key_is_shown_the_payment_in_flight(held: Held) -> None:
    reply = await held.basket.pay()
    assert (reply.status, reply.data["payment"]["status"]) == (200, "processing")
    assert reply.data["transactionId"] == held.transaction_id
