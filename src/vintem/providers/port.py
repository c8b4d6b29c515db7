"""What a card acquirer is asked, and what it may answer."""

from collections.abc import Sequence
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

    reference: str
    """Our id of the payment: asked twice with the same one, an acquirer charges once."""
    card: Card
    amount: Cents
    installments: int


class Turn(StrEnum):
    """What may become of a charge after the first answer."""

    PAID = "paid"
    PRE_CHARGEBACK = "pre_chargeback"
    CHARGEBACK = "chargeback"


@dataclass(frozen=True, slots=True)
class LaterTurn:
    """A turn that the acquirer already knows of, and how long after the answer it comes."""

    after: timedelta
    turn: Turn


@dataclass(frozen=True, slots=True)
class Authorised:
    """The issuer pays."""

    authorization_code: str
    later: Sequence[LaterTurn] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The issuer does not pay, for a reason that the buyer may be told."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Processing:
    """The issuer has agreed; that the charge is through is told later."""

    authorization_code: str
    later: Sequence[LaterTurn] = ()


@dataclass(frozen=True, slots=True)
class Blocked:
    """The issuer has agreed; the charge is held until an analyst has looked at it."""

    authorization_code: str


Verdict = Authorised | Refused | Processing | Blocked


class CardAcquirer(Protocol):
    """Charges cards."""

    async def authorise(self, charge: Charge) -> Verdict:
        """Ask for a charge, and give the acquirer's first answer."""
        ...
