"""PIX keys: the five kinds and the form in which the central directory holds each."""

import re
from enum import StrEnum
from typing import Final, assert_never

from vintem.brazil.documents import normalise_cnpj, normalise_cpf
from vintem.brazil.phone import normalise_mobile

EMAIL_CHARACTERS_MAX: Final = 77

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_EMAIL: Final = re.compile(rf"[a-z0-9.!#$'*+/=?^_`{{|}}~-]+@{_LABEL}(?:\.{_LABEL})*")
_EVP: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class PixKeyKind(StrEnum):
    """What a PIX key is made of."""

    CPF = "cpf"
    CNPJ = "cnpj"
    EMAIL = "email"
    PHONE = "phone"
    EVP = "evp"


_KIND_NAMES: Final = {**{kind.value: kind for kind in PixKeyKind}, "random": PixKeyKind.EVP}


def parse_kind(text: str) -> PixKeyKind | None:
    """Read the name of a kind in any case, `random` being another name of evp, or give None."""
    return _KIND_NAMES.get(text.lower())


def normalise_pix_key(kind: PixKeyKind, text: str) -> str | None:
    """Give the form in which the directory holds a key of this kind, or None."""
    match kind:
        case PixKeyKind.CPF:
            return normalise_cpf(text)
        case PixKeyKind.CNPJ:
            return normalise_cnpj(text)
        case PixKeyKind.PHONE:
            return normalise_mobile(text)
        case PixKeyKind.EMAIL:
            return _normalise_email(text)
        case PixKeyKind.EVP:
            evp = _lower_ascii(text)
            return evp if _EVP.fullmatch(evp) else None
        case _:
            assert_never(kind)


def _normalise_email(text: str) -> str | None:
    email = _lower_ascii(text)
    if len(email) > EMAIL_CHARACTERS_MAX or _EMAIL.fullmatch(email) is None:
        return None
    return email


def _lower_ascii(text: str) -> str:
    # The Kelvin sign lower-cases to a plain k: what is not ASCII is left as it came, to be refused.
    return text.strip(" ").lower() if text.isascii() else text
