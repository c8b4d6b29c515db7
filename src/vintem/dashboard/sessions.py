"""Checkout sessions: the list, one of them, and the way to end it."""

from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.checkout import listing
from vintem.checkout import service as checkout
from vintem.checkout.model import PAYABLE, Session, SessionStatus
from vintem.dashboard.answers import go, page
from vintem.dashboard.asked import cursor_of, period_of
from vintem.dashboard.forms import Form
from vintem.dashboard.masks import HIDDEN, mask_document, mask_email, mask_name, mask_phone
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.payment_rows import CHECKOUT, LINK, BuyerShown, rows_of
from vintem.dashboard.statuses import SESSION, Said
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.kit.paging import Cursor
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail
from vintem.transactions import browsing

ROWS_MAX: Final = 50


class Asked(msgspec.Struct, frozen=True):
    """Which sessions are shown."""

    status: str = ""
    since: str = ""
    until: str = ""
    before: str = ""

    @property
    def filters(self) -> dict[str, str]:
        """What the address says besides the place in the list."""
        return {"status": self.status, "since": self.since, "until": self.until}


class Line(msgspec.Struct, frozen=True):
    """A session as a line of the table."""

    session: Session
    status: Said
    product: str
    origin: str


async def show_sessions(visit: Visit) -> Answer:
    """List sessions, the newest first."""
    asked, now = visit.asked(Asked), visit.call.now
    since, until = period_of(asked.since, asked.until)
    known = {str(status): status for status in SessionStatus}
    wanted = listing.Filter(visit.scope, known.get(asked.status), since, until)
    before = cursor_of(asked.before)
    found = await listing.list_page(
        visit.resources.database, wanted, cursor=before, offset=0, rows_max=ROWS_MAX + 1, now=now
    )
    listed = found[:ROWS_MAX]
    older = ""
    if len(found) > len(listed):
        last = Cursor(listed[-1].created_at, listed[-1].session_id)
        older = visit.href("/sessions", **asked.filters, before=last.encode())
    return page(
        visit,
        "sessions.html",
        title="Sessões de checkout",
        asked=asked,
        lines=[_line(visit, session) for session in listed],
        statuses=[("", "Todos"), *((each, said.label) for each, said in SESSION.items())],
        is_filtered=any(asked.filters.values()),
        newer=visit.href("/sessions", **asked.filters) if before is not None else "",
        older=older,
    )


async def show_session(visit: Visit) -> Answer:
    """Show a session and the payments that were tried for it."""
    session = await _find(visit)
    database, scope = visit.resources.database, visit.scope
    tried = await listing.list_payments_of(database, scope, session.session_id)
    payments = await browsing.find_many(database, scope, tried)
    return page(
        visit,
        "session.html",
        title="Sessão de checkout",
        line=_line(visit, session),
        session=session,
        buyer=_buyer(visit, session),
        rows=await rows_of(visit, payments),
        can_end=visit.can("session.manage") and _is_open(visit, session),
    )


async def ask_end(visit: Visit) -> Answer:
    """Show what ending a session means before it is done."""
    session = await _find(visit)
    if not _is_open(visit, session):
        raise Refusal(ErrorCode.INVALID_STATE)
    return page(visit, "session_end.html", title="Encerrar sessão", line=_line(visit, session))


async def end(visit: Visit) -> Answer:
    """End a session now: nobody can pay it any more."""
    await visit.form(Form)
    session = await _find(visit)

    async def note(block: Connection) -> None:
        act = visit.act(
            "session.cancelled",
            "session",
            session.session_id,
            before={"status": session.status},
            after={"status": SessionStatus.CANCELLED},
        )
        await trail.record(block, act)

    await checkout.cancel_session(
        visit.resources.database, visit.scope, session.session_id, now=visit.call.now, also=note
    )
    return go(visit.href(f"/sessions/{session.session_id}", said="session-ended"))


async def _find(visit: Visit) -> Session:
    session_id = visit.call.params["id"]
    found = None
    if is_id(session_id, Prefix.SESSION):
        found = await checkout.find_session(visit.resources.database, visit.scope, session_id)
    if found is None:
        raise Refusal(ErrorCode.SESSION_NOT_FOUND)
    return found


def _is_open(visit: Visit, session: Session) -> bool:
    return session.status_at(visit.call.now) in PAYABLE


def _line(visit: Visit, session: Session) -> Line:
    items = session.line_items
    product = items[0].name if items else ""
    if len(items) > 1:
        product += f" e mais {len(items) - 1}"
    status = SESSION[session.status_at(visit.call.now)]
    return Line(session, status, product, LINK if session.link_id else CHECKOUT)


def _buyer(visit: Visit, session: Session) -> BuyerShown | None:
    if session.buyer_sealed is None:
        return None
    buyer = checkout.open_buyer(visit.resources.sealer, session)
    if visit.can("personal.read"):
        return BuyerShown(buyer.name, buyer.email, mask_document(buyer.document), buyer.phone)
    return BuyerShown(
        mask_name(buyer.name) if buyer.name else "",
        mask_email(buyer.email) if buyer.email else "",
        mask_document(buyer.document) if buyer.document else "",
        mask_phone(buyer.phone) if buyer.phone else "",
        HIDDEN if buyer.address else "",
    )


_ONE: Final = "/sessions/{id}"

PAGES: Final[tuple[Page, ...]] = (
    shown("/sessions", show_sessions, Permission.SALES_READ, "Sessões de checkout"),
    shown(_ONE, show_session, Permission.SALES_READ, "Sessão de checkout"),
    shown(f"{_ONE}/end", ask_end, Permission.SESSION_MANAGE, "Encerrar sessão"),
    sent(f"{_ONE}/end", end, Permission.SESSION_MANAGE, "Encerrar sessão"),
)
