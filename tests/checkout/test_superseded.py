"""Codes that another has taken the place of can still be paid: what is said and held until then."""

from datetime import timedelta

import msgspec
import pytest

from support.api import assert_refused, complaints
from support.storefront import Storefront, buyer
from vintem.checkout import service as checkout
from vintem.kit.clock import public_time, utc_now
from vintem.kit.errors import ErrorCode


@pytest.mark.parametrize("has_coupon", [True, False])
async def test_a_session_states_what_was_paid_although_its_price_changed_since(
    store: Storefront, has_coupon: bool
) -> None:
    await store.coupon()
    basket = await store.open(**({"couponCode": "TEN"} if has_coupon else {}))
    paid = await basket.paid_by()
    if has_coupon:
        await basket.call("DELETE", "/coupon")
    else:
        await basket.coupon("TEN")
    assert (await basket.read())["totalAmount"] != paid["amount"]
    await store.shop.move(paid["transactionId"], "paid")
    read = await basket.read()
    applied = {"code": "TEN", "discountType": "PERCENTAGE", "appliedAmount": 1_499}
    assert (read["totalAmount"], read["coupon"]) == (
        *(paid["amount"], applied if has_coupon else None),
    )
    told = await store.database.fetchval(
        """
        select body from webhook_event
        where company_id = $1 and entity_id = $2 and kind = 'checkout.session.completed'
        """,
        store.company_id,
        basket.session_id,
    )
    event = msgspec.json.decode(told)
    assert event["data"]["totalAmount"] == paid["amount"]
    assert event["data"]["discountAmount"] == (1_499 if has_coupon else 0)
    assert event["data"]["coupon"] == (applied if has_coupon else None)
    assert await store.redemptions() == has_coupon
    assert await complaints(store.database) == {}


async def test_a_coupon_for_one_is_not_freed_by_whoever_can_still_pay_with_it(
    store: Storefront,
) -> None:
    await store.coupon(redemptions_max=1)
    first, second = await store.open(couponCode="TEN"), await store.open(couponCode="TEN")
    pix = await first.paid_by()
    await first.call("DELETE", "/coupon")
    assert await store.redemptions() == 1
    assert_refused(await second.pay(), ErrorCode.COUPON_INVALID, status=422)
    third = await store.open()
    assert_refused(await third.coupon("TEN"), ErrorCode.COUPON_INVALID, status=422)
    await store.shop.move(pix["transactionId"], "paid")
    assert (await first.read())["totalAmount"] == 13_491
    assert await store.redemptions() == 1
    assert_refused(await second.pay(), ErrorCode.COUPON_INVALID, status=422)
    assert await complaints(store.database) == {}


async def test_a_superseded_code_gives_its_coupon_back_when_its_own_time_is_over(
    store: Storefront,
) -> None:
    await store.coupon(redemptions_max=1)
    first, second = await store.open(couponCode="TEN"), await store.open(couponCode="TEN")
    pix = await first.paid_by()
    await first.call("DELETE", "/coupon")
    await store.work()
    assert await store.redemptions() == 1
    before = (await first.read())["stateVersion"]
    await first.age(timedelta(hours=1))
    await store.work()
    assert await store.redemptions() == 0
    # Nothing that the buyer sees has changed.
    assert (await first.read())["stateVersion"] == before
    ended = await store.shop.read(pix["transactionId"])
    assert (ended["status"], ended["statusReason"]) == ("cancelled", "superseded")
    other = await second.paid_by()
    await store.shop.move(other["transactionId"], "paid")
    # Money that comes after the code's own end counts all the same.
    await store.shop.move(pix["transactionId"], "paid")
    assert await store.redemptions() == 2
    assert await complaints(store.database) == {}


async def test_a_session_may_use_what_it_holds_itself(store: Storefront) -> None:
    await store.coupon(redemptions_max=1)
    basket, other = await store.open(couponCode="TEN"), await store.open(couponCode="TEN")
    pix = await basket.paid_by()
    # The same code again, or after it was removed, is not a wrong one.
    assert (await basket.coupon("ten")).status == 200
    assert (await basket.read())["payment"]["transactionId"] == pix["transactionId"]
    await basket.call("DELETE", "/coupon")
    assert (await basket.coupon("TEN")).data["totalAmount"] == 13_491
    assert (await basket.found()).wrong_codes == 0
    # A card that is refused frees nothing while the code can be paid.
    assert (await basket.pay_by_card("0002")).data["amount"] == 13_491
    assert await store.redemptions() == 1
    assert_refused(await other.pay(), ErrorCode.COUPON_INVALID, status=422)
    assert (await basket.pay_by_card()).data["status"] == "COMPLETED"
    assert await store.redemptions() == 1
    assert await complaints(store.database) == {}


async def test_a_session_makes_three_slips_and_lasts_as_long_as_each(
    store: Storefront,
) -> None:
    basket = await store.open(expiresAt=1)
    assert (await basket.pay_by_boleto()).status == 201
    for _ in range(2):
        await basket.age(timedelta(days=1))
        before = await basket.found()
        await checkout.choose_another_way(store.database, before, now=utc_now())
        assert "boleto" in (await basket.read())["paymentMethods"]
        assert (await basket.pay_by_boleto()).status == 201
        read = await basket.read()
        assert read["expiresAt"] == read["payment"]["expiresAt"] > public_time(before.expires_at)
        found = await basket.found()
        assert found.due_at == found.expires_at
    await checkout.choose_another_way(store.database, await basket.found(), now=utc_now())
    assert (await basket.read())["paymentMethods"] == ["pix", "credit_card"]
    refused = await basket.pay_by_boleto()
    assert_refused(refused, ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE, status=422)
    assert await complaints(store.database) == {}


async def test_a_slip_that_ends_earlier_leaves_its_session_its_time(store: Storefront) -> None:
    basket = await store.open(expiresAt=1)
    assert (await basket.pay_by_boleto()).status == 201
    first = await basket.found()
    await checkout.choose_another_way(store.database, first, now=utc_now())
    await store.set_up(boleto_due_days=1)
    await basket.age(timedelta(days=-30))
    longer = (await basket.found()).expires_at
    assert longer == first.expires_at + timedelta(days=30)
    assert (await basket.pay_by_boleto()).status == 201
    assert (await basket.found()).expires_at == longer


async def test_a_key_that_was_shown_a_payment_stands_for_it(store: Storefront) -> None:
    await store.coupon()
    basket = await store.open()
    first = await basket.pay(key="x1")
    shown = await basket.pay(key="x2")
    assert (shown.status, shown.data["transactionId"]) == (200, first.data["transactionId"])
    other = await basket.pay(key="x2", customer=buyer(name="Outra Pessoa"))
    assert_refused(other, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
    await basket.coupon("TEN")
    again = await basket.pay(key="x2")
    assert (again.status, again.data["transactionId"]) == (200, first.data["transactionId"])
    assert again.headers["X-Idempotency-Replayed"] == "true"
    third = await basket.pay(key="x3")
    assert (third.status, third.data["amount"]) == (201, 13_491)
    assert (await basket.found()).payments_tried == 2
