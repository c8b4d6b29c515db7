"""Cards of the sandbox, and payments by them."""

from typing import Any

from support.api import HttpReply, Shop, pix_order
from vintem.brazil.cards import has_luhn_digit
from vintem.kit.clock import utc_now

VISA = "4111111111111111"


def number_ending_in(last: str, *, first: str = "400000") -> str:
    """A card number with a right check digit."""
    return next(
        digits
        for middle in range(1_000_000)
        if has_luhn_digit(digits := f"{first}{middle:06}{last}")
    )


def card_order(last: str = "1111", *, amount: int = 10_000, **changed: object) -> dict[str, Any]:
    """The body of a payment by a card whose number ends so."""
    return pix_order(
        amount,
        paymentMethod="credit_card",
        card={
            "number": VISA if last == "1111" else number_ending_in(last),
            "holderName": "CLIENTE DE TESTE",
            "expirationMonth": 12,
            "expirationYear": utc_now().year + 3,
            "cvv": "123",
        },
        **changed,
    )


async def charge(shop: Shop, last: str = "1111", *, key: str | None = None) -> HttpReply:
    """A payment by card, as it was answered."""
    reply = await shop.order(card_order(last), idempotency_key=key)
    assert reply.status == 201, reply.json
    return reply


async def events_of(shop: Shop, transaction_id: str) -> list[str]:
    """What integrators are told of a payment, in order, without the group's name."""
    rows = await shop.database.fetch(
        """
        select sequence, kind from webhook_event
        where company_id = $1 and entity_id = $2 order by sequence
        """,
        shop.scope.company_id,
        transaction_id,
    )
    assert [row["sequence"] for row in rows] == list(range(1, len(rows) + 1))
    return [row["kind"].removeprefix("transaction.") for row in rows]


async def suspense(shop: Shop) -> int:
    """What stands in suspense for a company."""
    total = await shop.database.fetchval(
        """
        select coalesce(sum(amounts[array_position(codes, 'suspense')]), 0) from posting
        where company_id = $1
        """,
        shop.scope.company_id,
    )
    return int(total)
