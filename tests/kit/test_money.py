"""Money: rounding is exact and splitting loses nothing."""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.kit import money

amounts = st.integers(0, money.AMOUNT_CENTS_MAX)
rates = st.integers(0, money.BASIS_POINTS_MAX)


@given(amounts, rates)
def test_percent_is_the_exact_fraction_rounded_half_up(amount: int, basis_points: int) -> None:
    exact = Fraction(amount * basis_points, 10_000)
    assert money.percent_half_up(amount, basis_points=basis_points) == floor(exact + Fraction(1, 2))


@pytest.mark.parametrize(
    ("amount", "basis_points", "expected"),
    [(100, 50, 1), (100, 49, 0), (300, 50, 2), (10_000, 399, 399), (12_345, 0, 0), (1, 10_000, 1)],
)
def test_half_a_cent_is_rounded_up(amount: int, basis_points: int, expected: int) -> None:
    assert money.percent_half_up(amount, basis_points=basis_points) == expected


@given(amounts, st.integers(1, money.PARTS_MAX))
def test_parts_add_up_to_the_amount(amount: int, parts: int) -> None:
    split = money.split_evenly(amount, parts=parts)
    assert len(split) == parts
    assert sum(split) == amount


@given(amounts, st.integers(1, money.PARTS_MAX))
def test_only_the_first_part_carries_the_remainder(amount: int, parts: int) -> None:
    first, *others = money.split_evenly(amount, parts=parts)
    assert set(others) <= {amount // parts}
    assert first - amount // parts == amount % parts


def test_a_hundred_reais_in_three_start_with_the_extra_cent() -> None:
    assert money.split_evenly(10_000, parts=3) == (3_334, 3_333, 3_333)


def test_a_remainder_of_two_cents_is_whole_on_the_first_part() -> None:
    assert money.split_evenly(11, parts=3) == (5, 3, 3)


@pytest.mark.parametrize("parts", [0, -1, money.PARTS_MAX + 1])
def test_an_impossible_number_of_parts_is_a_bug(parts: int) -> None:
    with pytest.raises(AssertionError):
        money.split_evenly(100, parts=parts)


def test_a_negative_amount_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        money.percent_half_up(-1, basis_points=100)
    with pytest.raises(AssertionError):
        money.split_evenly(-1, parts=2)


def test_a_rate_outside_its_limits_is_a_bug() -> None:
    for basis_points in (-1, money.BASIS_POINTS_MAX + 1):
        with pytest.raises(AssertionError):
            money.percent_half_up(100, basis_points=basis_points)
