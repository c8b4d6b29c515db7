"""The banking calendar: published years, the due dates of PIX, and an independent library."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.brazil import calendar

YEARS = {
    2025: "01-01 03-03 03-04 04-18 04-21 05-01 06-19 09-07 10-12 11-02 11-15 11-20 12-25",
    2026: "01-01 02-16 02-17 04-03 04-21 05-01 06-04 09-07 10-12 11-02 11-15 11-20 12-25",
    2027: "01-01 02-08 02-09 03-26 04-21 05-01 05-27 09-07 10-12 11-02 11-15 11-20 12-25",
    2028: "01-01 02-28 02-29 04-14 04-21 05-01 06-15 09-07 10-12 11-02 11-15 11-20 12-25",
}
# Easter of years in which the reckoning is at its extremes or takes an exception.
EASTERS = [
    *("1818-03-22", "1943-04-25", "1954-04-18", "1981-04-19", "2000-04-23", "2008-03-23"),
    *("2011-04-24", "2019-04-21", "2024-03-31", "2025-04-20", "2038-04-25", "2049-04-18"),
    *("2076-04-19", "2285-03-22"),
]
ONE_DAY = timedelta(days=1)
days = st.dates(date(2000, 1, 1), date(2199, 12, 31))


@pytest.mark.parametrize("year", YEARS)
def test_the_holidays_of_a_published_year_are_those_and_no_others(year: int) -> None:
    expected = {date.fromisoformat(f"{year}-{day}") for day in YEARS[year].split()}
    assert calendar.bank_holidays(year) == expected
    first = date(year, 1, 1)
    all_days = [first + timedelta(days=n) for n in range((date(year + 1, 1, 1) - first).days)]
    closed = {day for day in all_days if not calendar.is_business_day(day)}
    assert closed == {day for day in all_days if day.weekday() >= 5} | expected


@pytest.mark.parametrize("easter", EASTERS)
def test_good_friday_and_corpus_christi_follow_easter(easter: str) -> None:
    sunday = date.fromisoformat(easter)
    assert sunday.weekday() == 6
    holidays = calendar.bank_holidays(sunday.year)
    assert {sunday + timedelta(days=n) for n in (-48, -47, -2, 60)} <= holidays


def test_every_year_agrees_with_the_exchange_calendar_of_another_library() -> None:
    library = pytest.importorskip("holidays")
    for year in range(2000, 2051):
        theirs = library.financial_holidays("BVMF", years=year)
        expected = {day for day in theirs if day.weekday() < 5}
        ours = {day for day in calendar.bank_holidays(year) if day.weekday() < 5}
        assert ours == expected


def test_black_consciousness_day_is_a_holiday_only_since_2024() -> None:
    assert calendar.is_business_day(date(2023, 11, 20))
    assert not calendar.is_business_day(date(2024, 11, 20))


@pytest.mark.parametrize("day", ["2026-02-18", "2026-12-24", "2026-12-31", "2025-10-28"])
def test_ash_wednesday_and_the_eves_are_banking_days(day: str) -> None:
    assert calendar.is_business_day(date.fromisoformat(day))


@pytest.mark.parametrize(
    ("due", "days_valid", "last"),
    [
        ("2020-10-20", 4, "2020-10-26"),
        ("2020-12-25", 0, "2020-12-28"),
        ("2020-12-25", 1, "2020-12-29"),
        ("2020-12-25", 3, "2020-12-31"),
        ("2020-12-25", 4, "2021-01-04"),
        ("2021-08-27", 5, "2021-09-01"),
        ("2021-08-28", 5, "2021-09-06"),
    ],
)
def test_a_due_date_and_its_validity_move_as_in_the_pix_standard(
    due: str, days_valid: int, last: str
) -> None:
    moved = calendar.next_business_day(date.fromisoformat(due))
    end = calendar.next_business_day(moved + timedelta(days=days_valid))
    assert end == date.fromisoformat(last)


@pytest.mark.parametrize(
    ("day", "count", "expected"),
    [
        ("2026-08-03", 0, "2026-08-03"),
        ("2026-08-01", 0, "2026-08-03"),
        ("2026-08-03", 1, "2026-08-04"),
        ("2026-08-07", 1, "2026-08-10"),
        ("2026-08-01", 1, "2026-08-03"),
        ("2026-08-01", 3, "2026-08-05"),
        ("2026-02-13", 1, "2026-02-18"),
        ("2025-12-31", 1, "2026-01-02"),
        ("2026-12-24", 3, "2026-12-30"),
    ],
)
def test_banking_days_are_counted_from_the_day_after(day: str, count: int, expected: str) -> None:
    end = calendar.add_business_days(date.fromisoformat(day), count)
    assert end == date.fromisoformat(expected)


@given(days)
def test_the_next_banking_day_is_the_first_one_from_the_day_on(day: date) -> None:
    found = calendar.next_business_day(day)
    assert found >= day
    assert calendar.is_business_day(found)
    between = [day + timedelta(days=n) for n in range((found - day).days)]
    assert not any(map(calendar.is_business_day, between))


@given(days, st.integers(1, 60))
def test_exactly_the_asked_count_of_banking_days_lies_after_the_day(day: date, count: int) -> None:
    end = calendar.add_business_days(day, count)
    after = [day + timedelta(days=n) for n in range(1, (end - day).days + 1)]
    assert sum(map(calendar.is_business_day, after)) == count
    assert calendar.is_business_day(end)


@given(days, st.integers(1, 20), st.integers(1, 20))
def test_banking_days_add_up(day: date, first: int, second: int) -> None:
    at_once = calendar.add_business_days(day, first + second)
    assert calendar.add_business_days(calendar.add_business_days(day, first), second) == at_once


def test_a_moment_in_place_of_a_day_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        calendar.is_business_day(datetime(2026, 8, 3, tzinfo=UTC))


@pytest.mark.parametrize("count", [-1, calendar.BUSINESS_DAYS_MAX + 1])
def test_a_count_out_of_its_limits_is_a_bug(count: int) -> None:
    with pytest.raises(AssertionError):
        calendar.add_business_days(date(2026, 8, 3), count)
