"""Time: UTC inside, Brasilia wall clock in public fields, epoch seconds in transport headers."""

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, NewType
from zoneinfo import ZoneInfo

BUSINESS_ZONE_NAME: Final = "America/Sao_Paulo"
BUSINESS_ZONE: Final = ZoneInfo(BUSINESS_ZONE_NAME)

PublicTime = NewType("PublicTime", str)
EpochSeconds = NewType("EpochSeconds", int)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_SECOND: Final = timedelta(seconds=1)
_DAY_SECONDS: Final = 86_400
_SECOND_TEXTS_MAX: Final = 4_096
_MILLISECOND_ENDINGS: Final = tuple(f".{millisecond:03d}Z" for millisecond in range(1_000))
_PUBLIC_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{3})?Z"
)


def utc_now() -> datetime:
    """Tell the present moment in UTC."""
    return datetime.now(UTC)


def public_time(moment: datetime) -> PublicTime:
    """Write a moment as Brasilia wall clock with a trailing Z, milliseconds truncated."""
    second, ending = _second_and_ending(moment)
    return PublicTime(_brasilia_text(second) + ending)


def utc_text(moment: datetime) -> str:
    """Write a moment as true UTC, milliseconds truncated, as machines compare it."""
    second, ending = _second_and_ending(moment)
    return _utc_text(second) + ending


def _second_and_ending(moment: datetime) -> tuple[int, str]:
    assert moment.tzinfo is not None, "a moment without a zone is no moment"
    since = moment - _EPOCH
    second = since.days * _DAY_SECONDS + since.seconds
    return second, _MILLISECOND_ENDINGS[since.microseconds // 1_000]


# An answer repeats few distinct seconds, and looking the zone's offset up costs far more than the
# rest. Keyed by the count of seconds, because datetimes that differ only in fold compare equal.
@lru_cache(maxsize=_SECOND_TEXTS_MAX)
def _brasilia_text(second: int) -> str:
    local = (_EPOCH + timedelta(seconds=second)).astimezone(BUSINESS_ZONE)
    return local.replace(tzinfo=None).isoformat()


@lru_cache(maxsize=_SECOND_TEXTS_MAX)
def _utc_text(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).replace(tzinfo=None).isoformat()


def parse_public_time(text: str) -> datetime:
    """Read a public time back into UTC, or raise ValueError; a repeated hour is its first pass."""
    if _PUBLIC_TIME.fullmatch(text) is None:
        raise ValueError("not a public time")
    local = datetime.fromisoformat(text[:-1]).replace(tzinfo=BUSINESS_ZONE)
    try:
        return local.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("not a public time") from error


def epoch_seconds(moment: datetime) -> EpochSeconds:
    """Count the true UTC seconds since 1970, rounded up."""
    assert moment.tzinfo is not None, "a moment without a zone has no epoch seconds"
    return EpochSeconds(-((_EPOCH - moment) // _ONE_SECOND))


def business_day(moment: datetime) -> date:
    """Name the Brasilia calendar day of a moment."""
    assert moment.tzinfo is not None, "a moment without a zone has no business day"
    return moment.astimezone(BUSINESS_ZONE).date()


def start_of_business_day(day: date) -> datetime:
    """Give the first moment of a Brasilia calendar day, in UTC."""
    # Summer time began by skipping midnight; the offset from before the skip, which the zone
    # applies to a time that never was, names the very moment the day began.
    return datetime.combine(day, time.min, tzinfo=BUSINESS_ZONE).astimezone(UTC)
