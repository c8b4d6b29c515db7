"""A boleto: its line is right, its page prints, its barcode is read, and paying it is noticed."""

from contextlib import closing

import pypdfium2  # type: ignore[import-untyped]
from playwright.async_api import expect

from support.boutique import Boutique
from support.chromium import DESKTOP
from support.codes import read_codes
from support.platform import promised
from support.shopper import Door
from vintem.brazil.boleto import line_of_barcode

POINTS_PER_MM = 72 / 25.4
SCALE = 6
PDF_BYTES_MAX = 50 * 1024


async def test_a_boleto_is_made_copied_printed_and_paid(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, DESKTOP, permissions=["clipboard-read", "clipboard-write"])
    page = buyer.page
    await buyer.fill_in()
    await buyer.choose("boleto")
    for name, value in (("postal_code", "01310100"), ("street", "Avenida Paulista"),
                        ("street_number", "1000"), ("neighborhood", "Bela Vista"),
                        ("city", "São Paulo")):  # fmt: skip
        await page.locator(f"#f-{name}").fill(value)
    await expect(page.locator("#f-postal_code")).to_have_value("01310-100")
    await page.locator("#f-state").select_option("SP")
    await buyer.press_pay()
    await buyer.sees("Boleto gerado: R$\u00a0149,90")

    (payment,) = await store.transactions_of(visit)
    line, barcode = payment["boleto"]["digitableLine"], payment["boleto"]["barcode"]
    assert len(line) == 47
    assert line_of_barcode(barcode) == line
    await page.get_by_role("button", name="Copiar linha digitável").click()
    await expect(page.get_by_role("button", name="Linha copiada")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == line
    shown = await page.locator("#boleto-line").input_value()
    assert "".join(character for character in shown if character.isdigit()) == line

    async with page.expect_download() as coming:
        await page.get_by_role("link", name="Baixar PDF").click()
    content = (await (await coming.value).path()).read_bytes()
    assert len(content) <= PDF_BYTES_MAX
    with closing(pypdfium2.PdfDocument(content)) as document:
        picture = document[0].render(scale=SCALE).to_pil()
    codes = {code.format.name: code for code in read_codes(picture)}
    assert codes["ITF"].text == barcode
    place = codes["ITF"].position
    width_mm = (place.top_right.x - place.top_left.x) / SCALE / POINTS_PER_MM
    assert 101 <= width_mm <= 105
    assert codes["QRCode"].text == payment["boleto"]["pixQrCode"]

    picture_on_page = page.locator(".qr")
    await picture_on_page.scroll_into_view_if_needed()
    assert await buyer.codes_in(picture_on_page) == [payment["boleto"]["pixQrCode"]]
    await store.simulate(payment["id"], "paid")
    await buyer.sees("Pagamento confirmado", seconds=promised(5.0))
    await buyer.reads("Boleto")


async def test_the_button_says_what_it_does(door: Door, store: Boutique) -> None:
    buyer = await door.enter(await store.open_session(), DESKTOP)
    button = buyer.page.locator("form[data-pay] button.primary")
    for method, words in (("boleto", "Gerar boleto"), ("pix", "Pagar R$"), ("boleto", "Gerar")):
        await buyer.choose(method)
        await expect(button).to_contain_text(words, use_inner_text=True)
    assert "Pagar" not in await button.inner_text()
