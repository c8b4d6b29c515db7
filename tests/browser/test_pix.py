"""Paying by PIX: the code is true, it can be copied, it ends in time, and the page notices."""

import re
import time
from datetime import timedelta
from io import BytesIO

import pytest
import segno
from PIL import Image
from playwright.async_api import expect

from support.boutique import PRICE, Boutique
from support.chromium import DESKTOP, PHONE, Screen
from support.codes import read_codes
from support.platform import promised, until
from support.shopper import Door, codes_of
from support.sink import running_sink
from vintem.brazil.br_code import parse_br_code
from vintem.kit.clock import BUSINESS_ZONE, utc_now

PAID_SECONDS_MAX = 5.0
EDGE_PIXELS = 3
WHITE_MIN = 250


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
async def test_the_page_notices_a_payment_within_five_seconds(
    door: Door, store: Boutique, screen: Screen
) -> None:
    async with running_sink() as sink:
        visit = await store.open_session(postbackUrl=sink.url(), externalRef="PEDIDO-1")
        buyer = await door.enter(visit, screen)
        await buyer.sees("Finalizar pagamento")
        await buyer.fill_in()
        await expect(buyer.page.locator("form[data-pay] button.primary")).to_contain_text(
            "R$\u00a0149,90"
        )
        await buyer.press_pay()
        await buyer.sees("Pague R$\u00a0149,90 com Pix")
        await expect(buyer.page.locator(".qr")).to_be_visible()
        assert "Pague com Pix" in await buyer.page.title()
        await buyer.page.evaluate("window.wasHere = true")

        (payment,) = await store.transactions_of(visit)
        await store.simulate(payment["id"], "paid")
        seconds = await buyer.until_paid(since=time.monotonic())

        assert seconds <= promised(PAID_SECONDS_MAX)
        assert await buyer.page.evaluate("window.wasHere"), "the page was loaded again"
        assert "Pagamento confirmado" in await buyer.page.title()
        await expect(buyer.page.locator("[role=status]#live")).to_have_text(
            re.compile("Pagamento confirmado")
        )
        assert await buyer.page.evaluate("document.activeElement.tagName") == "H1"
        wanted = {"checkout.session.completed", "transaction.paid"}
        await until(lambda: wanted <= {each.event["event"] for each in sink.at()}, seconds=30)
    assert (await store.read(visit))["status"] == "COMPLETED"


WIDTHS = [(Screen(width, 740, 2.0, is_phone=True)) for width in (320, 360, 390)] + [DESKTOP]


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
async def test_the_code_on_the_screen_is_the_code_of_the_payment(
    door: Door, store: Boutique, theme: str
) -> None:
    await store.publish(theme=theme)
    visit = await store.open_session()
    payment = await store.pay(visit)
    code = payment["pixQrCode"]
    # Read by its rules, the checksum at its end included.
    read = parse_br_code(code)
    assert read is not None
    assert read.amount_cents == PRICE
    for screen in WIDTHS:
        buyer = await door.enter(visit, screen)
        picture = buyer.page.locator(".qr")
        await picture.scroll_into_view_if_needed()
        assert await buyer.page.locator("#pix-code").input_value() == code
        shot = await picture.screenshot()
        assert codes_of(shot) == [code]
        # Also as one sees it: within the whole page.
        assert codes_of(await buyer.page.screenshot()) == [code]
        box = await buyer.page.locator(".qr svg").bounding_box()
        assert box is not None
        assert box["width"] >= (256 if screen.width == 320 else 264)
        assert box["width"] <= 320
        assert_white_border(shot, modules=len(segno.make(code, error="m", micro=False).matrix))
        await buyer.context.close()
    await store.publish()


def assert_white_border(shot: bytes, *, modules: int) -> None:
    """Four modules of white on every side of the code, in a picture of all that belongs to it."""
    with Image.open(BytesIO(shot)) as shown:
        picture = shown.convert("L")
    (code,) = read_codes(picture)
    left, top = code.position.top_left.x, code.position.top_left.y
    right, bottom = code.position.bottom_right.x, code.position.bottom_right.y
    border = 4 * (right - left) / modules - EDGE_PIXELS
    strips = (
        (left, top - border, right, top - EDGE_PIXELS),
        (left, bottom + EDGE_PIXELS, right, bottom + border),
        (left - border, top, left - EDGE_PIXELS, bottom),
        (right + EDGE_PIXELS, top, right + border, bottom),
    )
    for strip in strips:
        assert min(strip) >= 0, strip
        assert strip[2] <= picture.width, strip
        assert strip[3] <= picture.height, strip
        assert is_white(picture.crop(strip)), strip


def is_white(part: Image.Image) -> bool:
    return part.point(lambda shade: 0 if shade >= WHITE_MIN else 255).getbbox() is None


async def test_the_code_is_copied_byte_for_byte(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    code = (await store.pay(visit))["pixQrCode"]
    buyer = await door.enter(visit, permissions=["clipboard-read", "clipboard-write"])
    button = buyer.page.locator("[data-copy=pix-code]")
    await button.focus()
    await buyer.page.keyboard.press("Enter")
    await expect(button).to_contain_text("Código copiado")
    copied = time.monotonic()
    assert await buyer.page.evaluate("navigator.clipboard.readText()") == code
    await expect(buyer.page.locator("#live")).to_have_text("Código copiado")
    await expect(button).to_contain_text("Copiar código Pix")
    assert 2.0 <= time.monotonic() - copied <= promised(5.0)
    box = await button.bounding_box()
    assert box is not None
    assert box["height"] >= 48


async def test_the_code_is_copied_without_the_clipboard_api(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    code = (await store.pay(visit))["pixQrCode"]
    context, watch = await door.context()
    await context.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined})"
    )
    page = await context.new_page()
    await page.goto(visit.url)
    await page.evaluate(
        "document.addEventListener('copy', () => {"
        " const at = document.activeElement;"
        " window.copied = at.value.slice(at.selectionStart, at.selectionEnd) })"
    )
    button = page.locator("[data-copy=pix-code]")
    await button.click()
    await expect(button).to_contain_text("Código copiado")
    assert await page.evaluate("window.copied") == code
    watch.assert_clean()


async def test_a_code_ends_by_the_servers_clock_and_another_is_made(
    door: Door, store: Boutique
) -> None:
    visit = await store.open_session()
    payment = await store.pay(visit)
    code_id = payment["transactionId"]
    ends = utc_now() + timedelta(minutes=9)
    await store.set_payment_end(code_id, ends)
    context, _ = await door.context()
    page = await context.new_page()
    # A clock that is three hours wrong changes nothing.
    await page.clock.set_system_time(utc_now() + timedelta(hours=3))
    await page.goto(visit.url)
    said = f"Válido até {ends.astimezone(BUSINESS_ZONE):%H:%M} (horário de Brasília)"
    await expect(page.locator("main")).to_contain_text(said)
    countdown = page.locator("[role=timer]")
    await expect(countdown).to_have_text(re.compile(r"08:\d\d"))
    await page.evaluate(
        "window.said = []; new MutationObserver(() => said.push("
        "document.querySelector('#live').textContent)).observe("
        "document.querySelector('#live'), {childList: true, characterData: true, subtree: true})"
    )
    # The page hears from the server how long there is left, and believes nobody else.
    await store.set_payment_end(code_id, utc_now() + timedelta(seconds=64))
    await expect(countdown).to_have_text(re.compile(r"00:5[0-8]"))
    said_so_far = [words for words in await page.evaluate("window.said") if words]
    assert said_so_far == ["Falta 1 minuto para o código Pix vencer."]
    assert await page.locator("main").get_attribute("data-state") == "pix_shown"

    await store.set_payment_end(code_id, utc_now())
    await expect(page.locator("main")).to_have_attribute("data-state", "pix_expired")
    await expect(page.locator(".qr")).to_have_count(0)
    await expect(page.locator("#pix-code")).to_have_count(0)
    await page.get_by_role("button", name="Gerar novo código").click()
    await expect(page.locator("main")).to_have_attribute("data-state", "pix_shown")
    assert await page.locator("#pix-code").input_value() != payment["pixQrCode"]
    assert len(await store.transactions_of(visit)) == 2
