"""The words of money: what a movement is, where a withdrawal stands, whom it goes to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from vintem.hosted.words import money
from vintem.ledger.model import Kind
from vintem.providers.payouts import Destination, PayoutNoticeKind, PixDestination
from vintem.withdrawals.model import DecisionKind, Method, Status, Withdrawal
from vintem.withdrawals.record import masked_destination, shown_key

KINDS: Final[Mapping[Kind, str]] = {
    Kind.CAPTURE: "Venda",
    Kind.SUSPENSE: "Valor a identificar",
    Kind.SUSPENSE_ENDED: "Valor identificado",
    Kind.RELEASE: "Liberação de recebível",
    Kind.RESERVE_RELEASE: "Liberação de reserva",
    Kind.DEBT_RECOVERY: "Abatimento de dívida",
    Kind.REFUND: "Reembolso",
    Kind.REFUND_PAID: "Reembolso pago",
    Kind.REFUND_FAILED: "Reembolso devolvido",
    Kind.BLOCK: "Bloqueio cautelar",
    Kind.UNBLOCK: "Desbloqueio",
    Kind.BLOCK_REFUNDED: "Reembolso de valor bloqueado",
    Kind.DISPUTE: "Disputa aberta",
    Kind.DISPUTE_WON: "Disputa ganha",
    Kind.DISPUTE_REFUNDED: "Reembolso de valor em disputa",
    Kind.CHARGEBACK: "Chargeback",
    Kind.CHARGEBACK_FEE: "Taxa de chargeback",
    Kind.CHARGEBACK_WON: "Chargeback revertido",
    Kind.WITHDRAWAL: "Saque",
    Kind.WITHDRAWAL_PAID: "Saque pago",
    Kind.WITHDRAWAL_RETURNED: "Saque devolvido",
}

STATUSES: Final[Mapping[Status, tuple[str, str]]] = {
    Status.PENDING: ("Na fila de envio", ""),
    Status.PENDING_APPROVAL: ("Aguardando aprovação", "warn"),
    Status.PROCESSING: ("Em processamento", ""),
    Status.COMPLETED: ("Concluído", "good"),
    Status.FAILED: ("Falhou", "bad"),
    Status.CANCELLED: ("Cancelado", ""),
}
"""Where a withdrawal stands: its words, and the tone of its chip."""

METHODS: Final[Mapping[Method, str]] = {Method.PIX: "Pix", Method.CRYPTO: "Cripto"}

KEY_TYPES: Final[Mapping[str, str]] = {
    "cpf": "CPF",
    "cnpj": "CNPJ",
    "email": "E-mail",
    "phone": "Celular",
    "evp": "Chave aleatória",
    "copypaste": "Código copia e cola",
}

NETWORKS: Final[Mapping[str, str]] = {
    "USDT.TRC20": "USDT na rede Tron (TRC20)",
    "USDT.ERC20": "USDT na rede Ethereum (ERC20)",
    "USDT.POLYGON": "USDT na rede Polygon",
    "USDT.BEP20": "USDT na rede BNB Smart Chain (BEP20)",
    "BTC.BTC": "Bitcoin",
}
"""A coin and the network that carries it."""

FAILURES: Final[Mapping[str, str]] = {
    "PIX_KEY_NOT_FOUND": "A chave Pix não existe.",
    "WALLET_NOT_FOUND": "A rede não conhece a carteira.",
    "SIMULATED_FAILURE": "Falha pedida no simulador.",
}

HAPPENED: Final[Mapping[str, str]] = {
    Status.PENDING: "Na fila de envio",
    Status.PENDING_APPROVAL: "Aguardando aprovação",
    Status.PROCESSING: "Enviado ao provedor",
    Status.COMPLETED: "Concluído",
    Status.FAILED: "Falhou; o valor voltou ao saldo",
    Status.CANCELLED: "Cancelado; o valor voltou ao saldo",
    DecisionKind.APPROVAL_REQUIRED: "Aprovação exigida",
    DecisionKind.APPROVED: "Aprovado",
    DecisionKind.REJECTED: "Rejeitado",
    PayoutNoticeKind.PAID: "O provedor avisou: pago",
    PayoutNoticeKind.REJECTED: "O provedor avisou: recusado",
    "notice": "Aviso do provedor",
}

ACTORS: Final[Mapping[str, str]] = {
    "rules": "Regras de saque",
    "sandbox": "Simulador",
}

WordT = TypeVar("WordT", bound=StrEnum)

_ABOVE: Final = re.compile(r"\d+ cents are above the automatic limit of (\d+)")
_EDGE_CHARACTERS: Final = 6


@dataclass(frozen=True, slots=True)
class ExactDestination:
    """A destination to be compared letter by letter; the two ends of an address stand out."""

    kind: str
    head: str
    middle: str
    tail: str
    key_in_code: str = ""


def option_words(words: Mapping[WordT, str], everything: str) -> Sequence[tuple[str, str]]:
    """The choices of a filter: everything first."""
    return [("", everything), *((str(value), text) for value, text in words.items())]


def reason_words(reasons: str) -> Sequence[str]:
    """Why a second person must agree, as the rules wrote it down, in the reader's language."""
    return [_reason(reason) for reason in reasons.split("; ") if reason]


def _reason(reason: str) -> str:
    if found := _ABOVE.fullmatch(reason):
        return f"Acima do limite automático de {money(int(found[1]))}"
    return {
        "nothing was ever paid to this destination": "Destino novo: nada foi pago a ele até hoje",
        "it leaves as crypto": "Sai em cripto",
    }.get(reason, reason)


def destination_words(withdrawal: Withdrawal) -> tuple[str, str]:
    """Whom a withdrawal goes to, as lists show it: the kind of destination, and enough of it."""
    kind, _, rest = masked_destination(withdrawal).partition(" ")
    if withdrawal.method is Method.PIX:
        return f"Pix · {KEY_TYPES[kind]}", rest
    network, _, address = rest.partition(" ")
    return NETWORKS[f"{kind}.{network}"], address


def exact_destination(destination: Destination) -> ExactDestination:
    """Whom a withdrawal goes to, whole, for whoever decides."""
    if isinstance(destination, PixDestination):
        key_in_code = "" if destination.code is None else destination.key
        kind = f"Pix · {KEY_TYPES[destination.key_type]}"
        return ExactDestination(kind, "", shown_key(destination), "", key_in_code)
    address, edge = destination.address, _EDGE_CHARACTERS
    kind = NETWORKS[f"{destination.coin}.{destination.network}"]
    return ExactDestination(kind, address[:edge], address[edge:-edge], address[-edge:])


def failure_words(withdrawal: Withdrawal) -> str:
    """Why a withdrawal failed."""
    failure = withdrawal.failure
    if failure is None:
        return ""
    return FAILURES.get(failure.code, "O provedor recusou o pagamento.")
