"""Many callers want the same thing of two API processes at once: it happens once."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import pytest

from support.api import (
    TEST_PEPPER,
    Api,
    HttpReply,
    Shop,
    assert_refused,
    complaints,
    new_shop,
    pix_order,
)
from support.platform import client, fresh_database, private_folder, served
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.runtime.migrations import migrate

CALLS = 64
# More by a switch: PROOF_KEYS=10000.
KEYS = int(os.environ.get("PROOF_KEYS", "100"))
# As many connections as a machine with everything on it can serve in good time.
KEYS_AT_ONCE = 5


@dataclass(frozen=True)
class Counters:
    """One company, seen through two API processes."""

    shops: Sequence[Shop]

    def nth(self, number: int) -> Shop:
        return self.shops[number % len(self.shops)]


@pytest.fixture(scope="module")
async def processes() -> AsyncIterator[tuple[Database, Sequence[Api]]]:
    """Two API processes on one database."""
    url = await fresh_database()
    settings = {"DATABASE_URL": url, "VINTEM_PEPPER": TEST_PEPPER}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(private_folder())
        database = Database(url)
        await database.open()
        stack.push_async_callback(database.close)
        await migrate(database)
        running = [
            await stack.enter_async_context(served(folder / name, settings=settings))
            for name in ("one", "two")
        ]
        yield database, [await stack.enter_async_context(client(each)) for each in running]


@pytest.fixture
async def counters(processes: tuple[Database, Sequence[Api]]) -> AsyncIterator[Counters]:
    database, apis = processes
    shop = await new_shop(apis[0], database)
    yield Counters([replace(shop, api=api) for api in apis])
    assert await complaints(database) == {}


@pytest.mark.timeout(300)
async def test_a_storm_of_one_key_makes_one_payment_whoever_answers(counters: Counters) -> None:
    for first in range(0, KEYS, KEYS_AT_ONCE):
        numbers = range(first, min(first + KEYS_AT_ONCE, KEYS))
        replies = await asyncio.gather(
            *(create(counters.nth(call), number) for call in range(CALLS) for number in numbers)
        )
        made: dict[int, list[HttpReply]] = {number: [] for number in numbers}
        for number, reply in zip([*numbers] * CALLS, replies, strict=True):
            if reply.status in {200, 201}:
                made[number].append(reply)
            else:
                assert_refused(reply, ErrorCode.IDEMPOTENCY_IN_PROGRESS, status=409)
        for number, shown in made.items():
            assert len({reply.data["id"] for reply in shown}) == 1
            assert {reply.data["amount"] for reply in shown} == {1_000 + number}
            assert Counter(reply.status for reply in shown)[201] == 1
    shop = counters.nth(0)
    row = await shop.database.fetchrow(
        """
        select count(*) as made, count(distinct idempotency_key) as keys
        from transaction where company_id = $1
        """,
        shop.scope.company_id,
    )
    assert row is not None
    assert (row["made"], row["keys"]) == (KEYS, KEYS)


@pytest.mark.timeout(300)
async def test_a_storm_of_bodies_under_one_key_makes_one_payment(counters: Counters) -> None:
    for key in range(10):
        replies = await asyncio.gather(
            *(
                counters.nth(call // 4).order(
                    pix_order(1_000 + call % 4), idempotency_key=f"b-{key}"
                )
                for call in range(CALLS)
            )
        )
        shown = [reply.data for reply in replies if reply.status in {200, 201}]
        assert len({(data["id"], data["amount"]) for data in shown}) == 1
        for reply in replies:
            if reply.status not in {200, 201}:
                assert_refused(reply, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
        assert len(shown) == CALLS // 4


@pytest.mark.timeout(300)
async def test_a_race_of_refunds_never_gives_back_more_than_was_paid(counters: Counters) -> None:
    shop = counters.nth(0)
    for amount, part in ((10_000, 300), (6_400, 100), (5_000, 4_999)):
        transaction_id = await shop.paid(amount)
        replies = await refund_at_once(counters, transaction_id, part)
        made = [reply for reply in replies if reply.status in {200, 201}]
        assert len(made) == amount // part
        data = await shop.read(transaction_id)
        assert data["refundedAmount"] == len(made) * part <= amount
        assert len(data["refunds"]) == len(made)
        refused = ErrorCode.REFUND_EXCEEDS_AMOUNT if amount % part else None
        for reply in replies:
            if reply not in made:
                assert refused is not None
                assert_refused(reply, refused, status=422)


@pytest.mark.timeout(300)
async def test_the_last_cent_is_given_back_once_by_either_process(counters: Counters) -> None:
    shop = counters.nth(0)
    for _ in range(3):
        transaction_id = await shop.paid(1_000)
        assert (await shop.refund(transaction_id, 999)).status == 201
        replies = await refund_at_once(counters, transaction_id, 1)
        assert Counter(reply.status for reply in replies) == {201: 1, 409: CALLS - 1}
        assert (await shop.read(transaction_id))["status"] == "refunded"
    assert await shop.balance() == {}


async def create(shop: Shop, number: int) -> HttpReply:
    return await shop.order(pix_order(1_000 + number), idempotency_key=f"storm-{number}")


async def refund_at_once(
    counters: Counters, transaction_id: str, amount: int
) -> Sequence[HttpReply]:
    """Ask for the same part as often as there are callers, each with a key of its own."""

    async def ask(caller: int) -> HttpReply:
        while True:
            reply = await counters.nth(caller).refund(
                transaction_id, amount, idempotency_key=f"refund-{caller}"
            )
            # Too many want the same row: an integrator tries again with the same key.
            if reply.status != 503:
                return reply
            await asyncio.sleep(0.2)

    return await asyncio.gather(*(ask(caller) for caller in range(CALLS)))
