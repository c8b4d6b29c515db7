"""How sessions end: by time, by the merchant, by late money; and what waits to be decided."""

import time
from datetime import timedelta

import pytest
from playwright.async_api import expect

from support.boutique import Boutique
from support.chromium import DESKTOP, PHONE, Screen
from support.platform import promised
from support.shopper import Door
from vintem.kit.clock import utc_now

NOTICED_SECONDS_MAX = 5.0


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
async def test_an_open_page_turns_over_when_its_session_expires(
    door: Door, store: Boutique, screen: Screen
) -> None:
    visit = await store.open_session(expiresAt=1, cancelUrl="https://loja.example/carrinho")
    await store.set_session_end(visit, utc_now() + timedelta(seconds=2))
    buyer = await door.enter(visit, screen)
    await buyer.sees("Finalizar pagamento")
    began = time.monotonic()
    await buyer.sees("Este checkout expirou")
    assert time.monotonic() - began <= promised(2.0 + NOTICED_SECONDS_MAX)
    await buyer.reads("Nenhum valor foi cobrado.")
    await expect(buyer.page.get_by_role("button", name="Recomeçar")).to_have_count(0)

    buyer.watch.statuses.add(410)
    again = await buyer.page.reload()
    assert again is not None
    assert again.status == 410
    await buyer.sees("Este checkout expirou")
    assert (await store.api.get(visit.path)).status == 410
    for word in ("1", "true", "yes"):
        reply = await store.api.get(f"{visit.path}?poll={word}")
        assert (reply.status, reply.data["status"]) == (200, "EXPIRED")
    assert (await store.api.get(f"{visit.path}?poll=no")).status == 410


async def test_an_expired_session_of_a_link_can_be_begun_again(door: Door, store: Boutique) -> None:
    link = await store.link()
    context, watch = await door.context()
    watch.statuses.add(410)
    page = await context.new_page()
    await page.goto(f"{store.base_url}/l/{link.public_token}")
    await page.wait_for_url("**/s/*")
    first = page.url.partition("#")[0].partition("?")[0]
    await store.expire_by_token(first.rpartition("/")[2])
    await page.reload()
    await expect(page.locator("h1")).to_have_text("Este checkout expirou")
    await page.get_by_role("button", name="Recomeçar").click()
    await expect(page.locator("h1")).to_have_text("Finalizar pagamento")
    assert not page.url.startswith(first)


async def test_looking_at_a_link_opens_no_session(door: Door, store: Boutique) -> None:
    link = await store.link()
    preview = await store.api.get(f"/l/{link.public_token}")
    assert preview.status == 200
    assert b'property="og:title" content="Curso de Viol' in preview.body
    count = "select count(*) from checkout_session where company_id = $1 and link_id = $2"
    values = (store.scope.company_id, link.link_id)
    assert await store.database.fetchval(count, *values) == 0
    buyer = await door.enter(f"{store.base_url}/l/{link.public_token}", java_script_enabled=False)
    assert await store.database.fetchval(count, *values) == 0
    await buyer.page.get_by_role("button", name="Continuar").click()
    await buyer.sees("Finalizar pagamento")
    assert await store.database.fetchval(count, *values) == 1


async def test_a_paused_link_says_so(door: Door, store: Boutique) -> None:
    link = await store.link(inactive_message="Voltamos em janeiro.")
    await store.pause(link)
    buyer = await door.enter(f"{store.base_url}/l/{link.public_token}", status=410)
    await buyer.reads("Voltamos em janeiro.")


async def test_money_that_comes_late_wins(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    payment = await store.pay(visit)
    await store.expire(visit)
    buyer = await door.enter(visit, status=410)
    await buyer.sees("Este checkout expirou")
    await buyer.reads("Se você já pagou, o comprovante aparece aqui assim que o banco confirmar.")
    await store.until_cancelled(visit)
    await store.simulate(payment["transactionId"], "paid")
    response = await buyer.page.reload()
    assert response is not None
    assert response.status == 200
    await buyer.sees("Pagamento confirmado")
    await expect(buyer.page.get_by_text("expirou")).to_have_count(0)
    (kept,) = await store.transactions_of(visit)
    assert (kept["status"], kept["statusReason"]) == ("paid", "late_payment")
    assert (await store.read(visit))["status"] == "COMPLETED"


async def test_an_expired_page_that_is_still_open_shows_late_money(
    door: Door, store: Boutique
) -> None:
    visit = await store.open_session()
    payment = await store.pay(visit)
    await store.expire(visit)
    buyer = await door.enter(visit, status=410)
    await buyer.sees("Este checkout expirou")
    await store.simulate(payment["transactionId"], "paid")
    # What a buyer does who comes back from the app of the bank.
    await buyer.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await buyer.sees("Pagamento confirmado", seconds=promised(NOTICED_SECONDS_MAX))
    await expect(buyer.page.get_by_text("expirou")).to_have_count(0)


async def test_a_cancelled_session_says_that_nothing_was_charged(
    door: Door, store: Boutique
) -> None:
    visit = await store.open_session(cancelUrl="https://loja.example/carrinho")
    await store.pay(visit)
    buyer = await door.enter(visit)
    await buyer.sees_state("pix_shown")
    await store.cancel(visit)
    await buyer.sees("Pagamento cancelado", seconds=promised(NOTICED_SECONDS_MAX))
    await buyer.reads("Nenhum valor foi cobrado.")
    buyer.watch.statuses.add(410)
    again = await buyer.page.reload()
    assert again is not None
    assert again.status == 410


async def test_a_card_that_takes_its_time_is_confirmed_in_place(
    door: Door, store: Boutique
) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit)
    await buyer.fill_in()
    await buyer.choose("credit_card")
    await buyer.fill_in_card("4000000000000119")
    await buyer.press_pay()
    await buyer.sees("Estamos confirmando seu pagamento")
    await buyer.sees("Pagamento confirmado", seconds=15)
    await buyer.reads("Cartão")


async def test_a_blocked_card_is_in_review(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit)
    await buyer.fill_in()
    await buyer.choose("credit_card")
    await buyer.fill_in_card("4000000000000069")
    await buyer.press_pay()
    await buyer.sees("Pagamento em análise")
    await buyer.reads("Pode levar até 24 h. Nenhuma ação é necessária.")


async def test_after_a_minute_the_page_says_that_it_takes_long(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    payment = await store.pay(visit)
    await store.simulate(payment["transactionId"], "processing")
    context, _ = await door.context()
    page = await context.new_page()
    await page.clock.install()
    await page.goto(visit.url)
    await expect(page.locator("h1")).to_have_text("Estamos confirmando seu pagamento")
    await expect(page.locator("main")).to_contain_text("Não feche esta página.")
    await page.clock.run_for(61_000)
    await expect(page.locator("main")).to_contain_text("Está demorando mais que o normal.")


@pytest.mark.parametrize("language", ["pt-BR", "en", "es"])
async def test_an_unknown_token_names_no_merchant(
    door: Door, store: Boutique, language: str
) -> None:
    heading = {"pt-BR": "Link inválido", "en": "Invalid link", "es": "Enlace inválido"}[language]
    buyer = await door.enter(f"{store.base_url}/s/{'A' * 43}", status=404, locale=language)
    await expect(buyer.heading).to_have_text(heading)
    assert await buyer.page.locator("html").get_attribute("lang") == language
