"""What only time does outside the sandbox: there, whoever tests need not wait for it."""

from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from vintem.checkout import attempts, store
from vintem.checkout.model import Session, is_alive
from vintem.companies.model import Environment
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.db import Connection, Database
from vintem.transactions import moves as payment_moves
from vintem.transactions.model import Status

SESSION_LEFT: Final = timedelta(seconds=20)


async def expire_payment(database: Database, session: Session, *, now: datetime) -> None:
    """End the code or slip that waits to be paid, as if its time were over."""
    _refuse_live(session)

    async def expire(block: Connection) -> None:
        _, payment = await attempts.lock_with_payment(block, session.scope, session.session_id)
        if payment is None or payment.status is not Status.PENDING:
            raise Refusal(ErrorCode.INVALID_STATE)
        await payment_moves.expire(block, payment, now=now)

    await database.atomically(expire)


async def shorten(database: Database, session: Session, *, now: datetime) -> None:
    """Leave a session, and what waits to be paid for it, only seconds."""
    _refuse_live(session)

    async def shorten_locked(block: Connection) -> None:
        locked, payment = await attempts.lock_with_payment(block, session.scope, session.session_id)
        attempts.refuse_over(locked, now=now)
        ends_at = min(locked.expires_at, now + SESSION_LEFT)
        if payment is not None and is_alive(payment, now):
            sooner = min(payment.expires_at or ends_at, ends_at)
            await payment_moves.shorten(block, payment, sooner, now=now)
        version = locked.state_version + 1
        await store.update(
            block,
            replace(
                locked, expires_at=ends_at, due_at=ends_at, state_version=version, updated_at=now
            ),
        )

    await database.atomically(shorten_locked)


def _refuse_live(session: Session) -> None:
    if session.environment != Environment.TEST:
        raise Refusal(ErrorCode.SANDBOX_ONLY)
