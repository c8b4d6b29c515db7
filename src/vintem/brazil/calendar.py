"""Banking days: the days on which boletos and card payables settle in the whole country."""

from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

BUSINESS_DAYS_MAX: Final = 10_000

_SATURDAY: Final = 5
_ONE_DAY: Final = timedelta(days=1)
_YEARS_KEPT_MAX: Final = 256
# New year, Tiradentes, labour, independence, Our Lady, the dead, the republic, Christmas.
_FIXED: Final[tuple[tuple[int, int], ...]] = (
    *((1, 1), (4, 21), (5, 1), (9, 7)),
    *((10, 12), (11, 2), (11, 15), (12, 25)),
)
_BLACK_CONSCIOUSNESS: Final = (11, 20)
_BLACK_CONSCIOUSNESS_FIRST_YEAR: Final = 2024
# Days from Easter to Monday and Tuesday of Carnival, Good Friday and Corpus Christi.
_FROM_EASTER_DAYS: Final = (-48, -47, -2, 60)


def is_business_day(day: date) -> bool:
    """Tell whether banks settle on a day."""
    assert not isinstance(day, datetime), "a moment has no banking day until its zone is told"
    return day.weekday() < _SATURDAY and day not in bank_holidays(day.year)


def next_business_day(day: date) -> date:
    """Give the first banking day from this one on, itself included."""
    while not is_business_day(day):
        day += _ONE_DAY
    return day


def add_business_days(day: date, count: int) -> date:
    """Give the banking day that comes this many after a day; zero is the next from it on."""
    assert 0 <= count <= BUSINESS_DAYS_MAX
    if count == 0:
        return next_business_day(day)
    for _ in range(count):
        day = next_business_day(day + _ONE_DAY)
    return day


@lru_cache(maxsize=_YEARS_KEPT_MAX)
def bank_holidays(year: int) -> frozenset[date]:
    """Name the days of a year on which no bank settles, weekends among them or not."""
    fixed = _FIXED
    if year >= _BLACK_CONSCIOUSNESS_FIRST_YEAR:
        fixed = (*fixed, _BLACK_CONSCIOUSNESS)
    easter = _easter(year)
    return frozenset(
        {
            *(date(year, month, day) for month, day in fixed),
            *(easter + timedelta(days=days) for days in _FROM_EASTER_DAYS),
        }
    )


def _easter(year: int) -> date:
    # Easter is the Sunday after the first full moon of spring as the church reckons it: the moon's
    # age comes from the 19-year cycle, corrected for the leap days that centuries drop and for the
    # slow drift of that cycle.
    cycle = year % 19
    century = year // 100
    dropped_leap_days = century - century // 4
    drift = (8 * century + 13) // 25
    moon = (19 * cycle + dropped_leap_days - drift + 15) % 30
    # No full moon falls on 19 April, nor on the 18th in the second half of the cycle.
    if moon == 29 or (moon == 28 and cycle > 10):
        moon -= 1
    weekday = (year + year // 4 + moon + 2 - dropped_leap_days) % 7
    return date(year, 3, 28) + timedelta(days=moon - weekday)
