"""Coupons: applied to a session, reserved with a payment, free again when that comes to nothing."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from support.api import assert_refused, complaints
from support.storefront import Storefront, new_storefront
from vintem.checkout import catalogue
from vintem.checkout.model import DiscountType
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode


async def test_a_coupon_prices_the_session_anew_and_can_be_removed(store: Storefront) -> None:
    await store.coupon("Bem-Vindo", percent=20)
    basket = await store.open(shippingAmount=1_000)
    before = (await basket.read())["stateVersion"]
    reply = await basket.coupon("  bem-vindo ")
    assert reply.status == 200
    assert reply.data == {
        "sessionId": basket.session_id,
        "status": "OPEN",
        "subtotalAmount": 14_990,
        "discountAmount": 2_998,
        "shippingAmount": 1_000,
        "additionalAmount": 0,
        "totalAmount": 12_992,
        "coupon": {"code": "BEM-VINDO", "discountType": "PERCENTAGE", "appliedAmount": 2_998},
    }
    read = await basket.read()
    assert (read["totalAmount"], read["coupon"]) == (12_992, reply.data["coupon"])
    assert read["stateVersion"] > before
    removed = await basket.call("DELETE", "/coupon")
    assert (removed.status, removed.data["coupon"], removed.data["totalAmount"]) == (
        *(200, None, 15_990),
    )
    assert (await basket.call("DELETE", "/coupon")).status == 200


async def test_another_coupon_takes_the_place_of_the_first(store: Storefront) -> None:
    await store.coupon("TEN")
    await store.coupon("HALF", percent=50)
    basket = await store.open(couponCode="ten")
    assert (await basket.read())["coupon"]["code"] == "TEN"
    assert (await basket.coupon("HALF")).data["totalAmount"] == 7_495


async def test_what_is_left_to_pay_is_never_below_the_minimum(store: Storefront) -> None:
    await store.coupon("ALL", percent=100)
    basket = await store.open()
    assert (await basket.coupon("ALL")).data["totalAmount"] == 100
    assert (await basket.paid_by())["amount"] == 100
    scope, now = store.shop.scope, utc_now()
    await catalogue.create_coupon(
        store.database, scope, "BIG", DiscountType.FIXED, 1_000_000, now=now
    )
    other = await store.open(shippingAmount=500)
    data = (await other.coupon("BIG")).data
    # What sending costs is not given away.
    assert (data["discountAmount"], data["totalAmount"]) == (14_990, 500)


async def test_every_wrong_code_is_refused_with_one_answer(store: Storefront) -> None:
    now = utc_now()
    await store.coupon("OVER", ends_at=now - timedelta(seconds=1))
    await store.coupon("SOON", starts_at=now + timedelta(hours=1))
    await store.coupon("DEAR", minimum_amount=15_000)
    await store.coupon("USED", redemptions_max=1)
    await (await store.open(couponCode="USED")).paid_by()
    paused = await store.coupon("PAUSED")
    await catalogue.change_coupon(store.database, replace(paused, is_active=False), now=now)
    refusals = set()
    for code in (
        *("OVER", "SOON", "DEAR", "USED", "PAUSED", "UNKNOWN", "x", "", "é" * 10, "a" * 64),
        *("a" * 65, "\t" * 70, "b" * 200_000),
    ):
        basket = await store.open()
        reply = await basket.coupon(code)
        assert_refused(reply, ErrorCode.COUPON_INVALID, status=422)
        refusals.add(str(reply.json["error"]))
        assert (await basket.found()).wrong_codes == 1
        body = {"productId": store.product.product_id, "couponCode": code}
        assert_refused(await store.order(body), ErrorCode.COUPON_INVALID, status=422)
    assert len(refusals) == 1
    malformed = await (await store.open()).call("POST", "/coupon", {"code": 1})
    assert_refused(malformed, ErrorCode.VALIDATION_ERROR, status=400)


async def test_another_companys_coupon_is_unknown(store: Storefront) -> None:
    other = await new_storefront(store.api, store.database)
    await other.coupon("THEIRS")
    reply = await (await store.open()).coupon("THEIRS")
    assert_refused(reply, ErrorCode.COUPON_INVALID, status=422)


async def test_five_wrong_codes_lock_the_coupon_for_a_while(store: Storefront) -> None:
    await store.coupon("TEN")
    basket = await store.open()
    for _ in range(4):
        assert_refused(await basket.coupon("WRONG"), ErrorCode.COUPON_INVALID, status=422)
    # A right one in between forgives nothing.
    assert (await basket.coupon("TEN")).status == 200
    assert_refused(await basket.coupon("WRONG"), ErrorCode.COUPON_INVALID, status=422)
    for code in ("WRONG", "TEN"):
        reply = await basket.coupon(code)
        assert_refused(reply, ErrorCode.COUPON_LOCKED, status=429)
        assert 890 < int(reply.headers["Retry-After"]) <= 900
    assert (await basket.call("DELETE", "/coupon")).status == 200
    assert (await (await store.open()).coupon("TEN")).status == 200
    await basket.age(timedelta(minutes=15))
    assert (await basket.coupon("TEN")).status == 200
    assert_refused(await basket.coupon("WRONG"), ErrorCode.COUPON_INVALID, status=422)
    assert (await basket.found()).wrong_codes == 1


async def test_wrong_codes_at_the_same_time_are_all_counted(store: Storefront) -> None:
    basket = await store.open()
    replies = await asyncio.gather(*(basket.coupon("WRONG") for _ in range(12)))
    assert sorted(reply.status for reply in replies) == [422] * 5 + [429] * 7


async def test_a_redemption_is_reserved_freed_and_final(store: Storefront) -> None:
    await store.coupon("TEN", redemptions_max=1)
    first = await store.open(couponCode="TEN")
    second = await store.open(couponCode="TEN")
    pix = await first.paid_by()
    assert await store.redemptions() == 1
    assert_refused(await second.pay(), ErrorCode.COUPON_INVALID, status=422)
    assert (await second.found()).payments_tried == 0
    await first.age(timedelta(hours=1))
    await store.work()
    assert await store.redemptions() == 0
    other = await second.paid_by()
    await store.shop.move(other["transactionId"], "paid")
    assert await store.redemptions() == 1
    # Late money counts, even above the maximum.
    await store.shop.move(pix["transactionId"], "paid")
    assert await store.redemptions() == 2
    await store.shop.move(other["transactionId"], "refunded")
    assert await store.redemptions() == 2
    assert await complaints(store.database) == {}


async def test_a_refused_card_frees_its_redemption(store: Storefront) -> None:
    await store.coupon("TEN", redemptions_max=1)
    basket = await store.open(couponCode="TEN")
    assert (await basket.pay_by_card("0002")).data["payment"]["status"] == "failed"
    assert await store.redemptions() == 0
    assert (await basket.pay_by_card()).data["status"] == "COMPLETED"
    assert await store.redemptions() == 1
    assert await complaints(store.database) == {}


@pytest.mark.parametrize("change", ["apply", "remove"])
async def test_another_price_supersedes_what_waits_to_be_paid(
    store: Storefront, change: str
) -> None:
    await store.coupon("TEN")
    basket = await store.open(**({} if change == "apply" else {"couponCode": "TEN"}))
    first = await basket.paid_by()
    if change == "apply":
        await basket.coupon("TEN")
    else:
        await basket.call("DELETE", "/coupon")
    read = await basket.read()
    assert (read["payment"], read["pageState"], read["status"]) == (
        *(None, "open", "AWAITING_PAYMENT"),
    )
    old = await store.shop.read(first["transactionId"])
    assert (old["status"], old["statusReason"]) == ("cancelled", "superseded")
    second = await basket.paid_by()
    assert second["amount"] == read["totalAmount"] != first["amount"]
    # What was superseded with the coupon can still be paid with it.
    assert await store.redemptions() == 1
    assert await complaints(store.database) == {}


async def test_the_same_coupon_again_changes_nothing(store: Storefront) -> None:
    await store.coupon("TEN")
    basket = await store.open(couponCode="TEN")
    first = await basket.paid_by()
    assert (await basket.coupon("ten")).status == 200
    assert (await basket.pay()).data["transactionId"] == first["transactionId"]
    assert (await basket.found()).coupon is not None
    assert await store.redemptions() == 1


async def test_a_coupon_applied_while_paying_never_splits_price_and_payment(
    store: Storefront,
) -> None:
    await store.coupon("TEN")
    for _ in range(6):
        basket = await store.open()
        await asyncio.gather(basket.pay(), basket.coupon("TEN"), basket.pay())
        read = await basket.read()
        if read["payment"] is not None:
            payment = await store.shop.read(read["payment"]["transactionId"])
            assert payment["amount"] == read["totalAmount"]
    assert await complaints(store.database) == {}
