"""The whole way of a buyer over HTTP, without a script."""

import asyncio
import re
from datetime import timedelta

import pytest
from markupsafe import escape
from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

from support.api import complaints
from support.cards import VISA, number_ending_in
from support.storefront import Storefront, buyer
from support.visitor import ADDRESS, BUYER, Visitor
from vintem.brazil.installments import CardInterest, installment_table
from vintem.checkout import service as checkout
from vintem.hosted.words import money
from vintem.kit.clock import utc_now
from vintem.runtime.db import Database


async def test_a_pix_is_made_shown_and_paid(store: Storefront, database: Database) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    opened = await visitor.look()
    assert (opened.status, opened.state) == (200, "open")
    assert "Curso de Violão" in opened.text
    assert "Pagar R$ 149,90" in opened.text
    sent = await visitor.pay()
    assert sent.location == f"{visitor.path}#c"
    shown = await visitor.follow(sent)
    code = (await basket.read())["payment"]["pixQrCode"]
    assert (shown.status, shown.state) == (200, "pix_shown")
    assert code in shown.html
    assert "<svg" in shown.html
    await visitor.post("simulate", {"to": "paid"})
    paid = await visitor.look()
    assert (paid.status, paid.state) == (200, "paid")
    assert "***.982.247-**" in paid.text
    assert "529.982.247-25" not in paid.text
    assert await complaints(database) == {}


async def test_a_card_is_charged_with_the_interest_of_the_table(
    store: Storefront, database: Database
) -> None:
    await store.shop.agree(card_interest_basis_points=299, card_free_installments=3)
    visitor = Visitor.of(await store.open())
    offer = CardInterest(monthly_rate_basis_points=299, free_installments=3)
    last = installment_table(14_990, offer)[-1]
    assert f"12x de {money(last.amounts[0])}" in (await visitor.look()).html
    paid = await visitor.follow(await visitor.pay_by_card(VISA, installments="12"))
    assert paid.state == "paid"
    assert f"12x de {money(last.amounts[0])}" in paid.html
    assert money(last.total_cents) in paid.html
    assert "final 1111" in paid.text
    assert await complaints(database) == {}


async def test_the_receipt_names_the_cents_that_cannot_be_divided(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    paid = await visitor.follow(await visitor.pay_by_card(VISA, installments="3"))
    assert "1ª de R$ 49,98 e 2x de R$ 49,96" in paid.text


async def test_a_boleto_is_shown_with_its_line_and_its_page(store: Storefront) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    shown = await visitor.follow(await visitor.pay("boleto", **ADDRESS))
    assert shown.state == "boleto_shown"
    assert "Boleto gerado: R$ 149,90" in shown.text
    link = re.search(r'href="(/v1/boletos/[^"]+\.pdf)"', shown.html)
    assert link
    pdf = await visitor.send("GET", link[1])
    assert (pdf.status, pdf.body[:5]) == (200, b"%PDF-")
    await visitor.post("simulate", {"to": "paid"})
    assert (await visitor.look()).state == "paid"


async def test_a_refused_card_keeps_what_was_typed_but_never_the_card(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    for ending, words in (
        ("0002", "O banco não autorizou este cartão"),
        ("9995", "não tem limite disponível"),
        ("0127", "O código de segurança não confere"),
    ):
        number = number_ending_in(ending, first="510510")
        declined = await visitor.pay_by_card(number, name="Ana Lúcia Souza", cc_csc="737")
        assert (declined.status, declined.state) == (422, "declined")
        assert words in declined.text
        assert 'value="Ana Lúcia Souza"' in declined.html
        assert 'value="maria@example.com"' in declined.html
        assert 'value="529.982.247-25"' in declined.html
        assert number not in declined.html.replace(" ", "")
        assert "737" not in declined.text
    again = await visitor.look()
    assert (again.status, again.state) == (200, "declined")
    shown = await visitor.follow(await visitor.pay(nonce=again.nonce))
    assert shown.state == "pix_shown"


async def test_the_fifth_refused_card_is_the_last(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    for _ in range(5):
        assert (await visitor.pay_by_card(number_ending_in("0002"))).status == 422
    assert 'value="credit_card"' not in (await visitor.look()).html
    over = await visitor.pay_by_card(VISA)
    assert over.status == 429
    assert int(over.headers["retry-after"]) > 0
    assert "O limite de tentativas com cartão foi atingido" in over.text
    assert (await visitor.follow(await visitor.pay())).state == "pix_shown"


async def test_a_card_that_takes_time_is_processing_and_one_in_doubt_in_review(
    store: Storefront,
) -> None:
    slow = Visitor.of(await store.open())
    assert (await slow.follow(await slow.pay_by_card(number_ending_in("0119")))).state == (
        "processing"
    )
    doubtful = Visitor.of(await store.open())
    shown = await doubtful.follow(await doubtful.pay_by_card(number_ending_in("0069")))
    assert shown.state == "in_review"
    await doubtful.post("simulate", {"to": "paid"})
    assert (await doubtful.look()).state == "paid"


async def test_faults_are_shown_by_their_fields_and_nothing_typed_is_lost(
    store: Storefront,
) -> None:
    visitor = Visitor.of(await store.open())
    wrong = await visitor.pay(document="529.982.247-26", email="maria", phone="11 98765-4321")
    assert (wrong.status, wrong.state) == (422, "open")
    assert "os números não batem" in wrong.text
    assert "Escreva um e-mail válido" in wrong.text
    assert 'href="#f-document"' in wrong.html
    assert 'value="529.982.247-26"' in wrong.html
    assert 'value="11 98765-4321"' in wrong.html
    assert (await visitor.follow(await visitor.pay(nonce=wrong.nonce))).state == "pix_shown"


@pytest.mark.parametrize(
    ("known", "filled_in"),
    [("+1 (212) 555-0100", ""), ("11 98765-4321", "+5511987654321")],
)
async def test_the_form_is_filled_in_with_a_telephone_that_it_takes(
    store: Storefront, known: str, filled_in: str
) -> None:
    visitor = Visitor.of(await store.open(customer={"phone": known}))
    shown = (await visitor.look()).html
    assert f'value="{filled_in}"' in shown
    assert "2125550100" not in shown
    made = await visitor.pay(phone=filled_in)
    assert (await visitor.follow(made)).state == "pix_shown"


async def test_a_code_is_made_anew_for_a_buyer_whose_telephone_the_form_does_not_take(
    store: Storefront,
) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    await basket.paid_by(customer=buyer(phone="08001234567"))
    await visitor.post("simulate", {"to": "pix_expired"})
    assert (await visitor.follow(await visitor.post("new-pix"))).state == "pix_shown"


async def test_one_form_makes_one_payment_however_often_it_is_sent(
    store: Storefront, database: Database
) -> None:
    for method, number in (("pix", ""), ("credit_card", VISA), ("boleto", "")):
        basket = await store.open()
        visitor = Visitor.of(basket)
        nonce = (await visitor.look()).nonce
        fields = {"cc_number": number, "cc_exp": "12/30", "cc_csc": "123", "cc_name": "MARIA S"}
        sent = await asyncio.gather(
            *(visitor.pay(method, nonce=nonce, **ADDRESS, **fields) for _ in range(5))
        )
        assert {reply.status for reply in sent} == {303}
        assert (await basket.found()).payments_tried == 1
    assert await complaints(database) == {}


async def test_two_tabs_make_one_payment(store: Storefront, database: Database) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    first, second = (await visitor.look()).nonce, (await visitor.look()).nonce
    assert first != second
    sent = await asyncio.gather(
        visitor.pay_by_card(VISA, nonce=first), visitor.pay_by_card(VISA, nonce=second)
    )
    assert {reply.status for reply in sent} == {303}
    assert (await basket.found()).payments_tried == 1
    assert await complaints(database) == {}


async def test_a_form_used_up_by_another_card_asks_again(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    nonce = (await visitor.look()).nonce
    declined = await visitor.pay_by_card(number_ending_in("0002"), nonce=nonce)
    assert declined.status == 422
    repeated = await visitor.pay_by_card(number_ending_in("0002"), nonce=nonce)
    assert (repeated.status, repeated.state) == (422, "declined")
    other = await visitor.pay_by_card(VISA, nonce=nonce)
    assert (other.status, other.state) == (422, "declined")
    assert "Esta página estava desatualizada" in other.text
    paid = await visitor.follow(await visitor.pay_by_card(VISA, nonce=other.nonce))
    assert paid.state == "paid"


async def test_a_coupon_is_applied_announced_and_removed(store: Storefront) -> None:
    await store.coupon("TEN", percent=10)
    basket = await store.open()
    visitor = Visitor.of(basket)
    applied = await visitor.post("coupon", {"code": " ten "})
    assert applied.location == f"{visitor.path}?coupon=applied#c"
    shown = await visitor.follow(applied)
    assert "Cupom aplicado: −R$ 14,99. Novo total R$ 134,91" in shown.text
    assert (await basket.read())["totalAmount"] == 13_491
    assert "Cupom aplicado" not in (await visitor.look()).text
    removed = await visitor.follow(await visitor.post("coupon/remove"))
    assert "Cupom removido. Novo total R$ 149,90" in removed.text
    assert (await basket.read())["totalAmount"] == 14_990


async def test_a_wrong_coupon_is_told_in_its_box_and_five_lock_it(store: Storefront) -> None:
    await store.coupon("OVER", ends_at=utc_now() - timedelta(days=1))
    visitor = Visitor.of(await store.open())
    replies = [
        await visitor.post("coupon", {"code": code})
        for code in ("NONE", "over", "x", '"><script>', "")
    ]
    assert {reply.status for reply in replies} == {422}
    assert all("Cupom inválido ou indisponível" in reply.text for reply in replies)
    assert 'value="NONE"' in replies[0].html
    assert "<script>" not in replies[3].html
    locked = await visitor.post("coupon", {"code": "NONE"})
    assert locked.status == 429
    assert int(locked.headers["retry-after"]) > 800
    assert "Espere 15 minutos" in locked.text


async def test_a_coupon_after_the_code_supersedes_it(store: Storefront) -> None:
    await store.coupon("TEN", percent=10)
    basket = await store.open()
    visitor = Visitor.of(basket)
    await visitor.pay()
    old = (await basket.read())["payment"]["pixQrCode"]
    await visitor.post("coupon", {"code": "TEN"})
    assert (await visitor.look()).state == "open"
    shown = await visitor.follow(await visitor.pay())
    assert old not in shown.html
    assert "Pague R$ 134,91 com Pix" in shown.text


async def test_a_form_shown_with_another_price_is_not_paid(store: Storefront) -> None:
    await store.coupon("TEN", percent=10)
    basket = await store.open()
    visitor = Visitor.of(basket)
    nonce = (await visitor.look()).nonce
    await visitor.post("coupon", {"code": "TEN"})
    stale = await visitor.pay_by_card(VISA, nonce=nonce)
    assert (stale.status, stale.state) == (422, "open")
    assert "Esta página estava desatualizada" in stale.text
    assert "R$ 134,91" in stale.text
    assert (await basket.found()).payments_tried == 0


async def test_a_coupon_used_up_meanwhile_is_taken_off_before_anything_is_paid(
    store: Storefront,
) -> None:
    await store.coupon("ONE", percent=10, redemptions_max=1)
    first, second = await store.open(couponCode="ONE"), await store.open(couponCode="ONE")
    visitor = Visitor.of(second)
    nonce = (await visitor.look()).nonce
    await Visitor.of(first).pay()
    refused = await visitor.pay(nonce=nonce)
    assert (refused.status, refused.state) == (422, "open")
    assert "Cupom inválido ou indisponível" in refused.text
    assert "Pagar R$ 149,90" in refused.text
    assert (await second.found()).payments_tried == 0


async def test_another_way_shows_the_form_again(store: Storefront) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    await visitor.pay(phone="(11) 98765-4321")
    chosen = await visitor.follow(await visitor.post("another-way"))
    assert chosen.state == "open"
    assert (await visitor.follow(await visitor.pay_by_card(VISA))).state == "paid"


async def test_an_expired_code_is_made_anew_six_times_at_most(store: Storefront) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    await visitor.pay()
    codes = set()
    for _ in range(5):
        codes.add((await basket.read())["payment"]["pixQrCode"])
        await visitor.post("simulate", {"to": "pix_expired"})
        expired = await visitor.look()
        assert (expired.status, expired.state) == (200, "pix_expired")
        assert "<svg viewBox" not in expired.html or "000201" not in expired.html
        assert (await visitor.follow(await visitor.post("new-pix"))).state == "pix_shown"
    codes.add((await basket.read())["payment"]["pixQrCode"])
    assert len(codes) == 6
    await visitor.post("simulate", {"to": "pix_expired"})
    assert "Gerar novo código" not in (await visitor.look()).text
    over = await visitor.post("new-pix")
    assert over.status == 422
    assert "O limite de códigos Pix" in over.text


async def test_two_presses_for_a_new_code_make_one(store: Storefront) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    await visitor.pay()
    await visitor.post("simulate", {"to": "pix_expired"})
    sent = await asyncio.gather(*(visitor.post("new-pix") for _ in range(4)))
    assert {reply.status for reply in sent} == {303}
    assert (await basket.found()).pix_made == 2


async def test_asking_by_hand_whether_it_is_paid_needs_no_script(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    await visitor.pay()
    unpaid = await visitor.look("?check=1")
    assert "Ainda não recebemos a confirmação do banco" in unpaid.text
    await visitor.post("simulate", {"to": "paid"})
    assert (await visitor.look("?check=1")).state == "paid"


async def test_a_fragment_is_only_the_title_and_the_main_part(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    fragment = await visitor.look("?f=1&lang=en")
    assert fragment.status == 200
    assert fragment.html.lstrip().startswith("<title>")
    assert "<main" in fragment.html
    assert "<html" not in fragment.html
    assert "<style" not in fragment.html
    assert "Pay R$ 149,90" in fragment.text


async def test_a_page_over_is_gone_and_late_money_wins(
    store: Storefront, database: Database
) -> None:
    basket = await store.open(expiresAt=1)
    visitor = Visitor.of(basket)
    await visitor.pay()
    payment = (await basket.read())["payment"]["transactionId"]
    await basket.age(timedelta(minutes=2))
    expired = await visitor.look()
    assert (expired.status, expired.state) == (410, "expired")
    assert "Nenhum valor foi cobrado" in expired.text
    assert "Recomeçar" not in expired.text
    assert (await visitor.pay(nonce="A" * 22 + ".14990")).location == f"{visitor.path}#c"
    await store.work()
    assert (await visitor.look()).status == 410
    await store.shop.move(payment, "paid")
    paid = await visitor.look()
    assert (paid.status, paid.state) == (200, "paid")
    assert "expirou" not in paid.text
    assert await complaints(database) == {}


async def test_a_cancelled_session_says_so(store: Storefront) -> None:
    basket = await store.open(cancelUrl="https://loja.example.com/volta")
    visitor = Visitor.of(basket)
    await checkout.cancel_session(
        store.database, store.shop.scope, basket.session_id, now=utc_now()
    )
    cancelled = await visitor.look()
    assert (cancelled.status, cancelled.state) == (410, "cancelled")
    assert "A loja cancelou este pedido" in cancelled.text
    assert 'href="https://loja.example.com/volta"' in cancelled.html


async def test_a_refund_shows_on_the_receipt_and_a_dispute_never(store: Storefront) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    await visitor.pay()
    payment = (await basket.read())["payment"]["transactionId"]
    await store.shop.move(payment, "paid", "pre_chargeback", "chargeback")
    disputed = await visitor.look()
    assert (disputed.status, disputed.state) == (200, "paid")
    assert "chargeback" not in disputed.text.lower()
    await store.shop.move(payment, "paid", "refunded")
    assert "Pagamento devolvido em" in (await visitor.look()).text


async def test_the_receipt_is_a_small_file_and_only_of_what_is_paid(store: Storefront) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    assert (await visitor.send("GET", f"{visitor.path}/receipt.pdf")).status == 303
    await visitor.pay()
    await visitor.post("simulate", {"to": "paid"})
    assert f'href="{visitor.path}/receipt.pdf?lang=pt-BR"' in (await visitor.look()).html
    receipt = await visitor.send("GET", f"{visitor.path}/receipt.pdf")
    assert (receipt.status, receipt.headers["content-type"]) == (200, "application/pdf")
    assert receipt.headers["cache-control"] == "no-store"
    assert len(receipt.body) < 50_000
    text = PdfDocument(receipt.body)[0].get_textpage().get_text_range()
    assert "Comprovante" in text
    assert "149,90" in text
    assert "***.982.247-**" in text
    assert "52998224725" not in text.replace(".", "").replace("-", "")
    assert (await basket.found()).session_id[-4:].upper() in text
    english = await visitor.send("GET", f"{visitor.path}/receipt.pdf?lang=en")
    assert "Receipt" in PdfDocument(english.body)[0].get_textpage().get_text_range()


async def test_the_language_is_asked_for_and_stays(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    assert '<html lang="pt-BR"' in (await visitor.look()).html
    assert (
        '<html lang="es"'
        in (await visitor.look(headers={"accept-language": "es-AR,es;q=0.9"})).html
    )
    english = await visitor.look("?lang=en", headers={"accept-language": "es"})
    assert '<html lang="en"' in english.html
    action = re.search(r'action="([^"]*/pay[^"]*)"', english.html)
    assert action
    fields = {"form_nonce": english.nonce, **BUYER, "method": "pix"}
    query = action[1].partition("?")[2].replace("&amp;", "&")
    sent = await visitor.post("pay", fields, query=f"?{query}")
    assert '<html lang="en"' in (await visitor.follow(sent)).html


async def test_the_way_back_is_the_stored_address_and_nothing_else(store: Storefront) -> None:
    address = "https://loja.example.com/ok?s={SESSION_ID}&x=1"
    basket = await store.open(successUrl=address, cancelUrl="https://loja.example.com/volta")
    visitor = Visitor.of(basket)
    opened = await visitor.look("?successUrl=https://evil.example&return_url=//evil.example")
    assert 'href="https://loja.example.com/volta"' in opened.html
    assert "evil.example" not in opened.html
    await visitor.pay()
    await visitor.post("simulate", {"to": "paid"})
    paid = await visitor.look()
    url = f"https://loja.example.com/ok?s={basket.session_id}&amp;x=1"
    assert f'href="{url}"' in paid.html
    assert "data-redirect" in paid.html


async def test_the_way_back_may_lead_to_any_port_and_part_of_a_page(store: Storefront) -> None:
    address = "https://loja.example.com:8080/?a=1&b='\"<i>#/ok/{SESSION_ID}?x=\"><script>&y='"
    basket = await store.open(successUrl=address, cancelUrl=address)
    visitor = Visitor.of(basket)
    opened = await visitor.look()
    assert f'href="{escape(address)}"' in opened.html
    await visitor.pay()
    await visitor.post("simulate", {"to": "paid"})
    paid = await visitor.look()
    assert f'href="{escape(address.replace("{SESSION_ID}", basket.session_id))}"' in paid.html
    for page in (opened, paid):
        assert "<i>" not in page.html
        assert '"><script>' not in page.html


async def test_a_page_that_posts_are_sent_to_shows_the_session(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    for action in ("pay", "coupon", "coupon/remove", "another-way", "new-pix", "restart"):
        reply = await visitor.send("GET", f"{visitor.path}/{action}")
        assert reply.location == f"{visitor.path}#c"


async def test_a_new_code_without_a_buyer_leads_to_the_form(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    assert (await visitor.follow(await visitor.post("new-pix"))).state == "open"


async def test_a_prefilled_buyer_finds_the_form_filled_in(store: Storefront) -> None:
    known = {"name": "João Prado", "document": {"type": "cnpj", "number": "12.ABC.345/01DE-35"}}
    visitor = Visitor.of(await store.open(customer=known))
    opened = await visitor.look()
    assert 'value="João Prado"' in opened.html
    assert 'value="12.ABC.345/01DE-35"' in opened.html


async def test_a_suspended_or_unfinished_shop_says_that_it_takes_no_money(
    store: Storefront,
) -> None:
    visitor = Visitor.of(await store.open())
    await store.database.execute(
        "update company set status = 'suspended' where company_id = $1", store.company_id
    )
    refused = await visitor.pay()
    assert (refused.status, refused.state) == (403, "open")
    assert "A loja não está recebendo pagamentos agora" in refused.text
    refused = await visitor.pay_by_card(VISA)
    assert (refused.status, refused.state) == (403, "open")


@pytest.mark.parametrize("to", ["failed", "nonsense", ""])
async def test_the_simulator_moves_only_as_banks_could(store: Storefront, to: str) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    await visitor.pay()
    assert (await visitor.post("simulate", {"to": to})).status == 303
    payment, shown = (await basket.read())["payment"], await visitor.look()
    assert payment["status"] == ("failed" if to == "failed" else "pending")
    assert shown.state == ("declined" if to == "failed" else "pix_shown")
    assert ("O pagamento não foi concluído" in shown.text) == (to == "failed")
    assert "este cartão" not in shown.text


async def test_the_simulator_ends_a_session_in_seconds(store: Storefront) -> None:
    basket = await store.open()
    visitor = Visitor.of(basket)
    await visitor.pay()
    await visitor.post("simulate", {"to": "session_expired"})
    read = await basket.read()
    assert 0 < read["expiresInSeconds"] <= 20
    # Its code ends with it.
    assert 0 < read["payment"]["expiresInSeconds"] <= 20
    await basket.age(timedelta(seconds=21))
    assert (await visitor.look()).status == 410


async def test_a_form_kept_for_one_session_shows_nothing_of_it_to_another(
    store: Storefront,
) -> None:
    first, second = await store.open(externalRef="P-1"), await store.open(externalRef="P-2")
    for basket, other in ((first, second), (second, first), (first, second)):
        page = (await Visitor.of(basket).look()).html
        assert basket.token in page
        assert other.token not in page
    assert "Pedido P-1" in (await Visitor.of(first).look()).text
    assert "Pedido P-2" in (await Visitor.of(second).look()).text


async def test_whatever_changes_is_on_the_next_page(store: Storefront) -> None:
    visitor = Visitor.of(await store.open())
    assert 'value="boleto"' in (await visitor.look()).html
    await store.set_up(payment_methods=("pix",), support_email="ajuda@loja.example.com")
    changed = await visitor.look()
    assert 'value="boleto"' not in changed.html
    assert "ajuda@loja.example.com" in changed.html
    await store.database.execute(
        "update company set card_interest_basis_points = 199 where company_id = $1",
        store.company_id,
    )
    await store.set_up(payment_methods=("credit_card",))
    assert "1,99%" in (await visitor.look()).html


async def test_many_visits_at_once_are_each_shown_their_own(store: Storefront) -> None:
    baskets = [await store.open(externalRef=f"P-{number}-") for number in range(8)]
    visits = [(number, Visitor.of(baskets[number % 8])) for number in range(48)]
    pages = await asyncio.gather(*(visitor.look() for _, visitor in visits))
    for (number, visitor), page in zip(visits, pages, strict=True):
        assert f"P-{number % 8}-" in page.text
        assert visitor.path in page.html
