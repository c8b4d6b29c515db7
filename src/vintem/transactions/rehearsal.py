"""What the sandbox does to a payment on the ways of callbacks, in the caller's atomic block."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from vintem.brazil.br_code import end_to_end_id
from vintem.kit.errors import ErrorCode, Refusal
from vintem.ledger.model import Scope
from vintem.providers.port import Notice, NoticeKind
from vintem.runtime.db import Connection
from vintem.transactions import arrivals, callback_store, moves, store
from vintem.transactions.arrivals import Outcome
from vintem.transactions.model import PaymentMethod, Status, StatusReason, Transaction

SANDBOX_ISPB: Final = "99999999"
END_TO_END_SUFFIX_CHARACTERS: Final = 11

REASONS: Final = {
    Status.BLOCKED: StatusReason.RISK,
    Status.FAILED: StatusReason.PROVIDER,
    Status.CANCELLED: StatusReason.PROVIDER,
}


def sandbox_transfer(now: datetime) -> str:
    """A name for a transfer that nobody has made."""
    suffix = secrets.token_hex(END_TO_END_SUFFIX_CHARACTERS)[:END_TO_END_SUFFIX_CHARACTERS]
    return end_to_end_id(ispb=SANDBOX_ISPB, moment=now, suffix=suffix)


def legal_moves(transaction: Transaction) -> Sequence[Status]:
    """Where a payment may be moved to."""
    return [status for status in Status if transaction.may_become(status)]


async def move(
    block: Connection, scope: Scope, transaction_id: str, status: Status, *, now: datetime
) -> Transaction:
    """Force a legal move, as the provider, an analyst or a dispute would."""
    # Somebody decides about it: its time is not up any more.
    locked = replace(await _lock(block, scope, transaction_id), due_at=None)
    if not locked.may_become(status):
        raise Refusal(ErrorCode.INVALID_STATE, details={"status": locked.status})
    if status is Status.PAID and moves.is_payable(locked):
        return await moves.pay(block, locked, end_to_end_id=sandbox_transfer(now), now=now)
    moved = await moves.move(block, locked, status, REASONS.get(status), now=now)
    await callback_store.look_soon(block, moved, now=now)
    return moved


async def pay_late(
    block: Connection, scope: Scope, transaction_id: str, *, now: datetime
) -> Transaction:
    """Let a payment's time be over, and then let it be made all the same."""
    locked = replace(await _lock(block, scope, transaction_id), due_at=None)
    if not (moves.is_payable(locked) and locked.may_become(Status.CANCELLED)):
        raise Refusal(ErrorCode.INVALID_STATE, details={"status": locked.status})
    ended = await moves.move(block, locked, Status.CANCELLED, StatusReason.EXPIRED, now=now)
    return await moves.pay(block, ended, end_to_end_id=sandbox_transfer(now), now=now)


async def pay_twice_told(
    block: Connection, scope: Scope, transaction_id: str, provider: str, *, now: datetime
) -> Sequence[Outcome]:
    """Tell of a payment, and tell the very same again: the second word changes nothing."""
    locked = await _payable(block, scope, transaction_id)
    notice = _payment(locked, provider, locked.amount, now)
    outcomes = await arrivals.take(block, locked, notice, now=now)
    again = await arrivals.take(block, await _lock(block, scope, transaction_id), notice, now=now)
    assert again is None, "what was told before is known"
    return outcomes or ()


async def pay_in_part(
    block: Connection, scope: Scope, transaction_id: str, provider: str, *, now: datetime
) -> Sequence[Outcome]:
    """Tell of half of the money: it is kept aside, and the payment still waits."""
    locked = await _payable(block, scope, transaction_id)
    if locked.payment_method is PaymentMethod.CREDIT_CARD:
        raise Refusal(ErrorCode.INVALID_STATE, details={"status": locked.status})
    notice = _payment(locked, provider, max(1, locked.amount // 2), now)
    return await arrivals.take(block, locked, notice, now=now) or ()


async def dispute_out_of_order(
    block: Connection, scope: Scope, transaction_id: str, provider: str, *, now: datetime
) -> Sequence[Outcome]:
    """Tell that a dispute is lost before it is told that there is one: both are done, in order."""
    locked = await _lock(block, scope, transaction_id)
    if locked.status is not Status.PAID:
        raise Refusal(ErrorCode.INVALID_STATE, details={"status": locked.status})
    last = await callback_store.last_sequence(block, locked, provider)
    outcomes: list[Outcome] = []
    for kind, sequence in (
        (NoticeKind.DISPUTE_LOST, last + 2),
        (NoticeKind.DISPUTE_OPENED, last + 1),
    ):
        notice = Notice(
            company_id=scope.company_id,
            environment=scope.environment,
            provider=provider,
            callback_id=_callback_id(),
            kind=kind,
            reference=transaction_id,
            amount=locked.amount,
            sequence=sequence,
        )
        locked = await _lock(block, scope, transaction_id)
        outcomes += await arrivals.take(block, locked, notice, now=now) or ()
    return outcomes


def _payment(transaction: Transaction, provider: str, amount: int, now: datetime) -> Notice:
    is_card = transaction.payment_method is PaymentMethod.CREDIT_CARD
    is_pix = transaction.payment_method is PaymentMethod.PIX
    return Notice(
        company_id=transaction.company_id,
        environment=transaction.environment,
        provider=provider,
        callback_id=_callback_id(),
        kind=NoticeKind.CHARGE_PAID if is_card else NoticeKind.PAYMENT_RECEIVED,
        reference=transaction.transaction_id,
        amount=amount,
        end_to_end_id=sandbox_transfer(now) if is_pix else None,
    )


def _callback_id() -> str:
    return f"sim_{secrets.token_hex(8)}"


async def _payable(block: Connection, scope: Scope, transaction_id: str) -> Transaction:
    locked = await _lock(block, scope, transaction_id)
    if not moves.is_payable(locked):
        raise Refusal(ErrorCode.INVALID_STATE, details={"status": locked.status})
    return locked


async def _lock(block: Connection, scope: Scope, transaction_id: str) -> Transaction:
    transaction = await store.lock(block, scope, transaction_id)
    if transaction is None:
        raise Refusal(ErrorCode.TRANSACTION_NOT_FOUND)
    return transaction
