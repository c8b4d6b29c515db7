"""The SQL of events and of those who are told of them."""

from collections.abc import Sequence
from datetime import datetime

from vintem.runtime.db import Connection, Row
from vintem.webhooks.model import DisabledReason, Endpoint, Event, Secrets
from vintem.webhooks.statements import KEEP_EVENTS


async def insert_events(db: Connection, events: Sequence[Event]) -> None:
    """Keep events of any number of companies, with a delivery to everyone who wants them."""
    await db.execute(
        f"""
        with told as (
            select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[],
                $6::text[], $7::text[], $8::timestamptz[], $9::text[]) as e (
                company_id, entity_id, sequence, event_id, kind, environment, body, created_at,
                postback_url)
        ),
        {KEEP_EVENTS}
        select
        """,  # noqa: S608 - put together from constants
        [event.company_id for event in events],
        [event.entity_id for event in events],
        [event.sequence for event in events],
        [event.event_id for event in events],
        [event.kind for event in events],
        [event.environment for event in events],
        [event.body.decode() for event in events],
        [event.created_at for event in events],
        [event.postback_url for event in events],
    )


async def insert_event_for(db: Connection, event: Event, endpoint_id: str) -> str:
    """Keep an event that only one endpoint is told of; give the id of its delivery."""
    delivery_id: str = await db.fetchval(
        """
        with told as (
            insert into webhook_event (
                company_id, entity_id, sequence, event_id, kind, environment, body, created_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8)
            returning company_id, environment, entity_id, sequence, created_at
        )
        insert into webhook_delivery (
            company_id, delivery_id, environment, lane, entity_id, sequence, due_at, created_at,
            asked_at
        )
        select company_id, new_delivery_id(created_at), environment, $9, entity_id, sequence,
            created_at, created_at, created_at
        from told returning delivery_id
        """,
        event.company_id,
        event.entity_id,
        event.sequence,
        event.event_id,
        event.kind,
        event.environment,
        event.body.decode(),
        event.created_at,
        endpoint_id,
    )
    return delivery_id


async def lock_company(db: Connection, company_id: int) -> None:
    """Keep others from adding endpoints to a company until the block ends."""
    await db.execute("select from company where company_id = $1 for no key update", company_id)


async def count_endpoints(db: Connection, company_id: int, environment: str) -> int:
    """Count the endpoints of a company that were not deleted."""
    return int(
        await db.fetchval(
            """
            select count(*) from webhook_endpoint
            where company_id = $1 and environment = $2 and deleted_at is null
            """,
            company_id,
            environment,
        )
    )


async def insert_endpoint(db: Connection, endpoint: Endpoint) -> None:
    """Add an endpoint and its lane."""
    await db.execute(
        """
        with lane as (
            insert into webhook_lane (company_id, lane, environment) values ($1, $2, $3)
        )
        insert into webhook_endpoint (
            company_id, endpoint_id, environment, url, events, description, secret_sealed,
            created_at, subscribed_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $8)
        """,
        endpoint.company_id,
        endpoint.endpoint_id,
        endpoint.environment,
        endpoint.url,
        list(endpoint.events),
        endpoint.description,
        endpoint.secrets.sealed,
        endpoint.created_at,
    )


async def list_endpoints(db: Connection, company_id: int, environment: str) -> Sequence[Endpoint]:
    """List the endpoints of a company, the newest first."""
    rows = await db.fetch(
        """
        select * from webhook_endpoint
        where company_id = $1 and environment = $2 and deleted_at is null
        order by created_at desc, endpoint_id desc
        """,
        company_id,
        environment,
    )
    return [endpoint_of(row) for row in rows]


async def find_endpoint(
    db: Connection, company_id: int, environment: str, endpoint_id: str
) -> Endpoint | None:
    """Find an endpoint that was not deleted."""
    row = await db.fetchrow(
        """
        select * from webhook_endpoint
        where company_id = $1 and environment = $2 and endpoint_id = $3 and deleted_at is null
        """,
        company_id,
        environment,
        endpoint_id,
    )
    return None if row is None else endpoint_of(row)


async def lock_endpoint(
    db: Connection, company_id: int, environment: str, endpoint_id: str
) -> Endpoint | None:
    """Find an endpoint and keep others from changing it until the block ends."""
    row = await db.fetchrow(
        """
        select * from webhook_endpoint
        where company_id = $1 and environment = $2 and endpoint_id = $3 and deleted_at is null
        for update
        """,
        company_id,
        environment,
        endpoint_id,
    )
    return None if row is None else endpoint_of(row)


async def update_endpoint(db: Connection, endpoint: Endpoint, *, now: datetime) -> None:
    """Write a locked endpoint as it stands; its lane is open when it is enabled, and rested."""
    await db.execute(
        """
        with lane as (
            update webhook_lane set is_open = $6, failures_in_row = 0, retry_at = null,
                failing_since = null
            where company_id = $1 and lane = $2
        )
        update webhook_endpoint set url = $3, events = $4, description = $5, is_enabled = $6,
            disabled_reason = $7, secret_sealed = $8, old_secret_sealed = $9,
            old_secret_until = $10, sequence = $11, subscribed_at = $12
        where company_id = $1 and endpoint_id = $2
        """,
        endpoint.company_id,
        endpoint.endpoint_id,
        endpoint.url,
        list(endpoint.events),
        endpoint.description,
        endpoint.is_enabled,
        endpoint.disabled_reason,
        endpoint.secrets.sealed,
        endpoint.secrets.old_sealed,
        endpoint.secrets.old_until,
        endpoint.sequence,
        now,
    )


async def update_secrets(db: Connection, endpoint: Endpoint) -> None:
    """Write what a locked endpoint is signed for with."""
    await db.execute(
        """
        update webhook_endpoint set secret_sealed = $3, old_secret_sealed = $4,
            old_secret_until = $5
        where company_id = $1 and endpoint_id = $2
        """,
        endpoint.company_id,
        endpoint.endpoint_id,
        endpoint.secrets.sealed,
        endpoint.secrets.old_sealed,
        endpoint.secrets.old_until,
    )


async def count_event(db: Connection, endpoint: Endpoint) -> int:
    """Number the next event of a locked endpoint itself."""
    return int(
        await db.fetchval(
            """
            update webhook_endpoint set sequence = sequence + 1
            where company_id = $1 and endpoint_id = $2 returning sequence
            """,
            endpoint.company_id,
            endpoint.endpoint_id,
        )
    )


async def delete_endpoint(
    db: Connection, company_id: int, environment: str, endpoint_id: str, *, now: datetime
) -> bool:
    """Let an endpoint be forgotten; nothing is sent to it any more. False when there is none."""
    found = await db.fetchval(
        """
        with lane as (
            update webhook_lane set is_open = false
            where company_id = $1 and lane = $3 and environment = $2
        )
        update webhook_endpoint set is_enabled = false, deleted_at = $4,
            disabled_reason = coalesce(disabled_reason, 'merchant')
        where company_id = $1 and environment = $2 and endpoint_id = $3 and deleted_at is null
        returning true
        """,
        company_id,
        environment,
        endpoint_id,
        now,
    )
    return bool(found)


async def insert_postback_secret(
    db: Connection, company_id: int, environment: str, sealed: bytes
) -> None:
    """Give a company a secret for its postbacks, unless it has one."""
    await db.execute(
        """
        insert into webhook_postback_secret (company_id, environment, secret_sealed)
        values ($1, $2, $3) on conflict do nothing
        """,
        company_id,
        environment,
        sealed,
    )


async def replace_postback_secret(
    db: Connection, company_id: int, environment: str, sealed: bytes, *, old_until: datetime
) -> None:
    """Give a company another secret for its postbacks; the old one signs too, until then."""
    await db.execute(
        """
        update webhook_postback_secret set old_secret_sealed = secret_sealed,
            old_secret_until = $4, secret_sealed = $3
        where company_id = $1 and environment = $2
        """,
        company_id,
        environment,
        sealed,
        old_until,
    )


async def find_postback_secrets(
    db: Connection, company_id: int, environment: str
) -> Secrets | None:
    """Find what a company's postbacks are signed with."""
    row = await db.fetchrow(
        """
        select secret_sealed, old_secret_sealed, old_secret_until
        from webhook_postback_secret where company_id = $1 and environment = $2
        """,
        company_id,
        environment,
    )
    return None if row is None else secrets_of(row)


def endpoint_of(row: Row) -> Endpoint:
    """Read an endpoint from its row."""
    reason = row["disabled_reason"]
    return Endpoint(
        company_id=row["company_id"],
        endpoint_id=row["endpoint_id"],
        environment=row["environment"],
        url=row["url"],
        events=row["events"],
        description=row["description"],
        is_enabled=row["is_enabled"],
        disabled_reason=None if reason is None else DisabledReason(reason),
        secrets=secrets_of(row),
        sequence=row["sequence"],
        created_at=row["created_at"],
    )


def secrets_of(row: Row) -> Secrets:
    """Read the sealed secrets of an endpoint or of postbacks."""
    return Secrets(row["secret_sealed"], row["old_secret_sealed"], row["old_secret_until"])
