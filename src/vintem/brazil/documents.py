"""CPF and CNPJ: the taxpayer numbers of persons and companies."""

import re
from operator import mul
from typing import Final

_CPF: Final = re.compile(r"([0-9]{3})\.?([0-9]{3})\.?([0-9]{3})-?([0-9]{2})")
_CNPJ: Final = re.compile(
    r"([0-9A-Z]{2})\.?([0-9A-Z]{3})\.?([0-9A-Z]{3})/?([0-9A-Z]{4})-?([0-9]{2})"
)
_CPF_WEIGHTS: Final = (11, 10, 9, 8, 7, 6, 5, 4, 3, 2)
_CPF_WEIGHTS_FIRST: Final = _CPF_WEIGHTS[1:]
_CNPJ_WEIGHTS: Final = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
_CNPJ_WEIGHTS_FIRST: Final = _CNPJ_WEIGHTS[1:]
# A letter counts by its distance from zero in ASCII, as the tax office defines it.
_CHARACTER_VALUES: Final = bytes(max(code - 48, 0) for code in range(256))


def normalise_cpf(text: str) -> str | None:
    """Give the 11 digits of a valid CPF, masked or not, or None."""
    parts = _CPF.fullmatch(text.strip(" "))
    if parts is None:
        return None
    cpf = "".join(parts.groups())
    if cpf == cpf[0] * 11:
        return None
    values = _character_values(cpf)
    right = (
        _check_digit(values, _CPF_WEIGHTS_FIRST) == values[9]
        and _check_digit(values, _CPF_WEIGHTS) == values[10]
    )
    return cpf if right else None


def normalise_cnpj(text: str) -> str | None:
    """Give the 14 characters of a valid CNPJ, numeric or not, masked or not, or None."""
    parts = _CNPJ.fullmatch(text.strip(" "))
    if parts is None:
        return None
    cnpj = "".join(parts.groups())
    if cnpj == cnpj[0] * 14:
        return None
    values = _character_values(cnpj)
    right = (
        _check_digit(values, _CNPJ_WEIGHTS_FIRST) == values[12]
        and _check_digit(values, _CNPJ_WEIGHTS) == values[13]
    )
    return cnpj if right else None


def complete_cpf(nine_digits: str) -> str:
    """Give the canonical CPF that begins with nine digits."""
    assert len(nine_digits) == 9
    cpf = nine_digits
    for weights in (_CPF_WEIGHTS_FIRST, _CPF_WEIGHTS):
        cpf += str(_check_digit(_character_values(cpf), weights))
    return cpf


def complete_cnpj(twelve_characters: str) -> str:
    """Give the canonical CNPJ that begins with twelve characters."""
    assert len(twelve_characters) == 12
    cnpj = twelve_characters
    for weights in (_CNPJ_WEIGHTS_FIRST, _CNPJ_WEIGHTS):
        cnpj += str(_check_digit(_character_values(cnpj), weights))
    return cnpj


def format_cpf(cpf: str) -> str:
    """Write a canonical CPF with its mask."""
    assert len(cpf) == 11
    return f"{cpf[:3]}.{cpf[3:6]}.{cpf[6:9]}-{cpf[9:]}"


def format_cnpj(cnpj: str) -> str:
    """Write a canonical CNPJ with its mask."""
    assert len(cnpj) == 14
    return f"{cnpj[:2]}.{cnpj[2:5]}.{cnpj[5:8]}/{cnpj[8:12]}-{cnpj[12:]}"


def format_document(number: str) -> str:
    """Write a canonical CPF or CNPJ with its mask."""
    return format_cpf(number) if len(number) == 11 else format_cnpj(number)


def mask_cpf(cpf: str) -> str:
    """Hide all of a canonical CPF but its six middle digits."""
    assert len(cpf) == 11
    return f"***.{cpf[3:6]}.{cpf[6:9]}-**"


def mask_cnpj(cnpj: str) -> str:
    """Hide all of a canonical CNPJ but its six middle characters."""
    assert len(cnpj) == 14
    return f"**.{cnpj[2:5]}.{cnpj[5:8]}/****-**"


def _character_values(document: str) -> bytes:
    return document.encode().translate(_CHARACTER_VALUES)


def _check_digit(values: bytes, weights: tuple[int, ...]) -> int:
    # map stops at the shorter of the two, so that the digits still to check stay out of the sum.
    total: int = sum(map(mul, weights, values))
    return -total % 11 % 10
