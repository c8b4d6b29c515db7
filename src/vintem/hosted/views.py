"""What a page shows: the whole input of its rendering, with nothing left to look up.

Amounts are cents, moments are UTC, and the rendering writes both for the reader's language.
"""

from collections.abc import Sequence
from datetime import date, datetime
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from vintem.brazil.installments import InstallmentOption
from vintem.kit.money import Cents


class Language(StrEnum):
    """What the buyer reads."""

    PORTUGUESE = "pt-BR"
    ENGLISH = "en"
    SPANISH = "es"


class Theme(StrEnum):
    """Light, dark, or whatever the buyer's device prefers."""

    LIGHT = "LIGHT"
    DARK = "DARK"
    AUTO = "AUTO"


class Method(StrEnum):
    """How a session can be paid; also the values of the field `method`."""

    PIX = "pix"
    CARD = "credit_card"
    BOLETO = "boleto"


class Field(StrEnum):
    """The fields of the payment form, by their names in it."""

    NAME = "name"
    EMAIL = "email"
    DOCUMENT = "document"
    PHONE = "phone"
    METHOD = "method"
    POSTAL_CODE = "postal_code"
    STREET = "street"
    STREET_NUMBER = "street_number"
    COMPLEMENT = "complement"
    NEIGHBORHOOD = "neighborhood"
    CITY = "city"
    STATE = "state"
    CARD_NUMBER = "cc_number"
    CARD_EXPIRY = "cc_exp"
    CARD_CODE = "cc_csc"
    CARD_NAME = "cc_name"
    CARD_DOCUMENT = "cc_document"
    INSTALLMENTS = "installments"


class Problem(StrEnum):
    """What is wrong with a field; each has its sentence in every language."""

    NAME_INVALID = "name_invalid"
    EMAIL_INVALID = "email_invalid"
    DOCUMENT_MISSING = "document_missing"
    DOCUMENT_INVALID = "document_invalid"
    PHONE_INVALID = "phone_invalid"
    METHOD_MISSING = "method_missing"
    POSTAL_CODE_INVALID = "postal_code_invalid"
    STREET_MISSING = "street_missing"
    STREET_NUMBER_MISSING = "street_number_missing"
    NEIGHBORHOOD_MISSING = "neighborhood_missing"
    CITY_MISSING = "city_missing"
    STATE_MISSING = "state_missing"
    CARD_NUMBER_INVALID = "card_number_invalid"
    CARD_EXPIRY_INVALID = "card_expiry_invalid"
    CARD_EXPIRED = "card_expired"
    CARD_CODE_INVALID = "card_code_invalid"
    CARD_NAME_INVALID = "card_name_invalid"
    CARD_DOCUMENT_INVALID = "card_document_invalid"
    INSTALLMENTS_INVALID = "installments_invalid"
    TOO_LONG = "too_long"


class Decline(StrEnum):
    """Why a payment came to nothing, as far as the buyer is told."""

    GENERIC = "generic"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    WRONG_CODE = "wrong_code"
    WRONG_DATA = "wrong_data"
    EXPIRED_CARD = "expired_card"
    NOT_ENABLED = "not_enabled"
    LIMIT_EXCEEDED = "limit_exceeded"
    UNAVAILABLE = "unavailable"
    NOT_A_CARD = "not_a_card"  # a PIX or a boleto came to nothing


class Notice(StrEnum):
    """Why nothing came of what the buyer asked for, when no single field is to blame."""

    TOO_MANY_ATTEMPTS = "too_many_attempts"  # says Refused.wait_seconds
    CARD_ATTEMPTS_EXCEEDED = "card_attempts_exceeded"
    PIX_ATTEMPTS_EXCEEDED = "pix_attempts_exceeded"
    METHOD_UNAVAILABLE = "method_unavailable"
    STORE_UNAVAILABLE = "store_unavailable"
    LINK_FULL = "link_full"
    FORM_STALE = "form_stale"
    TRY_AGAIN = "try_again"


class CouponProblem(StrEnum):
    """Why a coupon was not applied; unknown, expired and used up are one and the same."""

    INVALID = "invalid"
    LOCKED = "locked"
    TOO_MANY_ATTEMPTS = "too_many_attempts"  # says CouponBox.wait_seconds


TOLD: Final = "told"
"""What a paid page asks before it leaves: 204 once the shop has heard, 202 before."""


class Action(StrEnum):
    """What is POSTed, by what it adds to the page's path; all answer 303 to the page itself.

    `pay` sends `form_nonce` and the fields of Field; `coupon` sends `code`; `simulate` sends `to`.
    Checking by hand is a GET of the page with `?check=1`, another language one with `?lang=`;
    a link is continued by a POST to its own path, without fields.
    """

    PAY = "pay"
    COUPON = "coupon"
    REMOVE_COUPON = "coupon/remove"
    ANOTHER_WAY = "another-way"
    NEW_PIX = "new-pix"
    RESTART = "restart"
    SIMULATE = "simulate"


class Simulation(StrEnum):
    """The buttons of the simulator; the values of its field `to`."""

    PAID = "paid"
    FAILED = "failed"
    BLOCKED = "blocked"
    PIX_EXPIRED = "pix_expired"
    SESSION_EXPIRED = "session_expired"


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a page."""


class Image(View, frozen=True, kw_only=True):
    """A picture that we serve ourselves, with the size that keeps its place while it loads."""

    url: str
    width: int
    height: int
    alt: str = ""


class Banner(View, frozen=True, kw_only=True):
    """A picture of the merchant's below the form; `href` is an https address that was checked."""

    image: Image
    href: str | None = None
    title: str = ""


class Brand(View, frozen=True, kw_only=True):
    """How the merchant wants the page to look; colours are `#rrggbb`."""

    name: str
    logo: Image | None = None
    primary_color: str = "#0b6e4f"
    background_color: str = "#f4f5f7"
    theme: Theme = Theme.AUTO
    banners: Sequence[Banner] = ()


class Contact(View, frozen=True, kw_only=True):
    """How a buyer reaches the merchant; any of it may be unknown."""

    email: str | None = None
    phone: str | None = None
    url: str | None = None


class Item(View, frozen=True, kw_only=True):
    """A line of the order."""

    name: str
    quantity: int
    unit_cents: Cents
    image: Image | None = None


class CouponBox(View, frozen=True, kw_only=True):
    """Where a coupon is typed in; shown while the page is open."""

    typed: str = ""
    problem: CouponProblem | None = None
    wait_seconds: int = 0


class Summary(View, frozen=True, kw_only=True):
    """What is being bought and what it costs."""

    items: Sequence[Item]
    subtotal_cents: Cents
    total_cents: Cents
    discount_cents: Cents = 0
    shipping_cents: Cents | None = None
    additional_cents: Cents = 0
    coupon_code: str | None = None
    coupon: CouponBox | None = None
    """None: no coupon can be typed in or removed here."""
    interest_cents: Cents = 0
    """What a card payment in installments adds to the total."""


class Poll(View, frozen=True, kw_only=True):
    """What the script watches; None in a page that changes no more."""

    url: str
    """`/v1/checkout/sessions/{token}?poll=1`"""
    state_version: int
    expires_in_seconds: int


class Frame(View, frozen=True, kw_only=True):
    """What surrounds every state of a session."""

    here: str
    """The page's own path, `/s/{token}` or `/l/{publicToken}`; every form goes below it."""
    nonce: str
    """The one of this answer's Content-Security-Policy."""
    language: Language
    brand: Brand
    contact: Contact = Contact()
    is_test: bool = False
    order_reference: str | None = None
    back_url: str | None = None
    """Where the arrow leads: the session's cancelUrl."""
    poll: Poll | None = None
    simulations: Sequence[Simulation] = ()
    """Empty outside the test environment."""
    ends_soon: bool = False
    """The simulator was asked just now to end the session, and will."""


class FieldError(View, frozen=True, kw_only=True):
    """A field and what is wrong with it."""

    field: Field
    problem: Problem


class Refused(View, frozen=True, kw_only=True):
    """Why the last try failed; shown above the form and focused."""

    notice: Notice
    wait_seconds: int = 0


class Typed(View, frozen=True, kw_only=True):
    """What the buyer has typed so far; a card's number and code are never given back."""

    name: str = ""
    email: str = ""
    document: str = ""
    phone: str = ""
    postal_code: str = ""
    street: str = ""
    street_number: str = ""
    complement: str = ""
    neighborhood: str = ""
    city: str = ""
    state: str = ""
    card_name: str = ""
    card_document: str = ""
    installments: int = 1


class CardOffer(View, frozen=True, kw_only=True):
    """What paying by card costs, row by row; the first row is one installment."""

    options: Sequence[InstallmentOption]


class Open(View, frozen=True, kw_only=True):
    """The form: who pays, and how. With `decline` it is the page state `declined`."""

    form_nonce: str
    """Given back as the field `form_nonce`; used up by the first submission."""
    methods: Sequence[Method]
    chosen: Method
    typed: Typed = Typed()
    card: CardOffer | None = None
    boleto_asks_address: bool = True
    boleto_days: int = 3
    errors: Sequence[FieldError] = ()
    decline: Decline | None = None
    refused: Refused | None = None
    coupon_applied_cents: Cents | None = None
    """Announces, once, that a coupon has just been applied (0: removed)."""


class PixShown(View, frozen=True, kw_only=True):
    """A code that can be paid."""

    code: str
    qr_svg: str
    """The markup of the picture, which is trusted: `<svg …>…</svg>`."""
    receiver_name: str
    """As the code has it (field 59)."""
    amount_cents: Cents
    expires_at: datetime
    expires_in_seconds: int
    can_choose_another_way: bool = True
    was_checked: bool = False
    """The buyer asked just now whether it is paid: it is not yet."""


class PixExpired(View, frozen=True, kw_only=True):
    """A code that can be paid no more."""

    amount_cents: Cents
    can_regenerate: bool = True
    refused: Refused | None = None


class BoletoShown(View, frozen=True, kw_only=True):
    """A boleto that can be paid."""

    amount_cents: Cents
    due_date: date
    digitable_line: str
    """47 digits; the rendering groups them."""
    pdf_url: str
    pix_code: str | None = None
    pix_qr_svg: str | None = None
    can_choose_another_way: bool = True
    was_checked: bool = False


class Processing(View, frozen=True, kw_only=True):
    """A payment that is being confirmed."""

    amount_cents: Cents
    seconds_so_far: int = 0
    """After a minute the page says that it takes longer than usual."""


class InReview(View, frozen=True, kw_only=True):
    """A payment that somebody looks at before it counts."""

    amount_cents: Cents
    return_url: str | None = None


class Paid(View, frozen=True, kw_only=True):
    """The receipt."""

    amount_cents: Cents
    method: Method
    paid_at: datetime
    transaction_id: str
    receiver_name: str
    receiver_document: str | None = None
    """Formatted: `12.345.678/0001-95`."""
    payer_name: str | None = None
    payer_document: str | None = None
    """Masked: `***.982.247-**`."""
    end_to_end_id: str | None = None
    card_brand: str | None = None
    card_last_digits: str | None = None
    installments: int = 1
    installment_cents: Cents | None = None
    """Each but the first, which has the cents that cannot be divided."""
    refunded_at: datetime | None = None
    refunded_cents: Cents = 0
    return_url: str | None = None
    """The session's successUrl, placeholders filled in."""
    redirects: bool = False
    """Leave for return_url by itself after the visible countdown."""
    pdf_url: str | None = None

    @property
    def first_installment_cents(self) -> Cents:
        """What the first installment is, with the cents that cannot be divided."""
        return self.amount_cents - (self.installments - 1) * (self.installment_cents or 0)


class Expired(View, frozen=True, kw_only=True):
    """A session whose time is over, unpaid."""

    can_restart: bool = False
    return_url: str | None = None


class Cancelled(View, frozen=True, kw_only=True):
    """A session that the merchant has called off."""

    cancelled_at: datetime | None = None
    will_refund: bool = False
    """Money had been taken and goes back."""
    can_restart: bool = False
    return_url: str | None = None


class LinkLanding(View, frozen=True, kw_only=True):
    """A payment link before a session exists; POSTing to it opens one."""

    item: Item
    page_url: str
    """The link's absolute address, for previews."""
    image_url: str | None = None
    """An absolute address of the picture for previews."""
    message: str = ""
    submits_itself: bool = True


class LinkInactive(View, frozen=True, kw_only=True):
    """A payment link that opens no sessions."""

    message: str = ""
    """The merchant's own words, if there are any."""


State: TypeAlias = (
    Open
    | PixShown
    | PixExpired
    | BoletoShown
    | Processing
    | InReview
    | Paid
    | Expired
    | Cancelled
    | LinkLanding
    | LinkInactive
)


class Page(View, frozen=True, kw_only=True):
    """A session's page, or a link's."""

    frame: Frame
    state: State
    summary: Summary | None = None
    """None only for a link."""


class PlainPage(View, frozen=True, kw_only=True):
    """A page that knows of no merchant: nothing was found, or nothing could be read."""

    nonce: str
    language: Language
    here: str
    request_id: str | None = None
    """Given: something broke on our side. None: there is no such page."""
