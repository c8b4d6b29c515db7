"""Telephone numbers, as people write them and as networks read them."""

import re
from typing import Final

# The 67 area codes in use, then a mobile (nine digits from 9) or a landline (eight from 2 to 5).
_AREA: Final = r"(?:[14689][1-9]|2[12478]|3[1-578]|5[1345]|7[134579])"
_NUMBER: Final = re.compile(
    r"(?:\+?55[ -]?)?"
    rf"(?:\((?P<bracketed>{_AREA})\)|(?P<area>{_AREA}))[ -]?"
    r"(?P<start>9[ ]?[0-9]{4}|[2-5][0-9]{3})[ .-]?(?P<end>[0-9]{4})"
)
_MOBILE_CHARACTERS: Final = len("+5511987654321")
_MASK: Final = str.maketrans("", "", " ().-")
_ANY_NUMBER: Final = re.compile(r"\+?[0-9]{10,13}")


def normalise_phone(text: str) -> str | None:
    """Give the E.164 form of a Brazilian number, masked or not, or None."""
    parts = _NUMBER.fullmatch(text.strip(" "))
    if parts is None:
        return None
    area = parts["area"] or parts["bracketed"]
    return f"+55{area}{parts['start'].replace(' ', '')}{parts['end']}"


def normalise_any_phone(text: str) -> str | None:
    """Give the E.164 form of a Brazilian number, the digits of any other of 10 to 13, or None.

    A plus sign stays where one was written: without it nobody knows whether the country is said.
    """
    plain = text.translate(_MASK)
    if _ANY_NUMBER.fullmatch(plain) is None:
        return None
    return normalise_phone(plain) or plain


def normalise_mobile(text: str) -> str | None:
    """Give the E.164 form of a Brazilian mobile number, masked or not, or None."""
    phone = normalise_phone(text)
    return phone if phone is not None and len(phone) == _MOBILE_CHARACTERS else None
