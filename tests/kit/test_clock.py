"""Time: one public form, exact in both directions, through the history of summer time."""

import re
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vintem.kit import clock

FORM = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def moments_between(first: datetime, last: datetime) -> st.SearchStrategy[datetime]:
    microseconds = (last - first) // timedelta(microseconds=1)
    return st.integers(0, microseconds).map(lambda count: first + timedelta(microseconds=count))


moments = moments_between(utc(1, 1, 3), utc(9999, 12, 29))
recent_moments = moments_between(utc(2019, 6, 1), utc(2099, 1, 1))


@given(moments)
def test_public_time_is_the_zone_s_wall_clock_with_milliseconds_truncated(moment: datetime) -> None:
    local = moment.astimezone(ZoneInfo("America/Sao_Paulo")).replace(tzinfo=None)
    assert clock.public_time(moment) == local.isoformat(timespec="milliseconds") + "Z"


@given(moments)
def test_public_time_always_has_the_public_form(moment: datetime) -> None:
    assert FORM.fullmatch(clock.public_time(moment))


@given(recent_moments)
@example(utc(2026, 1, 1))
def test_a_public_time_reads_back_as_the_same_millisecond(moment: datetime) -> None:
    microsecond = moment.microsecond // 1_000 * 1_000
    read = clock.parse_public_time(clock.public_time(moment))
    assert read == moment.replace(microsecond=microsecond)
    assert read.tzinfo is UTC


@given(moments)
def test_what_was_read_is_written_the_same_again(moment: datetime) -> None:
    text = clock.public_time(moment)
    assert clock.public_time(clock.parse_public_time(text)) == text


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (utc(2026, 11, 15, 2, 30), "2026-11-14T23:30:00.000Z"),
        (utc(2018, 11, 4, 2, 59), "2018-11-03T23:59:00.000Z"),
        (utc(2018, 11, 4, 3, 0), "2018-11-04T01:00:00.000Z"),
        (utc(2019, 2, 17, 1, 59), "2019-02-16T23:59:00.000Z"),
        (utc(2019, 2, 17, 2, 0), "2019-02-16T23:00:00.000Z"),
        (utc(2019, 2, 17, 3, 0), "2019-02-17T00:00:00.000Z"),
        (utc(2019, 11, 4, 3, 0), "2019-11-04T00:00:00.000Z"),
    ],
)
def test_public_time_follows_the_history_of_summer_time(moment: datetime, expected: str) -> None:
    assert clock.public_time(moment) == expected


def test_milliseconds_are_truncated_and_never_rounded() -> None:
    moment = datetime(2026, 5, 4, 15, 59, 59, 999_999, tzinfo=UTC)
    assert clock.public_time(moment) == "2026-05-04T12:59:59.999Z"


def test_milliseconds_before_1970_are_truncated_the_same_way() -> None:
    moment = datetime(1969, 12, 31, 12, 0, 0, 1_999, tzinfo=UTC)
    assert clock.public_time(moment) == "1969-12-31T09:00:00.001Z"


@given(recent_moments, st.integers(-14 * 60, 14 * 60))
def test_the_zone_in_which_a_moment_comes_does_not_matter(moment: datetime, minutes: int) -> None:
    elsewhere = moment.astimezone(timezone(timedelta(minutes=minutes)))
    assert clock.public_time(elsewhere) == clock.public_time(moment)


def test_the_two_passes_of_a_repeated_hour_abroad_are_an_hour_apart() -> None:
    new_york = ZoneInfo("America/New_York")
    first = datetime(2025, 11, 2, 1, 30, tzinfo=new_york)
    assert clock.public_time(first) == "2025-11-02T02:30:00.000Z"
    assert clock.public_time(first.replace(fold=1)) == "2025-11-02T03:30:00.000Z"


def test_a_moment_without_a_zone_is_refused() -> None:
    naive = utc(2026, 1, 1).replace(tzinfo=None)
    for function in (clock.public_time, clock.epoch_seconds, clock.business_day):
        with pytest.raises(AssertionError):
            function(naive)


def test_a_public_time_without_milliseconds_is_read() -> None:
    assert clock.parse_public_time("2026-11-14T23:30:00Z") == utc(2026, 11, 15, 2, 30)


def test_a_repeated_hour_is_read_as_its_first_pass() -> None:
    assert clock.parse_public_time("2019-02-16T23:30:00.000Z") == utc(2019, 2, 17, 1, 30)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-14",
        "2026-11-14T23:30:00.000",
        "2026-11-14T23:30:00.000z",
        "2026-11-14 23:30:00.000Z",
        "2026-11-14T23:30:00.0Z",
        "2026-11-14T23:30:00.000000Z",
        "2026-11-14T23:30:00,000Z",
        "2026-11-14T23:30:00.000-03:00",
        "2026-11-14T23:30Z",
        "2026-11-14T24:00:00.000Z",
        "2026-11-14T23:60:00.000Z",
        "2026-11-14T23:59:60.000Z",
        "2026-02-29T00:00:00.000Z",
        "2026-13-01T00:00:00.000Z",
        "0000-01-01T00:00:00.000Z",
        "9999-12-31T23:00:00.000Z",
        "2026-W46-6T23:30:00.000Z",
        " 2026-11-14T23:30:00.000Z",
        "2026-11-14T23:30:00.000Z\n",
        "٢٠٢٦-11-14T23:30:00.000Z",
    ],
)
def test_a_text_that_is_no_public_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        clock.parse_public_time(text)


@given(st.text() | st.from_regex(FORM, fullmatch=True))
def test_any_text_is_read_into_utc_or_refused_with_a_value_error(text: str) -> None:
    try:
        read = clock.parse_public_time(text)
    except ValueError:
        return
    assert read.tzinfo is UTC


@given(recent_moments)
def test_epoch_seconds_are_true_utc_rounded_up(moment: datetime) -> None:
    whole = int(moment.replace(microsecond=0).timestamp())
    assert clock.epoch_seconds(moment) == whole + (moment.microsecond > 0)


def test_one_microsecond_past_a_second_counts_as_the_next() -> None:
    moment = utc(2026, 1, 1)
    assert clock.epoch_seconds(moment) == 1_767_225_600
    assert clock.epoch_seconds(moment + timedelta(microseconds=1)) == 1_767_225_601


def test_the_business_day_changes_at_midnight_in_brasilia() -> None:
    assert clock.business_day(utc(2026, 11, 15, 2, 59)) == date(2026, 11, 14)
    assert clock.business_day(utc(2026, 11, 15, 3, 0)) == date(2026, 11, 15)


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)))
@example(date(2018, 11, 4))
@example(date(2019, 2, 17))
def test_a_business_day_starts_at_its_first_moment(day: date) -> None:
    start = clock.start_of_business_day(day)
    assert start.tzinfo is UTC
    assert clock.business_day(start) == day
    assert clock.business_day(start - timedelta(microseconds=1)) < day


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (date(2018, 11, 4), utc(2018, 11, 4, 3)),
        (date(2018, 11, 5), utc(2018, 11, 5, 2)),
        (date(2019, 2, 17), utc(2019, 2, 17, 3)),
        (date(2026, 11, 15), utc(2026, 11, 15, 3)),
    ],
)
def test_a_business_day_starts_right_where_summer_time_changes(
    day: date, expected: datetime
) -> None:
    assert clock.start_of_business_day(day) == expected


def test_now_is_in_utc() -> None:
    assert clock.utc_now().tzinfo is UTC
