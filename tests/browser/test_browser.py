"""The browser itself: the fonts of a phone, a reader of codes, and a reader of flaws."""

from io import BytesIO

from PIL import Image
from playwright.async_api import Browser

from support.chromium import PHONE, axe_complaints
from support.codes import read_codes
from vintem.brazil.qr_picture import draw_svg


async def test_text_is_shown_in_the_face_of_a_phone(browser: Browser) -> None:
    page = await browser.new_page()
    await page.set_content("<p style='font-family: system-ui'>Ação: R$ 1.234,56</p>")
    session = await page.context.new_cdp_session(page)
    await session.send("DOM.enable")
    await session.send("CSS.enable")
    root = await session.send("DOM.getDocument")
    node = await session.send(
        "DOM.querySelector", {"nodeId": root["root"]["nodeId"], "selector": "p"}
    )
    fonts = await session.send("CSS.getPlatformFontsForNode", {"nodeId": node["nodeId"]})
    await page.context.close()
    assert {font["familyName"] for font in fonts["fonts"]} == {"Roboto"}


async def test_a_code_is_read_from_a_screenshot(browser: Browser) -> None:
    context = await browser.new_context(
        viewport={"width": PHONE.width, "height": PHONE.height}, device_scale_factor=PHONE.scale
    )
    page = await context.new_page()
    await page.set_content(f"<div style='width:264px'>{draw_svg('00020126BR').decode()}</div>")
    shot = Image.open(BytesIO(await page.screenshot()))
    await context.close()
    assert [code.text for code in read_codes(shot)] == ["00020126BR"]


async def test_a_page_with_flaws_is_complained_of(browser: Browser) -> None:
    page = await browser.new_page()
    await page.set_content("<input><img src='data:,'><p style='color:#aaa'>pale</p>")
    complaints = " ".join(await axe_complaints(page))
    await page.context.close()
    for rule in ("label", "image-alt", "color-contrast", "html-has-lang", "landmark-one-main"):
        assert f"violations: {rule}:" in complaints
