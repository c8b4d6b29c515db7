"""What the Transactions group takes and gives, field by field."""

import datetime as dt
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from vintem.api.call import MUST, Body, Query, Reply
from vintem.api.paging import PaginationReply, page_faults, read_moment, read_statuses
from vintem.brazil.boleto import FineKind
from vintem.brazil.cards import CardBrand
from vintem.brazil.documents import normalise_cnpj, normalise_cpf
from vintem.kit.clock import PublicTime
from vintem.kit.money import AMOUNT_CENTS_MAX
from vintem.transactions.model import PaymentMethod, Status

# A dollar sign alone also stands before a last line break.
EMAIL: Final = r"^[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,185}\.[^@\s.\x00-\x1f]{2,63}$(?!\n)"
# One character that can be seen: a text of blanks says nothing.
VISIBLE: Final = r"[^\s\u00ad\u200b-\u200f\u2060\ufeff]"

Text = Annotated[str, Meta(max_length=255)]
SAYS_SOMETHING: Final = {MUST: "must not be blank"}
AN_ADDRESS: Final = {MUST: "must be an e-mail address"}
ADDRESS_CODE: Final = {MUST: "must be two capital letters"}
AddressText = Annotated[
    str, Meta(min_length=1, max_length=120, pattern=VISIBLE, extra=SAYS_SOMETHING)
]
Cents = Annotated[int, Meta(ge=0, le=AMOUNT_CENTS_MAX)]


class DocumentBody(Body, frozen=True):
    """A buyer's CPF or CNPJ."""

    type: Literal["cpf", "cnpj"]
    number: Annotated[str, Meta(min_length=1, max_length=24, examples=["529.982.247-25"])]


class AddressBody(Body, frozen=True):
    """Where a buyer lives."""

    street: AddressText
    street_number: Annotated[
        str, Meta(min_length=1, max_length=20, pattern=VISIBLE, extra=SAYS_SOMETHING)
    ]
    neighborhood: AddressText
    zip_code: Annotated[
        str,
        Meta(
            pattern=r"^[0-9]{5}-?[0-9]{3}$(?!\n)",
            examples=["01310-100"],
            extra={MUST: "must be a CEP, eight digits"},
        ),
    ]
    city: AddressText
    state: Annotated[str, Meta(pattern=r"^[A-Z]{2}$(?!\n)", examples=["SP"], extra=ADDRESS_CODE)]
    country: Annotated[
        str, Meta(pattern=r"^[A-Z]{2}$(?!\n)", examples=["BR"], extra=ADDRESS_CODE)
    ] = "BR"
    complement: Annotated[str, Meta(min_length=1, max_length=120)] | None = None


class CustomerBody(Body, frozen=True):
    """Who pays."""

    name: Annotated[
        str,
        Meta(
            min_length=3,
            max_length=100,
            pattern=VISIBLE,
            examples=["Cliente de Teste"],
            extra=SAYS_SOMETHING,
        ),
    ]
    email: Annotated[
        str,
        Meta(
            max_length=254,
            pattern=EMAIL,
            examples=["cliente@example.com"],
            extra=AN_ADDRESS,
        ),
    ]
    document: DocumentBody
    phone: Annotated[str, Meta(max_length=24)] | None = None
    address: AddressBody | None = None
    external_ref: Annotated[str, Meta(max_length=120)] | None = None


class ItemBody(Body, frozen=True):
    """What is paid for."""

    title: Annotated[str, Meta(min_length=1, max_length=255, pattern=VISIBLE, extra=SAYS_SOMETHING)]
    unit_price: Annotated[int, Meta(examples=[5_000])]
    quantity: Annotated[int, Meta(ge=1, le=1_000_000)]
    tangible: bool = False
    external_ref: Annotated[str, Meta(max_length=120)] | None = None


class ShippingBody(Body, frozen=True):
    """What sending it costs."""

    fee: Annotated[int, Meta(examples=[1_500])]
    address: AddressBody | None = None


class PixBody(Body, frozen=True):
    """How long the code can be paid."""

    expires_in_seconds: Annotated[int, Meta(ge=60, le=2_592_000)] = 3_600


class FineBody(Body, frozen=True):
    """What a late payment adds once: hundredths of a percent, or cents."""

    type: FineKind
    value: Annotated[int, Meta(ge=1, le=AMOUNT_CENTS_MAX)]


class InterestBody(Body, frozen=True):
    """What a late payment adds for each month, by the day: hundredths of a percent."""

    value: Annotated[int, Meta(ge=1, le=10_000)]


class BoletoBody(Body, frozen=True):
    """When a boleto is due, on a day or in some days, and what it tells who pays."""

    due_date: dt.date | None = None
    expires_in_days: Annotated[int, Meta(ge=1, le=60)] | None = None
    instructions: Text | None = None
    fine: FineBody | None = None
    interest: InterestBody | None = None


CardDigits = Annotated[str, Meta(min_length=1, max_length=32, examples=["4111111111111111"])]
HolderName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=VISIBLE,
        examples=["CLIENTE DE TESTE"],
        extra=SAYS_SOMETHING,
    ),
]
Month = Annotated[int, Meta(ge=1, le=12)]
Year = Annotated[int, Meta(ge=1_000, le=9_999, examples=[2030])]
Cvv = Annotated[str, Meta(max_length=8, examples=["123"])]


class RawCardBody(Body, frozen=True):
    """A card as its holder gives it."""

    number: CardDigits
    holder_name: HolderName
    expiration_month: Month
    expiration_year: Year
    cvv: Cvv

    def __repr__(self) -> str:
        return "RawCardBody(…)"


class CardBody(Body, frozen=True):
    """The token of a card, or all of the card itself."""

    token: Annotated[str, Meta(max_length=128)] | None = None
    number: CardDigits | None = None
    holder_name: HolderName | None = None
    expiration_month: Month | None = None
    expiration_year: Year | None = None
    cvv: Cvv | None = None

    def as_raw(self) -> RawCardBody:
        """The card itself, where no token stands for it."""
        assert self.number is not None
        assert self.holder_name is not None
        assert self.expiration_month is not None
        assert self.expiration_year is not None
        assert self.cvv is not None
        return RawCardBody(
            self.number, self.holder_name, self.expiration_month, self.expiration_year, self.cvv
        )

    def __repr__(self) -> str:
        return "CardBody(…)"


class TransactionBody(Body, frozen=True):
    """A payment to be made."""

    payment_method: PaymentMethod
    amount: Annotated[int, Meta(examples=[10_000])]
    customer: CustomerBody
    currency: Literal["BRL"] = "BRL"
    installments: int = 1
    items: Annotated[list[ItemBody], Meta(max_length=100)] | None = None
    shipping: ShippingBody | None = None
    pix: PixBody | None = None
    card: CardBody | None = None
    boleto: BoletoBody | None = None
    postback_url: Annotated[str, Meta(max_length=2_048)] | None = None
    external_ref: Annotated[str, Meta(max_length=120)] | None = None
    description: Text | None = None
    metadata: dict[str, str | int | float | bool | None] | None = None
    ip: Annotated[str, Meta(max_length=45)] | None = None


class RefundBody(Body, frozen=True):
    """How much is given back; all that is left when nothing is said."""

    amount: Annotated[int, Meta(examples=[5_000])] | None = None
    reason: Annotated[str, Meta(max_length=140)] | None = None


class TransactionQuery(Query, frozen=True):
    """Which transactions are listed."""

    status: str | None = None
    payment_method: PaymentMethod | None = None
    start_date: str | None = None
    end_date: str | None = None
    external_ref: str | None = None
    customer_document: str | None = None
    min_amount: int | None = None
    max_amount: int | None = None
    page: int | None = None
    page_size: int = 20
    cursor: str | None = None

    def faults(self) -> list[dict[str, str]]:
        """All that is wrong, each fault with its parameter."""
        faults: list[dict[str, str]] = []
        read_statuses(self.status, Status, faults)
        read_moment("startDate", self.start_date, faults, is_end=False)
        read_moment("endDate", self.end_date, faults, is_end=True)
        if self.customer_document is not None and self.document_number is None:
            faults.append({"field": "customerDocument", "message": "is not a CPF or CNPJ"})
        return faults + page_faults(page=self.page, page_size=self.page_size, cursor=self.cursor)

    @property
    def document_number(self) -> str | None:
        """The buyer's document without its mask, if it is one."""
        text = self.customer_document
        return None if text is None else normalise_cpf(text) or normalise_cnpj(text)


class RefundReply(Reply, frozen=True):
    """A refund."""

    id: str
    transaction_id: str
    amount: int
    status: Literal["processing", "completed", "failed"]
    reason: str | None
    created_at: PublicTime
    completed_at: PublicTime | None


class DocumentReply(Reply, frozen=True):
    """A buyer's document; lists show only its middle."""

    type: Literal["cpf", "cnpj"]
    number: str


class CustomerReply(Reply, frozen=True):
    """Who pays."""

    name: str
    email: str
    document: DocumentReply
    phone: str | None
    address: AddressBody | None
    external_ref: str | None


class PixReply(Reply, frozen=True):
    """The code to pay, as text and as the address of a picture."""

    qr_code: str
    qr_code_image: str
    txid: str
    end_to_end_id: str | None
    expires_at: PublicTime


class BoletoReply(Reply, frozen=True):
    """The codes to pay, and the address of the page to print."""

    url: str
    barcode: str
    digitable_line: str
    due_date: dt.date
    pix_qr_code: str
    instructions: str | None
    fine: FineBody | None
    interest: InterestBody | None
    late_amount: int = 0


class CardReply(Reply, frozen=True):
    """The card that is charged, as far as it is shown."""

    brand: CardBrand
    first_digits: str
    last_digits: str
    holder_name: str
    expiration_month: int
    expiration_year: int
    authorization_code: str | None


class RefusedReasonReply(Reply, frozen=True):
    """Why the issuer did not pay."""

    code: str
    message: str


class TransactionReply(Reply, frozen=True):
    """A transaction."""

    id: str
    company_id: str
    environment: Literal["live", "test"]
    status: Status
    status_reason: str | None
    amount: int
    currency: str
    payment_method: PaymentMethod
    installments: int
    installment_amount: int
    interest_amount: int
    fee: int
    net_amount: int
    refunded_amount: int
    customer: CustomerReply
    items: list[ItemBody]
    shipping: ShippingBody | None
    external_ref: str | None
    description: str | None
    metadata: dict[str, str | int | float | bool | None]
    postback_url: str | None
    pix: PixReply | None
    boleto: BoletoReply | None
    card: CardReply | None
    refused_reason: RefusedReasonReply | None
    refunds: list[RefundReply]
    checkout_session_id: str | None
    created_at: PublicTime
    updated_at: PublicTime
    paid_at: PublicTime | None
    expires_at: PublicTime | None
    cancelled_at: PublicTime | None
    refunded_at: PublicTime | None
    pix_qr_code: str | None
    pix_qr_code_image: str | None
    boleto_url: str | None


class TransactionList(Reply, frozen=True):
    """A page of transactions that are written already."""

    transactions: list[msgspec.Raw]
    pagination: PaginationReply


class TransactionListReply(Reply, frozen=True):
    """A page of transactions, the newest first, documents masked."""

    transactions: list[TransactionReply]
    pagination: PaginationReply
