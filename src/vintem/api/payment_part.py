"""What a way of paying adds to a payment: the same shape for PIX, cards and boleto."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from vintem.transactions.model import Status, StatusReason, Step


class PaymentPart(msgspec.Struct, frozen=True, gc=False):
    """How a payment starts, what it costs, when it ends, and what the buyer is shown."""

    status: Status
    fee: int
    release_days: int
    status_reason: StatusReason | None = None
    installments: int = 1
    installment_amount: int | None = None
    interest_amount: int = 0
    expires_at: datetime | None = None
    due_at: datetime | None = None
    steps: Sequence[Step] = ()
    """What the sandbox will do by itself later."""
    pix: Mapping[str, object] | None = None
    boleto: Mapping[str, object] | None = None
    card: Mapping[str, object] | None = None
    card_token_digest: bytes | None = None
    """The card token that is used up when the payment is created."""
    refused_reason: Mapping[str, object] | None = None
    flat: Mapping[str, object] = msgspec.field(default_factory=dict)
    """What integrators also find at the top of the record."""
