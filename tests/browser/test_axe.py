"""Nobody is left out: axe finds nothing on any page, in any theme, on any screen, in any language.

Other languages have the same elements and colours; of them one page of each state is looked at, on
one screen in one theme. A dark page has the elements of a light one, which is proven here; of it
only the colours are looked at. With BROWSER_MATRIX=full everything is looked at in all of them.
"""

import os
from collections.abc import Iterator

import pytest

from support import page_views
from support.boutique import Boutique
from support.chromium import DESKTOP, PHONE, axe_complaints, bring_axe
from support.shopper import Door
from support.showcase import Showcase
from vintem.hosted.views import Language, Theme

SCREENS = {"phone": PHONE, "desktop": DESKTOP}
STATES = ("open_card", "open_boleto", "declined", "pix_shown", "pix_expired", "boleto_shown",
          "processing", "in_review", "paid", "expired", "cancelled", "link_landing",
          "link_inactive", "not_found", "error")  # fmt: skip
IS_FULL = os.environ.get("BROWSER_MATRIX") == "full"


def looks() -> Iterator[tuple[str, str, str]]:
    for language in ("pt-BR", "en", "es"):
        for screen in SCREENS:
            for theme in ("LIGHT", "DARK"):
                is_first = (screen, theme) == ("phone", "LIGHT")
                if language == "pt-BR" or is_first or IS_FULL:
                    yield language, screen, theme


@pytest.mark.parametrize(("language", "screen", "theme"), list(looks()))
async def test_axe_finds_nothing_on_any_page(
    hall: Door, showcase: Showcase, language: str, screen: str, theme: str
) -> None:
    context, _ = await hall.context(SCREENS[screen])
    await bring_axe(context)
    page = await context.new_page()
    complaints = []
    for name in page_views.names() if IS_FULL or language == "pt-BR" else STATES:
        await page.goto(showcase.url(name, theme, language))
        only_colours = theme == "DARK" and not IS_FULL
        if only_colours:
            assert body_of(name, Theme.DARK) == body_of(name, Theme.LIGHT)
        found = await axe_complaints(page, only_colours=only_colours)
        complaints += [f"{name}: {each}" for each in found]
    assert complaints == []


def body_of(name: str, theme: Theme) -> str:
    return page_views.html(name, Language.PORTUGUESE, theme, is_test=True).partition("</head>")[2]


async def test_axe_finds_nothing_with_everything_unfolded(hall: Door, showcase: Showcase) -> None:
    context, _ = await hall.context(PHONE)
    await bring_axe(context)
    page = await context.new_page()
    for name in ("open", "open_card", "open_boleto", "paid"):
        await page.goto(showcase.url(name, "LIGHT"))
        await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert await axe_complaints(page) == []


async def test_axe_finds_nothing_on_the_pages_of_a_real_shop(door: Door, store: Boutique) -> None:
    opened = {state: await store.open_session() for state in ("open", "pix_shown", "boleto_shown",
              "processing", "in_review", "declined", "paid", "cancelled", "expired")}  # fmt: skip
    await store.pay(opened["pix_shown"])
    await store.pay(opened["boleto_shown"], "boleto")
    decided = {"processing": "processing", "in_review": "blocked", "paid": "paid"}
    for state, word in decided.items():
        payment = await store.pay(opened[state])
        await store.simulate(payment["transactionId"], word)
    await store.pay_by_card(opened["declined"], "4000000000000002")
    await store.cancel(opened["cancelled"])
    await store.expire(opened["expired"])
    paused = await store.link(inactive_message="Voltamos em janeiro.")
    await store.pause(paused)
    places = {
        **{state: visit.url for state, visit in opened.items()},
        "not_found": f"{store.base_url}/s/{'x' * 43}",
        "link_inactive": f"{store.base_url}/l/{paused.public_token}",
    }
    statuses = {"cancelled": 410, "expired": 410, "not_found": 404, "link_inactive": 410}
    for state, url in places.items():
        visitor = await door.enter(url, status=statuses.get(state, 200))
        if state != "not_found":
            await visitor.sees_state(state)
        visitor.watch.assert_clean()
        assert await axe_complaints(visitor.page) == [], state
