"""A payment as the world sees it: made once as JSON, and brought up to date when it is shown."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import msgspec

from vintem.brazil.boleto import Fine, FineKind, late_charges
from vintem.kit.clock import PublicTime, public_time
from vintem.transactions.model import PaymentMethod, Refund, Transaction

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(type=dict[str, Any]).decode
_NULL: Final = msgspec.Raw(b"null")


class _ShownPix(msgspec.Struct, rename="camel"):
    """The part of a record that says how it is paid by PIX."""

    qr_code: msgspec.Raw
    qr_code_image: msgspec.Raw
    txid: msgspec.Raw
    end_to_end_id: str | None
    expires_at: msgspec.Raw


class _ShownBoleto(msgspec.Struct, rename="camel"):
    """The part of a record that says how it is paid by boleto."""

    url: msgspec.Raw
    barcode: msgspec.Raw
    digitable_line: msgspec.Raw
    due_date: msgspec.Raw
    pix_qr_code: msgspec.Raw
    instructions: msgspec.Raw
    fine: msgspec.Raw
    interest: msgspec.Raw
    late_amount: int = 0


class _Shown(msgspec.Struct, rename="camel"):
    """A record, every field of it in its place; what never changes is copied without being read."""

    id: msgspec.Raw = _NULL
    company_id: msgspec.Raw = _NULL
    environment: msgspec.Raw = _NULL
    status: str = ""
    status_reason: str | None = None
    amount: msgspec.Raw = _NULL
    currency: msgspec.Raw = _NULL
    payment_method: msgspec.Raw = _NULL
    installments: msgspec.Raw = _NULL
    installment_amount: msgspec.Raw = _NULL
    interest_amount: msgspec.Raw = _NULL
    fee: msgspec.Raw = _NULL
    net_amount: msgspec.Raw = _NULL
    refunded_amount: int = 0
    customer: msgspec.Raw = _NULL
    items: msgspec.Raw = _NULL
    shipping: msgspec.Raw = _NULL
    external_ref: msgspec.Raw = _NULL
    description: msgspec.Raw = _NULL
    metadata: msgspec.Raw = _NULL
    postback_url: str | None = None
    pix: _ShownPix | None = None
    boleto: _ShownBoleto | None = None
    card: msgspec.Raw = _NULL
    refused_reason: msgspec.Raw = _NULL
    refunds: Sequence[Mapping[str, object]] = ()
    checkout_session_id: msgspec.Raw = _NULL
    created_at: msgspec.Raw = _NULL
    updated_at: str = ""
    paid_at: str | None = None
    expires_at: str | None = None
    cancelled_at: str | None = None
    refunded_at: str | None = None
    pix_qr_code: msgspec.Raw = _NULL
    pix_qr_code_image: msgspec.Raw = _NULL
    boleto_url: msgspec.Raw = _NULL


_decode_shown: Final = msgspec.json.Decoder(type=_Shown).decode


def refund_record(refund: Refund) -> dict[str, object]:
    """Show a refund."""
    return {
        "id": refund.refund_id,
        "transactionId": refund.transaction_id,
        "amount": refund.amount,
        "status": refund.status,
        "reason": refund.reason,
        "createdAt": public_time(refund.created_at),
        "completedAt": _time(refund.completed_at),
    }


def record_of(
    transaction: Transaction, refunds: Sequence[Refund], *, document: str | None = None
) -> bytes:
    """Show a payment as it stands; the buyer's document only to whoever may read it whole."""
    shown = _shown(transaction, refunds)
    if document is not None:
        customer = _decode(shown.customer)
        customer["document"]["number"] = document
        shown.customer = msgspec.Raw(_encode(customer))
    return _encode(shown)


def record_and_postback(
    transaction: Transaction, refunds: Sequence[Refund]
) -> tuple[bytes, str | None]:
    """Show a payment as it stands, and who hears of it beside the company's endpoints."""
    shown = _shown(transaction, refunds)
    return _encode(shown), shown.postback_url


def _shown(transaction: Transaction, refunds: Sequence[Refund]) -> _Shown:
    shown = _decode_shown(transaction.details)
    shown.status = transaction.status
    shown.status_reason = transaction.status_reason
    shown.refunded_amount = transaction.refunded_amount
    shown.refunds = [refund_record(refund) for refund in refunds]
    shown.updated_at = public_time(transaction.updated_at)
    shown.paid_at = _time(transaction.paid_at)
    shown.expires_at = _time(transaction.expires_at)
    shown.cancelled_at = _time(transaction.cancelled_at)
    shown.refunded_at = _time(transaction.refunded_at)
    if shown.pix is not None:
        shown.pix.end_to_end_id = transaction.end_to_end_id
    if shown.boleto is not None:
        shown.boleto.late_amount = transaction.late_amount
    return shown


def details_with_answer(
    details: str, *, authorization_code: str | None, refused_reason: Mapping[str, str] | None
) -> str:
    """Write into a payment's record what its provider answered; only a card has a code for it."""
    shown = _decode(details)
    if authorization_code is not None and shown["card"] is not None:
        shown["card"]["authorizationCode"] = authorization_code
    if refused_reason is not None:
        shown["refusedReason"] = refused_reason
    return _encode(shown).decode()


def late_amount_max(transaction: Transaction, *, paid_on: date) -> int:
    """Say how much more than its amount a payment may bring on a day for being late."""
    if transaction.payment_method is not PaymentMethod.BOLETO:
        return 0
    boleto = _decode(transaction.details)["boleto"]
    fine, interest = boleto["fine"], boleto["interest"]
    charges = late_charges(
        transaction.amount,
        fine=None if fine is None else Fine(FineKind(fine["type"]), fine["value"]),
        monthly_interest_basis_points=0 if interest is None else interest["value"],
        due_date=date.fromisoformat(boleto["dueDate"]),
        paid_on=paid_on,
    )
    return charges.fine_cents + charges.interest_cents


def refused_code(transaction: Transaction) -> str | None:
    """Say by which code a payment was refused, where somebody has said one."""
    reason = _decode(transaction.details)["refusedReason"]
    return None if reason is None else str(reason["code"])


def _time(moment: datetime | None) -> PublicTime | None:
    return None if moment is None else public_time(moment)
