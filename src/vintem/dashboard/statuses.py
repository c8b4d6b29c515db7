"""How statuses and methods are said to people, and in which tone a page shows them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from vintem.checkout.model import SessionStatus
from vintem.transactions.model import PaymentMethod, RefundStatus, Status, StatusReason
from vintem.webhooks.model import State


class Said(NamedTuple):
    """A word, and the tone of its chip: good, warn, bad, or none."""

    label: str
    tone: str = ""


TRANSACTION: Final[Mapping[Status, Said]] = {
    Status.PENDING: Said("Pendente", "warn"),
    Status.PROCESSING: Said("Processando", "warn"),
    Status.PAID: Said("Paga", "good"),
    Status.FAILED: Said("Recusada", "bad"),
    Status.CANCELLED: Said("Cancelada"),
    Status.BLOCKED: Said("Bloqueada", "warn"),
    Status.REFUNDED: Said("Reembolsada"),
    Status.PRE_CHARGEBACK: Said("Em disputa", "warn"),
    Status.CHARGEBACK: Said("Chargeback", "bad"),
}
REASON: Final[Mapping[StatusReason, str]] = {
    StatusReason.EXPIRED: "prazo vencido",
    StatusReason.MERCHANT: "a pedido da empresa",
    StatusReason.LATE_PAYMENT: "paga depois do prazo",
    StatusReason.SUPERSEDED: "substituída por outra",
    StatusReason.RISK: "análise de risco",
    StatusReason.PROVIDER: "decisão do provedor",
}
METHOD: Final[Mapping[PaymentMethod, str]] = {
    PaymentMethod.PIX: "Pix",
    PaymentMethod.CREDIT_CARD: "Cartão",
    PaymentMethod.BOLETO: "Boleto",
}
REFUND: Final[Mapping[RefundStatus, Said]] = {
    RefundStatus.PROCESSING: Said("Processando", "warn"),
    RefundStatus.COMPLETED: Said("Concluído", "good"),
    RefundStatus.FAILED: Said("Falhou", "bad"),
}
SESSION: Final[Mapping[SessionStatus, Said]] = {
    SessionStatus.OPEN: Said("Aberta"),
    SessionStatus.AWAITING_PAYMENT: Said("Aguardando pagamento", "warn"),
    SessionStatus.COMPLETED: Said("Concluída", "good"),
    SessionStatus.EXPIRED: Said("Expirada"),
    SessionStatus.CANCELLED: Said("Cancelada"),
}
DELIVERY: Final[Mapping[State, Said]] = {
    State.PENDING: Said("Aguardando", "warn"),
    State.DELIVERED: Said("Entregue", "good"),
    State.FAILED: Said("Falhou", "bad"),
    State.ENDED: Said("Encerrada"),
}
