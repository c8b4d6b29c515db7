"""The SQL of implicit intents."""

from collections.abc import Sequence
from datetime import datetime

from vintem.runtime.db import Connection


async def upsert_stale(
    block: Connection,
    *,
    company_id: int,
    environment: str,
    operation: str,
    fingerprint: bytes,
    entity_id: str,
    now: datetime,
    stale_before: datetime,
) -> bool:
    """Name the entity of an intent, unless one made since `stale_before` has that name already.

    Of several blocks at once the others wait for the first, and see what it has committed.
    """
    is_named = await block.fetchval(
        """
        insert into implicit_intent as i (
            company_id, environment, operation, fingerprint, entity_id, created_at
        ) values ($1, $2, $3, $4, $5, $6)
        on conflict (company_id, environment, operation, fingerprint) do update
            set entity_id = excluded.entity_id, created_at = excluded.created_at
            where i.created_at < $7
        returning true
        """,
        company_id,
        environment,
        operation,
        fingerprint,
        entity_id,
        now,
        stale_before,
    )
    return bool(is_named)


async def find(
    db: Connection,
    *,
    company_id: int,
    environment: str,
    operation: str,
    fingerprint: bytes,
    stale_before: datetime,
) -> str | None:
    """Find the entity that an intent has made since `stale_before`."""
    entity_id: str | None = await db.fetchval(
        """
        select entity_id from implicit_intent
        where company_id = $1 and environment = $2 and operation = $3 and fingerprint = $4
            and created_at >= $5
        """,
        company_id,
        environment,
        operation,
        fingerprint,
        stale_before,
    )
    return entity_id


async def list_companies(db: Connection) -> Sequence[int]:
    """List the companies that have any intent."""
    rows = await db.fetch("select distinct company_id from implicit_intent")
    return [row["company_id"] for row in rows]


async def delete_old(
    db: Connection, company_id: int, *, made_before: datetime, rows_max: int
) -> int:
    """Delete a company's oldest intents, passing over those that others hold."""
    deleted = await db.fetchval(
        """
        with old as (
            select environment, operation, fingerprint from implicit_intent
            where company_id = $1 and created_at < $2
            order by created_at limit $3
            for update skip locked
        ),
        gone as (
            delete from implicit_intent i using old
            where i.company_id = $1 and i.environment = old.environment
                and i.operation = old.operation and i.fingerprint = old.fingerprint
            returning true
        )
        select count(*) from gone
        """,
        company_id,
        made_before,
        rows_max,
    )
    return int(deleted)
