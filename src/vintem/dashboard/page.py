"""What a page of the dashboard declares, and how a member comes to it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from vintem.api.call import Access, Answer, Call, Handler, Route
from vintem.companies.model import Environment
from vintem.dashboard.answers import forbidden, refusal_page, to_sign_in
from vintem.dashboard.cookies import cookie_of
from vintem.dashboard.csv_file import AnyExport
from vintem.dashboard.visit import ROOT, Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members import service as members
from vintem.members.model import Permission, SignedIn
from vintem.runtime.rate_limit import Decision, PublicLimit, Window
from vintem.trail import service as trail

DENIALS_PER_MINUTE: Final = 300

# What people of a suspended company may still send: their own access, who works there, and what
# buyers ask to know. The API refuses it every call; money must not leave it by a form instead.
WHILE_SUSPENDED: Final = frozenset(
    {
        Permission.SIGNED_IN,
        Permission.TEAM,
        Permission.PERSONAL_REVEAL,
        Permission.PERSONAL_EXPORT,
    }
)

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


def open_shown(path: str, handler: Handler, summary: str) -> Route:
    """Declare what is read by whoever comes, below `/dashboard`."""
    return Route(
        method="GET",
        path=f"{ROOT}{path}",
        handler=handler,
        summary=summary,
        group="Dashboard",
        access=Access.PUBLIC,
        is_described=False,
    )


def open_sent(path: str, handler: Handler, summary: str) -> Route:
    """Declare a form of somebody who is not signed in; each address has few tries."""
    return Route(
        method="POST",
        path=f"{ROOT}{path}",
        handler=handler,
        summary=summary,
        group="Dashboard",
        access=Access.PUBLIC,
        public_limits=(PublicLimit.SIGN_INS,),
        is_form=True,
        is_described=False,
    )


def _handler_of(page: Page, environment: Environment) -> Handler:
    async def handle(call: Call) -> Answer:
        member = await find_member(call)
        if member is None:
            return to_sign_in(call)
        visit = Visit(call, member, environment)
        if not visit.can(page.permission):
            return await deny(visit, "page", page.path, reason=page.permission)
        try:
            if page.method == "POST":
                await visit.check_csrf()
                _refuse_suspended(visit, page)
            return await page.handler(visit)
        except Refusal as refusal:
            return refusal_page(visit, refusal)

    return handle


def _refuse_suspended(visit: Visit, page: Page) -> None:
    if visit.member.is_company_suspended and page.permission not in WHILE_SUSPENDED:
        raise Refusal(ErrorCode.COMPANY_SUSPENDED)


def count_visit(visit: Visit, what: str, *, per_minute: int) -> None:
    """Refuse a member who does something more often than a person would."""
    decision = _counted(visit, what, per_minute=per_minute)
    if not decision.admitted:
        raise Refusal(
            ErrorCode.RATE_LIMIT_EXCEEDED, retry_after_seconds=decision.retry_after_seconds
        )


def _counted(visit: Visit, what: str, *, per_minute: int) -> Decision:
    window = Window(visit.scope.company_id, visit.member.person_id, what, per_minute, 60)
    return visit.resources.public_limiter.admit_now(window)


async def deny(visit: Visit, target_type: str, target_id: str, *, reason: str) -> Answer:
    """Say to a member that somebody else may do this, and write down that it was tried."""
    act = visit.act("permission.denied", target_type, target_id, reason=reason)
    # Nothing is ever taken out of the trail, so that nobody may fill it at will.
    if _counted(visit, "denials", per_minute=DENIALS_PER_MINUTE).admitted:
        async with visit.resources.database.atomic() as block:
            await trail.record(block, act)
    return forbidden(visit)


async def find_member(call: Call) -> SignedIn | None:
    """Find who is at the browser."""
    token = cookie_of(call)
    if not token:
        return None
    return await members.find_signed_in(call.resources.database, token, now=call.now)
