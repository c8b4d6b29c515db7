"""Lists of events and deliveries: their pages, the newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from vintem.kit.paging import COUNTED_ROWS_MAX, Cursor, PageRequest
from vintem.runtime.db import Connection
from vintem.webhooks.delivery_store import delivery_of, list_attempts
from vintem.webhooks.model import Delivery, Endpoint, Event, State

DELIVERIES_SHOWN_MAX: Final = 200
LOOKED_AT_MAX: Final = 10_000
FAILED_STATES: Final = frozenset({State.FAILED, State.ENDED})
FAILED: Final = "and d.state in ('failed', 'ended')"
"""In these words the index of what failed is found."""


@dataclass(frozen=True, slots=True)
class EndpointPage:
    """Some endpoints of a company, and how many there are."""

    endpoints: Sequence[Endpoint]
    counted_rows: int
    next_cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class EventPage:
    """The bodies of some events, and how many there are, counted up to COUNTED_ROWS_MAX."""

    bodies: Sequence[str]
    counted_rows: int
    next_cursor: Cursor | None
    is_counted_in_part: bool = False
    """There may be more than were counted, further on than was looked."""


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Some deliveries of an endpoint, and how many there are, counted up to COUNTED_ROWS_MAX."""

    deliveries: Sequence[Delivery]
    counted_rows: int
    next_cursor: Cursor | None
    is_counted_in_part: bool = False
    """There may be more than were counted, further on than was looked."""


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries are wanted; all of them where nothing is said."""

    states: Sequence[State] | None = None
    kind: str | None = None
    event_id: str | None = None

    @property
    def is_picky(self) -> bool:
        """Say whether deliveries must be looked at one by one."""
        return self.event_id is None and (self.states is not None or self.kind is not None)


def page_of(endpoints: Sequence[Endpoint], request: PageRequest) -> EndpointPage:
    """Show a page of endpoints that are given whole, the newest first."""
    cursor = request.cursor
    left = [
        each
        for each in endpoints
        if cursor is None or (each.created_at, each.endpoint_id) < (cursor.created_at, cursor.id)
    ][request.offset :]
    shown = left[: request.page_size]
    more = None
    if len(left) > len(shown):
        more = Cursor(shown[-1].created_at, shown[-1].endpoint_id)
    return EndpointPage(shown, len(endpoints), more)


async def list_events(
    db: Connection,
    company_id: int,
    environment: str,
    request: PageRequest,
    *,
    kind: str | None,
    since: datetime,
) -> EventPage:
    """Show a page of the events since a moment; of other kinds a bounded number is passed over."""
    cursor = request.cursor
    horizon = top = None
    if kind is not None:
        horizon = top = await _event_horizon(db, company_id, environment, cursor, since)
        if cursor is not None:
            top = await _event_horizon(db, company_id, environment, None, since)
    rows = await db.fetch(
        """
        select entity_id, sequence, body, created_at from webhook_event
        where company_id = $1 and environment = $2 and created_at >= $3
            and ($4::text is null or kind = $4)
            and ($5::timestamptz is null
                or (created_at, entity_id, sequence) < ($5, $6, $7::bigint))
        order by created_at desc, entity_id desc, sequence desc limit $8 offset $9
        """,
        company_id,
        environment,
        horizon or since,
        kind,
        *_event_place(cursor),
        request.page_size + 1,
        request.offset,
    )
    counted = await db.fetchval(
        """
        select count(*) from (
            select from webhook_event
            where company_id = $1 and environment = $2 and created_at >= $3
                and ($4::text is null or kind = $4)
            limit $5
        ) as c
        """,
        company_id,
        environment,
        top or since,
        kind,
        COUNTED_ROWS_MAX,
    )
    shown = rows[: request.page_size]
    more = None
    if len(rows) > len(shown):
        last = shown[-1]
        more = Cursor(last["created_at"], f"{last['entity_id']}_{last['sequence']}")
    elif horizon is not None:
        more = Cursor(horizon, "_0")
    bodies = [row["body"] for row in shown]
    return EventPage(bodies, counted, more, is_counted_in_part=top is not None)


async def _event_horizon(
    db: Connection, company_id: int, environment: str, cursor: Cursor | None, since: datetime
) -> datetime | None:
    """Until when events are looked through; nothing when that is all of them."""
    found: datetime | None = await db.fetchval(
        """
        select created_at from webhook_event
        where company_id = $1 and environment = $2 and created_at >= $3
            and ($4::timestamptz is null
                or (created_at, entity_id, sequence) < ($4, $5, $6::bigint))
        order by created_at desc, entity_id desc, sequence desc offset $7 limit 1
        """,
        company_id,
        environment,
        since,
        *_event_place(cursor),
        LOOKED_AT_MAX,
    )
    return found


def _event_place(cursor: Cursor | None) -> tuple[datetime | None, str, int]:
    """Where an event stands in the order of the list."""
    if cursor is None:
        return None, "", 0
    entity_id, _, sequence = cursor.id.rpartition("_")
    return cursor.created_at, entity_id, int(sequence) if sequence.isdecimal() else 0


async def list_since(
    db: Connection, company_id: int, environment: str, *, since: datetime, rows_max: int
) -> Sequence[Event]:
    """The events since a moment, the oldest first."""
    rows = await db.fetch(
        """
        select * from webhook_event
        where company_id = $1 and environment = $2 and created_at >= $3
        order by created_at, entity_id, sequence limit $4
        """,
        company_id,
        environment,
        since,
        rows_max,
    )
    return [
        Event(
            company_id=row["company_id"],
            environment=row["environment"],
            entity_id=row["entity_id"],
            sequence=row["sequence"],
            event_id=row["event_id"],
            kind=row["kind"],
            body=row["body"].encode(),
            created_at=row["created_at"],
        )
        for row in rows
    ]


async def list_deliveries(
    db: Connection,
    company_id: int,
    endpoint_id: str,
    request: PageRequest,
    wanted: DeliveryFilter,
) -> DeliveryPage:
    """Show a page of the deliveries to an endpoint.

    Of those that a filter leaves out a bounded number is passed over: the page then has fewer rows
    than it might, and its cursor leads on.
    """
    cursor = request.cursor
    failed = FAILED if wanted.states and set(wanted.states) <= FAILED_STATES else ""
    horizon = top = None
    if wanted.is_picky:
        horizon = top = await _horizon(db, company_id, endpoint_id, cursor, failed)
        if cursor is not None:
            top = await _horizon(db, company_id, endpoint_id, None, failed)
    filters = (
        company_id,
        endpoint_id,
        None if wanted.states is None else list(wanted.states),
        wanted.kind,
        wanted.event_id,
    )
    rows = await db.fetch(
        f"""
        select d.*, e.event_id, e.kind, e.body
        from webhook_delivery d
        join webhook_event e on e.company_id = d.company_id and e.entity_id = d.entity_id
            and e.sequence = d.sequence
        where d.company_id = $1 and d.lane = $2 and ($3::text[] is null or d.state = any($3))
            and ($4::text is null or e.kind = $4) {failed}
            -- Asked for by itself, the event says by which key its delivery is found.
            and ($5::text is null or (d.entity_id, d.sequence) = (
                select entity_id, sequence from webhook_event
                where company_id = $1 and event_id = $5
            ))
            and ($6::timestamptz is null or (d.created_at, d.delivery_id) < ($6, $7))
            and ($8::timestamptz is null or d.created_at >= $8)
        order by d.created_at desc, d.delivery_id desc limit $9 offset $10
        """,  # noqa: S608 - put together from constants
        *filters,
        None if cursor is None else cursor.created_at,
        "" if cursor is None else cursor.id,
        horizon,
        request.page_size + 1,
        request.offset,
    )
    counted = await _count_deliveries(db, *filters, since=top, failed=failed)
    found = [delivery_of(row) for row in rows]
    shown = found[: request.page_size]
    more = None
    if len(found) > len(shown):
        more = Cursor(shown[-1].created_at, shown[-1].delivery_id)
    elif horizon is not None:
        more = Cursor(horizon, "0")
    listed = await _with_attempts(db, company_id, shown)
    return DeliveryPage(listed, counted, more, is_counted_in_part=top is not None)


async def _count_deliveries(
    db: Connection,
    company_id: int,
    endpoint_id: str,
    states: Sequence[State] | None,
    kind: str | None,
    event_id: str | None,
    *,
    since: datetime | None,
    failed: str,
) -> int:
    return int(
        await db.fetchval(
            f"""
            select count(*) from (
                select from webhook_delivery d
                where d.company_id = $1 and d.lane = $2 {failed}
                    and ($3::text[] is null or d.state = any($3))
                    and ($4::text is null or exists (
                        select from webhook_event e
                        where e.company_id = d.company_id and e.entity_id = d.entity_id
                            and e.sequence = d.sequence and e.kind = $4
                    ))
                    and ($5::text is null or (d.entity_id, d.sequence) = (
                        select entity_id, sequence from webhook_event
                        where company_id = $1 and event_id = $5
                    ))
                    and ($6::timestamptz is null or d.created_at >= $6)
                limit $7
            ) as c
            """,  # noqa: S608 - put together from constants
            company_id,
            endpoint_id,
            states,
            kind,
            event_id,
            since,
            COUNTED_ROWS_MAX,
        )
    )


async def _horizon(
    db: Connection, company_id: int, endpoint_id: str, cursor: Cursor | None, failed: str
) -> datetime | None:
    """Until when deliveries are looked through; nothing when that is all of them."""
    found: datetime | None = await db.fetchval(
        f"""
        select d.created_at from webhook_delivery d
        where d.company_id = $1 and d.lane = $2 {failed}
            and ($3::timestamptz is null or (d.created_at, d.delivery_id) < ($3, $4))
        order by d.created_at desc, d.delivery_id desc offset $5 limit 1
        """,  # noqa: S608 - put together from constants
        company_id,
        endpoint_id,
        None if cursor is None else cursor.created_at,
        "" if cursor is None else cursor.id,
        LOOKED_AT_MAX,
    )
    return found


async def list_deliveries_of(
    db: Connection, company_id: int, entity_ids: Sequence[str], lanes: Sequence[str]
) -> Sequence[Delivery]:
    """The deliveries on some lanes that tell of some records, the oldest first."""
    rows = await db.fetch(
        """
        select d.*, e.event_id, e.kind, '' as body
        from unnest($2::text[]) as r (entity_id) cross join unnest($3::text[]) as l (lane)
        join webhook_delivery d on d.company_id = $1 and d.lane = l.lane
            and d.entity_id = r.entity_id
        join webhook_event e on e.company_id = $1 and e.entity_id = d.entity_id
            and e.sequence = d.sequence
        order by d.created_at, d.delivery_id limit $4
        """,
        company_id,
        list(entity_ids),
        list(lanes),
        DELIVERIES_SHOWN_MAX,
    )
    return [delivery_of(row) for row in rows]


async def find_delivery(
    db: Connection, company_id: int, environment: str, delivery_id: str
) -> Delivery | None:
    """Find a delivery with its tries."""
    row = await db.fetchrow(
        """
        select d.*, e.event_id, e.kind, e.body from webhook_delivery d
        join webhook_event e on e.company_id = d.company_id and e.entity_id = d.entity_id
            and e.sequence = d.sequence
        where d.company_id = $1 and d.environment = $2 and d.delivery_id = $3
        """,
        company_id,
        environment,
        delivery_id,
    )
    if row is None:
        return None
    [found] = await _with_attempts(db, company_id, [delivery_of(row)])
    return found


async def _with_attempts(
    db: Connection, company_id: int, deliveries: Sequence[Delivery]
) -> Sequence[Delivery]:
    if not deliveries:
        return ()
    attempts = await list_attempts(db, company_id, [each.delivery_id for each in deliveries])
    return [
        # What was tried since the deliveries were read is not shown beside how they stood then.
        replace(each, attempts=attempts.get(each.delivery_id, [])[: each.attempts_made])
        for each in deliveries
    ]
