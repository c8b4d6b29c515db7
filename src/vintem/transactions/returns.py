"""Refunds that a provider tells us of: money has left, so each is in the books, exactly once.

Those that we asked for are booked before anybody is asked; word of them confirms them. Any other is
the provider's own, and is booked whatever a merchant would be refused.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from vintem.ledger import service as ledger
from vintem.ledger import unclaimed
from vintem.ledger.model import Account, Scope
from vintem.providers.port import Notice
from vintem.runtime.db import Connection
from vintem.transactions import callback_store, moves, store
from vintem.transactions.callback_store import State
from vintem.transactions.model import (
    PaymentMethod,
    Refund,
    RefundStatus,
    Status,
    Transaction,
)

REFUNDABLE: Final = frozenset({Status.PAID, Status.BLOCKED, Status.PRE_CHARGEBACK})
RETURN_NAME: Final = "D"
"""What the name of a PIX return begins with; a name that does not is that of the payment."""
DISPUTE_CODES: Final = frozenset({"BE08", "FR01", "REFU"})
"""The reasons of a PIX return that nobody here agreed to: a dispute that is lost already."""
WAS_UNCLAIMED: Final = "was_unclaimed"
REASON_CHARACTERS_MAX: Final = 140


@dataclass(frozen=True, slots=True)
class Step:
    """A payment after something was tried on it, and the refund that was told of."""

    transaction: Transaction
    state: State
    cause: str | None = None
    refund_id: str | None = None


async def take(
    block: Connection, transaction: Transaction, notice: Notice, now: datetime, *, is_overdue: bool
) -> Step:
    """Do what word of a refund means for a locked payment."""
    if await _is_repeated(block, notice):
        return Step(transaction, State.IGNORED, "repeated")
    told_of = await callback_store.list_told_refunds(block, transaction)
    refunds = await store.list_refunds(block, transaction.company_id, [transaction.transaction_id])
    for refund in refunds:
        if refund.refund_id == notice.reference:
            if refund.refund_id in told_of:
                return Step(transaction, State.IGNORED, "repeated")
            return await _confirm(block, transaction, refund, notice, now)
    # What was returned over the company's head is none of the company's own refunds.
    own = () if _is_lost_dispute(transaction, notice) else refunds
    for refund in own:
        is_waiting = refund.refund_id not in told_of and refund.status is not RefundStatus.FAILED
        if is_waiting and refund.amount == notice.amount:
            return Step(transaction, State.APPLIED, "confirmed", refund.refund_id)
    may_be_paid = transaction.paid_at is None and transaction.may_become(Status.PAID)
    if may_be_paid and not is_overdue:
        return Step(transaction, State.WAITING)
    return await _book(block, transaction, notice, now)


async def take_unknown(block: Connection, notice: Notice, now: datetime) -> State:
    """Keep a refund of nothing that we know in suspense."""
    if await _is_repeated(block, notice):
        return State.IGNORED
    await _book_unclaimed(block, notice, _amount(notice), now, source=Account.BANK)
    return State.UNCLAIMED


async def _confirm(
    block: Connection, transaction: Transaction, refund: Refund, notice: Notice, now: datetime
) -> Step:
    """Take in word of a refund that names it; what left beside its amount is nobody's."""
    more = _amount(notice) - refund.amount
    if not more:
        return Step(transaction, State.APPLIED, "confirmed", refund.refund_id)
    await _book_unclaimed(block, notice, more, now, source=transaction.source)
    return Step(transaction, State.UNCLAIMED, "amount_mismatch", refund.refund_id)


async def _book(block: Connection, transaction: Transaction, notice: Notice, now: datetime) -> Step:
    """Book a refund that nobody here has asked for."""
    amount = _amount(notice)
    if await _gave_back_unclaimed(block, transaction, notice, now):
        return Step(transaction, State.APPLIED, WAS_UNCLAIMED)
    cause = None
    if transaction.paid_at is None or transaction.status not in REFUNDABLE:
        cause = f"is_{transaction.status}"
    elif amount > transaction.left_to_refund:
        cause = "exceeds_amount"
    if cause is not None:
        await _book_unclaimed(block, notice, amount, now, source=transaction.source)
        return Step(transaction, State.UNCLAIMED, cause)
    if _is_lost_dispute(transaction, notice):
        lost = await _lose(block, transaction, amount, now)
        return Step(lost, State.APPLIED, "dispute")
    reason = None if notice.message is None else notice.message[:REASON_CHARACTERS_MAX]
    refunded, made = await moves.refund(
        block, transaction, amount, reason, moves.generated_intent(), now=now
    )
    return Step(refunded, State.APPLIED, None, made.refund_id)


async def _gave_back_unclaimed(
    block: Connection, transaction: Transaction, notice: Notice, now: datetime
) -> bool:
    """Book a return of money that came for a payment and was not its own, if such money is left."""
    if notice.code in DISPUTE_CODES:
        return False
    for reference in await callback_store.list_unclaimed(block, transaction, _amount(notice)):
        found = await unclaimed.find_and_lock(block, transaction.company_id, reference)
        if found is not None:
            await unclaimed.give_back(block, found, now=now)
            return True
    return False


async def _lose(
    block: Connection, transaction: Transaction, amount: int, now: datetime
) -> Transaction:
    """Move a payment of which a dispute has taken an amount."""
    if transaction.status is Status.BLOCKED:
        # What was held for an analyst is decided: only what is paid can be lost.
        transaction = await moves.move(block, transaction, Status.PAID, None, now=now)
    if amount == transaction.left_to_refund:
        return await moves.move(block, transaction, Status.CHARGEBACK, None, now=now)
    return await moves.lose_part(block, transaction, amount, now=now)


def _is_lost_dispute(transaction: Transaction, notice: Notice) -> bool:
    """Say whether a PIX, or a part of it, was returned over the company's head."""
    return transaction.payment_method is PaymentMethod.PIX and notice.code in DISPUTE_CODES


async def _is_repeated(block: Connection, notice: Notice) -> bool:
    """Say whether this very return was told of before, under another id."""
    is_named = (notice.end_to_end_id or "").startswith(RETURN_NAME)
    return is_named and await callback_store.is_known_transfer(block, notice)


async def _book_unclaimed(
    block: Connection, notice: Notice, amount: int, now: datetime, *, source: Account
) -> None:
    await ledger.book_unclaimed(
        block,
        Scope(notice.company_id, notice.environment),
        f"{notice.provider}/{notice.callback_id}",
        source=source,
        amount=-amount,
        now=now,
    )


def _amount(notice: Notice) -> int:
    assert notice.amount is not None, "a refund has an amount"
    return notice.amount
