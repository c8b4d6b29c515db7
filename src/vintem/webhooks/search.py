"""Deliveries of all addresses of a company, by what came of them: the newest first, bounded.

The deliveries to one address stand in order in an index, and what failed stands in another. What no
index knows is looked for among a bounded number of deliveries: a page then says how far it looked.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from vintem.kit.paging import Cursor
from vintem.runtime.db import Connection, Row
from vintem.webhooks.delivery_store import delivery_of
from vintem.webhooks.model import Delivery
from vintem.webhooks.statements import POSTBACK

LANES_MAX: Final = 32
WALKED_ROWS_MAX: Final = 1_000
HEALTH_ROWS_MAX: Final = 100
HEALTH_TRIES_MAX: Final = 10
EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


class Sought(StrEnum):
    """What came of a delivery, as far as a search can tell them apart."""

    DELIVERED = "delivered"
    PENDING = "pending"
    FAILED = "failed"
    REFUSED = "4xx"
    BROKEN = "5xx"
    SILENT = "none"


class Search(msgspec.Struct, frozen=True):
    """Which deliveries are sought; all of them where nothing is said."""

    sought: Sought | None = None
    kind: str = ""
    endpoint_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    cursor: Cursor | None = None


class Sighting(msgspec.Struct, frozen=True):
    """A delivery in a list, with its last try."""

    delivery: Delivery
    status: int | None
    error: str | None
    milliseconds: int | None


class Found(msgspec.Struct, frozen=True):
    """Some deliveries, and where the list goes on."""

    sightings: Sequence[Sighting]
    next_cursor: Cursor | None = None
    is_cut: bool = False
    """Nothing more was looked at, although there may be some further on."""


class Health(msgspec.Struct, frozen=True):
    """How the last tries of an address went."""

    tries: int = 0
    taken: int = 0
    slow_milliseconds: int | None = None
    """Nineteen of twenty were answered within this."""


# What the index of failures is found by; the others are told apart row by row.
_CONDITIONS: Final[Mapping[Sought, str]] = {
    Sought.DELIVERED: "and d.state = 'delivered'",
    Sought.PENDING: "and d.state = 'pending'",
    Sought.FAILED: "and d.state in ('failed', 'ended')",
    Sought.REFUSED: "",
    Sought.BROKEN: "",
    Sought.SILENT: "",
}
_LAST_TRY: Final[Mapping[Sought, str]] = {
    Sought.REFUSED: "and a.status between 400 and 499",
    Sought.BROKEN: "and a.status >= 500",
    Sought.SILENT: "and a.attempt is not null and a.status is null",
}


async def search(
    db: Connection, company_id: int, environment: str, wanted: Search, *, rows_max: int
) -> Found:
    """Show a page of deliveries."""
    lanes = await _lanes(db, company_id, environment, wanted.endpoint_id)
    horizon = None
    if wanted.kind or wanted.sought is not None:
        rows = max(1, WALKED_ROWS_MAX // max(1, len(lanes)))
        horizon = await _horizon(db, company_id, lanes, wanted, rows=rows)
    found = await _list(db, company_id, lanes, wanted, since=horizon, rows_max=rows_max + 1)
    shown = [_sighting(row) for row in found[:rows_max]]
    if len(found) > rows_max:
        last = shown[-1].delivery
        return Found(shown, Cursor(last.created_at, last.delivery_id))
    if horizon is None:
        return Found(shown)
    return Found(shown, Cursor(horizon, "0"), is_cut=True)


async def find_healths(
    db: Connection, company_id: int, endpoint_ids: Sequence[str], *, since: datetime
) -> Mapping[str, Health]:
    """How addresses did with the last deliveries since a moment, a bounded number of each."""
    rows = await db.fetch(
        """
        select l.lane, count(*) as tries,
            count(*) filter (where a.status between 200 and 299) as taken,
            percentile_disc(0.95) within group (order by a.milliseconds) as slow
        from unnest($2::text[]) as l (lane)
        cross join lateral (
            select company_id, delivery_id from webhook_delivery
            where company_id = $1 and lane = l.lane and created_at >= $3
            order by created_at desc, delivery_id desc limit $4
        ) d
        cross join lateral (
            select status, milliseconds from webhook_attempt
            where company_id = d.company_id and delivery_id = d.delivery_id
            order by attempt desc limit $5
        ) a
        group by l.lane
        """,
        company_id,
        list(endpoint_ids),
        since,
        HEALTH_ROWS_MAX,
        HEALTH_TRIES_MAX,
    )
    return {row["lane"]: Health(row["tries"], row["taken"], row["slow"]) for row in rows}


async def find_newest_of(
    db: Connection, company_id: int, environment: str, event_id: str
) -> str | None:
    """The newest delivery of an event, to whichever address."""
    event = await db.fetchrow(
        """
        select entity_id, sequence from webhook_event
        where company_id = $1 and environment = $2 and event_id = $3
        """,
        company_id,
        environment,
        event_id,
    )
    if event is None:
        return None
    found: str | None = await db.fetchval(
        """
        select d.delivery_id from unnest($2::text[]) as l (lane)
        cross join lateral (
            select delivery_id, created_at from webhook_delivery
            where company_id = $1 and lane = l.lane and entity_id = $3 and sequence = $4
            limit 1
        ) d
        order by d.created_at desc, d.delivery_id desc limit 1
        """,
        company_id,
        await _lanes(db, company_id, environment, ""),
        event["entity_id"],
        event["sequence"],
    )
    return found


async def _lanes(
    db: Connection, company_id: int, environment: str, endpoint_id: str
) -> Sequence[str]:
    """Where deliveries of an environment go or went: addresses, and origins of postbacks."""
    rows = await db.fetch(
        """
        (
            select endpoint_id as lane from webhook_endpoint
            where company_id = $1 and environment = $2 and ($3::text = '' or endpoint_id = $3)
            order by created_at desc limit $6
        )
        union all
        select lane from (
            -- From one origin to the next, without reading what was sent to it.
            with recursive origin as (
                select 1 as number, (
                    select lane from webhook_delivery
                    where company_id = $1 and lane > $4 and lane < $5 order by lane limit 1
                ) as lane
                union all
                select o.number + 1, (
                    select lane from webhook_delivery
                    where company_id = $1 and lane > o.lane and lane < $5 order by lane limit 1
                )
                from origin o where o.lane is not null and o.number < $6
            )
            select lane from origin where lane is not null and $3::text = ''
        ) as origins
        """,
        company_id,
        environment,
        endpoint_id,
        f"{POSTBACK}{environment} ",
        f"{POSTBACK}{environment}!",
        LANES_MAX,
    )
    return [row["lane"] for row in rows]


async def _horizon(
    db: Connection, company_id: int, lanes: Sequence[str], wanted: Search, *, rows: int
) -> datetime | None:
    """Until when all lanes can be looked through, so many deliveries of each."""
    is_failed = wanted.sought is Sought.FAILED
    found: datetime | None = await db.fetchval(
        f"""
        select max(w.created_at) from unnest($2::text[]) as l (lane)
        cross join lateral (
            select d.created_at from webhook_delivery d
            where d.company_id = $1 and d.lane = l.lane
                {_CONDITIONS[Sought.FAILED] if is_failed else ""}
                and d.created_at >= $3 and (d.created_at, d.delivery_id) < ($4, $5)
            order by d.created_at desc, d.delivery_id desc offset $6 limit 1
        ) as w
        """,  # noqa: S608 - put together from constants
        company_id,
        list(lanes),
        *_between(wanted, None),
        rows - 1,
    )
    return found


async def _list(
    db: Connection,
    company_id: int,
    lanes: Sequence[str],
    wanted: Search,
    *,
    since: datetime | None,
    rows_max: int,
) -> Sequence[Row]:
    sought = wanted.sought
    last_try = "" if sought is None else _LAST_TRY.get(sought, "")
    # Where every row counts, each lane is read no further than the page can use.
    is_each = not wanted.kind and not last_try
    return await db.fetch(
        f"""
        select d.*, a.status, a.error, a.milliseconds from (
            select d.*, e.event_id, e.kind, '' as body
            from unnest($2::text[]) as l (lane)
            cross join lateral (
                select d.* from webhook_delivery d
                where d.company_id = $1 and d.lane = l.lane
                    {"" if sought is None else _CONDITIONS[sought]}
                    and d.created_at >= $3 and (d.created_at, d.delivery_id) < ($4, $5)
                order by d.created_at desc, d.delivery_id desc {"limit $6" if is_each else ""}
            ) d
            -- One by one, by their keys: any other join reads all that a company has.
            cross join lateral (
                select event_id, kind from webhook_event
                where company_id = d.company_id and entity_id = d.entity_id
                    and sequence = d.sequence and ($7::text = '' or kind = $7)
                limit 1
            ) e
            order by d.created_at desc, d.delivery_id desc {"" if last_try else "limit $6"}
        ) d
        left join lateral (
            select attempt, status, error, milliseconds from webhook_attempt
            where company_id = d.company_id and delivery_id = d.delivery_id
                and attempt = d.attempts
            limit 1
        ) a on true
        where true {last_try}
        order by d.created_at desc, d.delivery_id desc limit $6
        """,  # noqa: S608 - put together from constants
        company_id,
        list(lanes),
        *_between(wanted, since),
        rows_max,
        wanted.kind,
    )


def _between(wanted: Search, since: datetime | None) -> tuple[datetime, datetime, str]:
    """From when, and before which delivery."""
    first = max(since or EARLIEST, wanted.since or EARLIEST)
    last = Cursor(wanted.until or LATEST, "")
    if wanted.cursor is not None and wanted.cursor.created_at < last.created_at:
        last = wanted.cursor
    return first, last.created_at, last.id


def _sighting(row: Row) -> Sighting:
    return Sighting(delivery_of(row), row["status"], row["error"], row["milliseconds"])
