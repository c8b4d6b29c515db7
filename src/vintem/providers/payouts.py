"""What a payout provider is asked, and what it may answer."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

import msgspec

from vintem.brazil.wallets import Coin, Network
from vintem.kit.money import Cents


class PixDestination(msgspec.Struct, frozen=True, tag="pix"):
    """A PIX key in the form of the directory, and whose it must be, if that is known."""

    key: str
    key_type: str
    code: str | None = None
    """The whole code to copy and paste, where one was given."""
    document: str | None = None


class WalletDestination(msgspec.Struct, frozen=True, tag="wallet"):
    """A wallet on one network, and whose it is, if that is known."""

    coin: Coin
    network: Network
    address: str
    document: str | None = None


Destination = PixDestination | WalletDestination


@dataclass(frozen=True, slots=True)
class PayoutOrder:
    """A payment to be made once, whatever happens on the way."""

    company_id: int
    request_id: str
    """Our name for it, at most 35 letters and digits: asked again, nothing is paid twice."""
    destination: Destination
    amount: Cents
    """What the recipient gets; of an asset, `units` in its smallest unit for it."""
    units: int | None
    asked_amount: Cents
    """What the integrator asked for, by which the sandbox decides."""
    description: str | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider has it and will pay or reject it."""


@dataclass(frozen=True, slots=True)
class Paid:
    """The recipient has the money, for good."""

    end_to_end_id: str | None = None
    tx_hash: str | None = None
    confirmations: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The recipient does not get the money, for good."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unheard:
    """The provider has never heard of the request."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer, or none that says anything: it may have been paid, and may yet be."""

    cause: str


PayoutAnswer = Accepted | Paid | Rejected | Unheard | Unknown


@dataclass(frozen=True, slots=True)
class Quote:
    """How many reais a whole coin costs, who says so, and when."""

    coin: Coin
    rate: Decimal
    source: str
    at: datetime


class PayoutNoticeKind(StrEnum):
    """What a provider tells us of a payout by itself."""

    PAID = "payout.paid"
    REJECTED = "payout.rejected"


class PayoutProvider(Protocol):
    """Pays out; whatever it raises means that the outcome is not known."""

    async def send(self, order: PayoutOrder) -> PayoutAnswer:
        """Ask for a payment; asked again with the same request id, it is the same payment."""
        ...

    async def query(self, company_id: int, request_id: str) -> PayoutAnswer:
        """Ask what became of a request."""
        ...

    async def quote(self, coin: Coin) -> Quote:
        """Ask for the price of a coin."""
        ...
