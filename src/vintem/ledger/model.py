"""Accounts, postings that cannot be unbalanced, and where held money was taken from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Final

import msgspec


class Account(StrEnum):
    """Where money stands. Amounts are positive where what we owe the company grows."""

    AVAILABLE = "available"
    BLOCKED = "blocked"
    DEBT = "debt"
    DISPUTE = "dispute"
    PAYOUT = "payout"
    REFUND = "refund"
    RELEASE = "release"
    RESERVE = "reserve"

    FEE = "fee"
    BANK = "bank"
    RECEIVABLE = "receivable"
    SUSPENSE = "suspense"
    FX = "fx"


BALANCED: Final = (
    Account.AVAILABLE,
    Account.BLOCKED,
    Account.DEBT,
    Account.DISPUTE,
    Account.PAYOUT,
    Account.REFUND,
    Account.RELEASE,
    Account.RESERVE,
)
"""The accounts with a limit, which carry a balance; the others are sums of their postings."""

Balances = Mapping[Account, int]


class Kind(StrEnum):
    """The business fact that a posting records; with its reference it happens once."""

    CAPTURE = "capture"
    SUSPENSE = "suspense"
    SUSPENSE_ENDED = "suspense_ended"
    RELEASE = "release"
    RESERVE_RELEASE = "reserve_release"
    DEBT_RECOVERY = "debt_recovery"
    REFUND = "refund"
    REFUND_PAID = "refund_paid"
    REFUND_FAILED = "refund_failed"
    BLOCK = "block"
    UNBLOCK = "unblock"
    BLOCK_REFUNDED = "block_refunded"
    DISPUTE = "dispute"
    DISPUTE_WON = "dispute_won"
    DISPUTE_REFUNDED = "dispute_refunded"
    CHARGEBACK = "chargeback"
    CHARGEBACK_FEE = "chargeback_fee"
    CHARGEBACK_WON = "chargeback_won"
    WITHDRAWAL = "withdrawal"
    WITHDRAWAL_PAID = "withdrawal_paid"
    WITHDRAWAL_RETURNED = "withdrawal_returned"


class Scope(msgspec.Struct, frozen=True, gc=False):
    """Whose ledger, and in which environment: no posting leaves it."""

    company_id: int
    environment: str


class Leg(msgspec.Struct, frozen=True, gc=False):
    """One account's part of a posting."""

    account: Account
    amount: int


class Posting(msgspec.Struct, frozen=True, gc=False):
    """A movement of money: legs that add up to zero, each account once."""

    scope: Scope
    kind: Kind
    reference: str
    legs: Sequence[Leg]

    def __post_init__(self) -> None:
        """Refuse to exist unbalanced."""
        amounts = [leg.amount for leg in self.legs]
        assert sum(amounts) == 0, "a posting adds up to zero"
        assert all(amounts), "every leg moves something"
        assert 2 <= len({leg.account for leg in self.legs}) == len(self.legs), "each account once"


class ScheduledRelease(msgspec.Struct, frozen=True, gc=False):
    """Money that waits in an account until a day."""

    scope: Scope
    transaction_id: str
    account: Account
    part: int
    due_on: date
    amount: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken out of one scheduled release."""

    transaction_id: str
    account: Account
    part: int
    due_on: date
    amount: int


@dataclass(frozen=True, slots=True)
class Split:
    """Where held money was taken from, so that it can be put back there."""

    available: int = 0
    release: int = 0
    reserve: int = 0
    debt: int = 0
    taken: Sequence[Taken] = ()

    @property
    def amount(self) -> int:
        """All of it."""
        return self.available + self.release + self.reserve + self.debt


class HoldKind(StrEnum):
    """Why money is held, and so in which account."""

    REFUND = "refund"
    BLOCK = "block"
    DISPUTE = "dispute"

    @property
    def account(self) -> Account:
        """The account that holds it."""
        return {
            HoldKind.REFUND: Account.REFUND,
            HoldKind.BLOCK: Account.BLOCKED,
            HoldKind.DISPUTE: Account.DISPUTE,
        }[self]

    @property
    def sources(self) -> Sequence[Account]:
        """Where the money is taken from, in this order; the rest becomes debt."""
        if self is HoldKind.REFUND:
            return (Account.AVAILABLE, Account.RELEASE)
        return (Account.AVAILABLE, Account.RELEASE, Account.RESERVE)


class Resolution(StrEnum):
    """How a hold ended."""

    RESTORED = "restored"
    PAID_OUT = "paid_out"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Hold:
    """Money taken aside."""

    scope: Scope
    kind: HoldKind
    reference: str
    split: Split
    opened_at: datetime
    resolution: Resolution | None = None


class Capture(msgspec.Struct, frozen=True, gc=False):
    """A payment as the ledger sees it: what came in, what we keep, and when the rest is free."""

    scope: Scope
    transaction_id: str
    source: Account
    amount: int
    fee: int
    releases: Sequence[ScheduledRelease] = ()
    """What does not become available at once, in the release and in the reserve account."""


@dataclass(frozen=True, slots=True)
class Payout:
    """A withdrawal as the ledger sees it: what is held, what the recipient gets, what we keep."""

    scope: Scope
    withdrawal_id: str
    net_amount: int
    fee: int
    bought: "Purchase | None" = None

    @property
    def total(self) -> int:
        """What the company is debited."""
        return self.net_amount + self.fee


@dataclass(frozen=True, slots=True)
class Purchase:
    """What reais are changed into: an asset in its smallest unit, at a rate that was quoted."""

    asset: str
    units: int
    exchange_rate: str
    rate_source: str
    quoted_at: datetime

    def __post_init__(self) -> None:
        """Refuse to be nothing."""
        assert self.units > 0, "something is bought"


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """Money in suspense: what came, from where, and when; below zero it has left."""

    scope: Scope
    reference: str
    source: Account
    amount: int
    since: datetime


@dataclass(frozen=True, slots=True)
class StatementLine:
    """One movement of the available balance."""

    number: int
    kind: Kind
    reference: str
    amount: int
    balance_after: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StatementPage:
    """Movements of the available balance, and how many there are in all."""

    lines: Sequence[StatementLine]
    total: int


@dataclass(frozen=True, slots=True)
class StatementFilter:
    """Which movements of the available balance are listed."""

    kind: Kind | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
