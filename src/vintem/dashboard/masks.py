"""Personal data as it is shown to whoever may not read it whole."""

from typing import Final

from vintem.brazil.documents import mask_cnpj, mask_cpf

CPF_CHARACTERS: Final = 11
CNPJ_CHARACTERS: Final = 14
PHONE_DIGITS_SHOWN: Final = 4
HIDDEN: Final = "***"
REVEALS_PER_MINUTE: Final = 20
"""Enough for who helps buyers, and too few to take all of them away."""


def mask_document(number: str) -> str:
    """Show the six middle characters of a CPF or CNPJ; what is masked already stays so."""
    if "*" in number:
        return number
    plain = "".join(character for character in number if character.isalnum())
    if len(plain) == CPF_CHARACTERS:
        return mask_cpf(plain)
    if len(plain) == CNPJ_CHARACTERS:
        return mask_cnpj(plain)
    return HIDDEN


def mask_email(email: str) -> str:
    """Show the first letters of both sides of an e-mail address, and where it ends."""
    user, at, host = email.rpartition("@")
    name, dot, ending = host.rpartition(".")
    if not (user and at and name and dot):
        return HIDDEN
    return f"{user[0]}{HIDDEN}@{name[0]}{HIDDEN}.{ending}"


def mask_phone(phone: str) -> str:
    """Show the last four digits of a telephone number."""
    digits = "".join(character for character in phone if character.isdigit())
    if len(digits) <= PHONE_DIGITS_SHOWN:
        return HIDDEN
    return f"{HIDDEN} {digits[-PHONE_DIGITS_SHOWN:]}"


def mask_name(name: str) -> str:
    """Show a first name, and of the others the first letter."""
    first, *others = name.split() or [HIDDEN]
    return " ".join([first, *(f"{other[0]}." for other in others)])
