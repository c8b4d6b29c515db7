"""Coupons on the page: one message for every wrong code, prices to the cent, no old code paid."""

from datetime import timedelta

from playwright.async_api import expect

from support.boutique import PRICE, Boutique, Visit
from support.chromium import DESKTOP
from support.shopper import Door, Shopper
from vintem.hosted.words import money

WRONG = "Cupom inválido ou indisponível"


async def try_code(buyer: Shopper, code: str) -> None:
    box = buyer.page.locator("details.coupon")
    if await box.get_attribute("open") is None:
        await box.locator("summary").click()
    await buyer.page.locator("#f-code").fill(code)
    await buyer.page.keyboard.press("Enter")
    await buyer.page.wait_for_load_state()


async def assert_total(buyer: Shopper, store: Boutique, visit: Visit, cents: int) -> None:
    """Button, summary and the public session say the same."""
    await expect(buyer.page.locator("form[data-pay] .now")).to_have_text(f"Pagar {money(cents)}")
    await expect(buyer.page.locator(".totals .total dd")).to_have_text(money(cents))
    assert (await store.read(visit))["totalAmount"] == cents


async def test_codes_are_tried_applied_and_removed(door: Door, store: Boutique) -> None:
    await store.coupon("VIOLAO20")
    await store.coupon("ANTIGO10", ends_in=timedelta(seconds=0))
    visit = await store.open_session()
    buyer = await door.enter(visit, DESKTOP)
    buyer.watch.statuses.add(422)
    await buyer.fill_in()
    for code in ("NAOEXISTE", "ANTIGO10"):
        await try_code(buyer, code)
        await expect(buyer.page.locator("#f-code-e")).to_have_text(WRONG)
        await expect(buyer.page.locator("#f-code")).to_be_focused()
        await assert_total(buyer, store, visit, PRICE)
    await try_code(buyer, "  violao20 ")
    await assert_total(buyer, store, visit, PRICE - 2_000)
    await expect(buyer.page.locator("[role=status].done")).to_contain_text("Cupom aplicado")
    await expect(buyer.page.locator("#f-name")).to_have_value("Maria da Silva")
    await buyer.page.get_by_role("button", name="Remover cupom VIOLAO20").click()
    await assert_total(buyer, store, visit, PRICE)


async def test_a_coupon_after_the_code_replaces_the_code(door: Door, store: Boutique) -> None:
    await store.coupon("DEPOIS20")
    visit = await store.open_session()
    old = await store.pay(visit)
    buyer = await door.enter(visit, DESKTOP)
    await buyer.sees_state("pix_shown")
    await buyer.page.get_by_role("button", name="Pagar de outra forma").click()
    await buyer.sees_state("open")
    # Whoever has the address reads nothing of whoever began to pay.
    await expect(buyer.page.locator("#f-name")).to_have_value("")
    await try_code(buyer, "DEPOIS20")
    await assert_total(buyer, store, visit, PRICE - 2_000)
    await buyer.fill_in()
    await buyer.press_pay()
    await buyer.sees_state("pix_shown")
    code = await buyer.page.locator("#pix-code").input_value()
    assert code != old["pixQrCode"]
    assert "5406129.90" in code
    first, second = await store.transactions_of(visit)
    assert (first["status"], first["statusReason"]) == ("cancelled", "superseded")
    assert (second["status"], second["amount"]) == ("pending", PRICE - 2_000)


async def test_five_wrong_codes_lock_the_box(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, DESKTOP)
    buyer.watch.statuses.update({422, 429})
    for number in range(5):
        await try_code(buyer, f"ERRADO{number}")
    await try_code(buyer, "ERRADO5")
    await expect(buyer.page.locator("#f-code-e")).to_contain_text("Muitos códigos incorretos")
