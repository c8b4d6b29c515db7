"""Lists of products, coupons and payment links: a page at a time, the newest first."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from vintem.checkout.catalogue_store import coupon_in, product_of
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import Coupon, Product, Session
from vintem.checkout.public_store import link_of
from vintem.checkout.store import session_of
from vintem.kit.paging import Cursor
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Row

SESSIONS_LOOKED_AT_MAX: Final = 1_000


class Span(msgspec.Struct, frozen=True):
    """Which rows of a list: those after a cursor, or those just before it."""

    rows_max: int
    cursor: Cursor | None = None
    is_newer: bool = False
    is_active: bool | None = None
    """Only those that are in use, or only those that are not."""


FIRST: Final = Span(rows_max=1, cursor=Cursor(datetime(1970, 1, 1, tzinfo=UTC), ""), is_newer=True)
"""The oldest row of a list."""


async def list_products(db: Connection, scope: Scope, span: Span) -> Sequence[Product]:
    """List products, the newest first."""
    return [product_of(row) for row in await _rows(db, scope, span, "product")]


async def list_coupons(db: Connection, scope: Scope, span: Span) -> Sequence[Coupon]:
    """List coupons, the newest first."""
    return [coupon_in(row) for row in await _rows(db, scope, span, "coupon")]


async def list_links(db: Connection, scope: Scope, span: Span) -> Sequence[PaymentLink]:
    """List payment links, the newest first."""
    return [link_of(row) for row in await _rows(db, scope, span, "link")]


async def _rows(db: Connection, scope: Scope, span: Span, kind: str) -> Sequence[Row]:
    """Read a page by an index of its own, whichever way it is asked for."""
    order, comparison = ("asc", ">") if span.is_newer else ("desc", "<")
    condition = "$3::boolean is null" if span.is_active is None else "is_active = $3"
    after = (
        "$4::timestamptz is null and $5::text is null"
        if span.cursor is None
        else f"(created_at, {kind}_id) {comparison} ($4, $5)"
    )
    rows = await db.fetch(
        f"""
        select * from checkout_{kind}
        where company_id = $1 and environment = $2 and {condition} and {after}
        order by created_at {order}, {kind}_id {order} limit $6
        """,  # noqa: S608 - put together from constants
        scope.company_id,
        scope.environment,
        span.is_active,
        None if span.cursor is None else span.cursor.created_at,
        None if span.cursor is None else span.cursor.id,
        span.rows_max,
    )
    return rows[::-1] if span.is_newer else rows


async def list_sessions_of_link(
    db: Connection, scope: Scope, link_id: str, *, rows_max: int
) -> Sequence[Session]:
    """The newest sessions that were opened by a link."""
    rows = await db.fetch(
        """
        select * from checkout_session
        where company_id = $1 and environment = $2 and link_id = $3
        order by created_at desc, session_id desc limit $4
        """,
        scope.company_id,
        scope.environment,
        link_id,
        rows_max,
    )
    return [session_of(row) for row in rows]


async def list_sessions_of_product(
    db: Connection, scope: Scope, product_id: str, *, rows_max: int
) -> Sequence[Session]:
    """The sessions that sell a product, among the company's newest ones."""
    rows = await db.fetch(
        """
        select * from (
            select * from checkout_session
            where company_id = $1 and environment = $2
            order by created_at desc, session_id desc limit $3
        ) as newest
        where strpos(line_items, $4) > 0 limit $5
        """,
        scope.company_id,
        scope.environment,
        SESSIONS_LOOKED_AT_MAX,
        f'"{product_id}"',
        rows_max,
    )
    return [session_of(row) for row in rows]
