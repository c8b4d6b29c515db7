"""Sessions, products, coupons, links and appearances as records and rules."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from vintem.brazil.installments import CardInterest, InstallmentOption, installment_table
from vintem.kit.errors import ErrorCode
from vintem.kit.money import AMOUNT_CENTS_MIN, Cents, percent_half_up
from vintem.ledger.model import Scope
from vintem.transactions.model import PaymentMethod, Status, StatusReason, Transaction

CURRENCY: Final = "BRL"
SESSION_MINUTES_MAX: Final = 10_080
SESSION_LIFETIME: Final = timedelta(hours=48)
PIX_LIFETIME: Final = timedelta(hours=1)
LINE_ITEMS_MAX: Final = 100
QUANTITY_MAX: Final = 1_000
BANNERS_MAX: Final = 3
PIX_PER_SESSION_MAX: Final = 6
SLIPS_PER_SESSION_MAX: Final = 3
REFUSALS_PER_SESSION_MAX: Final = 5
WRONG_CODES_MAX: Final = 5
COUPON_LOCK: Final = timedelta(minutes=15)
COLOR: Final = re.compile(r"#[0-9a-fA-F]{6}")
COUPON_CODE: Final = re.compile(r"[!-~]{3,32}")


class SessionStatus(StrEnum):
    """Where a session stands."""

    OPEN = "OPEN"
    AWAITING_PAYMENT = "AWAITING_PAYMENT"
    COMPLETED = "COMPLETED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


MOVES: Final[Mapping[SessionStatus | None, frozenset[SessionStatus]]] = {
    None: frozenset({SessionStatus.OPEN}),
    SessionStatus.OPEN: frozenset(
        {SessionStatus.AWAITING_PAYMENT, SessionStatus.EXPIRED, SessionStatus.CANCELLED}
    ),
    SessionStatus.AWAITING_PAYMENT: frozenset(
        {SessionStatus.COMPLETED, SessionStatus.EXPIRED, SessionStatus.CANCELLED}
    ),
    # Money that arrived is never lost: a late payment completes what was over.
    SessionStatus.EXPIRED: frozenset({SessionStatus.COMPLETED}),
    SessionStatus.CANCELLED: frozenset({SessionStatus.COMPLETED}),
    SessionStatus.COMPLETED: frozenset(),
}
"""Every status, and where a session may go from it; None is before it exists."""

PAYABLE: Final = frozenset({SessionStatus.OPEN, SessionStatus.AWAITING_PAYMENT})

OVER: Final[Mapping[SessionStatus, ErrorCode]] = {
    SessionStatus.COMPLETED: ErrorCode.SESSION_COMPLETED,
    SessionStatus.EXPIRED: ErrorCode.SESSION_EXPIRED,
    SessionStatus.CANCELLED: ErrorCode.SESSION_CANCELLED,
}
"""The statuses in which nothing more can be done, and what is said then."""


class PageState(StrEnum):
    """What the buyer's page shows."""

    OPEN = "open"
    PIX_SHOWN = "pix_shown"
    PIX_EXPIRED = "pix_expired"
    BOLETO_SHOWN = "boleto_shown"
    PROCESSING = "processing"
    IN_REVIEW = "in_review"
    DECLINED = "declined"
    PAID = "paid"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class DiscountType(StrEnum):
    """How a coupon counts: by hundredths of a percent, or by cents."""

    PERCENTAGE = "PERCENTAGE"
    FIXED = "FIXED"


class Template(StrEnum):
    """How a page is laid out."""

    STANDARD = "STANDARD"


class Theme(StrEnum):
    """Light or dark; AUTO is what the buyer's device prefers."""

    LIGHT = "LIGHT"
    DARK = "DARK"
    AUTO = "AUTO"


class Product(msgspec.Struct, frozen=True):
    """Something a company sells."""

    company_id: int
    product_id: str
    environment: str
    name: str
    unit_amount: Cents
    created_at: datetime
    updated_at: datetime
    description: str = ""
    image_url: str | None = None
    image_media: str | None = None
    """The digest by which our own copy of the image is served."""
    is_active: bool = True
    copied_from: str | None = None
    """The product of the test environment that it was copied from."""


class Coupon(msgspec.Struct, frozen=True):
    """What buyers get something off with."""

    company_id: int
    coupon_id: str
    environment: str
    code: str
    discount_type: DiscountType
    discount_value: int
    """Hundredths of a percent, or cents."""
    created_at: datetime
    updated_at: datetime
    redemptions_max: int | None = None
    redemptions: int = 0
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    minimum_amount: Cents = 0
    is_active: bool = True
    product_ids: Sequence[str] = ()
    """What it is for; empty: for everything."""
    customer_redemptions_max: int | None = None
    """How often the holder of one document may use it."""
    batch_id: str | None = None

    def is_usable(self, subtotal: Cents, *, now: datetime) -> bool:
        """Say whether a buyer may use it now for goods of that worth."""
        return (
            self.is_active
            and (self.starts_at is None or self.starts_at <= now)
            and (self.ends_at is None or now < self.ends_at)
            and subtotal >= self.minimum_amount
            and (self.redemptions_max is None or self.redemptions < self.redemptions_max)
        )

    def discount_of(self, amounts: "Amounts", line_items: Sequence["LineItem"]) -> Cents:
        """Say how much comes off; what is left to pay is never below the least amount."""
        worth = sum(
            item.unit_amount * item.quantity
            for item in line_items
            if not self.product_ids or item.product_id in self.product_ids
        )
        if self.discount_type is DiscountType.PERCENTAGE:
            wanted = percent_half_up(worth, basis_points=self.discount_value)
        else:
            wanted = min(self.discount_value, worth)
        whole = amounts.subtotal + amounts.shipping + amounts.additional
        return max(0, min(wanted, whole - AMOUNT_CENTS_MIN))


class Banner(msgspec.Struct, frozen=True):
    """A picture on the page, which may lead somewhere."""

    sort_order: int
    image_url: str
    title: str = ""
    alt_text: str = ""
    href: str | None = None
    image_media: str | None = None


class Appearance(msgspec.Struct, frozen=True):
    """How the page looks; a version never changes once it is published."""

    version: int
    display_name: str
    template: Template = Template.STANDARD
    theme: Theme = Theme.LIGHT
    primary_color: str = "#1652f0"
    background_color: str = "#f5f6f8"
    logo_url: str | None = None
    logo_media: str | None = None
    banners: Sequence[Banner] = ()


class LineItem(msgspec.Struct, frozen=True):
    """Something that is bought, with its name and price as they were when the session began."""

    product_id: str
    name: str
    unit_amount: Cents
    quantity: int
    sort_order: int
    image_url: str | None = None
    image_media: str | None = None


class AppliedCoupon(msgspec.Struct, frozen=True):
    """The coupon of a session, and how much comes off by it."""

    coupon_id: str
    code: str
    discount_type: DiscountType
    applied_amount: Cents


class Amounts(msgspec.Struct, frozen=True):
    """What the total of a session is made of."""

    subtotal: Cents
    discount: Cents = 0
    shipping: Cents = 0
    additional: Cents = 0

    @property
    def total(self) -> Cents:
        """What is to be paid."""
        return self.subtotal - self.discount + self.shipping + self.additional


class BuyerAddress(msgspec.Struct, frozen=True):
    """Where a buyer lives, as far as it is known."""

    street: str = ""
    street_number: str = ""
    complement: str = ""
    neighborhood: str = ""
    zip_code: str = ""
    city: str = ""
    state: str = ""
    country: str = "BR"


class Buyer(msgspec.Struct, frozen=True):
    """What is known of a buyer before they pay; kept sealed."""

    name: str = ""
    email: str = ""
    document: str = ""
    """A CPF or CNPJ without its mask."""
    phone: str = ""
    address: BuyerAddress | None = None
    external_ref: str | None = None


class Session(msgspec.Struct, frozen=True):
    """What one buyer is asked to pay."""

    company_id: int
    session_id: str
    environment: str
    token_digest: bytes
    status: SessionStatus
    sequence: int
    state_version: int
    line_items: Sequence[LineItem]
    amounts: Amounts
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    idempotency_key: str
    fingerprint: bytes
    coupon: AppliedCoupon | None = None
    link_id: str | None = None
    appearance_version: int | None = None
    success_url: str | None = None
    cancel_url: str | None = None
    external_ref: str | None = None
    postback_url: str | None = None
    metadata: Mapping[str, str | int | float | bool | None] = msgspec.field(default_factory=dict)
    buyer_sealed: bytes | None = None
    transaction_id: str | None = None
    """The payment that the page is about: the one that is alive, else the last one."""
    payments_tried: int = 0
    pix_made: int = 0
    slips_made: int = 0
    cards_refused: int = 0
    extra_payments: int = 0
    wrong_codes: int = 0
    coupon_locked_until: datetime | None = None
    completed_at: datetime | None = None
    cancelled_at: datetime | None = None
    due_at: datetime | None = None
    offered_methods: Sequence[PaymentMethod] = ()
    """How it may be paid, of what the company offers; empty: all of it."""
    installments_limit: int | None = None

    @property
    def scope(self) -> Scope:
        """Whose it is."""
        return Scope(self.company_id, self.environment)

    def status_at(self, now: datetime) -> SessionStatus:
        """Where it stands: expired from the moment its time is over, written or not."""
        if self.status in PAYABLE and self.expires_at <= now:
            return SessionStatus.EXPIRED
        return self.status

    def may_become(self, status: SessionStatus) -> bool:
        """Say whether the table of moves lets it go there."""
        return status in MOVES[self.status]


class Merchant(msgspec.Struct, frozen=True):
    """A company as its buyers know it, and how it lets them pay."""

    company_id: int
    public_id: str
    name: str
    display_name: str
    is_suspended: bool
    payment_methods: Sequence[PaymentMethod]
    card_interest: CardInterest
    boleto_due_days: int
    domains: Sequence[str] = ()
    legal_name: str | None = None
    document: str | None = None
    support_email: str | None = None
    support_url: str | None = None
    support_phone: str | None = None


class PublicSession(msgspec.Struct, frozen=True):
    """All that a page or the public interface shows of a session, at one moment."""

    session: Session
    merchant: Merchant
    appearance: Appearance
    payment: Transaction | None
    """The payment that the page is about."""
    now: datetime

    @property
    def environment(self) -> str:
        """Whether money is real."""
        return self.session.environment

    @property
    def status(self) -> SessionStatus:
        """Where the session stands now."""
        return self.session.status_at(self.now)

    @property
    def page_state(self) -> PageState:
        """What the page shows now."""
        return page_state(self.session, self.payment, self.now)

    @property
    def state_version(self) -> int:
        """A number that rises with every change that the buyer can see."""
        return state_version(self.session, self.payment, self.now)

    @property
    def payments_tried(self) -> int:
        """How many payments were begun for the session."""
        return self.session.payments_tried

    @property
    def expires_in_seconds(self) -> int:
        """How long the session can still be paid."""
        return _seconds_until(self.session.expires_at, self.now)

    @property
    def payment_expires_in_seconds(self) -> int | None:
        """How long its payment can still be made, where that has an end."""
        if self.payment is None or self.payment.expires_at is None:
            return None
        return _seconds_until(self.payment.expires_at, self.now)

    @property
    def payment_methods(self) -> Sequence[PaymentMethod]:
        """How the buyer may still pay."""
        return payment_methods(self.session, self.merchant)

    @property
    def installment_options(self) -> Sequence[InstallmentOption]:
        """What the total can be paid in by card, and what each number of installments costs."""
        return installment_options(self.session.amounts.total, self.card_interest)

    @property
    def card_interest(self) -> CardInterest:
        """What installments cost, and how many the session offers."""
        return self.merchant.card_interest.up_to(self.session.installments_limit)


def page_state(session: Session, payment: Transaction | None, now: datetime) -> PageState:
    """Say what the page shows: paid before processing before cancelled before expired."""
    is_paid = payment is not None and payment.paid_at is not None
    if is_paid or session.status is SessionStatus.COMPLETED:
        return PageState.PAID
    if payment is not None and payment.status is Status.PROCESSING:
        return PageState.PROCESSING
    if payment is not None and payment.status is Status.BLOCKED:
        return PageState.IN_REVIEW
    status = session.status_at(now)
    if status is SessionStatus.CANCELLED:
        return PageState.CANCELLED
    if status is SessionStatus.EXPIRED:
        return PageState.EXPIRED
    return PageState.OPEN if payment is None else _payment_state(payment, now)


def _payment_state(payment: Transaction, now: datetime) -> PageState:
    if payment.status is Status.FAILED:
        return PageState.DECLINED
    if is_alive(payment, now):
        is_pix = payment.payment_method is PaymentMethod.PIX
        return PageState.PIX_SHOWN if is_pix else PageState.BOLETO_SHOWN
    is_over = payment.status is Status.PENDING or payment.status_reason is StatusReason.EXPIRED
    is_pix = payment.payment_method is PaymentMethod.PIX
    return PageState.PIX_EXPIRED if is_over and is_pix else PageState.OPEN


def is_alive(payment: Transaction, now: datetime) -> bool:
    """Say whether a buyer can make a payment now: a code or slip that waits for them."""
    return payment.status is Status.PENDING and (
        payment.expires_at is None or now < payment.expires_at
    )


def is_under_way(payment: Transaction) -> bool:
    """Say whether somebody else is deciding about a payment that was not made yet."""
    return payment.paid_at is None and payment.status in {Status.PROCESSING, Status.BLOCKED}


def state_version(session: Session, payment: Transaction | None, now: datetime) -> int:
    """Number what is seen: what is written counts, and so does the time that has passed since."""
    is_session_over = session.status in PAYABLE and session.expires_at <= now
    is_payment_over = (
        payment is not None and payment.status is Status.PENDING and not is_alive(payment, now)
    )
    return 4 * session.state_version + is_session_over + is_payment_over


def payment_methods(session: Session, merchant: Merchant) -> Sequence[PaymentMethod]:
    """List how a session may still be paid: what the company offers and nobody has used up."""
    used_up = set(PaymentMethod) - set(session.offered_methods or PaymentMethod)
    if session.pix_made >= PIX_PER_SESSION_MAX:
        used_up.add(PaymentMethod.PIX)
    if session.slips_made >= SLIPS_PER_SESSION_MAX:
        used_up.add(PaymentMethod.BOLETO)
    if session.cards_refused >= REFUSALS_PER_SESSION_MAX:
        used_up.add(PaymentMethod.CREDIT_CARD)
    return [each for each in merchant.payment_methods if each not in used_up]


@lru_cache(maxsize=10_000)
def installment_options(total: Cents, interest: CardInterest) -> Sequence[InstallmentOption]:
    """List what a total can be paid in; the same totals come again and again."""
    return tuple(installment_table(total, interest))


def amounts_of(
    line_items: Sequence[LineItem], *, shipping: Cents = 0, additional: Cents = 0
) -> Amounts:
    """Add up what is bought, without any discount."""
    subtotal = sum(item.unit_amount * item.quantity for item in line_items)
    return Amounts(subtotal, 0, shipping, additional)


def digest_of(token: str) -> bytes:
    """What a session is found by; the token itself is kept nowhere."""
    return hashlib.sha256(token.encode()).digest()


def normal_code(text: str) -> str | None:
    """A coupon's code as it is kept; nothing when no coupon can have such a code."""
    code = text.strip().upper()
    return code if COUPON_CODE.fullmatch(code) else None


def is_host_of(host: str, domains: Sequence[str]) -> bool:
    """Say whether a host is one of a company's: named as it is, or below a name after `*.`."""
    return any(
        host.endswith(domain[1:]) and len(host) >= len(domain)
        if domain.startswith("*.")
        else host == domain
        for domain in domains
    )


def _seconds_until(moment: datetime, now: datetime) -> int:
    # Rounded up, so that nothing is over before its time.
    return max(0, -((now - moment) // timedelta(seconds=1)))
