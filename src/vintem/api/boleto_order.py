"""A payment by boleto: its codes, the address of its page, and until when it can be paid."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

from vintem.api.call import Call
from vintem.api.payment_part import PaymentPart
from vintem.api.pix_order import pix_code, seal_token
from vintem.api.transaction_shapes import BoletoBody, TransactionBody
from vintem.brazil.boleto import (
    BOLETO_CENTS_MAX,
    OUR_NUMBER_MAX,
    FineKind,
    make_sandbox_boleto,
)
from vintem.brazil.calendar import add_business_days, next_business_day
from vintem.companies.model import Method
from vintem.kit.clock import business_day, start_of_business_day
from vintem.kit.errors import ErrorCode, Refusal
from vintem.transactions.model import PaymentMethod, Status

BOLETO_PURPOSE: Final = b"boleto"
DUE_DAYS_DEFAULT: Final = 3
# The four digits of a barcode's due date repeat after 9,000 days: much less leaves no doubt.
DUE_DAYS_MAX: Final = 3_650
PAYABLE_BUSINESS_DAYS: Final = 3
FINE_BASIS_POINTS_MAX: Final = 10_000

_NOTHING_SAID: Final = BoletoBody()
_RANDOM_CHARACTERS: Final = 16
_DIGITS_OF_32: Final = str.maketrans(
    "0123456789abcdefghjkmnpqrstvwxyz", "0123456789abcdefghijklmnopqrstuv"
)
_ONE_DAY: Final = timedelta(days=1)
_ONE_MILLISECOND: Final = timedelta(milliseconds=1)


def boleto_part(call: Call, order: TransactionBody, transaction_id: str) -> PaymentPart:
    """Make a boleto that can be paid until some days after it is due."""
    assert order.amount <= BOLETO_CENTS_MAX, "no amount is larger than what a boleto can carry"
    caller, wanted = call.company, order.boleto or _NOTHING_SAID
    if order.installments != 1:
        raise Refusal(ErrorCode.INVALID_INSTALLMENTS, "Only cards are paid in installments.")
    due_date = due_date_of(wanted, today=business_day(call.now))
    boleto = make_sandbox_boleto(
        our_number=our_number_of(transaction_id), due_date=due_date, amount_cents=order.amount
    )
    expires_at = expiry_of(due_date)
    token = seal_token(call, transaction_id, purpose=BOLETO_PURPOSE)
    address = f"{call.resources.public_url}/v1/boletos/{token}.pdf"
    return PaymentPart(
        status=Status.PENDING,
        fee=caller.terms.fees.fee_cents(Method.BOLETO, order.amount),
        release_days=caller.terms.boleto_release_days,
        expires_at=expires_at,
        due_at=expires_at,
        boleto={
            "url": address,
            "barcode": boleto.barcode,
            "digitableLine": boleto.line,
            "dueDate": due_date,
            "pixQrCode": pix_code(caller, transaction_id, order.amount),
            "instructions": wanted.instructions,
            "fine": wanted.fine,
            "interest": wanted.interest,
            "lateAmount": 0,
        },
        flat={"boletoUrl": address},
    )


def boleto_faults(order: TransactionBody) -> Sequence[tuple[str, str]]:
    """Name what the declared shape of a boleto's order cannot say."""
    faults = []
    is_boleto, wanted = order.payment_method is PaymentMethod.BOLETO, order.boleto
    if is_boleto and order.customer.address is None:
        faults.append(("customer.address", "is required for boleto"))
    if wanted is None:
        return faults
    if not is_boleto:
        faults.append(("boleto", "is for boleto only"))
    if wanted.due_date is not None and wanted.expires_in_days is not None:
        faults.append(("boleto.expiresInDays", "cannot be combined with dueDate"))
    fine = wanted.fine
    if fine is not None and fine.type is FineKind.PERCENTAGE and fine.value > FINE_BASIS_POINTS_MAX:
        message = f"must be at most {FINE_BASIS_POINTS_MAX} hundredths of a percent"
        faults.append(("boleto.fine.value", message))
    return faults


def due_date_of(wanted: BoletoBody, *, today: date) -> date:
    """Say when a boleto is due, or refuse a day that is over or too far away."""
    if wanted.due_date is None:
        return today + timedelta(days=wanted.expires_in_days or DUE_DAYS_DEFAULT)
    last = today + timedelta(days=DUE_DAYS_MAX)
    if not today <= wanted.due_date <= last:
        raise Refusal(
            ErrorCode.INVALID_DUE_DATE,
            f"The due date must be from {today} to {last}.",
            details={"minimum": today, "maximum": last},
        )
    return wanted.due_date


def expiry_of(due_date: date) -> datetime:
    """Give the last moment of the third banking day after a boleto is due.

    A due date without banks is moved to the next day with them, and counted from there.
    """
    last_day = add_business_days(next_business_day(due_date), PAYABLE_BUSINESS_DAYS)
    return start_of_business_day(last_day + _ONE_DAY) - _ONE_MILLISECOND


def our_number_of(transaction_id: str) -> int:
    """Number a sandbox boleto: the 80 random bits of its id, as far as 17 digits hold them.

    Numbers of one process and millisecond follow one another; of any others, two in 10^17 agree
    by chance. Nothing is looked up by it.
    """
    random_part = transaction_id[-_RANDOM_CHARACTERS:].translate(_DIGITS_OF_32)
    return int(random_part, 32) % (OUR_NUMBER_MAX + 1)
