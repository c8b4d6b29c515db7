"""Codes of an authenticator (RFC 6238) and those that stand in for it, without input or output."""

import secrets
from datetime import datetime
from typing import Final

import pyotp

STEP_SECONDS: Final = 30
STEPS_AROUND: Final = 1
"""How many codes before and after the present one are taken: clocks differ, and people are slow."""
BACKUP_CODES: Final = 10
ISSUER: Final = "Vintém"

_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
_GROUPS: Final = 3
_GROUP_LETTERS: Final = 4


def new_secret() -> str:
    """Make a secret of 160 bits, as authenticators take it."""
    return pyotp.random_base32()


def setup_uri(secret: str, email: str) -> str:
    """Write what an authenticator reads from the picture."""
    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=ISSUER)


def step_of(secret: str, code: str, *, now: datetime, after: int | None) -> int | None:
    """Find the thirty seconds that a code is of; those up to `after` are used up."""
    present = int(now.timestamp()) // STEP_SECONDS
    generator = pyotp.TOTP(secret)
    found = None
    for step in range(present - STEPS_AROUND, present + STEPS_AROUND + 1):
        # Every step is compared, whichever fits.
        if secrets.compare_digest(generator.generate_otp(step).encode(), plain(code).encode()):
            found = step
    return None if found is None or (after is not None and found <= after) else found


def new_backup_codes() -> list[str]:
    """Make the codes that a person keeps on paper: 59 bits each, no letter mistaken for another."""
    return [_new_backup_code() for _ in range(BACKUP_CODES)]


def _new_backup_code() -> str:
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_GROUPS * _GROUP_LETTERS))
    return "-".join(
        letters[place : place + _GROUP_LETTERS] for place in range(0, len(letters), _GROUP_LETTERS)
    )


def plain(code: str) -> str:
    """Write a code without the blanks and dashes that people type."""
    return code.replace(" ", "").replace("-", "").lower()
