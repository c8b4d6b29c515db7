"""What people type: amounts, percentages, numbers, days and moments, right and wrong."""

from datetime import UTC, date, datetime

import pytest

from vintem.dashboard import typed


@pytest.mark.parametrize(
    ("text", "cents"),
    [
        ("1.234,56", 123_456),
        ("1234,56", 123_456),
        ("1234", 123_400),
        ("0,01", 1),
        ("0,5", 50),
        (" R$ 99,90 ", 9_990),
        ("R$\N{NO-BREAK SPACE}1.000.000,00", 100_000_000),
        ("R$5", 500),
    ],
)
def test_an_amount_is_read_as_it_is_typed_in_brazil(text: str, cents: int) -> None:
    assert typed.cents_of(text) == cents


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "-1,00",
        "1,234",
        "1.23",
        "12.34",
        "1.2345,00",
        "1,2,3",
        "1e3",
        "١٢",
        "1 000",
        "US$ 1",
        ",50",
        "9" * 13,
        "NaN",
    ],
)
def test_what_is_no_amount_is_nothing(text: str) -> None:
    assert typed.cents_of(text) is None


@pytest.mark.parametrize(
    ("text", "hundredths"),
    [("10", 1_000), ("12,5", 1_250), ("12.5", 1_250), ("0,01 %", 1), ("100%", 10_000)],
)
def test_a_percentage_is_hundredths_of_a_percent(text: str, hundredths: int) -> None:
    assert typed.percent_of(text) == hundredths


@pytest.mark.parametrize("text", ["", "-1", "1,234", "dez", "1,", "٣", "1.000,5"])
def test_what_is_no_percentage_is_nothing(text: str) -> None:
    assert typed.percent_of(text) is None


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("1.000", 1_000), (" 12 ", 12)])
def test_a_whole_number_may_have_dots(text: str, number: int) -> None:
    assert typed.whole_of(text) == number


@pytest.mark.parametrize("text", ["", "1,5", "1.5", "-3", "x", "²", "1.00"])
def test_what_is_no_whole_number_is_nothing(text: str) -> None:
    assert typed.whole_of(text) is None


@pytest.mark.parametrize("text", ["2026-11-05", "05/11/2026", "5/11/2026"])
def test_a_day_is_read_as_fields_and_as_people_write_it(text: str) -> None:
    assert typed.day_of(text) == date(2026, 11, 5)


@pytest.mark.parametrize("text", ["", "2026-02-30", "31/04/2026", "2026-1-1", "0000-01-01", "hoje"])
def test_what_is_no_day_is_nothing(text: str) -> None:
    assert typed.day_of(text) is None


@pytest.mark.parametrize(
    "text", ["2026-11-15T23:30", "2026-11-15 23:30:00", "15/11/2026 23:30", "15/11/2026T23:30"]
)
def test_a_moment_is_of_brasilias_clocks(text: str) -> None:
    assert typed.moment_of(text) == datetime(2026, 11, 16, 2, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "2026-11-15", "2026-11-15T24:00", "2026-11-15T10:60", "9999-12-31T23:59", "x"]
)
def test_what_is_no_moment_is_nothing(text: str) -> None:
    assert typed.moment_of(text) is None


def test_what_a_form_gives_back_is_read_as_the_same() -> None:
    moment = datetime(2026, 11, 16, 2, 30, tzinfo=UTC)
    assert typed.moment_of(typed.typed_moment(moment)) == moment
    assert typed.day_of(typed.typed_day(moment.date())) == moment.date()
    for number in (0, 1, 50, 100, 999_999, 12_345_678):
        assert typed.cents_of(typed.typed_cents(number)) == number
        assert typed.percent_of(typed.typed_percent(number)) == number
        assert typed.whole_of(typed.typed_whole(number)) == number
    nothing = (typed.typed_cents(None), typed.typed_percent(None), typed.typed_whole(None))
    assert {*nothing, typed.typed_day(None), typed.typed_moment(None)} == {""}
