"""The SQL of figures: how far is counted, and the days."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

import msgspec

from vintem.figures.model import (
    BEGINNING,
    FIELDS,
    PAUSE_SECONDS_MIN,
    DayFigures,
    Figures,
    Stretch,
)
from vintem.kit.clock import BUSINESS_ZONE_NAME
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Row


async def insert_cursors(db: Connection, *, now: datetime) -> int:
    """Begin to count for companies that are new; says for how many environments."""
    rows = await db.fetch(
        """
        insert into figures_cursor (company_id, environment, counted_until, look_at, pause_seconds)
        select c.company_id, e.environment, $1, $2, $3
        from company c cross join (values ('live'), ('test')) as e (environment)
        where not exists (
            select from figures_cursor f
            where f.company_id = c.company_id and f.environment = e.environment
        )
        on conflict do nothing returning company_id
        """,
        BEGINNING,
        now,
        PAUSE_SECONDS_MIN,
    )
    return len(rows)


async def insert_cursor(db: Connection, scope: Scope, *, now: datetime) -> None:
    """Begin to count for one company."""
    await db.execute(
        """
        insert into figures_cursor (company_id, environment, counted_until, look_at, pause_seconds)
        values ($1, $2, $3, $4, $5) on conflict do nothing
        """,
        scope.company_id,
        scope.environment,
        BEGINNING,
        now,
        PAUSE_SECONDS_MIN,
    )


async def list_due(db: Connection, *, now: datetime, rows_max: int) -> Sequence[Scope]:
    """Whose events must be looked at."""
    rows = await db.fetch(
        """
        select company_id, environment from figures_cursor where look_at <= $1
        order by look_at, company_id limit $2
        """,
        now,
        rows_max,
    )
    return [Scope(row["company_id"], row["environment"]) for row in rows]


async def find_counted_until(db: Connection, scope: Scope) -> datetime | None:
    """How far a company's events are counted."""
    counted_until: datetime | None = await db.fetchval(
        "select counted_until from figures_cursor where company_id = $1 and environment = $2",
        scope.company_id,
        scope.environment,
    )
    return counted_until


async def lock_cursor(db: Connection, scope: Scope) -> tuple[datetime, int] | None:
    """How far is counted and the last pause, unless somebody else counts at this moment."""
    row = await db.fetchrow(
        """
        select counted_until, pause_seconds from figures_cursor
        where company_id = $1 and environment = $2 for update skip locked
        """,
        scope.company_id,
        scope.environment,
    )
    return None if row is None else (row["counted_until"], row["pause_seconds"])


async def update_cursor(
    db: Connection,
    scope: Scope,
    *,
    counted_until: datetime,
    look_at: datetime,
    pause_seconds: int,
) -> None:
    """Write how far is counted, and when somebody must look again: for a late event, if sooner."""
    await db.execute(
        """
        update figures_cursor set counted_until = $3, pause_seconds = $5,
            look_at = least($4, (
                select min(check_at) from figures_stretch
                where company_id = $1 and environment = $2
            ))
        where company_id = $1 and environment = $2
        """,
        scope.company_id,
        scope.environment,
        counted_until,
        look_at,
        pause_seconds,
    )


async def find_last_moment(
    db: Connection, scope: Scope, *, since: datetime, events_max: int
) -> tuple[datetime, bool] | None:
    """The moment of the last of so many events, and whether more may follow; none without any."""
    row = await db.fetchrow(
        """
        select max(created_at) as last, count(*) = $4 as is_full from (
            select created_at from webhook_event
            where company_id = $1 and environment = $2 and created_at >= $3
            order by created_at, entity_id, sequence limit $4
        ) as e
        """,
        scope.company_id,
        scope.environment,
        since,
        events_max,
    )
    assert row is not None
    return None if row["last"] is None else (row["last"], row["is_full"])


async def count_events(
    db: Connection, scope: Scope, *, from_at: datetime, until_at: datetime
) -> int:
    """How many events there are in a stretch of time."""
    counted: int = await db.fetchval(
        """
        select count(*) from webhook_event
        where company_id = $1 and environment = $2 and created_at >= $3 and created_at < $4
        """,
        scope.company_id,
        scope.environment,
        from_at,
        until_at,
    )
    return counted


# The first time that a payment enters a status its event is named after both. Each payment is
# looked up by its key, whose order is asked for: the planner, which may believe a table to be all
# but empty, would else read all of a company's payments for each.
_SUM: Final = f"""
with event as materialized (
    select entity_id, sequence, event_id, kind, created_at from webhook_event
    where company_id = $1 and environment = $2 and created_at >= $3 and created_at < $4
        and (kind like 'transaction.%' or kind = 'refund.completed')
),
fact as (
    select e.created_at, t.payment_method, t.document_digest, t.amount,
        e.sequence = 1 as is_created, split_part(e.event_id, ':', 3) as entered
    from event e cross join lateral (
        select payment_method, document_digest, amount from transaction
        where company_id = $1 and transaction_id = e.entity_id order by transaction_id limit 1
    ) t
    where e.kind like 'transaction.%'
    union all
    select e.created_at, t.payment_method, t.document_digest, r.amount, false, 'REFUND'
    from event e cross join lateral (
        select transaction_id, amount from refund
        where company_id = $1 and refund_id = e.entity_id order by refund_id limit 1
    ) r cross join lateral (
        select payment_method, document_digest from transaction
        where company_id = $1 and transaction_id = r.transaction_id order by transaction_id limit 1
    ) t
    where e.kind = 'refund.completed'
)
select (created_at at time zone '{BUSINESS_ZONE_NAME}')::date as day, payment_method,
    array_agg(distinct document_digest) as digests,
    count(*) filter (where is_created) as created_count,
    coalesce(sum(amount) filter (where is_created), 0)::bigint as created_cents,
    count(*) filter (where entered = 'PAID') as paid_count,
    coalesce(sum(amount) filter (where entered = 'PAID'), 0)::bigint as paid_cents,
    count(*) filter (where entered = 'FAILED') as failed_count,
    coalesce(sum(amount) filter (where entered = 'FAILED'), 0)::bigint as failed_cents,
    count(*) filter (where entered = 'REFUND') as refunded_count,
    coalesce(sum(amount) filter (where entered = 'REFUND'), 0)::bigint as refunded_cents,
    count(*) filter (where entered = 'CHARGEBACK') as disputed_count,
    coalesce(sum(amount) filter (where entered = 'CHARGEBACK'), 0)::bigint as disputed_cents
from fact group by 1, 2 order by 1, 2
"""  # noqa: S608 - put together from constants


async def sum_events(
    db: Connection, scope: Scope, *, from_at: datetime, until_at: datetime
) -> tuple[Sequence[DayFigures], set[bytes]]:
    """What happened to payments in a stretch of time, and whose payments those were."""
    rows = await db.fetch(_SUM, scope.company_id, scope.environment, from_at, until_at)
    return [_day(row) for row in rows], {digest for row in rows for digest in row["digests"]}


async def add_to_days(db: Connection, scope: Scope, changes: Sequence[DayFigures]) -> None:
    """Add to a company's days what was counted; whoever does holds the lock of its cursor."""
    named, given = ", ".join(FIELDS), ", ".join(f"d.{field}" for field in FIELDS)
    added = ", ".join(f"{field} = f.{field} + excluded.{field}" for field in FIELDS)
    arrays = ", ".join(f"${number}::bigint[]" for number in range(5, 5 + len(FIELDS)))
    await db.execute(
        f"""
        insert into figures_day as f (company_id, environment, day, payment_method, {named})
        select $1, $2, d.day, d.payment_method, {given}
        from unnest($3::date[], $4::text[], {arrays}) as d (day, payment_method, {named})
        on conflict (company_id, environment, day, payment_method) do update set {added}
        """,  # noqa: S608 - of fixed parts; every value is bound
        scope.company_id,
        scope.environment,
        [change.day for change in changes],
        [change.payment_method for change in changes],
        *([getattr(change.figures, field) for change in changes] for field in FIELDS),
    )


async def insert_stretch(db: Connection, scope: Scope, stretch: Stretch) -> None:
    """Remember what was counted, to look at it again."""
    await db.execute(
        """
        insert into figures_stretch (
            company_id, environment, from_at, until_at, events, counted, counted_at, checks,
            check_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        """,
        scope.company_id,
        scope.environment,
        stretch.from_at,
        stretch.until_at,
        stretch.events,
        msgspec.json.encode(stretch.counted).decode(),
        stretch.counted_at,
        stretch.checks,
        stretch.check_at,
    )


async def list_stretches_due(
    db: Connection, scope: Scope, *, now: datetime, rows_max: int
) -> Sequence[Stretch]:
    """The stretches of a company that must be looked at again."""
    rows = await db.fetch(
        """
        select from_at, until_at, events, counted, counted_at, checks from figures_stretch
        where company_id = $1 and environment = $2 and check_at <= $3
        order by check_at, from_at limit $4
        """,
        scope.company_id,
        scope.environment,
        now,
        rows_max,
    )
    return [
        Stretch(
            from_at=row["from_at"],
            until_at=row["until_at"],
            events=row["events"],
            counted=msgspec.json.decode(row["counted"], type=list[DayFigures]),
            counted_at=row["counted_at"],
            checks=row["checks"],
        )
        for row in rows
    ]


async def update_stretch(db: Connection, scope: Scope, stretch: Stretch) -> None:
    """Write a stretch that was looked at; one that needs it no more is forgotten."""
    if stretch.check_at is None:
        await db.execute(
            """
            delete from figures_stretch
            where company_id = $1 and environment = $2 and from_at = $3
            """,
            scope.company_id,
            scope.environment,
            stretch.from_at,
        )
        return
    await db.execute(
        """
        update figures_stretch set events = $4, counted = $5, checks = $6, check_at = $7
        where company_id = $1 and environment = $2 and from_at = $3
        """,
        scope.company_id,
        scope.environment,
        stretch.from_at,
        stretch.events,
        msgspec.json.encode(stretch.counted).decode(),
        stretch.checks,
        stretch.check_at,
    )


async def list_days(
    db: Connection, scope: Scope, *, first: date, last: date
) -> Sequence[DayFigures]:
    """The figures of a company's days, the oldest first."""
    rows = await db.fetch(
        """
        select * from figures_day
        where company_id = $1 and environment = $2 and day between $3 and $4
        order by day, payment_method
        """,
        scope.company_id,
        scope.environment,
        first,
        last,
    )
    return [_day(row) for row in rows]


def _day(row: Row) -> DayFigures:
    figures = Figures(*(row[field] for field in FIELDS))
    return DayFigures(row["day"], row["payment_method"], figures)
