"""Cards: every price told before it is paid, refusals in plain words, the number kept nowhere."""

import re

import pytest
from playwright.async_api import expect

from support.boutique import PRICE, Boutique
from support.chromium import DESKTOP, PHONE, Screen
from support.shopper import Door
from vintem.hosted.words import money

NUMBER = "4242424242424242"
KEPT = {
    "name": "Maria da Silva",
    "email": "maria@example.com",
    "document": "529.982.247-25",
    "cc_number": "",
    "cc_csc": "",
}


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
async def test_twelve_installments_are_told_and_paid_to_the_cent(
    door: Door, store: Boutique, screen: Screen
) -> None:
    await store.set_card_interest(monthly_rate_basis_points=299, free_installments=3)
    visit = await store.open_session()
    buyer = await door.enter(visit, screen)
    page = buyer.page
    await buyer.fill_in()
    await buyer.choose("credit_card")
    await page.locator("#f-cc_number").focus()
    await page.keyboard.insert_text("4242-4242-4242-4242")
    await expect(page.locator("#f-cc_number")).to_have_value("4242 4242 4242 4242")
    await expect(page.locator(".card-brand")).to_have_text("Visa")
    await page.locator("#f-cc_exp").press_sequentially("1231")
    await expect(page.locator("#f-cc_exp")).to_have_value("12/31")
    await page.locator("#f-cc_csc").press_sequentially("123")
    await expect(page.locator("#f-cc_name")).to_have_value("Maria da Silva")

    options = await page.locator("#f-installments option").all_inner_texts()
    assert len(options) == 12
    assert options[0] == f"1x de {money(PRICE)} à vista"
    assert "sem juros" in options[2]
    last = re.fullmatch(
        r"12x de R\$\xa0(\d+),(\d\d) com juros — total R\$\xa0(\d+),(\d\d)", options[11]
    )
    assert last is not None, options[11]
    each, total = int(last[1] + last[2]), int(last[3] + last[4])
    assert total > PRICE
    assert 0 <= total - 12 * each < 12
    await page.get_by_text("Ver todas as parcelas e taxas").click()
    table = page.locator("details.rates table")
    await expect(table).to_contain_text(f"À vista: {money(PRICE)}")
    await expect(table.locator("tbody tr").last).to_contain_text("2,99")
    await expect(table.locator("thead")).to_contain_text("CET a.a.")

    await page.locator("#f-installments").select_option("12")
    await expect(page.locator("form[data-pay] button.primary")).to_contain_text("Pagar 12x de")
    await buyer.press_pay()
    await buyer.sees("Pagamento confirmado")
    await expect(page.locator(".receipt")).to_contain_text(f"12x de {money(each)}")
    await expect(page.locator(".receipt")).to_contain_text("final 4242")
    (payment,) = await store.transactions_of(visit)
    assert (payment["amount"], payment["interestAmount"]) == (total, total - PRICE)
    assert payment["installments"] == 12


async def test_small_installments_are_not_offered(door: Door, store: Boutique) -> None:
    cheap = await store.sell("Apostila", 1_700)
    visit = await store.open_session(productId=cheap.product_id)
    buyer = await door.enter(visit)
    await buyer.choose("credit_card")
    await expect(buyer.page.locator("#f-installments option")).to_have_count(3)


async def test_a_tampered_form_is_refused(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit)
    buyer.watch.statuses.add(422)
    await buyer.fill_in()
    await buyer.choose("credit_card")
    alert = buyer.page.locator(".alert[role=alert]")
    for installments in ("24", "0", "-1", "x"):
        await buyer.fill_in_card(NUMBER)
        await buyer.page.locator("#f-installments").evaluate(
            "(one, value) => { one.options[0].value = value; one.selectedIndex = 0 }", installments
        )
        await buyer.press_pay()
        await expect(alert).to_contain_text("Escolha o número de parcelas")
    await buyer.fill_in_card(NUMBER)
    await buyer.page.locator("#f-installments").evaluate(
        "one => { const amount = document.createElement('input'); amount.type = 'hidden';"
        " amount.name = 'amount'; amount.value = '100'; one.form.append(amount) }"
    )
    await buyer.press_pay()
    await expect(alert).to_contain_text("Nenhum valor foi cobrado")
    assert await store.transactions_of(visit) == []


async def test_refusals_are_told_in_plain_words_and_another_way_is_open(
    door: Door, store: Boutique
) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, DESKTOP)
    buyer.watch.statuses.add(422)
    await buyer.fill_in()
    await buyer.choose("credit_card")
    said = {
        "4000000000000002": "O banco não autorizou este cartão.",
        "4000000000009995": "O cartão não tem limite disponível para esta compra.",
        "4000000000000127": "O código de segurança não confere.",
    }
    for number, words in said.items():
        await buyer.fill_in_card(number)
        await buyer.press_pay()
        alert = buyer.page.locator(".alert[role=alert]")
        await expect(alert).to_contain_text(words)
        await expect(alert).to_contain_text("Nenhum valor foi cobrado.")
        await expect(alert).to_be_focused()
        for field, kept in KEPT.items():
            await expect(buyer.page.locator(f"#f-{field}")).to_have_value(kept)
        content = await buyer.page.content()
        # The simulator names the test cards; nothing else may hold a number.
        assert number not in content
        await expect(buyer.page.locator("#m-credit_card")).to_be_checked()
    for _ in range(2):
        await buyer.fill_in_card("4000000000000002")
        await buyer.press_pay()
        await buyer.sees_state("declined")
        await expect(buyer.page.locator("#f-cc_number, #m-pix").first).to_be_visible()
    await expect(buyer.page.locator("#m-credit_card")).to_have_count(0)
    await buyer.choose("pix")
    await buyer.press_pay()
    await buyer.sees_state("pix_shown")
    log = store.running.log
    for number in (*said, "4000 0000 0000 0002"):
        assert number not in log
    assert len(await store.transactions_of(visit)) == 6


async def test_a_new_fault_takes_the_place_of_the_old_refusal(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, DESKTOP)
    buyer.watch.statuses.add(422)
    await buyer.fill_in()
    await buyer.choose("credit_card")
    await buyer.fill_in_card("4000000000000002")
    await buyer.press_pay()
    await buyer.sees_state("declined")
    await expect(buyer.page.locator(".alert")).to_have_count(1)
    # Its number is gone, and is asked for again.
    await buyer.press_pay()
    await expect(buyer.page.locator("#f-cc_number-e")).to_have_text("Confira o número do cartão")
    await expect(buyer.page.locator(".alert")).to_have_count(0)
    assert len(await store.transactions_of(visit)) == 1
