"""What is charged and what is said: never another amount than the one that was shown."""

from typing import Any

from support.api import assert_refused, complaints
from support.meanwhile import change_meanwhile, without_coupon
from support.storefront import Storefront
from vintem.kit.errors import ErrorCode


async def test_a_card_is_not_charged_a_price_that_came_meanwhile(store: Storefront) -> None:
    await store.coupon()
    basket = await store.open(couponCode="TEN")
    token = await basket.card_token()
    body: dict[str, Any] = {"paymentMethod": "credit_card", "card": {"token": token}}
    reply = await change_meanwhile(basket, basket.pay(**body), without_coupon)
    assert_refused(reply, ErrorCode.INVALID_STATE, status=409)
    assert (await basket.found()).payments_tried == 0
    # Whoever has seen the new price may pay it, with the same card.
    paid = await basket.paid_by(**body)
    assert (paid["status"], paid["amount"]) == ("COMPLETED", 14_990)
    assert await complaints(store.database) == {}


async def test_a_pix_is_made_for_the_price_that_came_meanwhile(store: Storefront) -> None:
    await store.coupon()
    basket = await store.open(couponCode="TEN")
    reply = await change_meanwhile(basket, basket.pay(), without_coupon)
    # Its buyer sees the amount before anything is paid.
    assert (reply.status, reply.data["amount"]) == (201, 14_990)
    assert await complaints(store.database) == {}
