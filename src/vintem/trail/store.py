"""The statements about acts and their chains."""

from collections.abc import Sequence
from typing import Final

from vintem.runtime.db import Connection, Row
from vintem.trail.model import GENESIS, ActFilter, ActorKind, Link


async def lock_head(db: Connection, company_id: int) -> tuple[int, bytes]:
    """Read where a company's chain ends, and let nobody else add to it until the block ends."""
    row = await db.fetchrow(
        """
        insert into trail_head (company_id, sequence, hash) values ($1, 0, $2)
        on conflict (company_id) do update set sequence = trail_head.sequence
        returning sequence, hash
        """,
        company_id,
        GENESIS,
    )
    assert row is not None
    return row["sequence"], row["hash"]


async def append(db: Connection, link: Link) -> None:
    """Write an act, and that the chain ends with it."""
    await db.execute(
        """
        with written as (
            insert into act (
                company_id, sequence, environment, at, actor_kind, actor_id, actor_name, role, ip,
                user_agent, action, target_type, target_id, before, after, reason, request_id,
                previous_hash, hash
            ) values (
                $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19
            )
        )
        update trail_head set sequence = $2, hash = $19 where company_id = $1
        """,
        link.company_id,
        link.sequence,
        link.environment,
        link.at,
        link.actor_kind,
        link.actor_id,
        link.actor_name,
        link.role,
        link.ip,
        link.user_agent,
        link.action,
        link.target_type,
        link.target_id,
        link.before,
        link.after,
        link.reason,
        link.request_id,
        link.previous_hash,
        link.hash,
    )


async def list_older(
    db: Connection, company_id: int, wanted: ActFilter, *, than: int | None, rows_max: int
) -> Sequence[Link]:
    """The acts before one, or the last ones of all, the newest first."""
    rows = await db.fetch(
        f"""
        {_WANTED} and ($9::bigint is null or sequence < $9) order by sequence desc limit $10
        """,
        company_id,
        *_values(wanted),
        than,
        rows_max,
    )
    return [_link(row) for row in rows]


async def list_newer(
    db: Connection, company_id: int, wanted: ActFilter, *, than: int, rows_max: int
) -> Sequence[Link]:
    """The acts after one, the oldest first."""
    rows = await db.fetch(
        f"{_WANTED} and sequence > $9 order by sequence limit $10",
        company_id,
        *_values(wanted),
        than,
        rows_max,
    )
    return [_link(row) for row in rows]


_WANTED: Final = """
    select * from act
    where company_id = $1 and environment in ($2, '')
        and ($3::text[] is null or split_part(action, '.', 1) = any($3))
        and ($4::text = '' or actor_id = $4)
        and ($5::text = '' or action = $5)
        and ($6::text = '' or target_id = $6)
        and ($7::timestamptz is null or at >= $7)
        and ($8::timestamptz is null or at < $8)
"""


def _values(wanted: ActFilter) -> tuple[object, ...]:
    return (
        wanted.environment,
        None if wanted.subjects is None else list(wanted.subjects),
        wanted.actor_id,
        wanted.action,
        wanted.target,
        wanted.since,
        wanted.until,
    )


async def find_act(db: Connection, company_id: int, sequence: int) -> Link | None:
    """Find an act by its number."""
    row = await db.fetchrow(
        "select * from act where company_id = $1 and sequence = $2", company_id, sequence
    )
    return None if row is None else _link(row)


async def list_actors(
    db: Connection, company_id: int, *, rows_max: int
) -> Sequence[tuple[str, str]]:
    """Who has ever acted, by id, with their last name; one step of the index for each of them."""
    rows = await db.fetch(
        """
        with recursive actor as (
            (select actor_id, actor_name from act where company_id = $1
                order by actor_id desc, sequence desc limit 1)
            union all
            select next.actor_id, next.actor_name
            from actor cross join lateral (
                select actor_id, actor_name from act
                where company_id = $1 and actor_id < actor.actor_id
                order by actor_id desc, sequence desc limit 1
            ) as next
        )
        select actor_id, actor_name from actor limit $2
        """,
        company_id,
        rows_max,
    )
    return [(row["actor_id"], row["actor_name"]) for row in rows]


async def list_actions(db: Connection, company_id: int, *, rows_max: int) -> Sequence[str]:
    """What has ever been done, by the alphabet; one step of the index for each action."""
    rows = await db.fetch(
        """
        with recursive done as (
            (select action from act where company_id = $1 order by action limit 1)
            union all
            select next.action
            from done cross join lateral (
                select action from act where company_id = $1 and action > done.action
                order by action limit 1
            ) as next
        )
        select action from done limit $2
        """,
        company_id,
        rows_max,
    )
    return [row["action"] for row in rows]


async def list_from(
    db: Connection, company_id: int, *, after: int, rows_max: int
) -> Sequence[Link]:
    """The acts after one in the order of their chain, whatever they are about."""
    rows = await db.fetch(
        "select * from act where company_id = $1 and sequence > $2 order by sequence limit $3",
        company_id,
        after,
        rows_max,
    )
    return [_link(row) for row in rows]


async def find_head(db: Connection, company_id: int) -> tuple[int, bytes]:
    """Read where a company's chain ends; before the first act it does so before it begins."""
    row = await db.fetchrow(
        "select sequence, hash from trail_head where company_id = $1", company_id
    )
    return (0, GENESIS) if row is None else (row["sequence"], row["hash"])


def _link(row: Row) -> Link:
    return Link(
        company_id=row["company_id"],
        sequence=row["sequence"],
        previous_hash=row["previous_hash"],
        environment=row["environment"],
        at=row["at"],
        actor_kind=ActorKind(row["actor_kind"]),
        actor_id=row["actor_id"],
        actor_name=row["actor_name"],
        role=row["role"],
        ip=row["ip"],
        user_agent=row["user_agent"],
        action=row["action"],
        target_type=row["target_type"],
        target_id=row["target_id"],
        before=row["before"],
        after=row["after"],
        reason=row["reason"],
        request_id=row["request_id"],
        hash=row["hash"],
    )
