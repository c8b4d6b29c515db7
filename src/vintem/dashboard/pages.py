"""The table of the dashboard's pages."""

from collections.abc import Mapping
from typing import Final

from vintem.api.call import Access, Answer, Call, Handler, RefusalPage, Route
from vintem.dashboard import exports, home, trail
from vintem.dashboard.answers import go, show_refusal, to_sign_in
from vintem.dashboard.csv_file import AnyExport
from vintem.dashboard.files import FILES, PATH
from vintem.dashboard.page import Page, find_member, routes_of
from vintem.dashboard.visit import ROOT
from vintem.hosted.static import sending

PAGES: Final[tuple[Page, ...]] = (
    *home.PAGES,
    *trail.PAGES,
    *exports.PAGES,
)

EXPORTS: Final[Mapping[str, AnyExport]] = {
    page.export.what: page.export for page in PAGES if page.export is not None
}
"""Every list that can be had as a file, as the worker finds it."""


async def enter(call: Call) -> Answer:
    """Lead a member to the first page."""
    member = await find_member(call)
    return to_sign_in(call) if member is None else go(f"{ROOT}/test")


def _open_route(path: str, handler: Handler, summary: str) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        group="Dashboard",
        access=Access.PUBLIC,
        is_described=False,
    )


ROUTES: Final[tuple[Route, ...]] = (
    _open_route(ROOT, enter, "The way into the dashboard"),
    _open_route(f"{PATH}/{{name}}", sending(FILES), "A file of the dashboard's pages"),
    *(route for page in PAGES for route in routes_of(page)),
)

REFUSAL_PAGES: Final[dict[str, RefusalPage]] = {"dashboard": show_refusal}
