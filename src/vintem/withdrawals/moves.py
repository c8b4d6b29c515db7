"""What a move of a withdrawal means: for its money, its record, its history and the world."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

from vintem.kit.clock import business_day
from vintem.ledger import service as ledger
from vintem.providers.payouts import Paid, Rejected
from vintem.runtime.db import Connection
from vintem.runtime.failpoints import Failpoint, die_at
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Change, postback_url_in
from vintem.withdrawals import store
from vintem.withdrawals.model import Failure, Status, Withdrawal, request_id_of
from vintem.withdrawals.record import record_of

Witness = Callable[[Connection, Withdrawal], Awaitable[None]]
"""Writes down who did something to a withdrawal, in the commit that does it."""


async def tell_new(block: Connection, withdrawal: Withdrawal, *, correlation_id: str) -> None:
    """Write the first event of a withdrawal."""
    change = _change(withdrawal, None, correlation_id=correlation_id, now=withdrawal.created_at)
    await webhooks.record(block, [change])


async def move(
    block: Connection, was: Withdrawal, becoming: Withdrawal, *, now: datetime
) -> Withdrawal:
    """Move a locked withdrawal: its money, its row, its history and its event, in one commit."""
    status = becoming.status
    assert was.may_become(status), "a status moves only through the table of moves"
    moved = replace(becoming, sequence=was.sequence + 1, updated_at=now)
    await store.update_moved(block, moved, was=was.status)
    await webhooks.record(block, [_change(moved, was.status, now=now)])
    # The accounts come last, so that they are locked for as short a time as can be.
    if status is Status.COMPLETED:
        await ledger.pay_held(block, moved.payout, now=now)
        die_at(Failpoint.CAPTURED)
    elif status in {Status.FAILED, Status.CANCELLED}:
        day = business_day(moved.created_at)
        await store.take_from_day(block, moved.scope, day, cents=moved.total_debited)
        await ledger.return_held(block, moved.payout, now=now)
        die_at(Failpoint.RETURNED)
    return moved


async def settle(
    block: Connection, withdrawal: Withdrawal, answer: Paid | Rejected, *, now: datetime
) -> Withdrawal:
    """Do to a locked withdrawal on its way what the provider says for good."""
    if isinstance(answer, Rejected):
        return await fail(block, withdrawal, Failure(answer.code, answer.reason), now=now)
    completed = replace(
        withdrawal,
        status=Status.COMPLETED,
        due_at=None,
        completed_at=now,
        end_to_end_id=answer.end_to_end_id,
        tx_hash=answer.tx_hash,
        confirmations=answer.confirmations,
    )
    return await move(block, withdrawal, completed, now=now)


async def fail(
    block: Connection, withdrawal: Withdrawal, failure: Failure, *, now: datetime
) -> Withdrawal:
    """Let a locked withdrawal fail for a reason that is certain."""
    failed = replace(withdrawal, status=Status.FAILED, due_at=None, failure=failure)
    return await move(block, withdrawal, failed, now=now)


async def cancel(block: Connection, withdrawal: Withdrawal, *, now: datetime) -> Withdrawal:
    """Let a locked withdrawal that nobody has sent come to nothing."""
    cancelled = replace(withdrawal, status=Status.CANCELLED, due_at=None, cancelled_at=now)
    return await move(block, withdrawal, cancelled, now=now)


async def begin(
    block: Connection, withdrawal: Withdrawal, *, due_at: datetime | None, now: datetime
) -> Withdrawal:
    """Let a locked withdrawal be on its way, under the one name that its provider ever hears."""
    sent = replace(
        withdrawal,
        status=Status.PROCESSING,
        request_id=request_id_of(withdrawal.withdrawal_id),
        processed_at=now,
        fence=withdrawal.fence + 1,
        due_at=due_at,
    )
    return await move(block, withdrawal, sent, now=now)


def _change(
    withdrawal: Withdrawal, was: Status | None, *, now: datetime, correlation_id: str = ""
) -> Change:
    return Change(
        company_id=withdrawal.company_id,
        environment=withdrawal.environment,
        entity_id=withdrawal.withdrawal_id,
        sequence=withdrawal.sequence,
        group="withdrawal",
        status=withdrawal.status,
        previous_status=was,
        # No way leads back to a status, so that each is entered once.
        is_first_time=True,
        data=record_of(withdrawal),
        at=now,
        correlation_id=correlation_id,
        idempotency_key=withdrawal.idempotency_key,
        postback_url=postback_url_in(withdrawal.details),
    )
