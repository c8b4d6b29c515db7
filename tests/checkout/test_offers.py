"""What merchants set up: coupons for some products or once a customer, links that end, prices."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from support.api import HttpReply, assert_refused, complaints
from support.storefront import Basket, Storefront, buyer, new_storefront
from vintem.checkout import catalogue, catalogue_listing
from vintem.checkout.catalogue_listing import Span
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import DiscountType, Product
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.kit.ids import Prefix, new_id
from vintem.kit.paging import Cursor
from vintem.transactions.model import PaymentMethod

OTHER_CPF = {"type": "cpf", "number": "111.444.777-35"}


async def another_product(store: Storefront, price: int = 5_000) -> Product:
    return await catalogue.create_product(
        store.database, store.shop.scope, name="Palhetas", unit_amount=price, now=utc_now()
    )


async def new_link(store: Storefront, **changed: Any) -> PaymentLink:
    return await catalogue.create_link(
        store.database,
        store.shop.scope,
        name="Curso",
        product_id=store.product.product_id,
        now=utc_now(),
        **changed,
    )


async def found(store: Storefront, link: PaymentLink) -> PaymentLink:
    read = await catalogue.find_link(store.database, store.shop.scope, link.link_id)
    assert read is not None
    return read


async def follow(store: Storefront, link: PaymentLink) -> HttpReply:
    return await store.api.post(f"/v1/checkout/payment-links/{link.public_token}/sessions")


async def come_by(store: Storefront, link: PaymentLink) -> Basket:
    reply = await follow(store, link)
    assert reply.status == 201, reply.json
    token = reply.data["checkoutUrl"].rpartition("/s/")[2]
    return Basket(store, reply.data["sessionId"], token)


async def test_a_coupon_of_some_products_counts_for_them_alone(store: Storefront) -> None:
    other = await another_product(store)
    await store.coupon("HALF", percent=50, product_ids=[other.product_id])
    await catalogue.create_coupon(
        store.database,
        store.shop.scope,
        "FIXED",
        DiscountType.FIXED,
        9_000,
        product_ids=[other.product_id],
        now=utc_now(),
    )
    items = [{"productId": each.product_id, "quantity": 1} for each in (store.product, other)]
    reply = await store.order({"lineItems": items})
    both = Basket(store, reply.data["sessionId"], reply.data["checkoutUrl"].rpartition("/s/")[2])
    assert (await both.coupon("HALF")).data["discountAmount"] == 2_500
    # Never more than what it is for costs.
    assert (await both.coupon("FIXED")).data["discountAmount"] == 5_000
    without = await store.open()
    assert_refused(await without.coupon("HALF"), ErrorCode.COUPON_INVALID, status=422)
    refused = await store.order({"productId": store.product.product_id, "couponCode": "HALF"})
    assert_refused(refused, ErrorCode.COUPON_INVALID, status=422)


async def test_a_coupon_that_is_for_other_products_by_now_is_not_redeemed(
    store: Storefront,
) -> None:
    other = await another_product(store)
    coupon = await store.coupon("TEN", product_ids=[store.product.product_id])
    basket = await store.open(couponCode="TEN")
    narrowed = replace(coupon, product_ids=[other.product_id])
    await catalogue.change_coupon(store.database, narrowed, now=utc_now())
    assert_refused(await basket.pay(), ErrorCode.COUPON_INVALID, status=422)
    assert await store.redemptions() == 0


async def test_each_customer_uses_a_coupon_only_so_often(store: Storefront) -> None:
    await store.coupon("TEN", customer_redemptions_max=1)
    first = await store.open(couponCode="TEN")
    await first.paid_by()
    # The same session may make another payment with it.
    assert (await first.call("DELETE", "/coupon")).status == 200
    assert (await first.coupon("TEN")).status == 200
    payment = await first.paid_by()
    second = await store.open(couponCode="TEN")
    assert_refused(await second.pay(), ErrorCode.COUPON_INVALID, status=422)
    assert (await second.call("DELETE", "/coupon")).status == 200
    await second.paid_by()
    # Who has tried to pay is known from then on.
    assert_refused(await second.coupon("TEN"), ErrorCode.COUPON_INVALID, status=422)
    third = await store.open(couponCode="TEN")
    await third.paid_by(customer=buyer(document=OTHER_CPF))
    assert await store.redemptions() == 2
    await store.shop.move(payment["transactionId"], "paid")
    again = await store.open(couponCode="TEN")
    assert_refused(await again.pay(), ErrorCode.COUPON_INVALID, status=422)
    assert await complaints(store.database) == {}


async def test_a_customer_whose_payment_came_to_nothing_may_use_the_coupon_again(
    store: Storefront,
) -> None:
    await store.coupon("TEN", customer_redemptions_max=1)
    first = await store.open(couponCode="TEN")
    await first.paid_by()
    await first.age(timedelta(days=3))
    await store.work()
    await (await store.open(couponCode="TEN")).paid_by()
    assert await complaints(store.database) == {}


async def test_two_sessions_of_one_customer_at_once_get_one_redemption(store: Storefront) -> None:
    await store.coupon("TEN", customer_redemptions_max=1)
    baskets = [await store.open(couponCode="TEN") for _ in range(6)]
    replies = await asyncio.gather(*(basket.pay() for basket in baskets))
    assert sorted(reply.status for reply in replies) == [201] + [422] * 5
    assert await store.redemptions() == 1
    assert await complaints(store.database) == {}


async def test_a_link_takes_no_more_payments_than_its_maximum(store: Storefront) -> None:
    link = await new_link(store, payments_max=2)
    baskets = [await come_by(store, link) for _ in range(8)]
    replies = await asyncio.gather(*(basket.pay() for basket in baskets))
    assert sorted(reply.status for reply in replies) == [201] * 2 + [410] * 6
    for reply in replies:
        if reply.status == 410:
            assert_refused(reply, ErrorCode.PAYMENT_LINK_INACTIVE, status=410)
    assert (await found(store, link)).payments_held == 2
    # While others pay the last ones, nobody else comes in.
    assert_refused(await follow(store, link), ErrorCode.PAYMENT_LINK_INACTIVE, status=410)
    for reply in replies:
        if reply.status == 201:
            await store.shop.move(reply.data["transactionId"], "paid")
    full = await found(store, link)
    assert (full.payments_made, full.payments_held, full.revenue) == (2, 0, 2 * 14_990)
    page = await store.api.get(f"/l/{link.public_token}")
    assert page.status == 410
    assert "Este link não está disponível" in page.body.decode()
    assert_refused(await follow(store, link), ErrorCode.PAYMENT_LINK_INACTIVE, status=410)
    await catalogue.change_link(store.database, replace(full, payments_max=3), now=utc_now())
    assert (await follow(store, link)).status == 201
    assert await complaints(store.database) == {}


async def test_a_place_is_free_again_when_its_payment_comes_to_nothing(store: Storefront) -> None:
    link = await new_link(store, payments_max=1)
    first, second = await come_by(store, link), await come_by(store, link)
    declined = await first.pay_by_card("0002")
    assert declined.data["payment"]["status"] == "failed"
    assert (await found(store, link)).payments_held == 0
    await first.paid_by()
    # Paying in another way keeps the place.
    assert (await first.pay_by_boleto()).status == 201
    assert (await found(store, link)).payments_held == 1
    assert_refused(await second.pay(), ErrorCode.PAYMENT_LINK_INACTIVE, status=410)
    await first.age(timedelta(days=30))
    await store.work()
    assert (await found(store, link)).payments_held == 0
    await second.paid_by()
    assert await complaints(store.database) == {}


async def test_late_money_counts_above_the_maximum(store: Storefront) -> None:
    link = await new_link(store, payments_max=1)
    first, second = await come_by(store, link), await come_by(store, link)
    late = await first.paid_by()
    await first.age(timedelta(days=3))
    await store.work()
    await store.shop.move((await second.paid_by())["transactionId"], "paid")
    await store.shop.move(late["transactionId"], "paid")
    full = await found(store, link)
    assert (full.payments_made, full.payments_held) == (2, 0)
    assert await complaints(store.database) == {}


async def test_a_link_without_an_end_counts_what_was_paid(store: Storefront) -> None:
    link = await new_link(store)
    basket = await come_by(store, link)
    payment = await basket.paid_by()
    assert (await found(store, link)).payments_held == 0
    await store.shop.move(payment["transactionId"], "paid")
    read = await found(store, link)
    assert (read.payments_made, read.revenue) == (1, 14_990)
    assert await complaints(store.database) == {}


async def test_a_link_offers_only_its_own_ways_to_pay(store: Storefront) -> None:
    link = await new_link(
        store,
        payment_methods=[PaymentMethod.CREDIT_CARD, PaymentMethod.PIX],
        installments_max=2,
    )
    basket = await come_by(store, link)
    assert (await basket.read())["paymentMethods"] == ["pix", "credit_card"]
    refused = await basket.pay_by_boleto()
    assert_refused(refused, ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE, status=422)
    refused = await basket.pay_by_card(installments=3)
    assert_refused(refused, ErrorCode.INVALID_INSTALLMENTS, status=422)
    assert refused.json["error"]["details"] == {"offered": [1, 2]}
    assert (await basket.pay_by_card(installments=2)).status == 201


async def test_a_link_begins_with_its_coupon_as_long_as_that_can_be_used(
    store: Storefront,
) -> None:
    coupon = await store.coupon("TEN")
    link = await new_link(store, coupon_id=coupon.coupon_id)
    assert (await (await come_by(store, link)).read())["totalAmount"] == 13_491
    paused = replace(coupon, is_active=False)
    await catalogue.change_coupon(store.database, paused, now=utc_now())
    read = await (await come_by(store, link)).read()
    assert (read["totalAmount"], read["coupon"]) == (14_990, None)


async def test_every_price_is_remembered(store: Storefront) -> None:
    scope, product = store.shop.scope, store.product
    for price in (15_000, 15_000, 14_990):
        product = replace(product, unit_amount=price)
        await catalogue.change_product(store.database, product, now=utc_now())
    prices = await catalogue.list_prices(store.database, scope, product.product_id, rows_max=10)
    assert [amount for _, amount in prices] == [14_990, 15_000, 14_990]
    other = await new_storefront(store.api, store.database)
    theirs = await catalogue.list_prices(
        store.database, other.shop.scope, product.product_id, rows_max=10
    )
    assert theirs == []


async def test_a_batch_of_coupons_is_made_once(store: Storefront) -> None:
    alike = replace(await store.coupon("TEN", redemptions_max=1), batch_id=new_id(Prefix.COUPON))
    makes = [
        catalogue.create_batch(store.database, alike, count=50, prefix="NATAL", now=utc_now())
        for _ in range(3)
    ]
    assert sorted(await asyncio.gather(*makes)) == [0, 0, 50]
    assert alike.batch_id is not None
    made = await catalogue.list_batch(store.database, store.shop.scope, alike.batch_id)
    codes = {coupon.code for coupon in made}
    assert len(codes) == 50
    for code in codes:
        assert len(code) >= len("NATAL") + 8
        assert set(code.removeprefix("NATAL")) <= set(catalogue.CODE_LETTERS)
    assert len(set(catalogue.CODE_LETTERS)) == 32
    basket = await store.open()
    assert (await basket.coupon(made[0].code)).status == 200


@pytest.mark.parametrize("is_active", [None, True])
async def test_a_list_is_walked_both_ways(store: Storefront, is_active: bool | None) -> None:
    for _ in range(4):
        await another_product(store)
    archived = replace(await another_product(store), is_active=False)
    await catalogue.change_product(store.database, archived, now=utc_now())
    span = Span(rows_max=2, is_active=is_active)
    pages, cursor = [], None
    while True:
        page = await catalogue_listing.list_products(
            store.database, store.shop.scope, replace(span, cursor=cursor)
        )
        if not page:
            break
        pages.append([product.product_id for product in page])
        cursor = Cursor(page[-1].created_at, page[-1].product_id)
    ids = [product_id for page in pages for product_id in page]
    assert len(ids) == (6 if is_active is None else 5)
    assert ids[-1] == store.product.product_id
    assert (archived.product_id in ids) == (is_active is None)
    first = await catalogue.find_product(store.database, store.shop.scope, pages[1][0])
    assert first is not None
    back = replace(span, cursor=Cursor(first.created_at, first.product_id), is_newer=True)
    newer = await catalogue_listing.list_products(store.database, store.shop.scope, back)
    assert [product.product_id for product in newer] == pages[0]
    oldest = await catalogue_listing.list_products(
        store.database, store.shop.scope, catalogue_listing.FIRST
    )
    assert [product.product_id for product in oldest] == [store.product.product_id]


async def test_sessions_of_a_product_and_of_a_link_are_found(store: Storefront) -> None:
    other, link, scope = await another_product(store), await new_link(store), store.shop.scope
    by_link = await come_by(store, link)
    await store.open(productId=other.product_id)
    sessions = await catalogue_listing.list_sessions_of_product(
        store.database, scope, store.product.product_id, rows_max=10
    )
    assert [each.session_id for each in sessions] == [by_link.session_id]
    sessions = await catalogue_listing.list_sessions_of_link(
        store.database, scope, link.link_id, rows_max=10
    )
    assert [each.session_id for each in sessions] == [by_link.session_id]
