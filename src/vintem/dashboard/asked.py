"""What the address of a list asks for: days, and a place to go on from."""

from datetime import datetime, timedelta

from vintem.dashboard.typed import day_of
from vintem.kit.clock import start_of_business_day
from vintem.kit.paging import Cursor, decode_cursor


def period_of(since: str, until: str) -> tuple[datetime | None, datetime | None]:
    """From the first moment of a day to the end of another; what is no day asks for nothing."""
    return _start(since, 0), _start(until, 1)


def cursor_of(text: str) -> Cursor | None:
    """The last row of the page before; what is no cursor asks for the first page."""
    try:
        return decode_cursor(text) if text else None
    except ValueError:
        return None


def _start(text: str, days_later: int) -> datetime | None:
    day = day_of(text)
    try:
        return None if day is None else start_of_business_day(day + timedelta(days=days_later))
    except OverflowError:
        return None
