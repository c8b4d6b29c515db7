"""The fields in which somebody chooses a password, wherever that is."""

from collections.abc import Mapping, Sequence
from typing import Final

from vintem.members.passwords import (
    CHARACTERS_MAX,
    CHARACTERS_MIN,
    PasswordFault,
    fault_of,
    normalised,
)

HINT: Final = (
    f"De {CHARACTERS_MIN} a {CHARACTERS_MAX} caracteres. Uma frase fácil de lembrar é melhor do que"
    " símbolos difíceis."
)
_WHY: Final[Mapping[PasswordFault, str]] = {
    PasswordFault.TOO_SHORT: f"A senha precisa de pelo menos {CHARACTERS_MIN} caracteres.",
    PasswordFault.TOO_LONG: f"A senha pode ter no máximo {CHARACTERS_MAX} caracteres.",
    PasswordFault.COMMON: "Essa senha é comum demais: muita gente a usa. Escolha outra.",
    PasswordFault.NAMES: "Não use seu nome, seu e-mail ou o nome da empresa como senha.",
}
_DIFFERENT: Final = "As duas senhas são diferentes."


def password_errors(password: str, again: str, *, names: Sequence[str]) -> dict[str, str]:
    """Say what is wrong with a new password and its repetition, by the names of the fields."""
    fault = fault_of(password, names=names)
    if fault is not None:
        return {"password": _WHY[fault]}
    if normalised(password) != normalised(again):
        return {"again": _DIFFERENT}
    return {}
