"""Payments as a merchant looks through them: pages in both directions, totals, their history."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from vintem.kit.paging import Cursor
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection
from vintem.transactions.model import Filter, Status, Transaction
from vintem.transactions.store import transaction_of

WALKED_ROWS_MAX: Final = 2_000
"""How many payments are looked at for a page of those that no index has together."""
TOTAL_ROWS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class View:
    """Which payments somebody looks at: a filter, or one for several buyers."""

    wanted: Filter
    document_digests: Sequence[bytes] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nobody is meant, so that nothing is found."""
        return self.document_digests is not None and not self.document_digests

    @property
    def is_walked(self) -> bool:
        """Whether payments are looked at that may then not be shown."""
        wanted = self.wanted
        asked = (wanted.payment_method, wanted.amount_min, wanted.amount_max)
        return any(value is not None for value in asked)


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page, the newest first, and where to go on in both directions."""

    transactions: Sequence[Transaction]
    newer: Cursor | None
    older: Cursor | None


@dataclass(frozen=True, slots=True)
class Total:
    """How many payments there are and what they come to, up to TOTAL_ROWS_MAX of them."""

    rows: int
    cents: int
    is_more: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A status that a payment entered, and the provider that told us of it, if one did."""

    status: Status
    reason: str | None
    at: datetime
    provider: str | None


async def browse(
    db: Connection,
    view: View,
    *,
    rows_max: int,
    before: Cursor | None = None,
    after: Cursor | None = None,
) -> Browsed:
    """Show a page: the newest, or those just before or just after a payment."""
    if view.is_empty:
        return Browsed((), None, None)
    is_upwards = after is not None
    start = after or before
    statement, values = _page(view, start, rows_max=rows_max + 1, is_upwards=is_upwards)
    keys = [
        Cursor(row["created_at"], row["transaction_id"])
        for row in await db.fetch(statement, *values)
    ]
    beyond = keys[rows_max - 1] if len(keys) > rows_max else None
    if beyond is None and view.is_walked:
        # Few were found among those that were looked at: others may follow.
        beyond = await _end_of_walk(db, view, start, is_upwards=is_upwards)
    shown = keys[:rows_max]
    if is_upwards:
        shown.reverse()
    found = await find_many(db, view.wanted.scope, [key.id for key in shown])
    first = shown[0] if shown else start
    last = shown[-1] if shown else start
    if is_upwards:
        return Browsed(found, newer=beyond, older=last)
    return Browsed(found, newer=first if start is not None else None, older=beyond)


async def find_many(
    db: Connection, scope: Scope, transaction_ids: Sequence[str]
) -> Sequence[Transaction]:
    """Find payments, in the order in which they are named."""
    if not transaction_ids:
        return ()
    rows = await db.fetch(
        """
        select t.* from unnest($2::text[]) with ordinality as w (transaction_id, place)
        cross join lateral (
            select * from transaction
            where company_id = $1 and transaction_id = w.transaction_id
            order by transaction_id limit 1
        ) t
        where t.environment = $3 order by w.place
        """,
        scope.company_id,
        list(transaction_ids),
        scope.environment,
    )
    return [transaction_of(row) for row in rows]


async def list_by_reference(
    db: Connection, scope: Scope, external_ref: str, *, rows_max: int
) -> Sequence[Transaction]:
    """The newest payments that carry a reference of the company's own."""
    rows = await db.fetch(
        """
        select * from transaction
        where company_id = $1 and environment = $2 and external_ref = $3
        order by created_at desc, transaction_id desc limit $4
        """,
        scope.company_id,
        scope.environment,
        external_ref,
        rows_max,
    )
    return [transaction_of(row) for row in rows]


async def total(db: Connection, view: View) -> Total:
    """Count and add up what a filter finds, as far as anybody wants to know."""
    if view.is_empty:
        return Total(0, 0, is_more=False)
    rows_max = TOTAL_ROWS_MAX + 1
    statement, values = _page(view, None, rows_max=rows_max, is_upwards=False, columns="amount")
    row = await db.fetchrow(
        f"select count(*) as rows, coalesce(sum(amount), 0)::bigint as cents from ({statement}) p",  # noqa: S608 - of fixed parts; every value is bound
        *values,
    )
    assert row is not None
    is_more = row["rows"] == rows_max
    if not is_more and view.is_walked:
        is_more = await _end_of_walk(db, view, None, is_upwards=False) is not None
    return Total(min(row["rows"], TOTAL_ROWS_MAX), row["cents"], is_more)


async def list_steps(db: Connection, transaction: Transaction) -> Sequence[Step]:
    """The statuses that a payment has entered, in their order."""
    rows = await db.fetch(
        """
        select h.to_status, h.reason, h.created_at, c.provider
        from transaction_history h left join lateral (
            select provider from provider_callback
            where company_id = h.company_id and transaction_id = h.transaction_id
                and sequence = h.sequence and state = 'applied'
            order by received_at limit 1
        ) c on true
        where h.company_id = $1 and h.transaction_id = $2 order by h.sequence
        """,
        transaction.company_id,
        transaction.transaction_id,
    )
    return [
        Step(Status(row["to_status"]), row["reason"], row["created_at"], row["provider"])
        for row in rows
    ]


def _page(
    view: View,
    start: Cursor | None,
    *,
    rows_max: int,
    is_upwards: bool,
    columns: str = "created_at, transaction_id",
) -> tuple[str, Sequence[object]]:
    """The statement of a page, mostly of its keys, and its values."""
    order = _order(is_upwards=is_upwards)
    conditions, residual, values = _conditions(view, start, is_upwards=is_upwards)
    inner = WALKED_ROWS_MAX if residual else rows_max
    walks = " union all ".join(
        f"""
        (select created_at, transaction_id, status, payment_method, amount, document_digest
        from transaction where company_id = $1 and environment = $2 {condition}
        {order} limit {inner})
        """  # noqa: S608 - of fixed parts; every value is bound
        for condition in conditions
    )
    return (
        f"""
        select {columns} from ({walks}) as walked where true {residual}
        {order} limit {rows_max}
        """,  # noqa: S608 - of fixed parts; every value is bound
        values,
    )


async def _end_of_walk(
    db: Connection, view: View, start: Cursor | None, *, is_upwards: bool
) -> Cursor | None:
    """The last payment that was looked at, if there are more behind it."""
    [condition], _, values = _conditions(view, start, is_upwards=is_upwards)
    rows = await db.fetch(
        f"""
        select created_at, transaction_id from transaction
        where company_id = $1 and environment = $2 {condition}
        {_order(is_upwards=is_upwards)} limit 2 offset {WALKED_ROWS_MAX - 1}
        """,  # noqa: S608 - of fixed parts; every value is bound
        *values[: _highest(condition)],
    )
    return Cursor(rows[0]["created_at"], rows[0]["transaction_id"]) if len(rows) > 1 else None


def _order(*, is_upwards: bool) -> str:
    way = "asc" if is_upwards else "desc"
    return f"order by created_at {way}, transaction_id {way}"


def _highest(condition: str) -> int:
    """How many values a condition names besides those of the scope, which come first."""
    return 2 + condition.count("$")


def _conditions(
    view: View, start: Cursor | None, *, is_upwards: bool
) -> tuple[Sequence[str], str, Sequence[object]]:
    """One condition for each walk along an index, what is asked of the walked, and the values."""
    wanted = view.wanted
    values: list[object] = [wanted.scope.company_id, wanted.scope.environment]

    def bound(value: object) -> str:
        values.append(value)
        return f"${len(values)}"

    shared = ""
    if wanted.created_from is not None:
        shared += f" and created_at >= {bound(wanted.created_from)}"
    if wanted.created_before is not None:
        shared += f" and created_at < {bound(wanted.created_before)}"
    if start is not None:
        way = ">" if is_upwards else "<"
        shared += (
            f" and (created_at, transaction_id) {way}"
            f" ({bound(start.created_at)}, {bound(start.id)})"
        )
    digests = view.document_digests
    statuses = None if wanted.statuses is None else list(wanted.statuses)
    if not view.is_walked:
        if digests is not None:
            among = "" if statuses is None else f" and status = any({bound(statuses)})"
            by_buyer = [f"{shared} and document_digest = {bound(each)}" for each in digests]
            return [condition + among for condition in by_buyer], "", values
        if statuses is not None:
            return [f"{shared} and status = {bound(each)}" for each in statuses], "", values
        return [shared], "", values
    residual = ""
    for asks, value in (
        ("payment_method = {}", wanted.payment_method),
        ("amount >= {}", wanted.amount_min),
        ("amount <= {}", wanted.amount_max),
        ("status = any({})", statuses),
        ("document_digest = any({})", None if digests is None else list(digests)),
    ):
        if value is not None:
            residual += " and " + asks.format(bound(value))
    return [shared], residual, values
