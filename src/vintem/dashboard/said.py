"""What a page says once after a form has done something; addresses name these and no other."""

from collections.abc import Mapping
from typing import Final

SAID: Final[Mapping[str, str]] = {
    "signed-out": "Você saiu.",
    "left-alone": "Por segurança, sua sessão terminou. Entre de novo.",
}
