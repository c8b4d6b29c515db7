"""The SQL of events."""

from collections.abc import Sequence

from vintem.runtime.db import Connection
from vintem.webhooks.model import Event
from vintem.webhooks.statements import KEEP_EVENTS


async def insert_events(db: Connection, events: Sequence[Event]) -> None:
    """Keep events of any number of companies."""
    await db.execute(
        f"""
        with told as (
            select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[],
                $6::text[], $7::text[], $8::timestamptz[]) as e (
                company_id, entity_id, sequence, event_id, kind, environment, body, created_at)
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
    )
