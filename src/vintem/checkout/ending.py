"""What time does to sessions: it ends them, and what still waits for those that are completed."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog
from msgspec.structs import replace

from vintem.checkout import attempt_store, attempts, moves, store
from vintem.checkout.model import Session
from vintem.runtime.db import (
    Connection,
    Database,
    DatabaseBusyError,
    DatabaseUnavailableError,
    wait_briefly,
)
from vintem.transactions import service as transactions
from vintem.transactions.model import Status

log = structlog.get_logger()

EXPIRED_AT_ONCE_MAX: Final = 200
LEFT_OVER_AT_ONCE_MAX: Final = 100
WAIT_MILLISECONDS_MAX: Final = 50


async def expire_due(database: Database, *, now: datetime) -> int:
    """End every session whose time is over; any number of workers may do this at once."""
    companies = await store.list_companies_with_due(database, now=now)
    done, waiting = 0, list(companies)
    while waiting:
        # In turns: nobody waits until all sessions of another company are ended.
        counts = [(each, await _for_one(database, each, _expire, now)) for each in waiting]
        done += sum(count for _, count in counts)
        waiting = [each for each, count in counts if count == EXPIRED_AT_ONCE_MAX]
    for company_id in companies:
        done += await _for_one(database, company_id, _end_left_over, now)
    return done


async def _for_one(
    database: Database,
    company_id: int,
    work: Callable[[Database, int, datetime], Awaitable[int]],
    now: datetime,
) -> int:
    """Do one company's work; its trouble must not keep the others waiting."""
    try:
        return await work(database, company_id, now)
    except DatabaseBusyError as busy:
        log.info("sessions are ended later", company_id=company_id, cause=str(busy))
    except DatabaseUnavailableError:
        raise
    except Exception:
        log.exception("due sessions could not be ended", company_id=company_id)
    return 0


async def _expire(database: Database, company_id: int, now: datetime) -> int:
    """End the sessions that waited longest, in one commit; it waits for nobody who holds one."""

    async def expire(block: Connection) -> int:
        over = await store.lock_over(block, company_id, now=now, rows_max=EXPIRED_AT_ONCE_MAX)
        if over:
            await moves.expire_many(block, over, now=now)
        return len(over)

    return await database.atomically(expire)


async def _end_left_over(database: Database, company_id: int, now: datetime) -> int:
    """End what still waits to be paid for sessions that are completed, one session a commit."""
    done = 0
    for session in await store.list_left_over(
        database, company_id, now=now, rows_max=LEFT_OVER_AT_ONCE_MAX
    ):
        try:
            async with database.atomic() as block:
                await _end_waiting(block, session, now)
            done += 1
        except DatabaseBusyError as busy:
            log.info("payments are ended later", session=session.session_id, cause=str(busy))
    return done


async def _end_waiting(block: Connection, session: Session, now: datetime) -> None:
    await wait_briefly(block, milliseconds=WAIT_MILLISECONDS_MAX)
    unpaid = [
        await transactions.lock(block, session.scope, transaction_id)
        for transaction_id in await attempt_store.list_unpaid(block, session)
    ]
    for payment in unpaid:
        if payment.status is Status.PENDING:
            await attempts.end_payment(block, payment, now=now)
    locked = await store.lock(block, session.scope, session.session_id)
    assert locked is not None, "sessions are never deleted"
    await store.update(block, replace(locked, due_at=None))
