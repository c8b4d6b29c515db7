"""Payments as lines of the dashboard: words, and people as far as a member may see them."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from vintem.api.transaction_shapes import AddressBody
from vintem.checkout import listing as sessions
from vintem.dashboard.masks import HIDDEN, mask_document, mask_email, mask_name, mask_phone
from vintem.dashboard.statuses import METHOD, TRANSACTION, Said
from vintem.dashboard.visit import Visit
from vintem.transactions.model import Transaction

API: Final = "API"
CHECKOUT: Final = "Checkout"
LINK: Final = "Link"


class _Document(msgspec.Struct, frozen=True):
    number: str = ""


class _Customer(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    email: str = ""
    document: _Document = _Document()
    phone: str | None = None
    address: AddressBody | None = None


class _Item(msgspec.Struct, frozen=True):
    title: str


class _Shown(msgspec.Struct, frozen=True, rename="camel"):
    customer: _Customer = _Customer()
    items: Sequence[_Item] = ()
    description: str | None = None
    external_ref: str | None = None
    postback_url: str | None = None


class BuyerShown(msgspec.Struct, frozen=True):
    """A buyer, masked or whole."""

    name: str
    email: str
    document: str
    phone: str = ""
    address: str = ""


class PaymentRow(msgspec.Struct, frozen=True):
    """A line of a table."""

    transaction: Transaction
    status: Said
    method: str
    buyer: BuyerShown
    order: str
    origin: str
    postback_url: str | None = None


async def rows_of(
    visit: Visit, transactions: Sequence[Transaction], *, is_masked: bool | None = None
) -> Sequence[PaymentRow]:
    """Write payments as lines; if nothing is said, buyers as far as the member may see them."""
    session_ids = [each.checkout_session_id for each in transactions if each.checkout_session_id]
    links: Mapping[str, str | None] = {}
    if session_ids:
        links = await sessions.list_links_of(visit.resources.database, visit.scope, session_ids)
    if is_masked is None:
        is_masked = not visit.can("personal.read")
    return [row_of(each, links, is_masked=is_masked) for each in transactions]


def row_of(
    transaction: Transaction, links: Mapping[str, str | None], *, is_masked: bool
) -> PaymentRow:
    """Write one payment as a line."""
    shown = msgspec.json.decode(transaction.details, type=_Shown)
    title = shown.items[0].title if shown.items else ""
    origin = API
    if transaction.checkout_session_id is not None:
        origin = LINK if links.get(transaction.checkout_session_id) else CHECKOUT
    return PaymentRow(
        transaction,
        TRANSACTION[transaction.status],
        METHOD[transaction.payment_method],
        _buyer(shown.customer, is_masked=is_masked),
        shown.external_ref or shown.description or title,
        origin,
        shown.postback_url,
    )


def _buyer(customer: _Customer, *, is_masked: bool) -> BuyerShown:
    # The record holds the document masked already; whoever may read it whole opens the seal.
    document = mask_document(customer.document.number)
    address = "" if customer.address is None else _address(customer.address)
    if is_masked:
        return BuyerShown(
            mask_name(customer.name),
            mask_email(customer.email),
            document,
            mask_phone(customer.phone) if customer.phone else "",
            HIDDEN if address else "",
        )
    return BuyerShown(customer.name, customer.email, document, customer.phone or "", address)


def _address(address: AddressBody) -> str:
    extra = f", {address.complement}" if address.complement else ""
    return (
        f"{address.street}, {address.street_number}{extra}, {address.neighborhood},"
        f" {address.city}, {address.state}, {address.zip_code}"
    )
