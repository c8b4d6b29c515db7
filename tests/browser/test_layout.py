"""Small screens, large text, wide spacing, few colours and no motion: nothing is lost."""

import pytest
from playwright.async_api import BrowserContext, Page

from support import page_views
from support.chromium import DESKTOP, PHONE, Screen
from support.shopper import Door, codes_of
from support.showcase import Showcase

TARGET_POINTS_MIN = 44
# The user style of WCAG 1.4.12.
SPACING = (
    "* { line-height: 1.5 !important; letter-spacing: .12em !important;"
    " word-spacing: .16em !important } p { margin-bottom: 2em !important }"
)

# Text that is cut off: a box that hides what does not fit, and does not scroll either.
CUT_OFF = """
() => [...document.querySelectorAll('body *')].filter(one => {
    const style = getComputedStyle(one);
    const scrolls = '.vh, .skip, svg, input, select, textarea, option';
    if (!one.checkVisibility() || one.closest(scrolls)) return false;
    const hides = style.overflowX === 'hidden' || style.overflowX === 'clip'
        || style.overflowY === 'hidden' || style.overflowY === 'clip';
    const isWider = one.scrollWidth > one.clientWidth + 1;
    return hides && (isWider || one.scrollHeight > one.clientHeight + 1);
}).map(one => one.outerHTML.slice(0, 120))
"""
# What reaches beyond the window although the page does not scroll there.
BEYOND = """
() => [...document.querySelectorAll('body *')].filter(one => {
    if (!one.checkVisibility() || one.closest('.vh, .skip, .scroll, svg')) return false;
    const box = one.getBoundingClientRect();
    return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map(one => one.outerHTML.slice(0, 120))
"""
# Links inside a sentence are exempt; a radio is pressed by its label.
SMALL_TARGETS = """
least => [...document.querySelectorAll(
    'a, button, input, select, textarea, summary, [tabindex="0"]'
)].filter(one => {
    if (!one.checkVisibility() || one.type === 'hidden' || one.closest('.skip')) return false;
    const place = one.type === 'radio' ? one.closest('label') : one;
    const box = place.getBoundingClientRect();
    const isInText = one.tagName === 'A' && one.closest('p, li')
        && getComputedStyle(one).display === 'inline';
    return !isInText && (box.height < least || box.width < least);
}).map(one => {
    const box = one.getBoundingClientRect();
    return `${Math.round(box.width)}x${Math.round(box.height)} ${one.outerHTML.slice(0, 120)}`;
})
"""


async def opened(context: BrowserContext, url: str) -> Page:
    page = await context.new_page()
    await page.goto(url)
    return page


async def assert_all_is_there(page: Page, name: str) -> None:
    width = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1], f"{name} scrolls sideways: {width}"
    assert await page.evaluate(BEYOND) == [], name
    assert await page.evaluate(CUT_OFF) == [], name


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
async def test_a_window_of_320_points_shows_everything(
    hall: Door, showcase: Showcase, theme: str
) -> None:
    context, _ = await hall.context(Screen(320, 640, 2.0, is_phone=True))
    page = await context.new_page()
    for name in page_views.names():
        await page.goto(showcase.url(name, theme))
        await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        await assert_all_is_there(page, name)


async def test_text_of_twice_the_size_is_not_cut_off(hall: Door, showcase: Showcase) -> None:
    context, _ = await hall.context(PHONE)
    page = await context.new_page()
    # As a buyer sets it in the browser: the size of the letters, not the zoom.
    for name in page_views.names():
        await page.goto(showcase.url(name, "LIGHT"))
        await page.evaluate("document.documentElement.style.setProperty('font-size', '200%')")
        await assert_all_is_there(page, name)


async def test_wide_spacing_is_not_cut_off(hall: Door, showcase: Showcase) -> None:
    context, _ = await hall.context(PHONE, bypass_csp=True)
    page = await context.new_page()
    for name in page_views.names():
        await page.goto(showcase.url(name, "LIGHT"))
        await page.add_style_tag(content=SPACING)
        await assert_all_is_there(page, name)


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
async def test_everything_to_press_is_large_enough(
    hall: Door, showcase: Showcase, screen: Screen
) -> None:
    context, _ = await hall.context(screen)
    page = await context.new_page()
    for name in page_views.names():
        await page.goto(showcase.url(name, "LIGHT"))
        await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert await page.evaluate(SMALL_TARGETS, TARGET_POINTS_MIN) == [], name


async def test_nothing_moves_for_those_who_want_it_still(hall: Door, showcase: Showcase) -> None:
    for wish, is_still in (("reduce", True), ("no-preference", False)):
        context, _ = await hall.context(PHONE, reduced_motion=wish)
        moving = 0
        for name in ("processing", "pix_shown", "open"):
            page = await opened(context, showcase.url(name, "LIGHT"))
            moving += await page.evaluate(
                "document.getAnimations().filter(one => one.effect.getComputedTiming()"
                ".activeDuration > 10).length"
            )
        assert (moving == 0) is is_still


async def test_borders_remain_when_the_system_chooses_the_colours(
    hall: Door, showcase: Showcase
) -> None:
    context, _ = await hall.context(PHONE, forced_colors="active")
    page = await opened(context, showcase.url("open", "LIGHT"))
    for place in ("#f-name", "form[data-pay] button.primary", ".method"):
        border = await page.locator(place).first.evaluate(
            "one => { const style = getComputedStyle(one);"
            " return parseFloat(style.borderTopWidth) > 0 && style.borderTopStyle !== 'none' }"
        )
        assert border, place
    await page.goto(showcase.url("pix_shown", "LIGHT"))
    picture = page.locator(".qr")
    await picture.scroll_into_view_if_needed()
    assert codes_of(await picture.screenshot()) == [page_views.PIX_CODE]
