"""Lists of sessions: their pages, the newest first, and how long they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from vintem.checkout.model import PAYABLE, Session, SessionStatus
from vintem.checkout.store import session_of
from vintem.kit.paging import COUNTED_ROWS_MAX, Cursor
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection


@dataclass(frozen=True, slots=True)
class Filter:
    """Which sessions of a company are listed."""

    scope: Scope
    status: SessionStatus | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    external_ref: str | None = None


async def list_page(
    db: Connection,
    wanted: Filter,
    *,
    cursor: Cursor | None,
    offset: int,
    rows_max: int,
    now: datetime,
) -> Sequence[Session]:
    """List sessions, the newest first."""
    page = page_statement(wanted, cursor=cursor, offset=offset, rows_max=rows_max, now=now)
    statement, values = page
    return [session_of(row) for row in await db.fetch(statement, *values)]


async def count(db: Connection, wanted: Filter, *, now: datetime) -> int:
    """Count sessions, as far as anybody wants to know."""
    statement, values = count_statement(wanted, now=now)
    return int(await db.fetchval(statement, *values))


async def list_links_of(
    db: Connection, scope: Scope, session_ids: Sequence[str]
) -> Mapping[str, str | None]:
    """By which payment link the buyers of sessions came, if by one."""
    rows = await db.fetch(
        """
        select s.session_id, s.link_id from unnest($3::text[]) as w (session_id)
        join checkout_session s on s.company_id = $1 and s.session_id = w.session_id
        where s.environment = $2
        """,
        scope.company_id,
        scope.environment,
        list(session_ids),
    )
    return {row["session_id"]: row["link_id"] for row in rows}


async def list_payments_of(db: Connection, scope: Scope, session_id: str) -> Sequence[str]:
    """The payments that were tried for a session, the oldest first."""
    rows = await db.fetch(
        """
        select transaction_id from checkout_payment
        where company_id = $1 and environment = $2 and session_id = $3
        order by created_at, transaction_id limit 50
        """,
        scope.company_id,
        scope.environment,
        session_id,
    )
    return [row["transaction_id"] for row in rows]


def page_statement(
    wanted: Filter, *, cursor: Cursor | None, offset: int, rows_max: int, now: datetime
) -> tuple[str, Sequence[object]]:
    """The statement of a page and its values."""
    conditions, values = _conditions(wanted, cursor, now=now)
    number = len(values)
    walks = _walks("*", conditions, limit=f"${number + 1}")
    return (
        f"""
        select * from ({walks}) as walked
        order by created_at desc, session_id desc limit ${number + 2} offset ${number + 3}
        """,  # noqa: S608 - of fixed parts; every value is bound
        [*values, offset + rows_max, rows_max, offset],
    )


def count_statement(wanted: Filter, *, now: datetime) -> tuple[str, Sequence[object]]:
    """The statement of a total and its values."""
    conditions, values = _conditions(wanted, None, now=now)
    walks = _walks("", conditions, limit=str(COUNTED_ROWS_MAX))
    if len(conditions) > 1:
        walks = f"select from ({walks}) as walked limit {COUNTED_ROWS_MAX}"
    return f"select count(*) from ({walks}) as counted", values  # noqa: S608 - of fixed parts; every value is bound


def _walks(columns: str, conditions: Sequence[str], *, limit: str) -> str:
    """Each condition's rows from the index that has them in order, as few as are needed."""
    return " union all ".join(
        f"""
        (select {columns} from checkout_session
        where company_id = $1 and environment = $2 {condition}
        order by created_at desc, session_id desc limit {limit})
        """  # noqa: S608 - of fixed parts; every value is bound
        for condition in conditions
    )


def _conditions(
    wanted: Filter, cursor: Cursor | None, *, now: datetime
) -> tuple[Sequence[str], Sequence[object]]:
    """What the given filters ask, one condition for each walk, and the values they name."""
    values: list[object] = [wanted.scope.company_id, wanted.scope.environment]
    shared = ""
    for asks, value in (
        ("created_at >=", wanted.created_from),
        ("created_at <", wanted.created_before),
        ("external_ref =", wanted.external_ref),
    ):
        if value is not None:
            values.append(value)
            shared += f" and {asks} ${len(values)}"
    if cursor is not None:
        values += [cursor.created_at, cursor.id]
        shared += f" and (created_at, session_id) < (${len(values) - 1}, ${len(values)})"
    if wanted.status is None:
        return [shared], values
    if wanted.status not in {*PAYABLE, SessionStatus.EXPIRED}:
        values.append(wanted.status)
        return [f"{shared} and status = ${len(values)}"], values
    values += [wanted.status, now]
    status, moment = f"${len(values) - 1}", f"${len(values)}"
    if wanted.status in PAYABLE:
        return [f"{shared} and status = {status} and expires_at > {moment}"], values
    # One whose time is over is expired, although the worker may not have written it yet. Such ones
    # are due, and few.
    late = f"{shared} and status in ('OPEN', 'AWAITING_PAYMENT') and due_at <= {moment}"
    return [f"{shared} and status = {status}", late], values
