"""Whatever colours, names and pictures a merchant chooses, buyers can read the page."""

import random
from itertools import product

import msgspec
from playwright.async_api import expect

from support import page_views
from support.chromium import (
    DESKTOP,
    PHONE,
    SHAPE_CONTRAST_MIN,
    TEXT_CONTRAST_MIN,
    axe_complaints,
    bring_axe,
    contrast,
)
from support.shopper import Door, codes_of
from support.showcase import Showcase
from vintem.hosted import views
from vintem.hosted.colours import style_of
from vintem.hosted.views import Theme

PAIRS = 200
EXTREMES = ["#ffffff", "#000000", "#ffff00", "#00ffff", "#ff0000", "#0000ff", "#777777", "#767676"]

# Swaps the one style block for another, and reads what a buyer would see.
READ = """
styles => styles.map(style => {
    document.querySelector('style').textContent = style;
    const opaque = one => {
        while (one) {
            const colour = getComputedStyle(one).backgroundColor;
            if (colour.startsWith('rgb(')) return colour;
            one = one.parentElement;
        }
        return 'rgb(255, 255, 255)';
    };
    const button = document.querySelector('.btn.primary');
    const text = selector => {
        const one = document.querySelector(selector);
        return [selector, getComputedStyle(one).color, opaque(one)];
    };
    const ring = selector => {
        const one = document.querySelector(selector);
        one.focus({focusVisible: true});
        const style = getComputedStyle(one);
        return [selector, style.outlineColor, opaque(one.parentElement), style.outlineWidth];
    };
    return {
        texts: ['.btn.primary', 'h1', '.store', 'footer label', 'footer .contact a', 'label',
                '.secure', '.initial'].map(text),
        edge: [getComputedStyle(button).borderTopColor, opaque(button.parentElement),
               getComputedStyle(button).backgroundColor],
        rings: ['.btn.primary', '#f-name', '#lang', '.back'].map(ring),
    };
})
"""
WEAR = "style => { document.querySelector('style').textContent = style }"


def pairs() -> list[tuple[str, str]]:
    dice = random.Random(20_261_115)
    extremes = [(one, other) for one in EXTREMES for other in EXTREMES]
    random_pairs = [
        (f"#{dice.randrange(1 << 24):06x}", f"#{dice.randrange(1 << 24):06x}") for _ in range(PAIRS)
    ]
    return [*extremes, *random_pairs]


async def test_no_pair_of_colours_makes_the_page_illegible(hall: Door, showcase: Showcase) -> None:
    # Colours that are still on their way to others would be read otherwise.
    context, _ = await hall.context(DESKTOP, reduced_motion="reduce")
    page = await context.new_page()
    for theme in (Theme.LIGHT, Theme.DARK):
        await page.goto(showcase.url("open", theme))
        styles = [style_of(*pair, theme) for pair in pairs()]
        for (primary, background), seen in zip(
            pairs(), await page.evaluate(READ, styles), strict=True
        ):
            worn = f"{primary} on {background}, {theme}"
            for place, ink, ground in seen["texts"]:
                assert contrast(ink, ground) >= TEXT_CONTRAST_MIN, f"{place}: {worn}"
            edge, card, fill = seen["edge"]
            stands_out = max(contrast(edge, card), contrast(fill, card))
            assert stands_out >= SHAPE_CONTRAST_MIN, f"button: {worn}"
            for place, ring, ground, width in seen["rings"]:
                assert contrast(ring, ground) >= SHAPE_CONTRAST_MIN, f"ring of {place}: {worn}"
                assert width == "3px", place


async def test_the_code_is_black_on_white_whatever_the_colours(
    hall: Door, showcase: Showcase
) -> None:
    context, _ = await hall.context(PHONE)
    page = await context.new_page()
    for theme, colours in product(
        (Theme.LIGHT, Theme.DARK), [("#ffff00", "#00ff00"), ("#000000",) * 2]
    ):
        await page.goto(showcase.url("pix_shown", theme))
        await page.evaluate(WEAR, style_of(*colours, theme))
        picture = page.locator(".qr")
        await picture.scroll_into_view_if_needed()
        assert codes_of(await picture.screenshot()) == [page_views.PIX_CODE]


async def test_axe_finds_nothing_in_the_most_extreme_colours(
    hall: Door, showcase: Showcase
) -> None:
    context, _ = await hall.context(DESKTOP)
    await bring_axe(context)
    page = await context.new_page()
    for primary, background in (
        ("#ffffff", "#ffffff"),
        ("#000000", "#ffff00"),
        ("#ffff00", "#777777"),
    ):
        for theme in (Theme.LIGHT, Theme.DARK):
            dressed = page_views.brand(theme, primary_color=primary, background_color=background)
            await page.goto(showcase.show(page_views.page("open_card", dressed=dressed)))
            assert await axe_complaints(page) == [], f"{primary} on {background}, {theme}"


HOSTILE = [
    '"><script>alert(1)</script>',
    "</title><img src=x onerror=alert(1)>",
    "'-alert(1)-'",
    "{{ 7 * 7 }}",
    "</style><script>alert(1)</script>",
    "مرحبا بكم في متجرنا \u202e gnitseretni",
    "Uma loja com um nome muito comprido que não cabe em linha nenhuma de celular " * 2,
    "SemEspaços" * 20,
    "\u0000\u0008 controle",
]


async def test_names_are_shown_as_they_are_and_do_nothing(hall: Door, showcase: Showcase) -> None:
    context, _ = await hall.context(PHONE)
    page = await context.new_page()
    page.on("dialog", lambda dialog: (_ for _ in ()).throw(AssertionError(dialog.message)))
    for name in HOSTILE:
        for state in ("open", "paid", "link_landing"):
            drawn = page_views.page(state, dressed=page_views.brand(Theme.LIGHT, name=name))
            if state == "link_landing":
                assert isinstance(drawn.state, views.LinkLanding)
                item = msgspec.structs.replace(drawn.state.item, name=name)
                landing = msgspec.structs.replace(
                    drawn.state, item=item, message=name, submits_itself=False
                )
                drawn = msgspec.structs.replace(drawn, state=landing)
            await page.goto(showcase.show(drawn))
            assert await page.evaluate("document.scripts.length") == 1
            assert await page.evaluate("document.querySelectorAll('[onerror]').length") == 0
            shown = await page.locator(".store").inner_text()
            assert "".join(shown.split()) == "".join(name.replace("\0", "").split())
            wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{state}: {name}"
    await expect(page.locator("h1")).to_have_count(1)
