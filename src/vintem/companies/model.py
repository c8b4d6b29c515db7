"""Companies, keys, limits and fees as records and rules, without input or output."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from vintem.brazil.installments import CardInterest
from vintem.kit.money import percent_half_up
from vintem.kit.urls import UrlFault, parse_web_url

Network = IPv4Network | IPv6Network

LIMIT_MAX: Final = 10_000_000
DOMAINS_MAX: Final = 50
ANY_NAME_BELOW: Final = "*."


class Environment(StrEnum):
    """Where money is real, and where it is not."""

    LIVE = "live"
    TEST = "test"


class KeyType(StrEnum):
    """What a key may do: everything, or open checkout sessions only."""

    SECRET = "sk"  # noqa: S105 - the prefix of a key
    CHECKOUT = "ck"


class LimitGroup(StrEnum):
    """Which of a company's three limits counts a call."""

    TRANSACTIONS = "transactions"
    WITHDRAWALS = "withdrawals"
    REQUESTS = "requests"


WINDOW_SECONDS: Final = {
    LimitGroup.TRANSACTIONS: 1,
    LimitGroup.WITHDRAWALS: 60,
    LimitGroup.REQUESTS: 60,
}


class ImplicitProtection(StrEnum):
    """What is done about a repeated request that carries no idempotency key."""

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"


class Method(StrEnum):
    """What a fee is charged for."""

    PIX = "pix"
    CREDIT_CARD = "credit_card"
    BOLETO = "boleto"
    PIX_WITHDRAWAL = "pix_withdrawal"
    CRYPTO_WITHDRAWAL = "crypto_withdrawal"


@dataclass(frozen=True, slots=True)
class Limits:
    """How often each of a company's keys may call."""

    transactions_per_second: int = 5
    withdrawals_per_minute: int = 10
    requests_per_minute: int = 60

    def of(self, group: LimitGroup) -> int:
        """Give the limit of one group."""
        match group:
            case LimitGroup.TRANSACTIONS:
                return self.transactions_per_second
            case LimitGroup.WITHDRAWALS:
                return self.withdrawals_per_minute
            case LimitGroup.REQUESTS:
                return self.requests_per_minute


@dataclass(frozen=True, slots=True)
class Fee:
    """What one movement costs, from a number of installments up to the next fee."""

    method: Method
    fixed_cents: int
    percent_basis_points: int
    installments_from: int = 1


@dataclass(frozen=True, slots=True)
class FeePlan:
    """All fees of a company; a movement without one is free."""

    fees: Sequence[Fee] = ()

    def fee_cents(self, method: Method, amount: int, *, installments: int = 1) -> int:
        """Compute what a movement costs: fixed plus percent, half up, never above the amount."""
        fitting = [
            fee
            for fee in self.fees
            if fee.method == method and fee.installments_from <= installments
        ]
        if not fitting:
            return 0
        fee = max(fitting, key=lambda fee: fee.installments_from)
        percent = percent_half_up(amount, basis_points=fee.percent_basis_points)
        return min(amount, fee.fixed_cents + percent)


@dataclass(frozen=True, slots=True)
class CompanyTerms:
    """What is agreed with a company: what it pays, what is held back, and when money is free."""

    fees: FeePlan = field(default_factory=FeePlan)
    reserve_basis_points: int = 0
    reserve_days: int = 30
    pix_release_days: int = 0
    boleto_release_days: int = 1
    card_release_days: int = 30
    dispute_fee_cents: int = 0
    card_interest: CardInterest = field(default_factory=CardInterest)


@dataclass(frozen=True, slots=True)
class TermsChange:
    """What is agreed anew with a company; what is left out stays."""

    pix_release_days: int | None = None
    boleto_release_days: int | None = None
    card_release_days: int | None = None
    reserve_basis_points: int | None = None
    reserve_days: int | None = None
    dispute_fee_cents: int | None = None


@dataclass(frozen=True, slots=True)
class Storefront:
    """How a company shows itself to buyers, where its pages are, and how it lets them pay."""

    display_name: str | None = None
    support_email: str | None = None
    support_url: str | None = None
    support_phone: str | None = None
    domains: Sequence[str] = ()
    """Hosts in lower case, with a port where one is needed; `*.` stands for all names below."""
    payment_methods: Sequence[str] = ("pix", "credit_card", "boleto")
    boleto_due_days: int = 3


def domain_of(text: str) -> str | None:
    """Read a host of a company's list, such as `loja.com.br`, `*.loja.com.br` or `localhost:3000`.

    Nothing comes of an address with more than that, or of `*.com.br`, where strangers are.
    """
    host = text.strip().lower().removesuffix("/").removeprefix("https://")
    below = ANY_NAME_BELOW if host.startswith(ANY_NAME_BELOW) else ""
    name = host.removeprefix(below)
    found = parse_web_url(f"https://{name}", allows_loopback=not below)
    if isinstance(found, UrlFault) or set(name) & set("/?#@"):
        return None
    labels = found.host.split(".")
    if below and len(labels) < (3 if labels[-1] == "br" else 2):
        return None
    port = name.partition(":")[2]
    return f"{below}{found.host}:{port}" if port else f"{below}{found.host}"


@dataclass(frozen=True, slots=True)
class WithdrawalRules:
    """What a company's withdrawals are held to; None is no limit. Amounts include the fee."""

    cents_max: int | None = None
    daily_cents_max: int | None = None
    automatic_cents_max: int | None = None
    approves_new_destinations: bool = False
    approves_crypto: bool = False


@dataclass(frozen=True, slots=True)
class WithdrawalPolicy:
    """The rules as they stand at this moment, and whether anything may leave at all."""

    rules: WithdrawalRules
    is_paused: bool
    implicit_protection: ImplicitProtection


@dataclass(frozen=True, slots=True)
class Company:
    """A company as it stands."""

    company_id: int
    public_id: str
    name: str
    is_suspended: bool
    limits: Limits
    implicit_protection: ImplicitProtection
    created_at: datetime
    document: str | None = None
    """Its CPF or CNPJ, without the mask."""
    legal_name: str | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as lists show it; the key itself was shown once and is not known here."""

    key_id: str
    company_id: int
    type: KeyType
    environment: Environment
    last_four: str
    label: str
    allowed_networks: Sequence[Network]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    replaced_by: str | None = None
    created_by: str = ""
    """The person who made it in the dashboard, and so has seen it; nobody is named otherwise."""

    def works_at(self, now: datetime) -> bool:
        """Say whether the key opens anything at that moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: a key that was checked, and the company behind it."""

    key_id: str
    key_type: KeyType
    environment: Environment
    company_id: int
    company_public_id: str
    company_name: str
    company_city: str
    is_company_suspended: bool
    limits: Limits
    terms: CompanyTerms
    implicit_protection: ImplicitProtection
    allowed_networks: Sequence[Network]
    expires_at: datetime | None
