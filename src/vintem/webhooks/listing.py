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


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Some deliveries of an endpoint, and how many there are, counted up to COUNTED_ROWS_MAX."""

    deliveries: Sequence[Delivery]
    counted_rows: int
    next_cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries are wanted; all of them where nothing is said."""

    states: Sequence[State] | None = None
    kind: str | None = None
    event_id: str | None = None


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
    """Show a page of the events since a moment."""
    cursor = request.cursor
    entity_id, _, sequence = ("", "", "0") if cursor is None else cursor.id.rpartition("_")
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
        since,
        kind,
        None if cursor is None else cursor.created_at,
        entity_id,
        int(sequence) if sequence.isdecimal() else 0,
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
        since,
        kind,
        COUNTED_ROWS_MAX,
    )
    shown = rows[: request.page_size]
    more = None
    if len(rows) > len(shown):
        last = shown[-1]
        more = Cursor(last["created_at"], f"{last['entity_id']}_{last['sequence']}")
    return EventPage([row["body"] for row in shown], counted, more)


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
    """Show a page of the deliveries to an endpoint."""
    cursor = request.cursor
    filters = (
        company_id,
        endpoint_id,
        None if wanted.states is None else list(wanted.states),
        wanted.kind,
        wanted.event_id,
    )
    rows = await db.fetch(
        """
        select d.*, e.event_id, e.kind, e.body
        from webhook_delivery d
        join webhook_event e on e.company_id = d.company_id and e.entity_id = d.entity_id
            and e.sequence = d.sequence
        where d.company_id = $1 and d.lane = $2 and ($3::text[] is null or d.state = any($3))
            and ($4::text is null or e.kind = $4)
            -- Asked for by itself, the event says by which key its delivery is found.
            and ($5::text is null or (d.entity_id, d.sequence) = (
                select entity_id, sequence from webhook_event
                where company_id = $1 and event_id = $5
            ))
            and ($6::timestamptz is null or (d.created_at, d.delivery_id) < ($6, $7))
        order by d.created_at desc, d.delivery_id desc limit $8 offset $9
        """,
        *filters,
        None if cursor is None else cursor.created_at,
        "" if cursor is None else cursor.id,
        request.page_size + 1,
        request.offset,
    )
    counted = await db.fetchval(
        """
        select count(*) from (
            select from webhook_delivery d
            where d.company_id = $1 and d.lane = $2 and ($3::text[] is null or d.state = any($3))
                and ($4::text is null or exists (
                    select from webhook_event e where e.company_id = d.company_id
                        and e.entity_id = d.entity_id and e.sequence = d.sequence and e.kind = $4
                ))
                and ($5::text is null or (d.entity_id, d.sequence) = (
                    select entity_id, sequence from webhook_event
                    where company_id = $1 and event_id = $5
                ))
            limit $6
        ) as c
        """,
        *filters,
        COUNTED_ROWS_MAX,
    )
    found = [delivery_of(row) for row in rows]
    shown = found[: request.page_size]
    more = None
    if len(found) > len(shown):
        more = Cursor(shown[-1].created_at, shown[-1].delivery_id)
    return DeliveryPage(await _with_attempts(db, company_id, shown), counted, more)


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
