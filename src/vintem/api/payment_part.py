"""What a way of paying adds to a payment: the same shape for PIX, cards and boleto."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from vintem.providers.port import Charge
from vintem.transactions.model import Status


class PaymentPart(msgspec.Struct, frozen=True, gc=False):
    """How a payment starts, what it costs, when it ends, and what the buyer is shown."""

    status: Status
    fee: int
    release_days: int
    installments: int = 1
    installment_amount: int | None = None
    interest_amount: int = 0
    expires_at: datetime | None = None
    due_at: datetime | None = None
    pix: Mapping[str, object] | None = None
    boleto: Mapping[str, object] | None = None
    card: Mapping[str, object] | None = None
    card_token_digest: bytes | None = None
    """The card token that is used up when the payment is created."""
    charge: Charge | None = None
    """What the acquirer is asked once the payment is remembered."""
    flat: Mapping[str, object] = msgspec.field(default_factory=dict)
    """What integrators also find at the top of the record."""
