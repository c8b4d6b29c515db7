"""A payment as the world sees it: made once as JSON, and brought up to date when it is shown."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from vintem.kit.clock import PublicTime, public_time
from vintem.transactions.model import Refund, Transaction

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(type=dict[str, Any]).decode


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
    shown = _decode(transaction.details)
    shown.update(
        status=transaction.status,
        statusReason=transaction.status_reason,
        refundedAmount=transaction.refunded_amount,
        refunds=[refund_record(refund) for refund in refunds],
        updatedAt=public_time(transaction.updated_at),
        paidAt=_time(transaction.paid_at),
        expiresAt=_time(transaction.expires_at),
        cancelledAt=_time(transaction.cancelled_at),
        refundedAt=_time(transaction.refunded_at),
    )
    if shown["pix"] is not None:
        shown["pix"]["endToEndId"] = transaction.end_to_end_id
    if document is not None:
        shown["customer"]["document"]["number"] = document
    return _encode(shown)


def details_with_answer(
    details: str, *, authorization_code: str | None, refused_reason: Mapping[str, str] | None
) -> str:
    """Write into a card payment's record what its acquirer answered."""
    shown = _decode(details)
    if authorization_code is not None:
        shown["card"]["authorizationCode"] = authorization_code
    if refused_reason is not None:
        shown["refusedReason"] = refused_reason
    return _encode(shown).decode()


def refused_code(transaction: Transaction) -> str | None:
    """Say by which code a payment was refused, where somebody has said one."""
    reason = _decode(transaction.details)["refusedReason"]
    return None if reason is None else str(reason["code"])


def _time(moment: datetime | None) -> PublicTime | None:
    return None if moment is None else public_time(moment)
