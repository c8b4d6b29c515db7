"""The table of the dashboard's pages."""

from typing import Final

from vintem.api.call import Answer, Call, RefusalPage, Route
from vintem.dashboard import (
    deliveries,
    home,
    invitations,
    keys,
    recovery,
    requests,
    sandbox,
    security,
    sign_in,
    simulators,
    team,
    webhooks,
)
from vintem.dashboard.answers import go, show_refusal, to_sign_in
from vintem.dashboard.files import FILES, PATH
from vintem.dashboard.page import Page, find_member, open_shown, routes_of
from vintem.dashboard.visit import ROOT
from vintem.hosted.static import sending

PAGES: Final[tuple[Page, ...]] = (
    *home.PAGES,
    *security.PAGES,
    *sign_in.PAGES,
    *team.PAGES,
    *keys.PAGES,
    *webhooks.PAGES,
    *deliveries.PAGES,
    *requests.PAGES,
    *simulators.PAGES,
    *sandbox.PAGES,
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
