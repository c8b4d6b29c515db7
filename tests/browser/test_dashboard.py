"""Every page of the dashboard: axe finds nothing, nothing scrolls sideways, nothing is reported."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from playwright.async_api import Browser, BrowserContext, Page

from support.api import Api
from support.chromium import DESKTOP, Screen, axe_complaints, bring_axe
from support.holdings import Holdings, new_holdings
from support.shopper import Door
from support.team import COOKIE
from vintem.dashboard.pages import PAGES
from vintem.members.model import Role
from vintem.runtime.db import Database

NARROW = Screen(320, 640, 2.0, is_phone=True)
OPEN_PAGES = (
    "/dashboard/sign-in",
    "/dashboard/reset",
    f"/dashboard/reset/{'x' * 43}",
    f"/dashboard/invitation/{'x' * 43}",
    "/dashboard/nowhere",
)

NOT_NOW = 409
"""A record is not in the state for what a page would do; it says so."""
NO_PAGES = (".csv", ".svg", ".png", "/file", "/stay", "/frame")
# What this company cannot see: a domain it has not named, an address of this machine.
ELSEWHERE = frozenset({"/domains/remove", "/simulators/sink"})


@dataclass(frozen=True)
class House:
    holdings: Holdings
    owner_token: str


@pytest.fixture(scope="module")
async def house(api: Api, database: Database) -> House:
    holdings, team = await new_holdings(api, database)
    return House(holdings, team[Role.OWNER].token)


@pytest.fixture
async def office(browser: Browser, api: Api) -> AsyncIterator[Door]:
    """Where members come in; what their browsers reported is looked at when they have left."""
    opened = Door(browser, api.base_url)
    yield opened
    await opened.close()


async def signed_in(office: Door, house: House, screen: Screen, theme: str) -> BrowserContext:
    context, watch = await office.context(screen, theme=theme)
    watch.statuses.add(NOT_NOW)
    await bring_axe(context)
    cookie = {"name": COOKIE, "value": house.owner_token, "url": f"{office.base_url}/dashboard"}
    await context.add_cookies([cookie])  # type: ignore[list-item]
    return context


def addresses(house: House) -> list[str]:
    """Every page that is read, each with a record of the company."""
    found = []
    for page in PAGES:
        if page.method != "GET" or page.path.endswith(NO_PAGES) or page.path in ELSEWHERE:
            continue
        before, has_parameter, rest = page.path.partition("{")
        if has_parameter:
            found.append(f"{before}{house.holdings.ids[before]}{rest.partition('}')[2]}")
        else:
            found.append(page.path)
    return [f"/dashboard/test{path}" for path in found]


async def test_axe_finds_nothing_on_any_page_of_a_member(office: Door, house: House) -> None:
    context = await signed_in(office, house, DESKTOP, "light")
    page, complaints = await context.new_page(), []
    for address in addresses(house):
        await visit(page, office.base_url + address)
        complaints += [f"{address}: {each}" for each in await axe_complaints(page)]
    assert complaints == []


async def test_no_page_scrolls_sideways_on_a_narrow_phone_and_its_dark_colours_are_read(
    office: Door, house: House
) -> None:
    context = await signed_in(office, house, NARROW, "dark")
    page, complaints = await context.new_page(), []
    for address in addresses(house):
        await visit(page, office.base_url + address)
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            complaints.append(f"{address}: {wide} px too wide")
        found = await axe_complaints(page, only_colours=True)
        complaints += [f"{address}: {each}" for each in found]
    assert complaints == []


async def test_axe_finds_nothing_on_the_pages_before_signing_in(office: Door) -> None:
    context, watch = await office.context(NARROW)
    await bring_axe(context)
    watch.statuses |= {404, 410}
    page, complaints = await context.new_page(), []
    for address in OPEN_PAGES:
        await page.goto(office.base_url + address)
        complaints += [f"{address}: {each}" for each in await axe_complaints(page)]
    assert complaints == []


async def visit(page: Page, url: str) -> None:
    answer = await page.goto(url)
    assert answer is not None
    assert answer.status in {200, NOT_NOW}, f"{url}: {answer.status}"
