"""A payment by card: what is checked before the acquirer is asked, and what it is asked."""

from collections.abc import Sequence
from typing import Final

import msgspec

from vintem.api.call import Call
from vintem.api.payment_part import PaymentPart
from vintem.api.transaction_shapes import CardBody, RawCardBody, TransactionBody
from vintem.brazil.cards import (
    INSTALLMENTS_MAX,
    CardNumber,
    has_expired,
    is_cvv,
    plan_without_interest,
)
from vintem.brazil.installments import INSTALLMENT_CENTS_MIN
from vintem.companies.model import Method
from vintem.kit.clock import business_day
from vintem.kit.errors import ErrorCode, Refusal
from vintem.ledger.model import Scope
from vintem.providers.port import Card, Charge
from vintem.transactions import card_tokens
from vintem.transactions.model import PaymentMethod, Status

HOLDER_NAME_DIGITS_MAX: Final = 6
RAW_FIELDS: Final = msgspec.structs.fields(RawCardBody)


async def card_part(call: Call, order: TransactionBody, transaction_id: str) -> PaymentPart:
    """Say what is charged to which card, at once or in installments."""
    assert order.card is not None, "a card order without a card was refused before"
    installments = order.installments
    check_installments(order.amount, installments)
    card, token_digest = await _find_card(call, order.card)
    plan = plan_without_interest(order.amount, installments=installments)
    caller, terms = call.company, call.company.terms
    return PaymentPart(
        status=Status.PROCESSING,
        fee=terms.fees.fee_cents(Method.CREDIT_CARD, order.amount, installments=installments),
        release_days=terms.card_release_days,
        installments=installments,
        installment_amount=plan.amounts[0],
        card={
            "brand": card.number.brand,
            "firstDigits": card.number.first_digits,
            "lastDigits": card.number.last_digits,
            "holderName": card.holder_name,
            "expirationMonth": card.expiration_month,
            "expirationYear": card.expiration_year,
            "authorizationCode": None,
        },
        card_token_digest=token_digest,
        charge=Charge(
            company_id=caller.company_id,
            account=caller.company_public_id,
            reference=transaction_id,
            card=card,
            amount=order.amount,
            installments=installments,
        ),
    )


def card_faults(order: TransactionBody) -> Sequence[tuple[str, str]]:
    """Name what the declared shape of a card cannot say."""
    card = order.card
    if order.payment_method is not PaymentMethod.CREDIT_CARD:
        return [("card", "is for cards only")] if card is not None else ()
    if card is None:
        return [("card", "is required")]
    is_by_token = card.token is not None
    message = "cannot be combined with token" if is_by_token else "is required"
    return [
        (f"card.{field.encode_name}", message)
        for field in RAW_FIELDS
        if (getattr(card, field.name) is not None) == is_by_token
    ]


def refuse_raw_card(order: TransactionBody) -> None:
    """Refuse a card that was not turned into a token before."""
    if order.card is not None and order.card.token is None:
        raise Refusal(ErrorCode.RAW_CARD_NOT_ALLOWED)


def check_installments(amount: int, installments: int) -> None:
    """Refuse a number of installments that no card offers, or one that makes them too small."""
    if not 1 <= installments <= INSTALLMENTS_MAX:
        raise Refusal(
            ErrorCode.INVALID_INSTALLMENTS,
            f"The number of installments must be from 1 to {INSTALLMENTS_MAX}.",
            details={"maximum": INSTALLMENTS_MAX},
        )
    # Paid at once there are no installments, and the minimum of the amount is all that holds.
    if installments > 1 and amount // installments < INSTALLMENT_CENTS_MIN:
        raise Refusal(
            ErrorCode.INVALID_INSTALLMENTS,
            f"Each installment must be at least {INSTALLMENT_CENTS_MIN} cents.",
            details={"minimumInstallmentAmount": INSTALLMENT_CENTS_MIN},
        )


def read_card(call: Call, raw: RawCardBody) -> Card:
    """Check a card as it was typed in; a refusal names the field, never what is in it."""
    number = CardNumber.parse(raw.number)
    if number is None:
        raise _invalid("number")
    # A number that was typed into the wrong field would be stored and shown.
    if sum(character.isdigit() for character in raw.holder_name) > HOLDER_NAME_DIGITS_MAX:
        raise _invalid("holderName")
    month, year = raw.expiration_month, raw.expiration_year
    if has_expired(month=month, year=year, now=call.now):
        raise _invalid(
            "expirationYear" if year < business_day(call.now).year else "expirationMonth"
        )
    if not is_cvv(raw.cvv, number.brand):
        raise _invalid("cvv")
    return Card(number, raw.holder_name, month, year, raw.cvv)


async def _find_card(call: Call, given: CardBody) -> tuple[Card, bytes | None]:
    """Read the card itself, and the digest of the token that stands for it, if one does."""
    if given.token is None:
        return read_card(call, given.as_raw()), None
    resources, scope = call.resources, Scope(call.company.company_id, call.company.environment)
    card = await card_tokens.read(
        resources.database, resources.sealer, scope, given.token, now=call.now
    )
    if card is None:
        raise Refusal(ErrorCode.CARD_TOKEN_INVALID)
    return card, card_tokens.digest_of(resources.sealer, given.token)


def _invalid(field: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_CARD, details={"field": field})
