"""The table of the dashboard's pages."""

from typing import Final

from vintem.api.call import Answer, Call, RefusalPage, Route
from vintem.dashboard import (
    appearance,
    coupons,
    home,
    invitations,
    links,
    products,
    recovery,
    security,
    sign_in,
    team,
)
from vintem.dashboard.answers import go, show_refusal, to_sign_in
from vintem.dashboard.files import FILES, PATH
from vintem.dashboard.page import Page, find_member, open_shown, routes_of
from vintem.dashboard.visit import ROOT
from vintem.hosted.static import sending

PAGES: Final[tuple[Page, ...]] = (
    *home.PAGES,
    *products.PAGES,
    *coupons.PAGES,
    *links.PAGES,
    *appearance.PAGES,
    *security.PAGES,
    *sign_in.PAGES,
    *team.PAGES,
)


async def enter(call: Call) -> Answer:
    """Lead a member to the first page."""
    member = await find_member(call)
    return to_sign_in(call) if member is None else go(f"{ROOT}/test")


ROUTES: Final[tuple[Route, ...]] = (
    open_shown("", enter, "The way into the dashboard"),
    open_shown(
        f"{PATH.removeprefix(ROOT)}/{{name}}", sending(FILES), "A file of the dashboard's pages"
    ),
    *sign_in.ROUTES,
    *recovery.ROUTES,
    *invitations.ROUTES,
    *(route for page in PAGES for route in routes_of(page)),
)

REFUSAL_PAGES: Final[dict[str, RefusalPage]] = {"dashboard": show_refusal}
