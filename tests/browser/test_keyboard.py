"""Without a mouse, and for those who hear the page: order, names, rings, things said once."""

import re

from playwright.async_api import Page, expect

from support.boutique import Boutique
from support.chromium import DESKTOP
from support.shopper import Door

TABS_MAX = 60

# What has the focus: its name, where it is, and whether one sees that it has it.
FOCUSED = """
() => {
    const one = document.activeElement;
    if (!one || one === document.body) return null;
    const place = one.type === 'radio' ? one.closest('label') : one;
    const box = place.getBoundingClientRect();
    const ring = [one, place].some(each => {
        const style = getComputedStyle(each);
        return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
    });
    const onTop = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    return {
        what: one.id || one.name || one.textContent.trim().slice(0, 30), tag: one.tagName,
        ring, column: box.left, row: box.top + scrollY,
        isCovered: !(onTop && (place.contains(onTop) || onTop.contains(place))),
        isInside: one.closest('main') ? 'main' : (one.closest('footer') ? 'footer' : 'header'),
    };
}
"""


async def tab_through(page: Page) -> list[dict[str, object]]:
    """Every stop of the Tab key, once around."""
    stops: list[dict[str, object]] = []
    await page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    for _ in range(TABS_MAX):
        await page.keyboard.press("Tab")
        stop = await page.evaluate(FOCUSED)
        if stop is None or (stops and stop["what"] == stops[0]["what"]):
            break
        stops.append(stop)
    return stops


async def test_the_tab_key_goes_through_the_page_as_one_reads_it(
    door: Door, store: Boutique
) -> None:
    visit = await store.open_session(cancelUrl="https://loja.example/carrinho")
    buyer = await door.enter(visit, DESKTOP)
    stops = await tab_through(buyer.page)
    names = [str(stop["what"]) for stop in stops]
    assert names[0] == "Ir para o conteúdo"
    wanted = ["f-name", "f-email", "f-document", "f-phone", "m-pix"]
    assert [name for name in names if name in wanted] == wanted
    for stop in stops:
        assert stop["ring"], f"one does not see that {stop['what']} has the focus"
        assert not stop["isCovered"], f"{stop['what']} is covered"
    places = [str(stop["isInside"]) for stop in stops]
    assert places == sorted(places, key=["header", "main", "footer"].index)
    form = [float(str(stop["row"])) for stop in stops if str(stop["what"]).startswith("f-")
            and stop["what"] not in {"f-code", "f-phone"}]  # fmt: skip
    assert form == sorted(form)


async def test_everything_has_a_name_and_there_is_one_heading(door: Door, store: Boutique) -> None:
    buyer = await door.enter(await store.open_session(), DESKTOP)
    tree = ""
    for state in ("open", "pix_shown"):
        if state == "pix_shown":
            await buyer.fill_in()
            await buyer.press_pay()
            await buyer.sees_state(state)
        await expect(buyer.heading).to_have_count(1)
        tree = await buyer.page.locator("body").aria_snapshot()
        nameless = re.findall(
            r"^\s*- (textbox|button|link|radio|combobox|checkbox)(?:\s*\[[^\]]*\])*:?$",
            tree,
            re.MULTILINE,
        )
        assert nameless == [], tree
        assert "- main" in tree
        assert "- contentinfo" in tree
    assert 'img "QR Code Pix de R$' in tree


async def test_a_buyer_pays_with_the_keyboard_alone(door: Door, store: Boutique) -> None:
    visit = await store.open_session()
    buyer = await door.enter(visit, DESKTOP)
    page = buyer.page
    # The way past what is the same on every page.
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_be_focused()

    async def tab_to(place: str) -> None:
        for _ in range(TABS_MAX):
            await page.keyboard.press("Tab")
            if await page.evaluate("place => document.activeElement.matches(place)", place):
                return
        raise AssertionError(f"the Tab key does not come to {place}")

    await tab_to("#f-name")
    await page.keyboard.type("Maria da Silva")
    await tab_to("#f-email")
    await page.keyboard.type("maria@example.com")
    await tab_to("#f-document")
    await page.keyboard.type("52998224725")
    await tab_to("#m-pix")
    for key, choice in (
        ("Down", "credit_card"),
        ("Down", "boleto"),
        ("Up", "credit_card"),
        ("Up", "pix"),
    ):
        await page.keyboard.press(f"Arrow{key}")
        await expect(page.locator(f"#m-{choice}")).to_be_checked()
    await page.keyboard.press("Enter")
    await buyer.sees_state("pix_shown")
    await expect(page.locator("h1")).to_be_focused()
    await tab_to("[data-copy=pix-code]")
    assert (await page.evaluate(FOCUSED))["ring"]

    await page.evaluate(
        "window.said = []; new MutationObserver(() => said.push("
        "document.querySelector('#live').textContent)).observe("
        "document.querySelector('#live'), {childList: true, characterData: true, subtree: true})"
    )
    (payment,) = await store.transactions_of(visit)
    await store.simulate(payment["id"], "paid")
    await buyer.sees("Pagamento confirmado")
    await expect(page.locator("h1")).to_be_focused()
    await expect(page.locator("#live")).to_have_text("Pagamento confirmado")
    said = [words for words in await page.evaluate("window.said") if words]
    assert said == ["Pagamento confirmado"]
