"""Withdrawals as records and rules: statuses, the table of moves, what needs a second person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, Context, Decimal
from enum import StrEnum
from typing import Final

from vintem.brazil.wallets import DECIMALS, Coin, Network
from vintem.companies.model import WithdrawalRules
from vintem.kit.ids import Prefix
from vintem.kit.money import Cents
from vintem.ledger.model import Payout, Purchase, Scope
from vintem.providers.payouts import Paid, PayoutNoticeKind, Quote, Rejected

ASK_AFTER_SECONDS: Final = (2, 5, 15, 60)
ASK_EVERY_SECONDS: Final = 300
CLAIM_SECONDS: Final = 15
ALARM_AFTER: Final = timedelta(minutes=30)
QUOTE_LIFETIME: Final = timedelta(minutes=5)
QUANTITY_DECIMALS: Final[Mapping[Coin, int]] = {Coin.USDT: 6, Coin.BTC: 8}

_EXACT: Final = Context(prec=60, rounding=ROUND_DOWN)


class Status(StrEnum):
    """Where a withdrawal stands."""

    PENDING = "pending"
    PENDING_APPROVAL = "pending_approval"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


MOVES: Final[Mapping[Status | None, frozenset[Status]]] = {
    None: frozenset({Status.PENDING, Status.PENDING_APPROVAL}),
    Status.PENDING: frozenset({Status.PROCESSING, Status.CANCELLED, Status.FAILED}),
    Status.PENDING_APPROVAL: frozenset({Status.PENDING, Status.CANCELLED}),
    Status.PROCESSING: frozenset({Status.COMPLETED, Status.FAILED}),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
}
"""Every status, and where a withdrawal may go from it; None is before it exists."""

CANCELLABLE: Final = frozenset({Status.PENDING, Status.PENDING_APPROVAL})


class Method(StrEnum):
    """How the money leaves."""

    PIX = "pix"
    CRYPTO = "crypto"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a withdrawal failed."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A withdrawal as it stands."""

    company_id: int
    withdrawal_id: str
    environment: str
    status: Status
    method: Method
    amount: Cents
    fee: Cents
    net_amount: Cents
    external_ref: str | None
    destination_sealed: bytes
    destination_digest: bytes
    requested_by: str
    idempotency_key: str
    fingerprint: bytes
    sequence: int
    details: str
    bought: Purchase | None
    created_at: datetime
    updated_at: datetime
    request_id: str | None = None
    fence: int = 0
    asked: int = 0
    due_at: datetime | None = None
    failure: Failure | None = None
    end_to_end_id: str | None = None
    tx_hash: str | None = None
    confirmations: int | None = None
    processed_at: datetime | None = None
    completed_at: datetime | None = None
    cancelled_at: datetime | None = None

    @property
    def scope(self) -> Scope:
        """Whose ledger it is booked in."""
        return Scope(self.company_id, self.environment)

    @property
    def total_debited(self) -> Cents:
        """What the company pays for it."""
        return self.net_amount + self.fee

    @property
    def payout(self) -> Payout:
        """How the ledger sees it."""
        return Payout(self.scope, self.withdrawal_id, self.net_amount, self.fee, self.bought)

    def may_become(self, status: Status) -> bool:
        """Say whether the table of moves lets it go there."""
        return status in MOVES[self.status]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which withdrawals of a company are listed."""

    scope: Scope
    statuses: Sequence[Status] | None = None
    method: Method | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    external_ref: str | None = None


@dataclass(frozen=True, slots=True)
class DestinationUse:
    """How well a destination is known: what was completed to it, and since when."""

    completions: int
    first_at: datetime | None


class DecisionKind(StrEnum):
    """What was decided."""

    APPROVAL_REQUIRED = "approval_required"
    APPROVED = "approved"
    """By the requester, where the company has one member only."""
    REJECTED = "rejected"
    PAUSED = "paused"
    RESUMED = "resumed"
    RULES_CHANGED = "rules_changed"


PLATFORM: Final = 0
"""Stands for every company at once where a decision is written down."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Who decided what, and why."""

    company_id: int
    subject: str
    kind: DecisionKind
    decided_by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class PayoutNotice:
    """A provider's word about a request that came by itself; its id names the provider too."""

    scope: Scope
    notice_id: str
    request_id: str
    answer: Paid | Rejected
    amount: Cents | None = None
    """What was paid, or not, where the provider says so."""

    @property
    def kind(self) -> PayoutNoticeKind:
        """What was said."""
        is_paid = isinstance(self.answer, Paid)
        return PayoutNoticeKind.PAID if is_paid else PayoutNoticeKind.REJECTED

    @property
    def told(self) -> Status:
        """Where the withdrawal must stand, if it is true."""
        return Status.COMPLETED if isinstance(self.answer, Paid) else Status.FAILED


class NoticeOutcome(StrEnum):
    """What a notice did."""

    APPLIED = "applied"
    REPEATED = "repeated"
    UNCHANGED = "unchanged"
    CONTRADICTS = "contradicts"
    UNKNOWN_REQUEST = "unknown_request"


def outcome_of(notice: PayoutNotice, withdrawal: Withdrawal) -> NoticeOutcome:
    """Say what a word that is heard for the first time does to a withdrawal as it stands."""
    if notice.amount is not None and notice.amount != withdrawal.net_amount:
        return NoticeOutcome.CONTRADICTS
    if withdrawal.status is Status.PROCESSING:
        return NoticeOutcome.APPLIED
    is_so = withdrawal.status is notice.told
    return NoticeOutcome.UNCHANGED if is_so else NoticeOutcome.CONTRADICTS


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened to a withdrawal, for whoever looks into it."""

    at: datetime
    what: str
    by: str
    note: str


def request_id_of(withdrawal_id: str) -> str:
    """The one name that the provider ever hears of a withdrawal, in letters and digits."""
    return withdrawal_id.replace(f"{Prefix.WITHDRAWAL}_", Prefix.WITHDRAWAL)


def ask_again_after(asked: int) -> timedelta:
    """How long to wait before the next question, when so many were asked."""
    is_early = asked < len(ASK_AFTER_SECONDS)
    return timedelta(seconds=ASK_AFTER_SECONDS[asked] if is_early else ASK_EVERY_SECONDS)


def approval_reasons(
    rules: WithdrawalRules, *, total_debited: Cents, method: Method, is_new_destination: bool
) -> Sequence[str]:
    """Say why a second person must agree; nothing when nobody must."""
    reasons = []
    limit = rules.automatic_cents_max
    if limit is not None and total_debited > limit:
        reasons.append(f"{total_debited} cents are above the automatic limit of {limit}")
    if rules.approves_new_destinations and is_new_destination:
        reasons.append("nothing was ever paid to this destination")
    if rules.approves_crypto and method is Method.CRYPTO:
        reasons.append("it leaves as crypto")
    return reasons


def purchase(network: Network, quote: Quote, *, net_amount: Cents) -> Purchase:
    """Say what an amount buys at a rate: the quantity is cut, never rounded up."""
    decimals = QUANTITY_DECIMALS[quote.coin]
    reais = Decimal(net_amount).scaleb(-2, _EXACT)
    quantity = _EXACT.divide(reais, quote.rate).quantize(
        Decimal(1).scaleb(-decimals), context=_EXACT
    )
    return Purchase(
        asset=f"{quote.coin}.{network}",
        units=int(quantity.scaleb(DECIMALS[network], _EXACT)),
        exchange_rate=f"{quote.rate:f}",
        rate_source=quote.source,
        quoted_at=quote.at,
    )


def quantity_text(bought: Purchase) -> str:
    """Write how much of a coin is bought, as a decimal number."""
    coin, _, network = bought.asset.partition(".")
    quantity = Decimal(bought.units).scaleb(-DECIMALS[Network(network)], _EXACT)
    return f"{quantity:.{QUANTITY_DECIMALS[Coin(coin)]}f}"
