"""Every page of the dashboard, for every role, in both environments: exactly the table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from support.api import Api, HttpReply, new_tenant
from support.holdings import Holdings, new_holdings
from support.team import Browser, sign_in
from vintem.companies.model import Environment
from vintem.dashboard.menu import MENU
from vintem.dashboard.page import Page
from vintem.dashboard.pages import PAGES
from vintem.members.model import Permission, Role, may
from vintem.runtime.db import Database

SIGN_IN = "/dashboard/sign-in"
PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class House:
    """A company with one record of each kind in test, its people, and a stranger's owner."""

    team: Mapping[Role, Browser]
    csrf: Mapping[Role, str]
    stranger: Browser
    stranger_csrf: str
    nobody: Browser
    holdings: Holdings


@pytest.fixture(scope="module")
async def house(api: Api, database: Database) -> House:
    holdings, team = await new_holdings(api, database)
    stranger = await sign_in(api, database, await new_tenant(database), Role.OWNER)
    return House(
        team=team,
        csrf={role: await browser.csrf() for role, browser in team.items()},
        stranger=stranger,
        stranger_csrf=await stranger.csrf(),
        nobody=Browser(api),
        holdings=holdings,
    )


def address_of(page: Page, environment: Environment, ids: Mapping[str, str]) -> str:
    before, has_parameter, _ = page.path.partition("{")
    path = PARAMETER.sub(ids[before], page.path) if has_parameter else page.path
    return f"/dashboard/{environment}{path}"


async def ask(browser: Browser, page: Page, address: str, csrf: str) -> HttpReply:
    if page.method == "GET":
        return await browser.get(address)
    return await browser.post_raw(address, {"csrf": csrf})


def name_of(page: Page) -> str:
    return f"{page.method} {page.path or '/'}"


# A role that the form does not offer is no mistake of typing; a copy to live needs the right there.
FINER = frozenset({"/team/members/{id}/role", "/products/{productId}/copy", "/links/{linkId}/copy"})
# What everybody may do and what would end the browser's session for all further tests.
ENDING = frozenset({"/sign-out", "/change-company"})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
async def test_signed_out_every_page_leads_to_the_sign_in(house: House, page: Page) -> None:
    for environment in Environment:
        reply = await ask(
            house.nobody, page, address_of(page, environment, house.holdings.absent), ""
        )
        assert reply.status == 303
        assert reply.headers["location"].partition("?")[0] == SIGN_IN


@pytest.mark.parametrize("page", PAGES, ids=name_of)
async def test_each_role_may_exactly_what_the_table_says(house: House, page: Page) -> None:
    if page.path in ENDING:
        pytest.skip("ends the session; signing out has tests of its own")
    for environment in Environment:
        address = address_of(page, environment, house.holdings.absent)
        for role in Role:
            reply = await ask(house.team[role], page, address, house.csrf[role])
            if may(role, environment, page.permission):
                fine = {200, 303, 404, 409, 422} | ({403} if page.path in FINER else set())
                assert reply.status in fine, (role, address, reply.status)
                assert not reply.headers.get("location", "").startswith(SIGN_IN)
            else:
                assert reply.status == 403, (role, address, reply.status)


@pytest.mark.parametrize("page", [page for page in PAGES if page.method == "POST"], ids=name_of)
async def test_no_form_of_another_page_is_taken(house: House, page: Page) -> None:
    for environment in Environment:
        if not may(Role.OWNER, environment, page.permission):
            continue
        address = address_of(page, environment, house.holdings.absent)
        for csrf in ("", "0" * 64, house.stranger_csrf, house.csrf[Role.ADMIN]):
            reply = await ask(house.team[Role.OWNER], page, address, csrf)
            assert reply.status == 403, (address, csrf)


WITH_RECORD = [page for page in PAGES if PARAMETER.search(page.path)]
# Acts are numbered anew in each company: a stranger finds their own under the same number.
OWN_NUMBERS = "/trail/{sequence}"


@pytest.mark.parametrize(
    "page", [page for page in WITH_RECORD if page.path != OWN_NUMBERS], ids=name_of
)
async def test_no_record_of_another_company_is_there(house: House, page: Page) -> None:
    """What a stranger is told of a record is word for word what they are told of none."""
    theirs = await ask(
        house.stranger,
        page,
        address_of(page, Environment.TEST, house.holdings.ids),
        house.stranger_csrf,
    )
    none = await ask(
        house.stranger,
        page,
        address_of(page, Environment.TEST, house.holdings.absent),
        house.stranger_csrf,
    )
    assert theirs.status == none.status, page.path
    assert theirs.status in {404, 422} or page.path in FINER, (page.path, theirs.status)
    assert plain(theirs, house) == plain(none, house)


@pytest.mark.parametrize("page", WITH_RECORD, ids=name_of)
async def test_no_record_of_the_other_environment_is_there(house: House, page: Page) -> None:
    if not may(Role.OWNER, Environment.LIVE, page.permission) or page.path.startswith(SHARED):
        pytest.skip("nobody may, or the record belongs to both")
    owner, csrf = house.team[Role.OWNER], house.csrf[Role.OWNER]
    theirs = await ask(owner, page, address_of(page, Environment.LIVE, house.holdings.ids), csrf)
    none = await ask(owner, page, address_of(page, Environment.LIVE, house.holdings.absent), csrf)
    assert theirs.status == none.status, page.path
    assert plain(theirs, house) == plain(none, house)


SHARED = ("/team/", "/security/", "/trail/", "/appearance/versions/")
"""Pages of records that have no environment: people, their browsers, what they did. And versions,
which each environment numbers from one, so that both have the same numbers.
"""


def plain(reply: HttpReply, house: House) -> str:
    """A page without what differs from call to call."""
    text = re.sub(r"req_\d+_\w+", "req", reply.body.decode())
    for one in (*house.holdings.ids.values(), *house.holdings.absent.values()):
        text = re.sub(rf"\b{one}\b", "…", text)
    return text


def test_the_menu_has_only_pages_that_exist_and_asks_for_what_they_ask() -> None:
    pages = {page.path: page.permission for page in PAGES if page.method == "GET"}
    for section in MENU:
        for item in section.items:
            assert pages[item.path] == item.permission, item.path


async def test_the_menu_offers_each_role_what_it_may_open(house: House) -> None:
    for environment in Environment:
        for role, browser in house.team.items():
            shown = (await browser.get(f"/dashboard/{environment}")).body.decode()
            for section in MENU:
                for item in section.items:
                    is_offered = f'href="/dashboard/{environment}{item.path}"' in shown
                    if item.path and item.path != "/security":
                        assert is_offered == may(role, environment, item.permission), item


def test_every_permission_is_asked_for_or_read_by_some_page() -> None:
    """A permission that nothing asks for would promise what is not kept."""
    assert {page.permission for page in PAGES} <= set(Permission)
