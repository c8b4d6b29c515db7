"""The sandbox's acquirer: the last four digits of a card decide, always in the same way."""

import hashlib
from datetime import timedelta

from vintem.providers.port import (
    Authorised,
    Blocked,
    Charge,
    LaterTurn,
    Processing,
    Refused,
    Turn,
    Verdict,
)


class Simulator:
    """Charges no card; nothing leaves the process."""

    async def authorise(self, charge: Charge) -> Verdict:
        """Decide by the number's end."""
        code = authorization_code(charge.reference)
        match charge.card.number.last_digits:
            case "0002":
                return Refused("CARD_REFUSED", "The issuer refused the card.")
            case "9995":
                return Refused("INSUFFICIENT_FUNDS", "The card has not enough limit.")
            case "0127":
                return Refused("INCORRECT_CVV", "The security code is not the card's.")
            case "0119":
                return Processing(code, [_later(2, Turn.PAID)])
            case "0069":
                return Blocked(code)
            case "0259":
                return Authorised(
                    code, [_later(2, Turn.PRE_CHARGEBACK), _later(4, Turn.CHARGEBACK)]
                )
            case _:
                return Authorised(code)


def authorization_code(reference: str) -> str:
    """Make six digits of a payment's id: the same ones however often it is asked for."""
    number = int.from_bytes(hashlib.sha256(reference.encode()).digest()[:8])
    return f"{number % 1_000_000:06}"


def _later(seconds: int, turn: Turn) -> LaterTurn:
    return LaterTurn(timedelta(seconds=seconds), turn)
