"""Payments of companies that want to be kept from creating the same one twice without a key."""

from datetime import datetime, timedelta
from typing import Final

import structlog

from vintem.companies.model import ImplicitProtection
from vintem.intents import service as intents
from vintem.intents.model import ImplicitIntent
from vintem.kit.intent import Intent
from vintem.ledger.model import Scope
from vintem.runtime import metrics
from vintem.runtime.db import Connection
from vintem.transactions import phases, store
from vintem.transactions.batches import Created, Creation, write_new
from vintem.transactions.model import Transaction
from vintem.transactions.phases import Desk

log = structlog.get_logger()

OPERATION: Final = "transaction"
WINDOW: Final = timedelta(seconds=60)


async def find(
    db: Connection, scope: Scope, intent: Intent, *, now: datetime
) -> Transaction | None:
    """Find the payment that the same request has made moments ago."""
    earlier_id = await intents.find(db, _implicit(scope, intent, now=now))
    if earlier_id is None:
        return None
    note_repetition(scope, earlier_id, ImplicitProtection.ENFORCE)
    return await _get(db, scope, earlier_id)


async def create(
    desk: Desk, creation: Creation, intent: Intent, protection: ImplicitProtection
) -> Created:
    """Create a payment, or give the one that the same request has made moments ago.

    A company that only observes gets its payment all the same, and the operator hears of it.
    """
    made = creation.new.transaction
    implicit = _implicit(made.scope, intent, now=made.created_at)
    earlier_id: str | None = None

    async def find_earlier(block: Connection) -> Transaction | None:
        nonlocal earlier_id
        earlier_id = await intents.claim(block, implicit, made.transaction_id)
        if earlier_id is None or protection is not ImplicitProtection.ENFORCE:
            return None
        return await _get(block, made.scope, earlier_id)

    async def create(block: Connection) -> Created:
        earlier = await find_earlier(block)
        if earlier is not None:
            return Created(earlier, is_replay=True)
        written = await write_new(block, [creation])
        assert written, "a generated key is free"
        return Created(made, is_replay=False)

    if creation.charge is None:
        async with desk.turns:
            created = await desk.database.atomically(create)
    else:
        created = await phases.charge(desk, creation, creation.charge, intent, find_earlier)
    if earlier_id is not None:
        note_repetition(made.scope, earlier_id, protection)
    return created


def note_repetition(scope: Scope, earlier_id: str, protection: ImplicitProtection) -> None:
    """Let the operator see that a company repeats itself."""
    metrics.IMPLICIT_REPETITIONS.labels(OPERATION, protection).inc()
    log.info(
        "request repeated without a key",
        operation=OPERATION,
        protection=protection,
        company_id=scope.company_id,
        environment=scope.environment,
        earlier=earlier_id,
    )


async def _get(db: Connection, scope: Scope, transaction_id: str) -> Transaction:
    transaction = await store.find(db, scope, transaction_id)
    assert transaction is not None, "an intent is committed with its payment"
    return transaction


def _implicit(scope: Scope, intent: Intent, *, now: datetime) -> ImplicitIntent:
    return ImplicitIntent(
        company_id=scope.company_id,
        environment=scope.environment,
        operation=OPERATION,
        fingerprint=intent.fingerprint,
        now=now,
        window=WINDOW,
    )
