"""Payments as records and rules: the statuses, the table of moves, and when money is free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from vintem.brazil.calendar import add_business_days, next_business_day
from vintem.kit.clock import business_day
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix
from vintem.kit.money import AMOUNT_CENTS_MAX, REFUND_CENTS_MIN, percent_half_up, split_evenly
from vintem.ledger.model import Account, Capture, ScheduledRelease, Scope

REFUND_DAYS_MAX_PIX: Final = 90
TXID_CHARACTERS: Final = 25


class Status(StrEnum):
    """Where a payment stands."""

    PENDING = "pending"
    PROCESSING = "processing"
    PAID = "paid"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    REFUNDED = "refunded"
    PRE_CHARGEBACK = "pre_chargeback"
    CHARGEBACK = "chargeback"


class StatusReason(StrEnum):
    """Why a payment stands there, where the status alone does not say it."""

    EXPIRED = "expired"
    MERCHANT = "merchant"
    LATE_PAYMENT = "late_payment"
    SUPERSEDED = "superseded"
    RISK = "risk"
    PROVIDER = "provider"


class PaymentMethod(StrEnum):
    """How the buyer pays."""

    PIX = "pix"
    CREDIT_CARD = "credit_card"
    BOLETO = "boleto"


MOVES: Final[Mapping[Status | None, frozenset[Status]]] = {
    None: frozenset(
        {Status.PENDING, Status.PROCESSING, Status.PAID, Status.FAILED, Status.BLOCKED}
    ),
    Status.PENDING: frozenset(
        {Status.PAID, Status.PROCESSING, Status.FAILED, Status.BLOCKED, Status.CANCELLED}
    ),
    Status.PROCESSING: frozenset({Status.PAID, Status.FAILED, Status.BLOCKED, Status.CANCELLED}),
    Status.PAID: frozenset(
        {Status.REFUNDED, Status.BLOCKED, Status.PRE_CHARGEBACK, Status.CHARGEBACK}
    ),
    Status.BLOCKED: frozenset(
        {Status.PAID, Status.PROCESSING, Status.FAILED, Status.CANCELLED, Status.REFUNDED}
    ),
    Status.PRE_CHARGEBACK: frozenset({Status.PAID, Status.REFUNDED, Status.CHARGEBACK}),
    Status.CHARGEBACK: frozenset({Status.PAID}),
    Status.CANCELLED: frozenset({Status.PAID}),
    Status.FAILED: frozenset(),
    Status.REFUNDED: frozenset(),
}
"""Every status, and where a payment may go from it; None is before it exists."""

AFTER_PAID: Final = frozenset({Status.PAID, Status.REFUNDED})
"""Where a payment that was blocked after it was paid may go; any other never was paid."""


class Terms(msgspec.Struct, frozen=True):
    """What was agreed with the company when the payment was made."""

    reserve_basis_points: int = 0
    reserve_days: int = 30
    release_days: int = 0
    dispute_fee_cents: int = 0


class Transaction(msgspec.Struct, frozen=True, gc=False):
    """A payment as it stands."""

    company_id: int
    transaction_id: str
    environment: str
    status: Status
    status_reason: StatusReason | None
    payment_method: PaymentMethod
    amount: int
    fee: int
    installments: int
    refunded_amount: int
    idempotency_key: str
    fingerprint: bytes
    sequence: int
    hold_reference: str | None
    document_sealed: bytes
    details: str
    terms: Terms
    end_to_end_id: str | None
    created_at: datetime
    updated_at: datetime
    paid_at: datetime | None
    expires_at: datetime | None
    cancelled_at: datetime | None
    refunded_at: datetime | None
    due_at: datetime | None
    answered_at: datetime | None = None
    """When its provider said the first word, where one had to be asked."""
    checkout_session_id: str | None = None
    """The session that it pays for, where a buyer makes it on our own page."""
    late_amount: int = 0
    """What came with it for being late: it is the company's, and never given back."""

    @property
    def is_answered(self) -> bool:
        """Whether its provider has said the first word; before that nothing is told of it."""
        return self.sequence > 0

    @property
    def processed_at(self) -> datetime | None:
        """When its creation was completed; without a value it is still under way."""
        return (self.answered_at or self.created_at) if self.is_answered else None

    @property
    def scope(self) -> Scope:
        """Whose ledger it is booked in."""
        return Scope(self.company_id, self.environment)

    @property
    def source(self) -> Account:
        """Where its money comes from, and where it goes back to."""
        is_pix = self.payment_method is PaymentMethod.PIX
        return Account.BANK if is_pix else Account.RECEIVABLE

    @property
    def left_to_refund(self) -> int:
        """How much of it has not been given back."""
        return self.amount - self.refunded_amount

    def may_become(self, status: Status) -> bool:
        """Say whether the table of moves, and its past, let it go there."""
        if not self.is_answered:
            return False
        if self.status is Status.BLOCKED:
            is_after_paid = self.paid_at is not None
            if is_after_paid != (status in AFTER_PAID) and status is not Status.PAID:
                return False
        return status in MOVES[self.status]


class NewTransaction(msgspec.Struct, frozen=True, gc=False):
    """A payment to be written, with what it is found by."""

    transaction: Transaction
    external_ref: str | None
    document_digest: bytes


class RefundStatus(StrEnum):
    """How far a refund has come."""

    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Refund:
    """Money given back, wholly or in part."""

    company_id: int
    refund_id: str
    transaction_id: str
    environment: str
    amount: int
    status: RefundStatus
    reason: str | None
    idempotency_key: str
    fingerprint: bytes
    created_at: datetime
    completed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which payments of a company are listed."""

    scope: Scope
    statuses: tuple[Status, ...] | None = None
    payment_method: PaymentMethod | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    external_ref: str | None = None
    document_digest: bytes | None = None
    amount_min: int | None = None
    amount_max: int | None = None


def ids_of_reference(reference: str) -> Sequence[str]:
    """The ids of the payments that a provider may mean by a reference.

    A PIX code has no room for the whole id: its txid leaves out the prefix and the first of the 26
    characters, which is one of eight.
    """
    if len(reference) == TXID_CHARACTERS:
        return [f"{Prefix.TRANSACTION}_{first}{reference}" for first in "01234567"]
    return [reference]


def check_amount(amount: int, field: str, *, minimum: int) -> None:
    """Refuse what is less than the least or more than the most that is moved at once."""
    if amount < minimum:
        details = {"field": field, "minimum": minimum}
        raise Refusal(ErrorCode.AMOUNT_BELOW_MINIMUM, details=details)
    if amount > AMOUNT_CENTS_MAX:
        details = {"field": field, "maximum": AMOUNT_CENTS_MAX}
        raise Refusal(ErrorCode.AMOUNT_ABOVE_MAXIMUM, details=details)


def check_refund(transaction: Transaction, amount: int | None, *, now: datetime) -> int:
    """Say how much is given back, or refuse."""
    if amount is not None:
        check_amount(amount, "amount", minimum=REFUND_CENTS_MIN)
    if transaction.status in {Status.PRE_CHARGEBACK, Status.CHARGEBACK}:
        raise Refusal(ErrorCode.TRANSACTION_UNDER_DISPUTE)
    if transaction.status is not Status.PAID:
        raise Refusal(ErrorCode.TRANSACTION_NOT_REFUNDABLE)
    if transaction.payment_method is PaymentMethod.BOLETO and transaction.environment == "live":
        raise Refusal(ErrorCode.TRANSACTION_NOT_REFUNDABLE)
    assert transaction.paid_at is not None, "what is paid was paid at some moment"
    window = timedelta(days=REFUND_DAYS_MAX_PIX)
    if transaction.payment_method is PaymentMethod.PIX and now > transaction.paid_at + window:
        raise Refusal(ErrorCode.REFUND_WINDOW_EXPIRED)
    left = transaction.left_to_refund
    wanted = left if amount is None else amount
    if wanted > left:
        raise Refusal(ErrorCode.REFUND_EXCEEDS_AMOUNT, details={"refundable": left})
    return wanted


def capture_of(transaction: Transaction, *, now: datetime) -> Capture:
    """Say how a payment is booked: the fee, what is held in reserve, and when the rest is free."""
    terms, paid_on = transaction.terms, business_day(now)
    net = transaction.amount - transaction.fee
    # Nothing is kept of what a late payment adds.
    reserve = min(net, percent_half_up(transaction.amount, basis_points=terms.reserve_basis_points))
    releases = [
        ScheduledRelease(
            transaction.scope, transaction.transaction_id, Account.RELEASE, part, due_on, amount
        )
        for part, (due_on, amount) in enumerate(
            _release_days(transaction, net - reserve + transaction.late_amount, paid_on), 1
        )
        if amount
    ]
    if reserve:
        due_on = next_business_day(paid_on + timedelta(days=terms.reserve_days))
        releases.append(
            ScheduledRelease(
                transaction.scope, transaction.transaction_id, Account.RESERVE, 1, due_on, reserve
            )
        )
    return Capture(
        scope=transaction.scope,
        transaction_id=transaction.transaction_id,
        source=transaction.source,
        amount=transaction.amount + transaction.late_amount,
        fee=transaction.fee,
        releases=releases,
    )


def _release_days(
    transaction: Transaction, amount: int, paid_on: date
) -> Sequence[tuple[date, int]]:
    days = transaction.terms.release_days
    if days == 0:
        return ()
    match transaction.payment_method:
        case PaymentMethod.PIX:
            return [(next_business_day(paid_on + timedelta(days=days)), amount)]
        case PaymentMethod.BOLETO:
            return [(add_business_days(paid_on, days), amount)]
        case PaymentMethod.CREDIT_CARD:
            parts = split_evenly(amount, parts=transaction.installments)
            return [
                (next_business_day(paid_on + timedelta(days=days * number)), part)
                for number, part in enumerate(parts, 1)
            ]
