"""A withdrawal as the world sees it: made once as JSON, and brought up to date when it is shown."""

from datetime import datetime
from typing import Any, Final

import msgspec

from vintem.brazil.documents import mask_cnpj, mask_cpf, normalise_cnpj, normalise_cpf
from vintem.kit.clock import PublicTime, public_time
from vintem.providers.payouts import Destination, PixDestination
from vintem.withdrawals.model import Withdrawal, quantity_text

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(type=dict[str, Any]).decode


def record_of(withdrawal: Withdrawal, destination: Destination | None = None) -> bytes:
    """Show a withdrawal as it stands; documents whole only to whoever may read this one."""
    shown = _decode(withdrawal.details)
    bought, failure = withdrawal.bought, withdrawal.failure
    shown.update(
        status=withdrawal.status,
        cryptoAmount=None if bought is None else quantity_text(bought),
        exchangeRate=None if bought is None else bought.exchange_rate,
        txHash=withdrawal.tx_hash,
        confirmations=withdrawal.confirmations,
        endToEndId=withdrawal.end_to_end_id,
        failureCode=None if failure is None else failure.code,
        failureReason=None if failure is None else failure.reason,
        updatedAt=public_time(withdrawal.updated_at),
        processedAt=_time(withdrawal.processed_at),
        completedAt=_time(withdrawal.completed_at),
        cancelledAt=_time(withdrawal.cancelled_at),
    )
    if isinstance(destination, PixDestination):
        shown["pixKey"] = shown_key(destination)
    if destination is not None and destination.document is not None:
        shown["beneficiary"]["document"] = destination.document
    return _encode(shown)


def shown_key(destination: PixDestination) -> str:
    """The key as the integrator gave it: itself, or the code that holds it."""
    return destination.key if destination.code is None else destination.code


def masked_key(destination: PixDestination) -> str:
    """The key as lists show it: a document in it is hidden but for its middle."""
    shown = shown_key(destination)
    return shown.replace(destination.key, masked_document(destination.key))


def masked_document(text: str) -> str:
    """Hide a CPF or CNPJ but for its middle; anything else is shown as it is."""
    if normalise_cpf(text) == text:
        return mask_cpf(text)
    return mask_cnpj(text) if normalise_cnpj(text) == text else text


def masked_destination(withdrawal: Withdrawal) -> str:
    """Whom a withdrawal goes to, as an operator's list shows it: enough to recognise, no more."""
    shown = _decode(withdrawal.details)
    key, kind = shown["pixKey"], shown["pixKeyType"]
    match kind:
        case None:
            address = shown["walletAddress"]
            return f"{shown['coin']} {shown['walletNetwork']} {address[:6]}…{address[-6:]}"
        case "cpf" | "cnpj":
            return f"{kind} {key}"
        case "email":
            name, _, host = key.rpartition("@")
            return f"{kind} {name[:1]}***@{host}"
        case "phone":
            return f"{kind} …{key[-4:]}"
        case _:
            return f"{kind} …{key[-8:]}"


def _time(moment: datetime | None) -> PublicTime | None:
    return None if moment is None else public_time(moment)
