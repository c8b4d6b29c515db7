"""Implicit intents: the same request again within moments, without a key, means the same wish."""

from datetime import datetime, timedelta
from typing import Final

from vintem.intents import store
from vintem.intents.model import ImplicitIntent
from vintem.runtime.db import Connection

KEPT: Final = timedelta(days=1)
FORGOTTEN_AT_ONCE_MAX: Final = 1_000


async def claim(block: Connection, intent: ImplicitIntent, entity_id: str) -> str | None:
    """Let an intent stand for an entity of this block, or give the one that it stands for already.

    An intent and its entity are committed together. Of blocks that claim the same intent at once,
    one gets it, and the others get what that one has committed.
    """
    is_ours = await store.upsert_stale(
        block,
        company_id=intent.company_id,
        environment=intent.environment,
        operation=intent.operation,
        fingerprint=intent.fingerprint,
        entity_id=entity_id,
        now=intent.now,
        stale_before=intent.stale_before,
    )
    return None if is_ours else await find(block, intent)


async def find(db: Connection, intent: ImplicitIntent) -> str | None:
    """Find the entity that an intent stands for."""
    return await store.find(
        db,
        company_id=intent.company_id,
        environment=intent.environment,
        operation=intent.operation,
        fingerprint=intent.fingerprint,
        stale_before=intent.stale_before,
    )


async def forget_old(db: Connection, *, now: datetime) -> int:
    """Delete the intents that no request can repeat any more."""
    forgotten = 0
    for company_id in await store.list_companies(db):
        while gone := await store.delete_old(
            db, company_id, made_before=now - KEPT, rows_max=FORGOTTEN_AT_ONCE_MAX
        ):
            forgotten += gone
    return forgotten
