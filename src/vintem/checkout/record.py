"""A session as lists and events show it: never its token, never its buyer."""

from datetime import datetime
from typing import Final

import msgspec

from vintem.checkout.model import CURRENCY, LineItem, Session, SessionStatus
from vintem.kit.clock import PublicTime, public_time

_encode: Final = msgspec.json.Encoder().encode


def record_of(session: Session, status: SessionStatus) -> bytes:
    """Show a session in the status that it has for whoever looks."""
    amounts, coupon = session.amounts, session.coupon
    return _encode(
        {
            "sessionId": session.session_id,
            "environment": session.environment,
            "status": status,
            "lineItems": [shown_item(item) for item in session.line_items],
            "subtotalAmount": amounts.subtotal,
            "discountAmount": amounts.discount,
            "shippingAmount": amounts.shipping,
            "additionalAmount": amounts.additional,
            "totalAmount": amounts.total,
            "currency": CURRENCY,
            "coupon": None
            if coupon is None
            else {
                "code": coupon.code,
                "discountType": coupon.discount_type,
                "appliedAmount": coupon.applied_amount,
            },
            "successUrl": session.success_url,
            "cancelUrl": session.cancel_url,
            "externalRef": session.external_ref,
            "metadata": session.metadata,
            "postbackUrl": session.postback_url,
            "paymentLinkId": session.link_id,
            "transactionId": session.transaction_id,
            "extraPayments": session.extra_payments,
            "createdAt": public_time(session.created_at),
            "updatedAt": public_time(session.updated_at),
            "expiresAt": public_time(session.expires_at),
            "completedAt": _time(session.completed_at),
            "cancelledAt": _time(session.cancelled_at),
        }
    )


def shown_item(item: LineItem) -> dict[str, object]:
    """Show something that is bought."""
    return {
        "snapshotProductName": item.name,
        "snapshotImageUrl": item.image_url,
        "unitAmount": item.unit_amount,
        "quantity": item.quantity,
        "currency": CURRENCY,
        "sortOrder": item.sort_order,
        "productId": item.product_id,
    }


def _time(moment: datetime | None) -> PublicTime | None:
    return None if moment is None else public_time(moment)
