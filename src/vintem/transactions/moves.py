"""A status changes here and nowhere else: the money, the row, the history and the event."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from vintem.kit.ids import Prefix, new_id
from vintem.kit.intent import Intent, IntentSource
from vintem.ledger import service as ledger
from vintem.ledger.model import HoldKind, Kind
from vintem.runtime.db import Connection
from vintem.transactions import following, store
from vintem.transactions.model import (
    Refund,
    RefundStatus,
    Status,
    StatusReason,
    Transaction,
    capture_of,
    check_refund,
)
from vintem.transactions.record import record_and_postback, refund_record
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Change, postback_url_in

MoneyMove = Callable[[Connection, Transaction, Transaction, datetime], Awaitable[Transaction]]


async def move(
    block: Connection,
    transaction: Transaction,
    status: Status,
    reason: StatusReason | None,
    *,
    now: datetime,
) -> Transaction:
    """Move a locked payment: its money, its row, its history and its event, in one commit."""
    assert transaction.may_become(status), "a status moves only through the table of moves"
    moved = replace(
        transaction,
        status=status,
        status_reason=reason,
        sequence=transaction.sequence + 1,
        updated_at=now,
        cancelled_at=now if status is Status.CANCELLED else transaction.cancelled_at,
    )
    if transaction.paid_at is not None:
        moved = await _move_money(block, transaction, moved, now)
    await write_move(block, transaction, moved, now=now)
    return moved


async def lose_part(
    block: Connection, transaction: Transaction, amount: int, *, now: datetime
) -> Transaction:
    """Move a locked payment as a dispute does that took a part of it; all the rest is free."""
    assert transaction.may_become(Status.CHARGEBACK), "a status moves only through the table"
    moved = replace(
        transaction,
        status=Status.CHARGEBACK,
        status_reason=None,
        sequence=transaction.sequence + 1,
        updated_at=now,
    )
    if transaction.hold_reference is not None:
        await _restore(block, transaction, moved, now)
    lost = await _hold(block, transaction, moved, now, amount=amount)
    await _lose(block, lost, lost, now)
    await write_move(block, transaction, lost, now=now)
    return lost


async def expire(block: Connection, transaction: Transaction, *, now: datetime) -> None:
    """End a locked payment whose time is over, unless somebody has decided about it before."""
    over = replace(transaction, due_at=None)
    if over.status is Status.PENDING:
        await move(block, over, Status.CANCELLED, StatusReason.EXPIRED, now=now)
    else:
        await store.update_due(block, over, now=now)
        if over.status is Status.CANCELLED:
            # Whoever follows a payment that another has superseded waits for its time.
            await following.tell(block, over.status, over, now=now)


async def shorten(
    block: Connection, transaction: Transaction, ends_at: datetime, *, now: datetime
) -> None:
    """Let the time of a locked payment that waits to be made be over sooner."""
    ending = replace(transaction, expires_at=ends_at, due_at=ends_at)
    await store.update_due(block, ending, now=now)


def is_payable(transaction: Transaction) -> bool:
    """Say whether a payment can be made that never was."""
    return transaction.paid_at is None and transaction.may_become(Status.PAID)


def paid_by(transaction: Transaction, end_to_end_id: str | None, *, now: datetime) -> Transaction:
    """The payment as it is once paid; what came after its end is late, and never lost."""
    is_late = transaction.status is Status.CANCELLED
    return replace(
        transaction,
        status=Status.PAID,
        status_reason=StatusReason.LATE_PAYMENT if is_late else None,
        sequence=transaction.sequence + 1,
        end_to_end_id=end_to_end_id,
        paid_at=now,
        updated_at=now,
        due_at=None,
    )


async def pay(
    block: Connection,
    transaction: Transaction,
    *,
    end_to_end_id: str | None,
    late_amount: int = 0,
    now: datetime,
) -> Transaction:
    """Book a locked payment that was made, late or in time, and what came with it for that."""
    assert is_payable(transaction), "a payment is made once, and only through the table of moves"
    paid = replace(paid_by(transaction, end_to_end_id, now=now), late_amount=late_amount)
    if late_amount:
        await store.update_late_amount(block, paid)
    await ledger.capture_many(block, [capture_of(paid, now=now)], now=now)
    await write_move(block, transaction, paid, now=now)
    return paid


async def write_move(
    block: Connection, was: Transaction, moved: Transaction, *, now: datetime
) -> None:
    """Write a locked payment that has moved, its history and its event."""
    is_first_time = not await store.has_entered(block, moved, moved.status)
    await store.update_moved(block, [(moved, was.status)], now=now)
    refunds = await refunds_of(block, [moved])
    change = change_of(moved, was.status, refunds, is_first_time=is_first_time, now=now)
    await webhooks.record(block, [change])
    await following.tell(block, was.status, moved, now=now)


async def _move_money(
    block: Connection, was: Transaction, moved: Transaction, now: datetime
) -> Transaction:
    """Book what a move of a paid payment means."""
    return await MONEY_MOVES[(was.status, moved.status)](block, was, moved, now)


async def _hold(
    block: Connection,
    was: Transaction,
    moved: Transaction,
    now: datetime,
    *,
    amount: int | None = None,
) -> Transaction:
    reference = f"{was.transaction_id}/{moved.sequence}"
    kind = HoldKind.BLOCK if moved.status is Status.BLOCKED else HoldKind.DISPUTE
    await ledger.hold(
        block,
        was.scope,
        kind,
        reference,
        transaction_id=was.transaction_id,
        amount=was.left_to_refund if amount is None else amount,
        now=now,
    )
    return replace(moved, hold_reference=reference)


async def _lose(
    block: Connection, was: Transaction, moved: Transaction, now: datetime
) -> Transaction:
    assert was.hold_reference is not None
    # All balances at once: the fee takes others than the dispute does.
    await ledger.lock(block, was.scope)
    await ledger.pay_out(
        block,
        was.scope,
        HoldKind.DISPUTE,
        was.hold_reference,
        posting_kind=Kind.CHARGEBACK,
        to=was.source,
        now=now,
    )
    await ledger.charge_dispute_fee(
        block, was.scope, was.hold_reference, amount=was.terms.dispute_fee_cents, now=now
    )
    return moved


async def _hold_and_lose(
    block: Connection, was: Transaction, moved: Transaction, now: datetime
) -> Transaction:
    held = await _hold(block, was, moved, now)
    await _lose(block, held, held, now)
    return held


async def _restore(
    block: Connection, was: Transaction, moved: Transaction, now: datetime
) -> Transaction:
    assert was.hold_reference is not None
    is_block = was.status is Status.BLOCKED
    await ledger.restore(
        block,
        was.scope,
        HoldKind.BLOCK if is_block else HoldKind.DISPUTE,
        was.hold_reference,
        posting_kind=Kind.UNBLOCK if is_block else Kind.DISPUTE_WON,
        now=now,
    )
    return replace(moved, hold_reference=None)


async def _take_back(
    block: Connection, was: Transaction, moved: Transaction, now: datetime
) -> Transaction:
    assert was.hold_reference is not None
    await ledger.take_back(
        block,
        was.scope,
        HoldKind.DISPUTE,
        was.hold_reference,
        posting_kind=Kind.CHARGEBACK_WON,
        source=was.source,
        now=now,
    )
    return replace(moved, hold_reference=None)


async def _give_back_held(
    block: Connection, was: Transaction, moved: Transaction, now: datetime
) -> Transaction:
    """Refund what is held: an alert accepted, or an analyst's decision."""
    refund = await _write_refund(block, was, was.left_to_refund, None, generated_intent(), now=now)
    await _pay_from_hold(block, was, refund, now)
    return replace(moved, refunded_amount=was.amount, refunded_at=now, hold_reference=None)


async def _give_back(
    block: Connection, was: Transaction, moved: Transaction, now: datetime
) -> Transaction:
    """Refund all that is left, without a caller's own key."""
    amount = check_refund(was, None, now=now)
    await book_refund(block, was, amount, None, generated_intent(), now=now)
    return replace(moved, refunded_amount=was.amount, refunded_at=now)


MONEY_MOVES: Final[dict[tuple[Status, Status], MoneyMove]] = {
    (Status.PAID, Status.BLOCKED): _hold,
    (Status.PAID, Status.PRE_CHARGEBACK): _hold,
    (Status.PAID, Status.CHARGEBACK): _hold_and_lose,
    (Status.PAID, Status.REFUNDED): _give_back,
    (Status.BLOCKED, Status.PAID): _restore,
    (Status.BLOCKED, Status.REFUNDED): _give_back_held,
    (Status.PRE_CHARGEBACK, Status.PAID): _restore,
    (Status.PRE_CHARGEBACK, Status.REFUNDED): _give_back_held,
    (Status.PRE_CHARGEBACK, Status.CHARGEBACK): _lose,
    (Status.CHARGEBACK, Status.PAID): _take_back,
}


async def refund(
    block: Connection,
    transaction: Transaction,
    amount: int,
    reason: str | None,
    intent: Intent,
    *,
    now: datetime,
    correlation_id: str = "",
) -> tuple[Transaction, Refund]:
    """Give back part or all of a locked payment, held or not; all of it moves the payment."""
    if transaction.hold_reference is None:
        made = await book_refund(
            block, transaction, amount, reason, intent, correlation_id=correlation_id, now=now
        )
    else:
        made = await _write_refund(
            block, transaction, amount, reason, intent, correlation_id=correlation_id, now=now
        )
        await _pay_from_hold(block, transaction, made, now)
    refunded = replace(
        transaction, refunded_amount=transaction.refunded_amount + amount, updated_at=now
    )
    if refunded.left_to_refund:
        await store.update_refunded_amount(block, refunded, now=now)
        await following.tell(block, refunded.status, refunded, now=now)
        return refunded, made
    moved = replace(
        refunded,
        status=Status.REFUNDED,
        status_reason=None,
        sequence=transaction.sequence + 1,
        hold_reference=None,
        refunded_at=now,
    )
    await write_move(block, transaction, moved, now=now)
    return moved, made


async def book_refund(
    block: Connection,
    transaction: Transaction,
    amount: int,
    reason: str | None,
    intent: Intent,
    *,
    now: datetime,
    correlation_id: str = "",
) -> Refund:
    """Take the money of a refund aside and let it leave; never refused for a short balance."""
    made = await _write_refund(
        block, transaction, amount, reason, intent, correlation_id=correlation_id, now=now
    )
    await ledger.hold(
        block,
        transaction.scope,
        HoldKind.REFUND,
        made.refund_id,
        transaction_id=transaction.transaction_id,
        amount=amount,
        now=now,
    )
    await ledger.pay_out(
        block,
        transaction.scope,
        HoldKind.REFUND,
        made.refund_id,
        posting_kind=Kind.REFUND_PAID,
        to=transaction.source,
        now=now,
    )
    return made


async def _pay_from_hold(
    block: Connection, transaction: Transaction, made: Refund, now: datetime
) -> None:
    """Let the money of a refund leave from where a block or a dispute holds it."""
    assert transaction.hold_reference is not None
    is_block = transaction.status is Status.BLOCKED
    kind = HoldKind.BLOCK if is_block else HoldKind.DISPUTE
    posting_kind = Kind.BLOCK_REFUNDED if is_block else Kind.DISPUTE_REFUNDED
    scope, reference, to = transaction.scope, transaction.hold_reference, transaction.source
    if made.amount == transaction.left_to_refund:
        await ledger.pay_out(
            block, scope, kind, reference, posting_kind=posting_kind, to=to, now=now
        )
    else:
        await ledger.pay_part_out(
            block,
            scope,
            kind,
            reference,
            posting_kind=posting_kind,
            part=made.refund_id,
            amount=made.amount,
            to=to,
            now=now,
        )


async def _write_refund(
    block: Connection,
    transaction: Transaction,
    amount: int,
    reason: str | None,
    intent: Intent,
    *,
    now: datetime,
    correlation_id: str = "",
) -> Refund:
    made = Refund(
        company_id=transaction.company_id,
        refund_id=new_id(Prefix.REFUND),
        transaction_id=transaction.transaction_id,
        environment=transaction.environment,
        amount=amount,
        status=RefundStatus.COMPLETED,
        reason=reason,
        idempotency_key=intent.key,
        fingerprint=intent.fingerprint,
        created_at=now,
        completed_at=now,
    )
    is_new = await store.insert_refund(block, made)
    assert is_new, "the payment is locked, so nobody else used the key meanwhile"
    await webhooks.record(
        block,
        [
            Change(
                company_id=made.company_id,
                environment=made.environment,
                entity_id=made.refund_id,
                sequence=1,
                group="refund",
                status=made.status,
                previous_status=None,
                is_first_time=True,
                data=msgspec.json.encode(refund_record(made)),
                at=now,
                correlation_id=correlation_id,
                idempotency_key=intent.key,
                postback_url=postback_url_in(transaction.details),
            )
        ],
    )
    return made


async def refunds_of(db: Connection, transactions: Sequence[Transaction]) -> Sequence[Refund]:
    """The refunds of one company's payments; only those that have any are asked for."""
    refunded = [each.transaction_id for each in transactions if each.refunded_amount]
    if not refunded:
        return ()
    return await store.list_refunds(db, transactions[0].company_id, refunded)


def change_of(
    transaction: Transaction,
    was: Status,
    refunds: Sequence[Refund],
    *,
    is_first_time: bool,
    now: datetime,
) -> Change:
    """Say what happened to a payment."""
    record, postback_url = record_and_postback(transaction, refunds)
    return Change(
        company_id=transaction.company_id,
        environment=transaction.environment,
        entity_id=transaction.transaction_id,
        sequence=transaction.sequence,
        group="transaction",
        status=transaction.status,
        previous_status=was,
        is_first_time=is_first_time,
        data=record,
        at=now,
        idempotency_key=transaction.idempotency_key,
        postback_url=postback_url,
    )


def generated_intent() -> Intent:
    """An intent of our own, where no caller named one."""
    return Intent(new_id(Prefix.IDEMPOTENCY), IntentSource.GENERATED, b"")
