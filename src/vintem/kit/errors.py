"""The closed list of refusals: every reason for which a caller can be told no."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ErrorCode(StrEnum):
    """What went wrong, as integrators read it; the list only grows."""

    INVALID_JSON = "INVALID_JSON"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    IDEMPOTENCY_KEY_INVALID = "IDEMPOTENCY_KEY_INVALID"

    MISSING_API_KEY = "MISSING_API_KEY"
    INVALID_API_KEY = "INVALID_API_KEY"
    WRONG_ENVIRONMENT = "WRONG_ENVIRONMENT"

    KEY_TYPE_NOT_ALLOWED = "KEY_TYPE_NOT_ALLOWED"
    COMPANY_SUSPENDED = "COMPANY_SUSPENDED"
    IP_NOT_ALLOWED = "IP_NOT_ALLOWED"
    ORIGIN_NOT_ALLOWED = "ORIGIN_NOT_ALLOWED"
    RAW_CARD_NOT_ALLOWED = "RAW_CARD_NOT_ALLOWED"
    SANDBOX_ONLY = "SANDBOX_ONLY"
    WITHDRAWALS_PAUSED = "WITHDRAWALS_PAUSED"

    NOT_FOUND = "NOT_FOUND"
    TRANSACTION_NOT_FOUND = "TRANSACTION_NOT_FOUND"
    WITHDRAWAL_NOT_FOUND = "WITHDRAWAL_NOT_FOUND"
    WEBHOOK_NOT_FOUND = "WEBHOOK_NOT_FOUND"
    DELIVERY_NOT_FOUND = "DELIVERY_NOT_FOUND"
    EVENT_NOT_FOUND = "EVENT_NOT_FOUND"
    PRODUCT_NOT_FOUND = "PRODUCT_NOT_FOUND"
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    PAYMENT_LINK_NOT_FOUND = "PAYMENT_LINK_NOT_FOUND"

    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"

    INVALID_STATE = "INVALID_STATE"
    IDEMPOTENCY_IN_PROGRESS = "IDEMPOTENCY_IN_PROGRESS"
    DUPLICATE_SUSPECTED = "DUPLICATE_SUSPECTED"
    TRANSACTION_NOT_REFUNDABLE = "TRANSACTION_NOT_REFUNDABLE"
    TRANSACTION_UNDER_DISPUTE = "TRANSACTION_UNDER_DISPUTE"
    WITHDRAWAL_NOT_CANCELLABLE = "WITHDRAWAL_NOT_CANCELLABLE"
    WEBHOOK_LIMIT_REACHED = "WEBHOOK_LIMIT_REACHED"

    SESSION_COMPLETED = "SESSION_COMPLETED"
    SESSION_EXPIRED = "SESSION_EXPIRED"
    SESSION_CANCELLED = "SESSION_CANCELLED"
    PAYMENT_LINK_INACTIVE = "PAYMENT_LINK_INACTIVE"

    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"

    AMOUNT_BELOW_MINIMUM = "AMOUNT_BELOW_MINIMUM"
    AMOUNT_ABOVE_MAXIMUM = "AMOUNT_ABOVE_MAXIMUM"
    CARD_TOKEN_INVALID = "CARD_TOKEN_INVALID"  # noqa: S105 - the name of a code
    COUPON_INVALID = "COUPON_INVALID"
    IDEMPOTENCY_KEY_REUSED = "IDEMPOTENCY_KEY_REUSED"
    INSUFFICIENT_BALANCE = "INSUFFICIENT_BALANCE"
    INVALID_CARD = "INVALID_CARD"
    INVALID_DOCUMENT = "INVALID_DOCUMENT"
    INVALID_DUE_DATE = "INVALID_DUE_DATE"
    INVALID_INSTALLMENTS = "INVALID_INSTALLMENTS"
    INVALID_PIX_KEY = "INVALID_PIX_KEY"
    INVALID_URL = "INVALID_URL"
    INVALID_WALLET_ADDRESS = "INVALID_WALLET_ADDRESS"
    ITEMS_TOTAL_MISMATCH = "ITEMS_TOTAL_MISMATCH"
    PAYMENT_METHOD_NOT_AVAILABLE = "PAYMENT_METHOD_NOT_AVAILABLE"
    REFUND_EXCEEDS_AMOUNT = "REFUND_EXCEEDS_AMOUNT"
    REFUND_WINDOW_EXPIRED = "REFUND_WINDOW_EXPIRED"
    UNSUPPORTED_NETWORK = "UNSUPPORTED_NETWORK"
    WITHDRAWAL_LIMIT_EXCEEDED = "WITHDRAWAL_LIMIT_EXCEEDED"

    RATE_LIMIT_EXCEEDED = "RATE_LIMIT_EXCEEDED"
    COUPON_LOCKED = "COUPON_LOCKED"
    CARD_ATTEMPTS_EXCEEDED = "CARD_ATTEMPTS_EXCEEDED"

    INTERNAL_ERROR = "INTERNAL_ERROR"
    PROVIDER_ERROR = "PROVIDER_ERROR"
    PROVIDER_NOT_CONFIGURED = "PROVIDER_NOT_CONFIGURED"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"


MEANING: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INVALID_JSON: "The body is not valid JSON.",
    ErrorCode.VALIDATION_ERROR: "The request is not valid; details.errors names each field.",
    ErrorCode.IDEMPOTENCY_KEY_INVALID: (
        "X-Idempotency-Key must be 1 to 255 visible ASCII characters."
    ),
    ErrorCode.MISSING_API_KEY: "The x-api-key header is missing.",
    ErrorCode.INVALID_API_KEY: "The API key is not valid.",
    ErrorCode.WRONG_ENVIRONMENT: "The API key belongs to the other environment.",
    ErrorCode.KEY_TYPE_NOT_ALLOWED: "This type of API key may not call this endpoint.",
    ErrorCode.COMPANY_SUSPENDED: "The company is suspended.",
    ErrorCode.IP_NOT_ALLOWED: "The API key may not be used from this IP address.",
    ErrorCode.ORIGIN_NOT_ALLOWED: "The page's origin is not one of the company's domains.",
    ErrorCode.RAW_CARD_NOT_ALLOWED: "Send a card token; raw card data is not allowed here.",
    ErrorCode.SANDBOX_ONLY: "This endpoint exists only in the sandbox.",
    ErrorCode.WITHDRAWALS_PAUSED: "Withdrawals are paused.",
    ErrorCode.NOT_FOUND: "There is nothing at this address.",
    ErrorCode.TRANSACTION_NOT_FOUND: "The transaction does not exist.",
    ErrorCode.WITHDRAWAL_NOT_FOUND: "The withdrawal does not exist.",
    ErrorCode.WEBHOOK_NOT_FOUND: "The webhook endpoint does not exist.",
    ErrorCode.DELIVERY_NOT_FOUND: "The webhook delivery does not exist.",
    ErrorCode.EVENT_NOT_FOUND: "The event does not exist.",
    ErrorCode.PRODUCT_NOT_FOUND: "The product does not exist.",
    ErrorCode.SESSION_NOT_FOUND: "The checkout session does not exist.",
    ErrorCode.PAYMENT_LINK_NOT_FOUND: "The payment link does not exist.",
    ErrorCode.METHOD_NOT_ALLOWED: "This address does not answer that method.",
    ErrorCode.INVALID_STATE: "The record's status does not allow this.",
    ErrorCode.IDEMPOTENCY_IN_PROGRESS: "The first call with this key is still being answered.",
    ErrorCode.DUPLICATE_SUSPECTED: "The same withdrawal was requested moments ago.",
    ErrorCode.TRANSACTION_NOT_REFUNDABLE: "The transaction cannot be refunded in its status.",
    ErrorCode.TRANSACTION_UNDER_DISPUTE: "The transaction is under dispute.",
    ErrorCode.WITHDRAWAL_NOT_CANCELLABLE: "The withdrawal can no longer be cancelled.",
    ErrorCode.WEBHOOK_LIMIT_REACHED: "The company has as many webhook endpoints as it may.",
    ErrorCode.SESSION_COMPLETED: "The checkout session is completed.",
    ErrorCode.SESSION_EXPIRED: "The checkout session has expired.",
    ErrorCode.SESSION_CANCELLED: "The checkout session was cancelled.",
    ErrorCode.PAYMENT_LINK_INACTIVE: "The payment link is not active.",
    ErrorCode.PAYLOAD_TOO_LARGE: "The request is larger than what is accepted.",
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: "Send the body as application/json.",
    ErrorCode.AMOUNT_BELOW_MINIMUM: "The amount is below the minimum.",
    ErrorCode.AMOUNT_ABOVE_MAXIMUM: "The amount is above the maximum.",
    ErrorCode.CARD_TOKEN_INVALID: "The card token is unknown, spent or expired.",
    ErrorCode.COUPON_INVALID: "The coupon is not valid.",
    ErrorCode.IDEMPOTENCY_KEY_REUSED: "This idempotency key was used with another request.",
    ErrorCode.INSUFFICIENT_BALANCE: "The available balance does not cover the withdrawal.",
    ErrorCode.INVALID_CARD: "The card data is not valid.",
    ErrorCode.INVALID_DOCUMENT: "The CPF or CNPJ is not valid.",
    ErrorCode.INVALID_DUE_DATE: "The due date is not valid.",
    ErrorCode.INVALID_INSTALLMENTS: "The number of installments is not possible for this payment.",
    ErrorCode.INVALID_PIX_KEY: "The PIX key is not valid.",
    ErrorCode.INVALID_URL: "The address is not one that can be called.",
    ErrorCode.INVALID_WALLET_ADDRESS: "The wallet address is not valid.",
    ErrorCode.ITEMS_TOTAL_MISMATCH: "The items and shipping do not add up to the amount.",
    ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE: "This payment method is not available here.",
    ErrorCode.REFUND_EXCEEDS_AMOUNT: "The refund is larger than what is left to refund.",
    ErrorCode.REFUND_WINDOW_EXPIRED: "The time in which this payment can be refunded is over.",
    ErrorCode.UNSUPPORTED_NETWORK: "The coin is not sent over this network.",
    ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED: "The withdrawal is above the company's limit.",
    ErrorCode.RATE_LIMIT_EXCEEDED: "Too many requests; wait as long as Retry-After says.",
    ErrorCode.COUPON_LOCKED: "Too many wrong coupon codes; wait as long as Retry-After says.",
    ErrorCode.CARD_ATTEMPTS_EXCEEDED: "Too many card attempts; wait as long as Retry-After says.",
    ErrorCode.INTERNAL_ERROR: "Something went wrong on our side; quote the request id.",
    ErrorCode.PROVIDER_ERROR: "The payment provider gave an answer we could not use.",
    ErrorCode.PROVIDER_NOT_CONFIGURED: "The live environment has no payment provider yet.",
    ErrorCode.SERVICE_UNAVAILABLE: "The service is away for a moment; try again.",
}
"""One sentence a code: what an error says when nothing more exact is known."""


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """The caller is told no, for a reason on the closed list."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        *,
        details: Mapping[str, object] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message or MEANING[code]
        self.details: Mapping[str, object] = details or {}
        self.retry_after_seconds = retry_after_seconds
