"""Many buyers, or one with many hands, want the same session or coupon of two API processes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from support.api import TEST_PEPPER, Api, HttpReply, assert_refused, complaints
from support.platform import client, fresh_database, private_folder, served
from support.storefront import Basket, Storefront, new_storefront
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.runtime.migrations import migrate

CALLS = 32
WIDE = {
    f"VINTEM_PUBLIC_{what}": "1000000"
    for what in (
        *("READS_OF_ONE_PER_MINUTE", "READS_PER_MINUTE", "COUPONS_PER_MINUTE"),
        *("PAYMENTS_PER_MINUTE", "CARD_TOKENS_PER_MINUTE", "REFUSED_CARDS_PER_HOUR"),
    )
}


@pytest.fixture(scope="module")
async def stores() -> AsyncIterator[Sequence[Storefront]]:
    """One company, seen through two API processes on one database."""
    url = await fresh_database()
    settings = {"DATABASE_URL": url, "VINTEM_PEPPER": TEST_PEPPER, **WIDE}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(private_folder())
        database = Database(url)
        await database.open()
        stack.push_async_callback(database.close)
        await migrate(database)
        running = await asyncio.gather(
            *(
                stack.enter_async_context(served(folder / name, settings=settings))
                for name in ("one", "two")
            )
        )
        apis = [await stack.enter_async_context(client(each)) for each in running]
        store = await new_storefront(apis[0], database)
        yield [through(store, api) for api in apis]
        assert await complaints(database) == {}


def through(store: Storefront, api: Api) -> Storefront:
    return replace(store, shop=replace(store.shop, api=api))


def hands(stores: Sequence[Storefront], basket: Basket) -> Sequence[Basket]:
    """The same session, held at both processes by turns."""
    return [replace(basket, store=stores[number % 2]) for number in range(CALLS)]


async def count_payments(store: Storefront, basket: Basket) -> int:
    return int(
        await store.database.fetchval(
            "select count(*) from transaction where company_id = $1 and checkout_session_id = $2",
            store.company_id,
            basket.session_id,
        )
    )


async def test_a_storm_of_pays_makes_one_pix(stores: Sequence[Storefront]) -> None:
    for _ in range(3):
        basket = await stores[0].open()
        replies = await asyncio.gather(*(hand.pay() for hand in hands(stores, basket)))
        assert sorted(reply.status for reply in replies) == [200] * (CALLS - 1) + [201]
        assert len({reply.data["transactionId"] for reply in replies}) == 1
        assert len({reply.data["pixQrCode"] for reply in replies}) == 1
        assert await count_payments(stores[0], basket) == 1


async def test_a_storm_of_cards_charges_one(stores: Sequence[Storefront]) -> None:
    basket = await stores[0].open()
    tokens = await asyncio.gather(*(hand.card_token() for hand in hands(stores, basket)))

    async def charge(hand: Basket, token: str) -> HttpReply:
        return await hand.pay(paymentMethod="credit_card", card={"token": token})

    replies = await asyncio.gather(
        *(charge(hand, token) for hand, token in zip(hands(stores, basket), tokens, strict=True))
    )
    for reply in replies:
        # Whoever comes when it is done is told so.
        if reply.status == 410:
            assert_refused(reply, ErrorCode.SESSION_COMPLETED, status=410)
    shown = [reply for reply in replies if reply.status in {200, 201}]
    assert len(shown) + sum(reply.status == 410 for reply in replies) == CALLS
    assert sum(reply.status == 201 for reply in shown) == 1
    assert len({reply.data["transactionId"] for reply in shown}) == 1
    assert await count_payments(stores[0], basket) == 1
    assert (await basket.read())["status"] == "COMPLETED"


async def test_a_coupon_for_five_is_redeemed_by_five(stores: Sequence[Storefront]) -> None:
    store = stores[0]
    await store.coupon("FIVE", redemptions_max=5)
    baskets = await asyncio.gather(
        *(stores[number % 2].open(couponCode="FIVE") for number in range(50))
    )
    replies = await asyncio.gather(*(basket.pay() for basket in baskets))
    paid = [reply for reply in replies if reply.status == 201]
    assert len(paid) == 5
    for reply in replies:
        if reply.status != 201:
            assert_refused(reply, ErrorCode.COUPON_INVALID, status=422)
    assert await store.redemptions("FIVE") == 5
    await asyncio.gather(*(store.shop.move(each.data["transactionId"], "paid") for each in paid))
    assert await store.redemptions("FIVE") == 5


async def test_paying_and_being_paid_at_once_loses_nothing(stores: Sequence[Storefront]) -> None:
    store = stores[0]
    await store.coupon("TEN")
    for _ in range(4):
        basket = await store.open(couponCode="TEN")
        pix = await basket.paid_by()
        other = replace(basket, store=stores[1])
        await asyncio.gather(
            store.shop.move(pix["transactionId"], "paid"),
            other.call("DELETE", "/coupon"),
            other.pay(),
            basket.pay_by_boleto(),
        )
        read = await basket.read()
        assert (read["status"], read["payment"]["transactionId"]) == (
            *("COMPLETED", pix["transactionId"]),
        )
        await store.work()
