"""A form is paid at the price that it was shown with, or not at all."""

import pytest
from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

from support.api import complaints
from support.cards import VISA
from support.meanwhile import change_meanwhile, without_coupon
from support.storefront import Storefront
from support.visitor import ADDRESS, Visitor
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


async def receipt_text(visitor: Visitor) -> str:
    receipt = await visitor.send("GET", f"{visitor.path}/receipt.pdf")
    text: str = PdfDocument(receipt.body)[0].get_textpage().get_text_range()
    return text


async def test_a_receipt_states_the_price_of_the_code_that_was_paid(store: Storefront) -> None:
    await store.coupon()
    basket = await store.open()
    visitor = Visitor.of(basket)
    await visitor.pay()
    pix = (await basket.read())["payment"]["transactionId"]
    await basket.coupon("TEN")
    await store.shop.move(pix, "paid")
    page = await visitor.look()
    assert page.state == "paid"
    assert "134,91" not in page.text
    text = await receipt_text(visitor)
    assert "149,90" in text
    assert "134,91" not in text
    assert "Juros" not in text
    assert "TEN" not in text
    path = f"/v1/transactions/{pix}/refund"
    await store.api.post(path, key=store.shop.key, json={"amount": 5_000})
    assert "50,00" in (await visitor.look()).text
    assert "50,00" in await receipt_text(visitor)
    assert await complaints(store.database) == {}


async def test_a_page_says_that_no_more_boletos_are_made(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    for _ in range(3):
        shown = await visitor.follow(await visitor.pay("boleto", **ADDRESS))
        assert shown.state == "boleto_shown"
        await visitor.post("another-way")
    refused = await visitor.pay("boleto", **ADDRESS)
    assert (refused.status, refused.state) == (422, "open")
    assert "Esta forma de pagamento não está disponível" in refused.text
