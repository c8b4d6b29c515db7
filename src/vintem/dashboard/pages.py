"""The table of the dashboard's pages."""

from collections.abc import Mapping
from typing import Final

from vintem.api.call import Answer, Call, RefusalPage, Route
from vintem.dashboard import (
    company,
    deliveries,
    domains,
    exports,
    home,
    invitations,
    keys,
    limits,
    methods,
    recovery,
    requests,
    sandbox,
    security,
    sign_in,
    simulators,
    team,
    trail,
    webhooks,
)
from vintem.dashboard.answers import go, show_refusal, to_sign_in
from vintem.dashboard.csv_file import AnyExport
from vintem.dashboard.files import FILES, PATH
from vintem.dashboard.page import Page, find_member, open_shown, routes_of
from vintem.dashboard.visit import ROOT
from vintem.hosted.static import sending

PAGES: Final[tuple[Page, ...]] = (
    *home.PAGES,
    *security.PAGES,
    *sign_in.PAGES,
    *company.PAGES,
    *limits.PAGES,
    *methods.PAGES,
    *domains.PAGES,
    *trail.PAGES,
    *exports.PAGES,
    *team.PAGES,
    *keys.PAGES,
    *webhooks.PAGES,
    *deliveries.PAGES,
    *requests.PAGES,
    *simulators.PAGES,
    *sandbox.PAGES,
)

EXPORTS: Final[Mapping[str, AnyExport]] = {
    page.export.what: page.export for page in PAGES if page.export is not None
}
"""Every list that can be had as a file, as the worker finds it."""


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
