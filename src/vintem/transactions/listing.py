"""Lists of payments: their pages, the newest first, and how long they are."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from vintem.kit.paging import COUNTED_ROWS_MAX, Cursor, LongLists, PageRequest
from vintem.runtime.db import Connection, Row
from vintem.transactions.model import Filter, Refund
from vintem.transactions.record import record_of
from vintem.transactions.store import list_refunds, transaction_of

# Payments are never deleted and only their status changes: a list by anything else only grows.
SHRINKING_LIST_KEPT: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Page:
    """Records of a list, and how many there are, counted up to COUNTED_ROWS_MAX."""

    records: Sequence[bytes]
    counted_rows: int
    next_cursor: Cursor | None


class Lists:
    """Lists payments; a list that is longer than anybody counts is not counted every time."""

    def __init__(self, database: Connection) -> None:
        self._database = database
        self._long = LongLists[Filter]()

    async def page(self, wanted: Filter, request: PageRequest, *, now: datetime) -> Page:
        """Show a page of a list."""
        rows = await _fetch_page(
            self._database,
            wanted,
            cursor=request.cursor,
            offset=request.offset,
            rows_max=request.page_size + 1,
        )
        shown = rows[: request.page_size]
        is_followed = len(rows) > len(shown)
        is_end_of_list = request.cursor is None and (rows or not request.offset)
        if is_end_of_list and not is_followed:
            counted = request.offset + len(rows)
            return Page(await self._records(wanted, shown), counted, None)
        # The server counts while the page is written here.
        counting = asyncio.ensure_future(self._count(wanted, now))
        try:
            await asyncio.sleep(0)
            records = await self._records(wanted, shown)
            counted = await counting
        except BaseException:
            counting.cancel()
            # One trouble is told; the other, if there is one, was the same.
            await asyncio.gather(counting, return_exceptions=True)
            raise
        last = Cursor(shown[-1]["created_at"], shown[-1]["transaction_id"]) if is_followed else None
        return Page(records, counted, last)

    async def _records(self, wanted: Filter, rows: Sequence[Row]) -> Sequence[bytes]:
        transactions = [transaction_of(row) for row in rows]
        refunded = [each.transaction_id for each in transactions if each.refunded_amount]
        refunds: defaultdict[str, list[Refund]] = defaultdict(list)
        if refunded:
            company_id = wanted.scope.company_id
            for refund in await list_refunds(self._database, company_id, refunded):
                refunds[refund.transaction_id].append(refund)
        return [record_of(each, refunds[each.transaction_id]) for each in transactions]

    async def _count(self, wanted: Filter, now: datetime) -> int:
        if self._long.knows(wanted, now):
            return COUNTED_ROWS_MAX
        counted = await count(self._database, wanted)
        if counted == COUNTED_ROWS_MAX:
            is_growing = wanted.statuses is None
            self._long.remember(wanted, until=None if is_growing else now + SHRINKING_LIST_KEPT)
        return counted


async def _fetch_page(
    db: Connection, wanted: Filter, *, cursor: Cursor | None, offset: int, rows_max: int
) -> Sequence[Row]:
    statement, values = page_statement(wanted, cursor=cursor, offset=offset, rows_max=rows_max)
    return await db.fetch(statement, *values)


async def count(db: Connection, wanted: Filter) -> int:
    """Count payments, as far as anybody wants to know."""
    statement, values = count_statement(wanted)
    return int(await db.fetchval(statement, *values))


def page_statement(
    wanted: Filter, *, cursor: Cursor | None, offset: int, rows_max: int
) -> tuple[str, Sequence[object]]:
    """The statement of a page and its values."""
    conditions, values = _conditions(wanted, cursor)
    number = len(values)
    if _is_sifted(wanted):
        # An index alone says which are shown: of those that are passed over none is read.
        walks = " union all ".join(
            _walks("created_at, transaction_id", conditions, limit=f"${number + 1}")
        )
        return (
            f"""
            select * from transaction where company_id = $1 and transaction_id = any(array(
                select transaction_id from ({walks}) as walked
                order by created_at desc, transaction_id desc
                limit ${number + 2} offset ${number + 3}
            ))
            order by created_at desc, transaction_id desc
            """,  # noqa: S608 - of fixed parts; every value is bound
            [*values, offset + rows_max, rows_max, offset],
        )
    walks = " union all ".join(_walks("*", conditions, limit=f"${number + 1}"))
    return (
        f"""
        select * from ({walks}) as walked
        order by created_at desc, transaction_id desc limit ${number + 2} offset ${number + 3}
        """,  # noqa: S608 - of fixed parts; every value is bound
        [*values, offset + rows_max, rows_max, offset],
    )


def count_statement(wanted: Filter) -> tuple[str, Sequence[object]]:
    """The statement of a total and its values."""
    conditions, values = _conditions(wanted, None)
    # The order keeps it in the index; each step more than this would cost as much as the walk.
    walks = " union all ".join(_walks("", conditions, limit=str(COUNTED_ROWS_MAX)))
    if len(conditions) > 1:
        walks = f"select from ({walks}) as walked limit {COUNTED_ROWS_MAX}"
    return f"select count(*) from ({walks}) as counted", values  # noqa: S608 - of fixed parts; every value is bound


def _walks(columns: str, conditions: Sequence[str], *, limit: str) -> Sequence[str]:
    """Each condition's rows from the index that has them in order, as few as are needed."""
    return [
        f"""
        (select {columns} from transaction where company_id = $1 and environment = $2 {condition}
        order by created_at desc, transaction_id desc limit {limit})
        """  # noqa: S608 - of fixed parts; every value is bound
        for condition in conditions
    ]


def _is_sifted(wanted: Filter) -> bool:
    """Whether all payments, or all of a status, are gone through for some among them.

    The indexes that have them in order say of each what it is asked for.
    """
    asked = (wanted.payment_method, wanted.amount_min, wanted.amount_max)
    return not _is_of_few(wanted) and any(value is not None for value in asked)


def _is_of_few(wanted: Filter) -> bool:
    """Whether an index keeps those together that are meant, which are not many."""
    return wanted.external_ref is not None or wanted.document_digest is not None


def _conditions(wanted: Filter, cursor: Cursor | None) -> tuple[Sequence[str], Sequence[object]]:
    """What the given filters ask, one condition for each walk, and the values they name."""
    values: list[object] = [wanted.scope.company_id, wanted.scope.environment]
    shared = ""
    for asks, value in (
        ("payment_method =", wanted.payment_method),
        ("created_at >=", wanted.created_from),
        ("created_at <", wanted.created_before),
        ("external_ref =", wanted.external_ref),
        ("document_digest =", wanted.document_digest),
        ("amount >=", wanted.amount_min),
        ("amount <=", wanted.amount_max),
    ):
        if value is not None:
            values.append(value)
            shared += f" and {asks} ${len(values)}"
    if cursor is not None:
        values += [cursor.created_at, cursor.id]
        shared += f" and (created_at, transaction_id) < (${len(values) - 1}, ${len(values)})"
    if wanted.statuses is None:
        return [shared], values
    if _is_of_few(wanted):
        values.append(list(wanted.statuses))
        return [f"{shared} and status = any(${len(values)})"], values
    # The index has the payments of one status in order: several statuses are several walks.
    conditions = []
    for status in wanted.statuses:
        values.append(status)
        conditions.append(f"{shared} and status = ${len(values)}")
    return conditions, values
