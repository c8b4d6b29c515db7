"""A payment by PIX: the code to copy and paste, and the address of its picture."""

import base64
from datetime import timedelta
from functools import lru_cache
from typing import Final

from vintem.api.call import Call
from vintem.api.payment_part import PaymentPart
from vintem.api.transaction_shapes import TransactionBody
from vintem.brazil.br_code import StaticCodeTemplate
from vintem.companies.model import Caller, Method
from vintem.kit.clock import public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.transactions.model import Status

PIX_LIFETIME_SECONDS: Final = 3_600
PICTURE_PURPOSE: Final = b"pix picture"


def pix_part(call: Call, order: TransactionBody, transaction_id: str) -> PaymentPart:
    """Make a code that can be paid until it expires."""
    caller = call.company
    if order.installments != 1:
        raise Refusal(ErrorCode.INVALID_INSTALLMENTS, "Only cards are paid in installments.")
    lifetime = PIX_LIFETIME_SECONDS if order.pix is None else order.pix.expires_in_seconds
    expires_at = call.now + timedelta(seconds=lifetime)
    code = pix_code(caller, transaction_id, order.amount)
    picture = picture_address(call, transaction_id)
    return PaymentPart(
        status=Status.PENDING,
        fee=caller.terms.fees.fee_cents(Method.PIX, order.amount),
        release_days=caller.terms.pix_release_days,
        expires_at=expires_at,
        due_at=expires_at,
        pix={
            "qrCode": code,
            "qrCodeImage": picture,
            "txid": txid_of(transaction_id),
            "endToEndId": None,
            "expiresAt": public_time(expires_at),
        },
        flat={"pixQrCode": code, "pixQrCodeImage": picture},
    )


def pix_code(caller: Caller, transaction_id: str, amount: int) -> str:
    """Write the code that a sandbox buyer would copy and paste."""
    template = _code_template(caller.company_public_id, caller.company_name, caller.company_city)
    return template.encode(amount_cents=amount, txid=txid_of(transaction_id))


@lru_cache(maxsize=10_000)
def _code_template(public_id: str, name: str, city: str) -> StaticCodeTemplate:
    # The sandbox pays to no real account: its key is made from the company's id.
    digits = public_id.removeprefix("cmp_").encode().hex()[-32:]
    key = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return StaticCodeTemplate(key=key, merchant_name=name, merchant_city=city)


def txid_of(transaction_id: str) -> str:
    """What the bank calls the payment: the id without its prefix and first character."""
    return transaction_id.removeprefix("tx_")[1:]


def picture_address(call: Call, transaction_id: str) -> str:
    """Where the picture of a payment's code is; nobody can guess it."""
    token = seal_token(call, transaction_id, purpose=PICTURE_PURPOSE)
    return f"{call.resources.public_url}/v1/pix/{token}.svg"


def seal_token(call: Call, transaction_id: str, *, purpose: bytes) -> str:
    """Name a payment so that nobody can guess the name; it stands for one purpose only."""
    content = f"{call.company.company_id}/{call.company.environment}/{transaction_id}".encode()
    sealed = call.resources.sealer.seal(content, purpose=purpose)
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()
