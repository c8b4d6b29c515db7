"""What a card acquirer is asked and may answer, and what providers tell us by themselves."""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from vintem.brazil.cards import CardNumber
from vintem.kit.money import Cents


@dataclass(frozen=True, slots=True)
class Card:
    """A card as its holder gave it; neither its number nor its CVV is ever printed."""

    number: CardNumber
    holder_name: str
    expiration_month: int
    expiration_year: int
    cvv: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Charge:
    """A payment that the acquirer is asked to authorise."""

    company_id: int
    account: str
    """The company as the acquirer knows it, which is its public id."""
    reference: str
    """Our id of the payment: asked twice with the same one, an acquirer charges once."""
    card: Card
    amount: Cents
    installments: int


@dataclass(frozen=True, slots=True)
class Authorised:
    """The issuer pays."""

    authorization_code: str | None


@dataclass(frozen=True, slots=True)
class Refused:
    """The issuer does not pay, for a reason that the buyer may be told."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Processing:
    """The issuer has agreed; that the charge is through is told later."""

    authorization_code: str | None


@dataclass(frozen=True, slots=True)
class Blocked:
    """The issuer has agreed; the charge is held until an analyst has looked at it."""

    authorization_code: str | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody here knows whether the charge happened; it must be asked again."""


@dataclass(frozen=True, slots=True)
class NeverSeen:
    """The acquirer has no such charge."""


Verdict = Authorised | Refused | Processing | Blocked
FirstAnswer = Verdict | Unknown
LaterAnswer = Verdict | Unknown | NeverSeen


class CardAcquirer(Protocol):
    """Charges cards."""

    @property
    def name(self) -> str:
        """What it is called, in our tables and in the address of its callbacks."""
        ...

    @property
    def arrives_within(self) -> timedelta:
        """How long a charge that it has never seen may still turn up after it was asked for."""
        ...

    async def authorise(self, charge: Charge) -> FirstAnswer:
        """Ask for a charge, and give the acquirer's first answer."""
        ...

    async def query(self, company_id: int, reference: str) -> LaterAnswer:
        """Ask what became of a charge."""
        ...


class NoticeKind(StrEnum):
    """What a provider tells us of a payment."""

    PAYMENT_RECEIVED = "payment.received"
    CHARGE_PAID = "charge.paid"
    CHARGE_REFUSED = "charge.refused"
    CHARGE_BLOCKED = "charge.blocked"
    DISPUTE_OPENED = "dispute.opened"
    DISPUTE_WON = "dispute.won"
    DISPUTE_LOST = "dispute.lost"
    REFUND_DONE = "refund.done"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a provider told us: its own id for it, and which payment is meant."""

    company_id: int
    environment: str
    provider: str
    callback_id: str
    kind: NoticeKind
    reference: str
    """Our id of the payment, or the txid that its PIX code carries."""
    amount: Cents | None = None
    end_to_end_id: str | None = None
    sequence: int | None = None
    """The how manieth it is of this charge, counted without gaps, where the provider counts."""
    code: str | None = None
    message: str | None = None
    dispute_id: str | None = None
    """The dispute that is meant, where the provider names disputes."""
