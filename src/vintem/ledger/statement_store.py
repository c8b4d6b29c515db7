"""The SQL of the statement: the movements of the available balance."""

from collections.abc import Sequence
from datetime import datetime

from vintem.ledger.model import Kind, Scope, StatementFilter, StatementLine, StatementPage
from vintem.runtime.db import Connection, Row


async def list_statement(
    db: Connection, scope: Scope, *, before: int | None, offset: int, rows_max: int
) -> StatementPage:
    """The newest movements of the available balance before a number, or after so many of them.

    They are numbered from 1 without a gap, and the account knows the last number: that is how many
    there are, and a page is found by its first number, without counting.
    """
    rows = await db.fetch(
        """
        select a.total, p.available_version, p.kind, p.reference, p.available_amount,
            p.available_after, p.created_at
        from (
            select coalesce(max(version), 0) as total from account
            where company_id = $1 and environment = $2 and code = 'available'
        ) as a left join lateral (
            select available_version, kind, reference, available_amount, available_after, created_at
            from posting
            where company_id = $1 and environment = $2 and available_version is not null
                and available_version < coalesce($3::bigint, a.total + 1 - $4::bigint)
            order by available_version desc limit $5
        ) as p on true
        order by p.available_version desc
        """,
        scope.company_id,
        scope.environment,
        before,
        offset,
        rows_max,
    )
    lines = [_line(row) for row in rows if row["available_version"] is not None]
    return StatementPage(lines, int(rows[0]["total"]))


async def list_filtered_statement(
    db: Connection,
    scope: Scope,
    wanted: StatementFilter,
    *,
    after: int,
    before: int | None,
    rows_max: int,
) -> Sequence[StatementLine]:
    """The newest movements of the available balance between two numbers, of a kind and a time."""
    of_kind = "$5::text is null" if wanted.kind is None else "kind = $5"
    # Said in words, this lets the statement walk the index of the other kinds.
    others = "" if wanted.kind in {None, Kind.CAPTURE} else "and kind <> 'capture'"
    rows = await db.fetch(
        f"""
        select available_version, kind, reference, available_amount, available_after, created_at
        from posting
        where company_id = $1 and environment = $2 and available_version is not null
            and available_version > $3
            and available_version < coalesce($4, 9223372036854775807)
            and {of_kind} {others}
            and ($6::timestamptz is null or created_at >= $6)
            and ($7::timestamptz is null or created_at < $7)
        order by available_version desc limit $8
        """,  # noqa: S608 - of fixed parts; every value is bound
        scope.company_id,
        scope.environment,
        after,
        before,
        wanted.kind,
        wanted.created_from,
        wanted.created_before,
        rows_max,
    )
    return [_line(row) for row in rows]


async def find_statement_number(db: Connection, scope: Scope, moment: datetime) -> int:
    """The number of the last movement of the available balance before a moment; 0: there is none.

    Numbers have no gap, so that halving finds it in as few steps as the number has bits.
    """
    number = await db.fetchval(
        """
        with recursive search (low, high) as (
            select 0::bigint, coalesce(max(version), 0) from account
            where company_id = $1 and environment = $2 and code = 'available'
            union all
            select case when p.created_at < $3 then p.available_version else s.low end,
                case when p.created_at < $3 then s.high else p.available_version - 1 end
            -- The limit makes each step one look into the index, whatever the planner has heard.
            from search s cross join lateral (
                select available_version, created_at from posting
                where company_id = $1 and environment = $2
                    and available_version = (s.low + s.high + 1) / 2
                limit 1
            ) as p
            where s.low < s.high
        )
        select low from search where low = high
        """,
        scope.company_id,
        scope.environment,
        moment,
    )
    return int(number)


def _line(row: Row) -> StatementLine:
    return StatementLine(
        number=row["available_version"],
        kind=Kind(row["kind"]),
        reference=row["reference"],
        amount=row["available_amount"],
        balance_after=row["available_after"],
        created_at=row["created_at"],
    )
