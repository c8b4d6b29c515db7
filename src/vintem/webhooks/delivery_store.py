"""The SQL of deliveries: what is due, what came of it, and what is asked for again."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from vintem.runtime.db import Connection, Row
from vintem.webhooks.model import (
    Attempt,
    Delivery,
    Lane,
    Outcome,
    Parcel,
    State,
)
from vintem.webhooks.store import secrets_of


class Tried(msgspec.Struct, frozen=True):
    """A try of a delivery, and what it means for it."""

    parcel: Parcel
    attempt: Attempt
    outcome: Outcome


class LanePlace(msgspec.Struct, frozen=True):
    """A lane whose next deliveries are wanted, and how many."""

    company_id: int
    name: str
    rows_max: int
    hold_back: timedelta
    now: datetime


class EventKey(msgspec.Struct, frozen=True):
    """Where an event stands in the order of a company's events."""

    created_at: datetime
    entity_id: str = ""
    sequence: int = 0


async def fetch_due(db: Connection, places: Sequence[LanePlace]) -> Sequence[Parcel]:
    """The next deliveries of lanes, at most one of each record: the first that was not taken.

    A later one waits for an earlier one, but not for ever.
    """
    rows = await db.fetch(
        """
        select d.*, e.event_id, e.body, p.url as endpoint_url,
            coalesce(p.secret_sealed, s.secret_sealed) as secret_sealed,
            coalesce(p.old_secret_sealed, s.old_secret_sealed) as old_secret_sealed,
            coalesce(p.old_secret_until, s.old_secret_until) as old_secret_until
        from unnest($1::bigint[], $2::text[], $3::bigint[]) as w (company_id, lane, rows_max)
        cross join lateral (
            select d.* from webhook_delivery d
            where d.company_id = w.company_id and d.lane = w.lane and d.due_at <= $4
                and not exists (
                    select from webhook_delivery b
                    where b.company_id = d.company_id and b.lane = d.lane
                        and b.entity_id = d.entity_id and b.sequence < d.sequence
                        and b.state = 'pending'
                        and (d.asked_at > $4 - $5::interval or b.due_at <= $4)
                )
            order by d.due_at limit w.rows_max
        ) d
        join webhook_event e on e.company_id = d.company_id and e.entity_id = d.entity_id
            and e.sequence = d.sequence
        left join webhook_endpoint p on d.url is null and p.company_id = d.company_id
            and p.endpoint_id = d.lane
        left join webhook_postback_secret s on d.url is not null
            and s.company_id = d.company_id and s.environment = d.environment
        where d.url is not null or p.is_enabled
        order by d.due_at
        """,
        [place.company_id for place in places],
        [place.name for place in places],
        [place.rows_max for place in places],
        max(place.now for place in places),
        places[0].hold_back,
    )
    return [_parcel(row) for row in rows]


async def put_off_held(db: Connection, lane: Lane, *, hold_back: timedelta, now: datetime) -> None:
    """Let what waits for an earlier event of its record come up with that one, and not before."""
    await db.execute(
        """
        update webhook_delivery d set due_at = least(b.due_at, d.asked_at + $4::interval)
        from webhook_delivery b
        where d.company_id = $1 and d.lane = $2 and d.due_at <= $3
            and d.asked_at > $3 - $4::interval
            and b.company_id = d.company_id and b.lane = d.lane and b.entity_id = d.entity_id
            and b.sequence < d.sequence and b.state = 'pending' and b.due_at > $3
        """,
        lane.company_id,
        lane.name,
        now,
        hold_back,
    )


async def write_tries(db: Connection, tries: Sequence[Tried]) -> set[str]:
    """Write what came of tries.

    Of a delivery that somebody else tried meanwhile, or that was asked for again, nothing.

    Gives the ids of those that were written.
    """
    rows = await db.fetch(
        """
        with d as (
            select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[],
                $5::timestamptz[], $6::text[], $7::bigint[], $8::text[], $9::bigint[],
                $10::text[], $11::text[], $12::bigint[], $13::timestamptz[],
                $14::timestamptz[]) as d (
                company_id, delivery_id, attempt, state, due_at, url, signed_at, signature,
                status, error, answer, milliseconds, created_at, asked_at)
        ),
        t as (
            update webhook_delivery w set state = d.state, due_at = d.due_at,
                attempts = d.attempt, tries = w.tries + 1,
                finished_at = case d.state when 'pending' then null else d.created_at end
            from d
            where w.company_id = d.company_id and w.delivery_id = d.delivery_id
                and w.attempts = d.attempt - 1 and w.state = 'pending'
                and w.asked_at = d.asked_at
            returning w.company_id, w.delivery_id
        ),
        a as (
            insert into webhook_attempt (
                company_id, delivery_id, attempt, url, signed_at, signature, status, error,
                answer, milliseconds, created_at)
            select d.company_id, d.delivery_id, d.attempt, d.url, d.signed_at, d.signature,
                d.status, d.error, d.answer, d.milliseconds, d.created_at
            from d join t on t.company_id = d.company_id and t.delivery_id = d.delivery_id
        )
        select delivery_id from t
        """,
        [each.parcel.company_id for each in tries],
        [each.parcel.delivery_id for each in tries],
        [each.attempt.attempt for each in tries],
        [each.outcome.state for each in tries],
        [each.outcome.due_at for each in tries],
        [each.attempt.url for each in tries],
        [each.attempt.signed_at for each in tries],
        [each.attempt.signature for each in tries],
        [each.attempt.status for each in tries],
        [each.attempt.error for each in tries],
        [each.attempt.answer for each in tries],
        [each.attempt.milliseconds for each in tries],
        [each.attempt.created_at for each in tries],
        [each.parcel.asked_at for each in tries],
    )
    return {row["delivery_id"] for row in rows}


async def end_record(db: Connection, parcel: Parcel, *, now: datetime) -> None:
    """End all that was still to be told of one record to its own address."""
    await db.execute(
        """
        update webhook_delivery set state = 'ended', due_at = null, finished_at = $4
        where company_id = $1 and lane = $2 and entity_id = $3 and state = 'pending'
        """,
        parcel.company_id,
        parcel.lane,
        parcel.entity_id,
        now,
    )


async def end_refused(
    db: Connection, company_id: int, endpoint_id: str, *, rows_max: int, now: datetime
) -> int:
    """End deliveries to an endpoint that is gone or deleted; says how many."""
    tag = await db.execute(
        """
        update webhook_delivery set state = 'ended', due_at = null, finished_at = $4
        where company_id = $1 and delivery_id in (
            select d.delivery_id from webhook_delivery d join webhook_endpoint p
                on p.company_id = d.company_id and p.endpoint_id = d.lane
            where d.company_id = $1 and d.lane = $2 and d.due_at is not null
                and (p.disabled_reason = 'gone' or p.deleted_at is not null)
            limit $3
        )
        """,
        company_id,
        endpoint_id,
        rows_max,
        now,
    )
    return int(tag.rpartition(" ")[2])


async def delete_old(
    db: Connection, company_id: int, lane: str, *, before: datetime, rows_max: int
) -> int:
    """Delete deliveries from before a moment, and their tries; says how many."""
    return int(
        await db.fetchval(
            """
            with d as (
                delete from webhook_delivery where company_id = $1 and delivery_id in (
                    select delivery_id from webhook_delivery
                    where company_id = $1 and lane = $2 and created_at < $3 and asked_at < $3
                    order by created_at, delivery_id limit $4
                )
                returning company_id, delivery_id
            ),
            a as (
                delete from webhook_attempt a using d
                where a.company_id = d.company_id and a.delivery_id = d.delivery_id
            )
            select count(*) from d
            """,
            company_id,
            lane,
            before,
            rows_max,
        )
    )


async def renew_delivery(
    db: Connection, company_id: int, environment: str, delivery_id: str, *, now: datetime
) -> bool | None:
    """Let a delivery be tried again from the start of the schedule.

    False when its endpoint is disabled; nothing when it, or its endpoint, is not there.
    """
    renewed: bool | None = await db.fetchval(
        """
        with found as (
            select d.company_id, d.delivery_id, d.lane, d.environment, d.url,
                d.url is not null or p.is_enabled as is_called
            from webhook_delivery d left join webhook_endpoint p
                on p.company_id = d.company_id and p.endpoint_id = d.lane
            where d.company_id = $1 and d.environment = $2 and d.delivery_id = $3
                and (d.url is not null or p.deleted_at is null)
        ),
        lane as (
            insert into webhook_lane (company_id, lane, environment)
            select company_id, lane, environment from found where url is not null
            on conflict do nothing
        ),
        renewed as (
            update webhook_delivery d set state = 'pending', tries = 0, due_at = $4,
                asked_at = $4, finished_at = null
            from found f
            where d.company_id = f.company_id and d.delivery_id = f.delivery_id and f.is_called
        )
        select is_called from found
        """,
        company_id,
        environment,
        delivery_id,
        now,
    )
    return renewed


async def renew_deliveries(
    db: Connection,
    company_id: int,
    environment: str,
    delivery_ids: Sequence[str],
    *,
    now: datetime,
) -> int:
    """Let deliveries be tried again from the start, where somebody is called; says how many."""
    return int(
        await db.fetchval(
            """
            with found as (
                select d.delivery_id, d.lane, d.environment, d.url
                from webhook_delivery d left join webhook_endpoint p
                    on p.company_id = d.company_id and p.endpoint_id = d.lane
                where d.company_id = $1 and d.environment = $2 and d.delivery_id = any($3::text[])
                    and (d.url is not null or p.is_enabled)
            ),
            lane as (
                insert into webhook_lane (company_id, lane, environment)
                select distinct $1::bigint, lane, environment from found where url is not null
                on conflict do nothing
            ),
            renewed as (
                update webhook_delivery d set state = 'pending', tries = 0, due_at = $4,
                    asked_at = $4, finished_at = null
                from found f where d.company_id = $1 and d.delivery_id = f.delivery_id
                returning d.delivery_id
            )
            select count(*) from renewed
            """,
            company_id,
            environment,
            list(delivery_ids),
            now,
        )
    )


async def replay_events(
    db: Connection,
    company_id: int,
    environment: str,
    endpoint_id: str,
    kinds: Sequence[str],
    *,
    start: datetime,
    end: datetime,
    after: EventKey,
    rows_max: int,
    now: datetime,
) -> tuple[int, EventKey]:
    """Tell an endpoint again what happened in a time, a bounded number of events after one.

    Says how many, and which was the last.
    """
    row = await db.fetchrow(
        """
        with e as (
            select company_id, environment, entity_id, sequence, created_at
            from webhook_event
            where company_id = $1 and environment = $2 and created_at >= $5
                and created_at <= $6 and (created_at, entity_id, sequence) > ($7, $8, $9)
                and (kind = any($4::text[]) or '*' = any($4::text[])) and kind <> 'ping'
            order by created_at, entity_id, sequence limit $10
        ),
        d as (
            insert into webhook_delivery (
                company_id, delivery_id, environment, lane, entity_id, sequence, due_at,
                created_at, asked_at
            )
            select company_id, new_delivery_id(created_at), environment, $3, entity_id,
                sequence, $11, created_at, $11
            from e
            on conflict (company_id, lane, entity_id, sequence) do update
                set state = 'pending', tries = 0, due_at = $11, asked_at = $11,
                    finished_at = null
            returning delivery_id
        )
        select (select count(*) from d) as replayed, l.created_at, l.entity_id, l.sequence
        from (select) as one left join (
            select created_at, entity_id, sequence from e
            order by created_at desc, entity_id desc, sequence desc limit 1
        ) l on true
        """,
        company_id,
        environment,
        endpoint_id,
        list(kinds),
        start,
        end,
        after.created_at,
        after.entity_id,
        after.sequence,
        rows_max,
        now,
    )
    assert row is not None
    if not row["replayed"]:
        return 0, after
    last = EventKey(row["created_at"], row["entity_id"], row["sequence"])
    return int(row["replayed"]), last


async def list_attempts(
    db: Connection, company_id: int, delivery_ids: Sequence[str]
) -> dict[str, list[Attempt]]:
    """The tries of deliveries, the first one first."""
    rows = await db.fetch(
        """
        select * from webhook_attempt where company_id = $1 and delivery_id = any($2::text[])
        order by delivery_id, attempt
        """,
        company_id,
        list(delivery_ids),
    )
    found: dict[str, list[Attempt]] = {}
    for row in rows:
        found.setdefault(row["delivery_id"], []).append(_attempt(row))
    return found


def delivery_of(row: Row) -> Delivery:
    """Read a delivery and its event from a row of both."""
    return Delivery(
        delivery_id=row["delivery_id"],
        endpoint_id=row["lane"],
        event_id=row["event_id"],
        kind=row["kind"],
        entity_id=row["entity_id"],
        sequence=row["sequence"],
        body=row["body"],
        state=State(row["state"]),
        due_at=row["due_at"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        attempts_made=row["attempts"],
    )


def _attempt(row: Row) -> Attempt:
    return Attempt(
        attempt=row["attempt"],
        url=row["url"],
        signed_at=row["signed_at"],
        signature=row["signature"],
        status=row["status"],
        error=row["error"],
        answer=row["answer"],
        milliseconds=row["milliseconds"],
        created_at=row["created_at"],
    )


def _parcel(row: Row) -> Parcel:
    is_postback = row["url"] is not None
    return Parcel(
        company_id=row["company_id"],
        delivery_id=row["delivery_id"],
        environment=row["environment"],
        lane=row["lane"],
        entity_id=row["entity_id"],
        sequence=row["sequence"],
        event_id=row["event_id"],
        body=row["body"].encode(),
        url=row["url"] if is_postback else row["endpoint_url"],
        is_postback=is_postback,
        secrets=None if row["secret_sealed"] is None else secrets_of(row),
        attempts=row["attempts"],
        tries=row["tries"],
        asked_at=row["asked_at"],
    )
