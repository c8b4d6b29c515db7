"""Without any script: the whole journey, by forms alone."""

import time

from playwright.async_api import expect

from support.boutique import PRICE, Boutique
from support.chromium import PHONE
from support.platform import promised
from support.shopper import Door
from vintem.hosted.words import money
from vintem.kit.clock import utc_now

NOTICED_SECONDS_MAX = 12.0


async def test_a_buyer_without_script_pays_by_pix(door: Door, store: Boutique) -> None:
    await store.coupon("SEMJS20")
    visit = await store.open_session()
    buyer = await door.enter(visit, PHONE, java_script_enabled=False)
    page = buyer.page
    buyer.watch.statuses.add(422)

    await page.locator("details.coupon summary").click()
    await page.locator("#f-code").fill("errado-sempre")
    await page.get_by_role("button", name="Aplicar").click()
    await expect(page.locator("#f-code-e")).to_have_text("Cupom inválido ou indisponível")
    await page.locator("#f-code").fill("semjs20")
    await page.get_by_role("button", name="Aplicar").click()
    await expect(page.locator("form[data-pay] .now")).to_have_text(f"Pagar {money(PRICE - 2_000)}")

    await page.locator("#lang").select_option("en")
    await page.locator("form.lang button").click()
    await buyer.sees("Complete your payment")
    await page.locator("#lang").select_option("pt-BR")
    await page.locator("form.lang button").click()
    await buyer.sees("Finalizar pagamento")

    await expect(page.locator("#f-cc_number")).to_be_hidden()
    await buyer.choose("credit_card")
    await expect(page.locator("#f-cc_number")).to_be_visible()
    await buyer.choose("pix")
    for name, value in (("name", "Maria da Silva"), ("email", "m@example.com"),
                        ("document", "52998224725")):  # fmt: skip
        await page.locator(f"#f-{name}").fill(value)
    await buyer.press_pay()
    await buyer.sees(f"Pague {money(PRICE - 2_000)} com Pix")
    await page.get_by_role("link", name="Já paguei, verificar agora").click()
    await expect(page.locator(".not-yet")).to_contain_text("Ainda não recebemos a confirmação")

    (payment,) = await store.transactions_of(visit)
    await store.set_payment_end(payment["id"], utc_now())
    await page.reload()
    await buyer.sees_state("pix_expired")
    await page.get_by_role("button", name="Gerar novo código").click()
    await buyer.sees_state("pix_shown")
    _, second = await store.transactions_of(visit)
    await store.simulate(second["id"], "paid")
    began = time.monotonic()
    await buyer.sees("Pagamento confirmado", seconds=promised(NOTICED_SECONDS_MAX))
    assert time.monotonic() - began <= promised(NOTICED_SECONDS_MAX)


async def test_a_buyer_without_script_gets_a_boleto(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, PHONE, java_script_enabled=False)
    page = buyer.page
    await buyer.choose("boleto")
    for name, value in (("name", "Maria da Silva"), ("email", "m@example.com"),
                        ("document", "52998224725"), ("postal_code", "01310100"),
                        ("street", "Rua A"), ("street_number", "s/n"),
                        ("neighborhood", "Centro"), ("city", "Recife")):  # fmt: skip
        await page.locator(f"#f-{name}").fill(value)
    await page.locator("#f-state").select_option("PE")
    await buyer.press_pay()
    await buyer.sees_state("boleto_shown")
    address = await page.get_by_role("link", name="Baixar PDF").get_attribute("href")
    assert address is not None
    path = address.removeprefix(store.base_url)
    reply = await store.api.get(path)
    assert (reply.status, reply.body[:5]) == (200, b"%PDF-")


async def test_a_buyer_without_script_pays_by_card(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, PHONE, java_script_enabled=False)
    await buyer.choose("credit_card")
    for name, value in (
        ("name", "Maria da Silva"),
        ("email", "m@example.com"),
        ("document", "52998224725"),
        ("cc_number", "4242 4242 4242 4242"),
        ("cc_exp", "12/2031"),
        ("cc_csc", "123"),
        ("cc_name", "MARIA"),
    ):
        await buyer.page.locator(f"#f-{name}").fill(value)
    await buyer.press_pay()
    await buyer.sees("Pagamento confirmado")
