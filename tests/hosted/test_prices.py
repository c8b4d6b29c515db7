"""A form is paid at the price that it was shown with, or not at all."""

import pytest

from support.api import complaints
from support.cards import VISA
from support.meanwhile import change_meanwhile, without_coupon
from support.storefront import Storefront
from support.visitor import Visitor
from vintem.brazil.installments import CardInterest
from vintem.companies import service as companies


@pytest.mark.parametrize("method", ["credit_card", "pix"])
async def test_a_price_that_changes_while_a_form_is_on_its_way_is_shown_first(
    store: Storefront, method: str
) -> None:
    await store.coupon()
    basket = await store.open(couponCode="TEN")
    visitor = Visitor.of(basket)
    nonce = (await visitor.look()).nonce
    sent = (
        visitor.pay_by_card(VISA, nonce=nonce)
        if method == "credit_card"
        else visitor.pay(nonce=nonce)
    )
    stale = await change_meanwhile(basket, sent, without_coupon)
    assert (stale.status, stale.state) == (422, "open")
    assert "R$ 149,90" in stale.text.replace("\xa0", " ")
    assert (await basket.found()).payments_tried == 0
    paid = await visitor.follow(await visitor.pay_by_card(VISA, nonce=stale.nonce))
    assert paid.state == "paid"
    assert await complaints(store.database) == {}


async def test_interest_that_changed_since_a_form_was_shown_is_shown_first(
    store: Storefront,
) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    nonce = (await visitor.look()).nonce
    interest = CardInterest(monthly_rate_basis_points=299, free_installments=1)
    company = store.shop.tenant.company
    await companies.set_card_interest(store.database, company.public_id, interest)
    stale = await visitor.pay_by_card(VISA, nonce=nonce, installments="12")
    assert (stale.status, stale.state) == (422, "open")
    assert (await basket.found()).payments_tried == 0
    paid = await visitor.pay_by_card(VISA, nonce=stale.nonce, installments="12")
    assert (await visitor.follow(paid)).state == "paid"
    assert await complaints(store.database) == {}
