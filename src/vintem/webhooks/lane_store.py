"""The SQL of lanes: which have something to send, who delivers for them, and how they fare."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from vintem.runtime.db import Connection, Row
from vintem.webhooks.model import Lane
from vintem.webhooks.statements import POSTBACK

LaneKey = tuple[int, str]
"""The company of a lane, and the lane's name."""

FIRST: Final[LaneKey] = (0, "")


async def find_lane_further_on(
    db: Connection, after: LaneKey | None, *, lanes: int
) -> LaneKey | None:
    """The lane that comes so many lanes after one; nothing when there are not so many."""
    company_id, name = after or FIRST
    row = await db.fetchrow(
        """
        select company_id, lane from webhook_lane where (company_id, lane) > ($1, $2)
        order by company_id, lane offset $3 limit 1
        """,
        company_id,
        name,
        lanes - 1,
    )
    return None if row is None else (row["company_id"], row["lane"])


async def has_untold(
    db: Connection, company_id: int, environment: str, entity_ids: Sequence[str]
) -> bool:
    """Say whether anybody still waits to be told of records, in any lane of a company."""
    return bool(
        await db.fetchval(
            """
            select exists (
                select from webhook_lane l join webhook_delivery d
                    on d.company_id = l.company_id and d.lane = l.lane
                where l.company_id = $1 and l.environment = $2 and l.is_open
                    and d.entity_id = any($3) and d.due_at is not null
            )
            """,
            company_id,
            environment,
            entity_ids,
        )
    )


async def list_due_lanes(
    db: Connection,
    holder: str,
    *,
    after: LaneKey | None,
    up_to: LaneKey | None,
    now: datetime,
) -> Sequence[Lane]:
    """Lanes with something to send now, of companies that no other worker delivers for."""
    company_id, name = after or FIRST
    last_company_id, last_name = up_to or (None, None)
    rows = await db.fetch(
        """
        select l.* from webhook_lane l
        left join webhook_dispatch h on h.company_id = l.company_id
        where (l.company_id, l.lane) > ($3, $4)
            and ($5::bigint is null or (l.company_id, l.lane) <= ($5, $6::text))
            and l.is_open and (l.retry_at is null or l.retry_at <= $2)
            and (h.company_id is null or h.holder = $1 or h.leased_until <= now())
            and exists (
                select from webhook_delivery d
                where d.company_id = l.company_id and d.lane = l.lane and d.due_at <= $2
            )
        """,
        holder,
        now,
        company_id,
        name,
        last_company_id,
        last_name,
    )
    return [_lane(row) for row in rows]


async def lease_companies(
    db: Connection, holder: str, company_ids: Sequence[int], *, seconds: float
) -> set[int]:
    """Be the one who delivers for companies, or go on being it; give those that were to be had."""
    rows = await db.fetch(
        """
        insert into webhook_dispatch as h (company_id, holder, leased_until)
        select company_id, $1, now() + $3 from unnest($2::bigint[]) as w (company_id)
        order by company_id
        on conflict (company_id) do update
            set holder = excluded.holder, leased_until = excluded.leased_until
            where h.holder = excluded.holder or h.leased_until <= now()
        returning company_id
        """,
        holder,
        list(company_ids),
        timedelta(seconds=seconds),
    )
    return {row["company_id"] for row in rows}


async def release_companies(db: Connection, holder: str, company_ids: Sequence[int]) -> None:
    """Let others deliver for companies."""
    await db.execute(
        """
        update webhook_dispatch set leased_until = now()
        where company_id = any($2::bigint[]) and holder = $1
        """,
        holder,
        list(company_ids),
    )


async def update_lane(db: Connection, lane: Lane) -> None:
    """Write how a lane fares."""
    await db.execute(
        """
        update webhook_lane set failures_in_row = $3, retry_at = $4, failing_since = $5
        where company_id = $1 and lane = $2 and is_open
        """,
        lane.company_id,
        lane.name,
        lane.failures_in_row,
        lane.retry_at,
        lane.failing_since,
    )


async def list_unreachable(
    db: Connection, *, failing_before: datetime
) -> Sequence[tuple[int, str, str]]:
    """Company, environment and id of the endpoints that took nothing since a moment."""
    rows = await db.fetch(
        """
        select l.company_id, l.environment, l.lane from webhook_lane l
        join webhook_endpoint p on p.company_id = l.company_id and p.endpoint_id = l.lane
        where l.is_open and l.failing_since <= $1 and p.is_enabled
        """,
        failing_before,
    )
    return [(row["company_id"], row["environment"], row["lane"]) for row in rows]


async def delete_quiet_lanes(db: Connection, *, quiet_since: datetime) -> int:
    """Delete the lanes of postbacks with nothing left to send and nothing new since a moment.

    The lane of an endpoint stays as long as the endpoint, and while its deliveries are kept.
    """
    tag = await db.execute(
        """
        delete from webhook_lane l
        where not exists (
                select from webhook_endpoint p
                where p.company_id = l.company_id and p.endpoint_id = l.lane
                    and p.deleted_at is null
            )
            and not exists (
                select from webhook_delivery d where d.company_id = l.company_id
                    and d.lane = l.lane and d.due_at is not null
            )
            and not exists (
                select from webhook_delivery d where d.company_id = l.company_id
                    and d.lane = l.lane
                    and d.created_at > case
                        when l.lane like $2 then $1::timestamptz else '-infinity'
                    end
            )
        """,
        quiet_since,
        f"{POSTBACK}%",
    )
    return int(tag.rpartition(" ")[2])


async def restore_lanes(db: Connection) -> None:
    """Have a lane for every postback that waits.

    One may have been deleted in the very moment in which an event found it still there.
    """
    await db.execute(
        """
        insert into webhook_lane (company_id, lane, environment)
        select distinct d.company_id, d.lane, d.environment from webhook_delivery d
        where d.due_at is not null and d.url is not null and not exists (
            select from webhook_lane l where l.company_id = d.company_id and l.lane = d.lane
        )
        order by d.company_id, d.lane
        on conflict do nothing
        """
    )


async def list_refused(db: Connection) -> Sequence[tuple[int, str]]:
    """Company and id of the endpoints that are gone or deleted, and have deliveries waiting."""
    rows = await db.fetch(
        """
        select p.company_id, p.endpoint_id from webhook_endpoint p
        where (p.disabled_reason = 'gone' or p.deleted_at is not null) and exists (
            select from webhook_delivery d where d.company_id = p.company_id
                and d.lane = p.endpoint_id and d.due_at is not null
        )
        """
    )
    return [(row["company_id"], row["endpoint_id"]) for row in rows]


async def list_old_lanes(db: Connection, *, before: datetime) -> Sequence[tuple[int, str]]:
    """Company and name of the lanes with deliveries from before a moment."""
    rows = await db.fetch(
        """
        select l.company_id, l.lane from webhook_lane l
        where exists (
            select from webhook_delivery d where d.company_id = l.company_id
                and d.lane = l.lane and d.created_at < $1 and d.asked_at < $1
        )
        """,
        before,
    )
    return [(row["company_id"], row["lane"]) for row in rows]


async def list_failing(
    db: Connection, company_id: int, lanes: Sequence[str]
) -> Mapping[str, datetime]:
    """Which of some lanes fail, and since when."""
    rows = await db.fetch(
        """
        select lane, failing_since from webhook_lane
        where company_id = $1 and lane = any($2::text[]) and failing_since is not null
        """,
        company_id,
        list(lanes),
    )
    return {row["lane"]: row["failing_since"] for row in rows}


def _lane(row: Row) -> Lane:
    return Lane(
        company_id=row["company_id"],
        name=row["lane"],
        environment=row["environment"],
        failures_in_row=row["failures_in_row"],
        retry_at=row["retry_at"],
        failing_since=row["failing_since"],
    )
