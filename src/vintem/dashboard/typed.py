"""Amounts, days and numbers as people in Brazil type them, and as a form gives them back."""

import re
from datetime import UTC, date, datetime
from typing import Final

from vintem.kit.clock import BUSINESS_ZONE
from vintem.kit.money import Cents

_MONEY: Final = re.compile(
    r"(?:R\$\s*)?([0-9]{1,3}(?:\.[0-9]{3}){1,4}|[0-9]{1,12})(?:,([0-9]{1,2}))?"
)
_PERCENT: Final = re.compile(r"([0-9]{1,6})(?:[,.]([0-9]{1,2}))?\s*%?")
_WHOLE: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3}){1,3}|[0-9]{1,12}")
_DAY: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DAY_IN_BRAZIL: Final = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})")
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


def cents_of(text: str) -> Cents | None:
    """Read an amount such as `1.234,56` or `R$ 50`; nothing where it is none."""
    found = _MONEY.fullmatch(text.strip().replace("\N{NO-BREAK SPACE}", " "))
    if found is None:
        return None
    return int(found[1].replace(".", "")) * 100 + _hundredths(found[2])


def percent_of(text: str) -> int | None:
    """Read a percentage such as `12,5` as hundredths of a percent."""
    found = _PERCENT.fullmatch(text.strip())
    return None if found is None else int(found[1]) * 100 + _hundredths(found[2])


def whole_of(text: str) -> int | None:
    """Read a whole number such as `1.000`."""
    found = _WHOLE.fullmatch(text.strip())
    return None if found is None else int(found[0].replace(".", ""))


def day_of(text: str) -> date | None:
    """Read a day, as a browser's field writes it or as people do: `15/11/2026`."""
    text = text.strip()
    if found := _DAY.fullmatch(text):
        year, month, day = found.groups()
    elif found := _DAY_IN_BRAZIL.fullmatch(text):
        day, month, year = found.groups()
    else:
        return None
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def moment_of(text: str) -> datetime | None:
    """Read a day and a time of Brasilia's clocks, such as `2026-11-15T14:21`, as UTC."""
    day_text, _, clock_text = text.strip().replace("T", " ", 1).partition(" ")
    day, clock = day_of(day_text), _CLOCK.fullmatch(clock_text.strip())
    if day is None or clock is None:
        return None
    hour, minute, second = (int(part or 0) for part in clock.groups())
    local = datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=BUSINESS_ZONE)
    try:
        return local.astimezone(UTC)
    except OverflowError:
        return None


def typed_cents(cents: Cents | None) -> str:
    """Write an amount as it would be typed: `1.234,56`."""
    if cents is None:
        return ""
    return f"{cents // 100:,}".replace(",", ".") + f",{cents % 100:02}"


def typed_percent(hundredths: int | None) -> str:
    """Write hundredths of a percent as they would be typed: `12,5`."""
    if hundredths is None:
        return ""
    whole, rest = divmod(hundredths, 100)
    return f"{whole},{rest:02}".rstrip("0") if rest else str(whole)


def typed_whole(number: int | None) -> str:
    """Write a whole number as it would be typed."""
    return "" if number is None else str(number)


def typed_day(day: date | None) -> str:
    """Write a day as a browser's field wants it."""
    return "" if day is None else day.isoformat()


def typed_moment(moment: datetime | None) -> str:
    """Write a moment as a browser's field wants it, by Brasilia's clocks."""
    return "" if moment is None else f"{moment.astimezone(BUSINESS_ZONE):%Y-%m-%dT%H:%M}"


def _hundredths(digits: str | None) -> int:
    return int((digits or "").ljust(2, "0"))
