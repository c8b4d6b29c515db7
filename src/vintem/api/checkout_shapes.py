"""What the Checkout group takes and gives, field by field."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from vintem.api.call import Body, PublicQuery, Query, Reply
from vintem.api.paging import PaginationReply
from vintem.api.transaction_shapes import (
    AN_ADDRESS,
    EMAIL,
    SAYS_SOMETHING,
    VISIBLE,
    AddressBody,
    CustomerBody,
    DocumentBody,
)
from vintem.checkout.model import (
    LINE_ITEMS_MAX,
    QUANTITY_MAX,
    SESSION_MINUTES_MAX,
    DiscountType,
    PageState,
    SessionStatus,
    Template,
    Theme,
)
from vintem.kit.clock import PublicTime
from vintem.transactions.model import PaymentMethod, Status

ProductId = Annotated[str, Meta(min_length=1, max_length=64, examples=["prod_…"])]
Quantity = Annotated[int, Meta(ge=1, le=QUANTITY_MAX)]
Url = Annotated[str, Meta(max_length=2_048)]
AddedAmount = Annotated[int, Meta(description="Cents that are added to the items, from 0 on.")]


class LineItemBody(Body, frozen=True):
    """A product that is bought, and how many."""

    product_id: ProductId
    quantity: Quantity = 1
    sort_order: Annotated[int, Meta(ge=0, le=1_000)] | None = None


class PrefillBody(Body, frozen=True):
    """What is known of the buyer, so that they need not type it; all of it can be left out."""

    name: (
        Annotated[str, Meta(min_length=3, max_length=100, pattern=VISIBLE, extra=SAYS_SOMETHING)]
        | None
    ) = None
    email: Annotated[str, Meta(max_length=254, pattern=EMAIL, extra=AN_ADDRESS)] | None = None
    document: DocumentBody | None = None
    phone: Annotated[str, Meta(max_length=24)] | None = None
    address: AddressBody | None = None
    external_ref: Annotated[str, Meta(max_length=120)] | None = None


class SessionBody(Body, frozen=True):
    """A session to be opened: one product with `productId`, or several with `lineItems`."""

    product_id: ProductId | None = None
    quantity: Quantity | None = None
    line_items: (
        Annotated[list[LineItemBody], Meta(min_length=1, max_length=LINE_ITEMS_MAX)] | None
    ) = None
    expires_at: (
        Annotated[
            int, Meta(ge=1, le=SESSION_MINUTES_MAX, description="Minutes from now; not a date.")
        ]
        | None
    ) = None
    success_url: Url | None = None
    cancel_url: Url | None = None
    customer: PrefillBody | None = None
    coupon_code: str | None = None
    shipping_amount: AddedAmount = 0
    additional_amount: AddedAmount = 0
    external_ref: Annotated[str, Meta(max_length=120)] | None = None
    postback_url: Url | None = None
    metadata: dict[str, str | int | float | bool | None] | None = None


class CouponBody(Body, frozen=True):
    """The code that the buyer has."""

    # One that no coupon can have is a wrong code like any other.
    code: Annotated[str, Meta(examples=["BEMVINDO"])]


class CardTokenBody(Body, frozen=True):
    """The token of a card."""

    token: Annotated[str, Meta(max_length=128)]


class PayBody(Body, frozen=True):
    """How and by whom a session is paid; how much is the session's own matter."""

    customer: CustomerBody
    payment_method: PaymentMethod = PaymentMethod.PIX
    installments: int = 1
    card: CardTokenBody | None = None


class NothingBody(Body, frozen=True):
    """Nothing needs to be said."""


class SessionQuery(Query, frozen=True):
    """Which sessions are listed."""

    status: SessionStatus | None = None
    start_date: str | None = None
    end_date: str | None = None
    external_ref: str | None = None
    page: int | None = None
    page_size: int = 20
    cursor: str | None = None


class PollQuery(PublicQuery, frozen=True):
    """Whether a session that is over is shown too."""

    poll: (
        Annotated[str, Meta(description="`1`, `true` or `yes`: show a session that is over, too.")]
        | None
    ) = None


class OpenedReply(Reply, frozen=True):
    """A session, and where its buyer is sent; a repeated answer cannot tell that again."""

    session_id: str
    status: SessionStatus
    expires_at: PublicTime
    total_amount: int
    checkout_url: str | UnsetType = UNSET


class LinkOpenedReply(Reply, frozen=True):
    """A session of a payment link, and where its buyer is sent."""

    session_id: str
    checkout_url: str
    expires_at: PublicTime


class LineItemReply(Reply, frozen=True):
    """What is bought, with its name and price as they were when the session began."""

    snapshot_product_name: str
    snapshot_image_url: str | None
    unit_amount: int
    quantity: int
    currency: Literal["BRL"]
    sort_order: int
    product_id: str


class CouponReply(Reply, frozen=True):
    """The coupon of a session."""

    code: str
    discount_type: DiscountType
    applied_amount: int


class BannerReply(Reply, frozen=True):
    """A picture on the page."""

    sort_order: int
    image_url: str
    href: str | None
    title: str
    alt_text: str


class AppearanceReply(Reply, frozen=True):
    """How the page looks."""

    appearance_version: int
    template: Template
    display_name: str
    logo_url: str | None
    primary_color: str
    background_color: str
    theme: Theme
    banners: Sequence[BannerReply]


class PaymentReply(Reply, frozen=True):
    """The payment that a session waits for, or the last one that was tried."""

    transaction_id: str
    status: Status
    method: PaymentMethod
    pix_qr_code: str | None
    pix_qr_code_image: str | None
    expires_at: PublicTime | None
    expires_in_seconds: int | None


class PublicSessionReply(Reply, frozen=True):
    """A session as its buyer sees it."""

    session_id: str
    status: SessionStatus
    expires_at: PublicTime
    line_items: Sequence[LineItemReply]
    subtotal_amount: int
    discount_amount: int
    shipping_amount: int
    additional_amount: int
    total_amount: int
    success_url: str | None
    cancel_url: str | None
    coupon: CouponReply | None
    appearance: AppearanceReply
    payment: PaymentReply | None
    payment_methods: Sequence[PaymentMethod]
    expires_in_seconds: int
    state_version: int
    page_state: PageState


class TotalsReply(Reply, frozen=True):
    """What is to be paid, with or without a coupon."""

    session_id: str
    status: SessionStatus
    subtotal_amount: int
    discount_amount: int
    shipping_amount: int
    additional_amount: int
    total_amount: int
    coupon: CouponReply | None


class PaidBoletoReply(Reply, frozen=True):
    """The codes of a slip, and the address of the page to print."""

    url: str
    barcode: str
    digitable_line: str
    due_date: str
    pix_qr_code: str


class PaidCardReply(Reply, frozen=True):
    """The card that is charged, as far as it is shown."""

    brand: str
    last_digits: str
    installments: int
    installment_amount: int
    interest_amount: int


class RefusedReply(Reply, frozen=True):
    """Why a card was refused."""

    code: str
    message: str


class PayReply(Reply, frozen=True):
    """What came of paying; a refused card is an answer, not an error."""

    session_id: str
    status: SessionStatus
    transaction_id: str
    amount: int
    pix_qr_code: str | None
    pix_qr_code_image: str | None
    expires_at: PublicTime | None
    boleto: PaidBoletoReply | None
    card: PaidCardReply | None
    success_url: str | None
    payment: PaymentReply
    refused_reason: RefusedReply | None


class SessionReply(Reply, frozen=True):
    """A session as its company sees it; its token is nowhere in it."""

    session_id: str
    environment: Literal["live", "test"]
    status: SessionStatus
    line_items: Sequence[LineItemReply]
    subtotal_amount: int
    discount_amount: int
    shipping_amount: int
    additional_amount: int
    total_amount: int
    currency: Literal["BRL"]
    coupon: CouponReply | None
    success_url: str | None
    cancel_url: str | None
    external_ref: str | None
    metadata: Mapping[str, str | int | float | bool | None]
    postback_url: str | None
    payment_link_id: str | None
    transaction_id: str | None
    extra_payments: int
    created_at: PublicTime
    updated_at: PublicTime
    expires_at: PublicTime
    completed_at: PublicTime | None
    cancelled_at: PublicTime | None


class SessionList(Reply, frozen=True):
    """A page of sessions that are written already."""

    sessions: list[msgspec.Raw]
    pagination: PaginationReply


class SessionListReply(Reply, frozen=True):
    """A page of sessions, the newest first."""

    sessions: list[SessionReply]
    pagination: PaginationReply
