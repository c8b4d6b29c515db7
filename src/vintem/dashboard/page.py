"""What a page of the dashboard declares, and how a member comes to it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final

from vintem.api.call import Access, Answer, Call, Handler, Route
from vintem.companies.model import Environment
from vintem.dashboard.answers import forbidden, refusal_page, to_sign_in
from vintem.dashboard.csv_file import AnyExport
from vintem.dashboard.visit import ROOT, Visit
from vintem.kit.errors import Refusal
from vintem.members import service as members
from vintem.members.model import Permission, SignedIn

COOKIE: Final = "vintem_dashboard"

VisitHandler = Callable[[Visit], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One line of the dashboard's table: the routes and the tests of who may what read it."""

    method: str
    path: str
    """Below `/dashboard/live` and `/dashboard/test`."""
    handler: VisitHandler
    permission: Permission
    summary: str
    export: AnyExport | None = None
    """What the page gives as a file; the worker finds the long ones by it."""


def shown(path: str, handler: VisitHandler, permission: Permission, summary: str) -> Page:
    """Declare what is read."""
    return Page(method="GET", path=path, handler=handler, permission=permission, summary=summary)


def sent(path: str, handler: VisitHandler, permission: Permission, summary: str) -> Page:
    """Declare what a form does."""
    return Page(method="POST", path=path, handler=handler, permission=permission, summary=summary)


def routes_of(page: Page) -> tuple[Route, ...]:
    """The routes of a page: one for each environment."""
    return tuple(
        Route(
            method=page.method,
            path=f"{ROOT}/{environment}{page.path}",
            handler=_handler_of(page, environment),
            summary=page.summary,
            group="Dashboard",
            access=Access.PUBLIC,
            is_form=page.method == "POST",
            is_described=False,
        )
        for environment in Environment
    )


def _handler_of(page: Page, environment: Environment) -> Handler:
    async def handle(call: Call) -> Answer:
        member = await find_member(call)
        if member is None:
            return to_sign_in(call)
        visit = Visit(call, member, environment)
        if not visit.can(page.permission):
            return forbidden(visit)
        try:
            return await page.handler(visit)
        except Refusal as refusal:
            return refusal_page(visit, refusal)

    return handle


async def find_member(call: Call) -> SignedIn | None:
    """Find who is at the browser."""
    token = cookie_of(call)
    if not token:
        return None
    return await members.find_signed_in(call.resources.database, token, now=call.now)


def cookie_of(call: Call) -> str:
    """Read the cookie that a browser was given when it was signed in."""
    try:
        sent_cookies = SimpleCookie(call.headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return ""
    cookie = sent_cookies.get(COOKIE)
    return "" if cookie is None else cookie.value
