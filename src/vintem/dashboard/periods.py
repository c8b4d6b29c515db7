"""Periods of days as filters have them: from the start of one to the end of another."""

from datetime import datetime, timedelta

from vintem.dashboard.typed import day_of
from vintem.kit.clock import start_of_business_day


def start_of(text: str) -> datetime | None:
    """When a day that was typed begins; nothing where it is none."""
    day = day_of(text)
    return None if day is None else start_of_business_day(day)


def end_of(text: str) -> datetime | None:
    """When a day that was typed is over; nothing where it is none."""
    day = day_of(text)
    try:
        return None if day is None else start_of_business_day(day + timedelta(days=1))
    except OverflowError:
        return None
