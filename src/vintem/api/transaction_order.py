"""From what an integrator asks for to the payment that is created, checked on the way."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

import msgspec

from vintem.api.body import validation_refusal
from vintem.api.boleto_order import boleto_faults, boleto_part
from vintem.api.call import Call
from vintem.api.card_order import card_faults, card_part, refuse_raw_card
from vintem.api.metadata import metadata_faults
from vintem.api.paging import read_moment, read_statuses
from vintem.api.payment_part import PaymentPart
from vintem.api.pix_order import pix_part
from vintem.api.postback import check_postback_url
from vintem.api.transaction_shapes import (
    CustomerBody,
    DocumentBody,
    ItemBody,
    ShippingBody,
    TransactionBody,
    TransactionQuery,
)
from vintem.brazil.documents import mask_cnpj, mask_cpf, normalise_cnpj, normalise_cpf
from vintem.brazil.installments import InstallmentOption
from vintem.brazil.phone import normalise_any_phone
from vintem.companies.model import Environment
from vintem.kit.clock import public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.kit.intent import Intent
from vintem.kit.money import (
    AMOUNT_CENTS_MIN,
    SHIPPING_CENTS_MIN,
    UNIT_PRICE_CENTS_MIN,
)
from vintem.ledger.model import Scope
from vintem.runtime.crypto import Sealer
from vintem.transactions.batches import Creation
from vintem.transactions.model import (
    Filter,
    NewTransaction,
    PaymentMethod,
    Status,
    Terms,
    Transaction,
    check_amount,
)

DOCUMENT_PURPOSE: Final = b"customer document"
CPF_CHARACTERS: Final = 11

MakePart = Callable[[Call, TransactionBody, str], PaymentPart | Awaitable[PaymentPart]]

PARTS: Final[Mapping[PaymentMethod, MakePart]] = {
    PaymentMethod.PIX: pix_part,
    PaymentMethod.CREDIT_CARD: card_part,
    PaymentMethod.BOLETO: boleto_part,
}

_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class CustomerDocument:
    """A buyer's document: whole for whoever asks for this one payment, masked for all others."""

    type: str
    number: str
    masked: str

    def written_into(self, record: bytes) -> bytes:
        """Show the whole document in a record that holds the masked one."""
        # The buyer comes before all that an integrator may have named in the same way.
        return record.replace(
            f'"number":"{self.masked}"'.encode(), f'"number":"{self.number}"'.encode(), 1
        )


@dataclass(frozen=True, slots=True)
class HostedPart:
    """What a payment of a checkout session shows beside its order."""

    session_id: str
    items: Sequence[ItemBody]
    shipping: ShippingBody | None
    option: InstallmentOption | None
    """How a card pays: the interest is in the amount already."""

    def shown(self) -> Mapping[str, object]:
        """What it adds to the record."""
        shown: dict[str, object] = {
            "checkoutSessionId": self.session_id,
            "items": self.items,
            "shipping": self.shipping,
        }
        if self.option is not None:
            shown["installmentAmount"] = self.option.amounts[0]
            shown["interestAmount"] = self.option.interest_cents
        return shown


def scope_of(call: Call) -> Scope:
    """Whose payments a call can see."""
    return Scope(call.company.company_id, call.company.environment)


async def prepare(
    call: Call, order: TransactionBody, intent: Intent, hosted: HostedPart | None = None
) -> tuple[Creation, CustomerDocument]:
    """Check an order and turn it into the payment to be written."""
    caller = call.company
    document = check_order(call, order)
    transaction_id = new_id(Prefix.TRANSACTION)
    made = PARTS[order.payment_method](call, order, transaction_id)
    # Only a card makes the caller wait: its token is looked up.
    part = made if isinstance(made, PaymentPart) else await made
    shown = _record(call, order, transaction_id, part, document)
    if hosted is not None:
        shown.update(hosted.shown())
    record = _encode(shown)
    sealer = call.resources.sealer
    transaction = Transaction(
        company_id=caller.company_id,
        transaction_id=transaction_id,
        environment=caller.environment,
        status=part.status,
        status_reason=None,
        payment_method=order.payment_method,
        amount=order.amount,
        fee=part.fee,
        installments=part.installments,
        refunded_amount=0,
        idempotency_key=intent.key,
        fingerprint=intent.fingerprint,
        # Until its acquirer has answered, nothing has happened that could be told.
        sequence=1 if part.charge is None else 0,
        hold_reference=None,
        document_sealed=sealer.seal(document.number.encode(), purpose=DOCUMENT_PURPOSE),
        details=record.decode(),
        terms=Terms(
            reserve_basis_points=caller.terms.reserve_basis_points,
            reserve_days=caller.terms.reserve_days,
            release_days=part.release_days,
            dispute_fee_cents=caller.terms.dispute_fee_cents,
        ),
        end_to_end_id=None,
        created_at=call.now,
        updated_at=call.now,
        paid_at=None,
        expires_at=part.expires_at,
        cancelled_at=None,
        refunded_at=None,
        due_at=part.due_at,
        checkout_session_id=None if hosted is None else hosted.session_id,
    )
    digest = document_digest(sealer, caller.company_id, document.number)
    new = NewTransaction(transaction, order.external_ref, digest)
    creation = Creation(
        new,
        record,
        call.correlation_id,
        part.card_token_digest,
        charge=part.charge,
        postback_url=order.postback_url,
    )
    return creation, document


def _record(
    call: Call,
    order: TransactionBody,
    transaction_id: str,
    part: PaymentPart,
    document: CustomerDocument,
) -> dict[str, object]:
    """Write down what the world is shown, every field of it."""
    now = public_time(call.now)
    return {
        "id": transaction_id,
        "companyId": call.company.company_public_id,
        "environment": call.company.environment,
        "status": part.status,
        "statusReason": None,
        "amount": order.amount,
        "currency": order.currency,
        "paymentMethod": order.payment_method,
        "installments": part.installments,
        "installmentAmount": part.installment_amount or order.amount,
        "interestAmount": part.interest_amount,
        "fee": part.fee,
        "netAmount": order.amount - part.fee,
        "refundedAmount": 0,
        "customer": _customer(order.customer, document),
        "items": order.items or (),
        "shipping": order.shipping,
        "externalRef": order.external_ref,
        "description": order.description,
        "metadata": order.metadata or {},
        "postbackUrl": order.postback_url,
        "pix": part.pix,
        "boleto": part.boleto,
        "card": part.card,
        "refusedReason": None,
        "refunds": (),
        "checkoutSessionId": None,
        "createdAt": now,
        "updatedAt": now,
        "paidAt": None,
        "expiresAt": None if part.expires_at is None else public_time(part.expires_at),
        "cancelledAt": None,
        "refundedAt": None,
        "pixQrCode": None,
        "pixQrCodeImage": None,
        "boletoUrl": None,
        **part.flat,
    }


def check_order(call: Call, order: TransactionBody) -> CustomerDocument:
    """Refuse what cannot be paid, in the order that integrators can rely on."""
    check_form(order)
    check_amount(order.amount, "amount", minimum=AMOUNT_CENTS_MIN)
    for number, item in enumerate(order.items or ()):
        check_amount(item.unit_price, f"items[{number}].unitPrice", minimum=UNIT_PRICE_CENTS_MIN)
    if order.shipping is not None:
        check_amount(order.shipping.fee, "shipping.fee", minimum=SHIPPING_CENTS_MIN)
    document = read_document(order.customer)
    if order.payment_method not in PARTS:
        raise Refusal(ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE)
    if order.items:
        total = sum(item.unit_price * item.quantity for item in order.items)
        total += order.shipping.fee if order.shipping else 0
        if total != order.amount:
            raise Refusal(ErrorCode.ITEMS_TOTAL_MISMATCH, details={"itemsTotal": total})
    is_live = call.company.environment is Environment.LIVE
    allows_loopback = call.resources.allows_loopback_webhooks and not is_live
    check_postback_url(order.postback_url, allows_loopback=allows_loopback)
    if is_live:
        if not call.resources.allows_live_raw_cards:
            refuse_raw_card(order)
        raise Refusal(ErrorCode.PROVIDER_NOT_CONFIGURED)
    return document


def check_form(order: TransactionBody) -> None:
    """Refuse what the declared shape cannot say."""
    faults = metadata_faults(order.metadata)
    faults += phone_faults(order.customer.phone)
    if order.ip is not None and not _is_address(order.ip):
        faults.append(("ip", "is not an IP address"))
    if order.pix is not None and order.payment_method is not PaymentMethod.PIX:
        faults.append(("pix", "is for PIX only"))
    faults += card_faults(order)
    faults += boleto_faults(order)
    if faults:
        raise validation_refusal(
            [{"field": field, "message": message} for field, message in faults]
        )


def phone_faults(phone: str | None) -> Sequence[tuple[str, str]]:
    """Name what is wrong with a buyer's telephone number, wherever it is taken."""
    if phone is None or normalise_any_phone(phone) is not None:
        return ()
    return [("customer.phone", "must be a telephone number of 10 to 13 digits")]


def read_document(customer: CustomerBody) -> CustomerDocument:
    """Check a buyer's document."""
    kind, number = customer.document.type, read_number(customer.document)
    return CustomerDocument(kind, number, mask_cpf(number) if kind == "cpf" else mask_cnpj(number))


def read_number(document: DocumentBody) -> str:
    """Read a CPF or CNPJ without its mask, or refuse it."""
    is_cpf = document.type == "cpf"
    number = normalise_cpf(document.number) if is_cpf else normalise_cnpj(document.number)
    if number is None:
        raise Refusal(ErrorCode.INVALID_DOCUMENT, details={"field": "customer.document.number"})
    return number


def document_digest(sealer: Sealer, company_id: int, number: str) -> bytes:
    """What payments of a buyer are found by within a company."""
    return sealer.digest(number.encode(), purpose=b"%b %d" % (DOCUMENT_PURPOSE, company_id))


def unseal_document(sealer: Sealer, transaction: Transaction) -> str:
    """Read the whole document of a payment's buyer."""
    number = sealer.open(transaction.document_sealed, purpose=DOCUMENT_PURPOSE)
    assert number is not None, "sealed with another pepper"
    return number.decode()


def with_document(record: bytes, number: str) -> bytes:
    """Show the whole document of a payment's buyer in a record that holds the masked one."""
    is_cpf = len(number) == CPF_CHARACTERS
    masked = mask_cpf(number) if is_cpf else mask_cnpj(number)
    return CustomerDocument("cpf" if is_cpf else "cnpj", number, masked).written_into(record)


def filter_of(call: Call, query: TransactionQuery) -> Filter:
    """Turn a list's query into what is looked for."""
    number = query.document_number
    digest = None
    if number is not None:
        digest = document_digest(call.resources.sealer, call.company.company_id, number)
    return Filter(
        scope=scope_of(call),
        statuses=read_statuses(query.status, Status),
        payment_method=query.payment_method,
        created_from=read_moment("startDate", query.start_date, is_end=False),
        created_before=read_moment("endDate", query.end_date, is_end=True),
        external_ref=query.external_ref,
        document_digest=digest,
        amount_min=query.min_amount,
        amount_max=query.max_amount,
    )


def _customer(customer: CustomerBody, document: CustomerDocument) -> Mapping[str, object]:
    phone = None if customer.phone is None else normalise_any_phone(customer.phone)
    return {
        "name": customer.name,
        "email": customer.email,
        "document": {"type": document.type, "number": document.masked},
        "phone": phone,
        "address": customer.address,
        "externalRef": customer.external_ref,
    }


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
