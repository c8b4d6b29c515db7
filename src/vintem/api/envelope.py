"""The success and the error envelope, and the one table from error code to HTTP status."""

from collections.abc import Mapping
from typing import Final

import msgspec

from vintem.kit.clock import BUSINESS_ZONE_NAME, PublicTime
from vintem.kit.errors import ErrorCode

API_VERSION: Final = "v1"

STATUS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.INVALID_JSON: 400,
    ErrorCode.VALIDATION_ERROR: 400,
    ErrorCode.IDEMPOTENCY_KEY_INVALID: 400,
    ErrorCode.MISSING_API_KEY: 401,
    ErrorCode.INVALID_API_KEY: 401,
    ErrorCode.WRONG_ENVIRONMENT: 401,
    ErrorCode.KEY_TYPE_NOT_ALLOWED: 403,
    ErrorCode.COMPANY_SUSPENDED: 403,
    ErrorCode.IP_NOT_ALLOWED: 403,
    ErrorCode.ORIGIN_NOT_ALLOWED: 403,
    ErrorCode.RAW_CARD_NOT_ALLOWED: 403,
    ErrorCode.SANDBOX_ONLY: 403,
    ErrorCode.WITHDRAWALS_PAUSED: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.TRANSACTION_NOT_FOUND: 404,
    ErrorCode.WITHDRAWAL_NOT_FOUND: 404,
    ErrorCode.WEBHOOK_NOT_FOUND: 404,
    ErrorCode.DELIVERY_NOT_FOUND: 404,
    ErrorCode.EVENT_NOT_FOUND: 404,
    ErrorCode.PRODUCT_NOT_FOUND: 404,
    ErrorCode.SESSION_NOT_FOUND: 404,
    ErrorCode.PAYMENT_LINK_NOT_FOUND: 404,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.INVALID_STATE: 409,
    ErrorCode.IDEMPOTENCY_IN_PROGRESS: 409,
    ErrorCode.DUPLICATE_SUSPECTED: 409,
    ErrorCode.TRANSACTION_NOT_REFUNDABLE: 409,
    ErrorCode.TRANSACTION_UNDER_DISPUTE: 409,
    ErrorCode.WITHDRAWAL_NOT_CANCELLABLE: 409,
    ErrorCode.WEBHOOK_LIMIT_REACHED: 409,
    ErrorCode.SESSION_COMPLETED: 410,
    ErrorCode.SESSION_EXPIRED: 410,
    ErrorCode.SESSION_CANCELLED: 410,
    ErrorCode.PAYMENT_LINK_INACTIVE: 410,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
    ErrorCode.AMOUNT_BELOW_MINIMUM: 422,
    ErrorCode.AMOUNT_ABOVE_MAXIMUM: 422,
    ErrorCode.CARD_TOKEN_INVALID: 422,
    ErrorCode.COUPON_INVALID: 422,
    ErrorCode.IDEMPOTENCY_KEY_REUSED: 422,
    ErrorCode.INSUFFICIENT_BALANCE: 422,
    ErrorCode.INVALID_CARD: 422,
    ErrorCode.INVALID_DOCUMENT: 422,
    ErrorCode.INVALID_DUE_DATE: 422,
    ErrorCode.INVALID_INSTALLMENTS: 422,
    ErrorCode.INVALID_PIX_KEY: 422,
    ErrorCode.INVALID_URL: 422,
    ErrorCode.INVALID_WALLET_ADDRESS: 422,
    ErrorCode.ITEMS_TOTAL_MISMATCH: 422,
    ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE: 422,
    ErrorCode.REFUND_EXCEEDS_AMOUNT: 422,
    ErrorCode.REFUND_WINDOW_EXPIRED: 422,
    ErrorCode.UNSUPPORTED_NETWORK: 422,
    ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED: 422,
    ErrorCode.RATE_LIMIT_EXCEEDED: 429,
    ErrorCode.COUPON_LOCKED: 429,
    ErrorCode.CARD_ATTEMPTS_EXCEEDED: 429,
    ErrorCode.INTERNAL_ERROR: 500,
    ErrorCode.PROVIDER_ERROR: 502,
    ErrorCode.PROVIDER_NOT_CONFIGURED: 503,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
}

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


def success(data: object, *, timestamp: PublicTime, request_id: str) -> bytes:
    """Wrap an answer's data."""
    return b'{"success":true,"data":%b,"meta":{"timestamp":"%b","timezone":"%b",%b"}}' % (
        _encode(data),
        timestamp.encode(),
        BUSINESS_ZONE_NAME.encode(),
        _version_and_request(request_id),
    )


def failure(
    code: ErrorCode,
    message: str,
    details: Mapping[str, object],
    *,
    timestamp: PublicTime,
    request_id: str,
) -> bytes:
    """Wrap a refusal."""
    error = {"code": code, "message": message, "details": details}
    return b'{"success":false,"error":%b,"meta":{"timestamp":"%b",%b"}}' % (
        _encode(error),
        timestamp.encode(),
        _version_and_request(request_id),
    )


def _version_and_request(request_id: str) -> bytes:
    # Neither holds a character that JSON would escape, so they are written as they are.
    return f'"version":"{API_VERSION}","requestId":"{request_id}'.encode()
