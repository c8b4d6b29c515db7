"""What the pages say, in each language: sentences, amounts, dates."""

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from vintem.hosted.views import Language
from vintem.kit.clock import BUSINESS_ZONE
from vintem.kit.money import Cents

FOLDER: Final = Path(__file__).parent / "catalogues"

_WRITTEN_MAX: Final = 4_096
_BRAZILIAN_PHONE: Final = re.compile(r"^\+55([0-9]{2})([0-9]{4,5})([0-9]{4})$")
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"


def _read_catalogue(language: Language) -> Mapping[str, str]:
    sections = tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8"))
    return {
        f"{section}.{key}": sentence
        for section, sentences in sections.items()
        for key, sentence in sentences.items()
    }


CATALOGUES: Final[Mapping[Language, Mapping[str, str]]] = {
    language: _read_catalogue(language) for language in Language
}


def money(cents: Cents) -> str:
    """Write an amount as the buyer's bank does, whatever language the page is in."""
    assert cents >= 0
    whole, rest = divmod(cents, 100)
    return f"R${_NO_BREAK}{whole:,}".replace(",", ".") + f",{rest:02d}"


def percent(basis_points: int) -> str:
    """Write a rate given in hundredths of a percent."""
    whole, rest = divmod(basis_points, 100)
    return f"{whole},{rest:02d}%"


def stopwatch(seconds: int) -> str:
    """Write how long is left, in minutes and seconds."""
    return f"{seconds // 60:02d}:{seconds % 60:02d}"


def phone(number: str) -> str:
    """Write a Brazilian number as people do; any other as it is."""
    return _BRAZILIAN_PHONE.sub(r"(\1) \2-\3", number)


def digitable_line(digits: str) -> str:
    """Group the digits of a boleto as they are printed on it."""
    fields = ((0, 5, 10), (10, 15, 21), (21, 26, 32))
    grouped = [f"{digits[a:b]}.{digits[b:c]}" for a, b, c in fields]
    return " ".join([*grouped, digits[32:33], digits[33:]])


@lru_cache(_WRITTEN_MAX)
def moment(language: Language, value: datetime) -> str:
    """Write day and time as Brasilia's clocks show them, and say that they do."""
    local = value.astimezone(BUSINESS_ZONE)
    written = CATALOGUES[language]["time.moment"]
    return written.format(**_parts(local.date()), time=f"{local:%H:%M}")


def day(language: Language, value: date) -> str:
    """Write a day."""
    return CATALOGUES[language]["time.day"].format(**_parts(value))


@lru_cache(_WRITTEN_MAX)
def clock(language: Language, value: datetime, *, with_day: bool) -> str:
    """Write the time of Brasilia's clocks, with its day where that is not today."""
    local = value.astimezone(BUSINESS_ZONE)
    return f"{day(language, local.date())} {local:%H:%M}" if with_day else f"{local:%H:%M}"


def _parts(value: date) -> Mapping[str, str]:
    return {"day": f"{value:%d}", "month": f"{value:%m}", "year": f"{value:%Y}"}
