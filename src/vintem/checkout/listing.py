"""Lists of sessions: their pages, the newest first, and how long they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from vintem.checkout.model import Session, SessionStatus
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


# One whose time is over is expired, although the worker may not have written it yet.
_FILTER: Final = """
    ($3::text is null or status = $3
        or ($3 = 'EXPIRED' and status in ('OPEN', 'AWAITING_PAYMENT') and expires_at <= $7))
    and ($4::timestamptz is null or created_at >= $4)
    and ($5::timestamptz is null or created_at < $5)
    and ($6::text is null or external_ref = $6)
    and ($3::text is null or $3::text not in ('OPEN', 'AWAITING_PAYMENT') or expires_at > $7)
"""


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
    rows = await db.fetch(
        f"""
        select * from checkout_session
        where company_id = $1 and environment = $2 and {_FILTER}
            and ($8::timestamptz is null or (created_at, session_id) < ($8, $9::text))
        order by created_at desc, session_id desc
        limit $10 offset $11
        """,  # noqa: S608 - the filter is a constant
        *_values(wanted, now),
        None if cursor is None else cursor.created_at,
        None if cursor is None else cursor.id,
        rows_max,
        offset,
    )
    return [session_of(row) for row in rows]


async def count(db: Connection, wanted: Filter, *, now: datetime) -> int:
    """Count sessions, as far as anybody wants to know."""
    counted = await db.fetchval(
        f"""
        select count(*) from (
            select from checkout_session
            where company_id = $1 and environment = $2 and {_FILTER}
            limit $8
        ) as counted
        """,  # noqa: S608 - the filter is a constant
        *_values(wanted, now),
        COUNTED_ROWS_MAX,
    )
    return int(counted)


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


def _values(wanted: Filter, now: datetime) -> Sequence[object]:
    return (
        wanted.scope.company_id,
        wanted.scope.environment,
        wanted.status,
        wanted.created_from,
        wanted.created_before,
        wanted.external_ref,
        now,
    )
