"""What a move of a withdrawal means: for its money, its record, its history and the world."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from vintem.kit.clock import business_day
from vintem.ledger import service as ledger
from vintem.providers.payouts import Paid, Rejected
from vintem.runtime.db import Connection
from vintem.runtime.failpoints import Failpoint, die_at
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Change
from vintem.withdrawals import store
from vintem.withdrawals.model import Failure, Status, Withdrawal
from vintem.withdrawals.record import record_of


async def tell_new(block: Connection, withdrawal: Withdrawal, *, correlation_id: str) -> None:
    """Write the first event of a withdrawal."""
    change = _change(withdrawal, None, now=withdrawal.created_at)
    await webhooks.record(block, [replace(change, correlation_id=correlation_id)])


async def move(
    block: Connection,
    withdrawal: Withdrawal,
    status: Status,
    *,
    now: datetime,
    **changes: Any,  # noqa: ANN401 - fields of the record, each of its own type
) -> Withdrawal:
    """Move a locked withdrawal: its money, its row, its history and its event, in one commit."""
    assert withdrawal.may_become(status), "a status moves only through the table of moves"
    moved = replace(
        withdrawal, status=status, sequence=withdrawal.sequence + 1, updated_at=now, **changes
    )
    await store.update_moved(block, moved, was=withdrawal.status)
    await webhooks.record(block, [_change(moved, withdrawal.status, now=now)])
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
    return await move(
        block,
        withdrawal,
        Status.COMPLETED,
        now=now,
        due_at=None,
        completed_at=now,
        end_to_end_id=answer.end_to_end_id,
        tx_hash=answer.tx_hash,
        confirmations=answer.confirmations,
    )


async def fail(
    block: Connection, withdrawal: Withdrawal, failure: Failure, *, now: datetime
) -> Withdrawal:
    """Let a locked withdrawal fail for a reason that is certain."""
    return await move(block, withdrawal, Status.FAILED, now=now, due_at=None, failure=failure)


async def cancel(block: Connection, withdrawal: Withdrawal, *, now: datetime) -> Withdrawal:
    """Let a locked withdrawal that nobody has sent come to nothing."""
    return await move(block, withdrawal, Status.CANCELLED, now=now, due_at=None, cancelled_at=now)


def _change(withdrawal: Withdrawal, was: Status | None, *, now: datetime) -> Change:
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
        idempotency_key=withdrawal.idempotency_key,
    )
