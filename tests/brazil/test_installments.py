"""The table of installments: what the law wants shown, to the cent and by published examples."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.brazil.installments import (
    INSTALLMENT_CENTS_MIN,
    CardInterest,
    InstallmentOption,
    annual_cost_basis_points,
    installment_table,
)
from vintem.kit.money import AMOUNT_CENTS_MAX

totals = st.integers(100, AMOUNT_CENTS_MAX)
rates = st.integers(0, 10_000)


@st.composite
def interests(draw: st.DrawFn) -> CardInterest:
    most = draw(st.integers(1, 12))
    return CardInterest(
        monthly_rate_basis_points=draw(rates),
        free_installments=draw(st.integers(1, most)),
        installments_max=most,
    )


def by_count(total: int, interest: CardInterest) -> dict[int, InstallmentOption]:
    return {option.installments: option for option in installment_table(total, interest)}


def test_three_free_and_then_the_published_table() -> None:
    table = by_count(12_990, CardInterest(monthly_rate_basis_points=299, free_installments=3))
    assert list(table) == list(range(1, 13))
    shown = {count: (table[count].amounts[0], table[count].total_cents) for count in (4, 6, 10, 12)}
    assert shown == {
        4: (3_494, 13_976),
        6: (2_397, 14_382),
        10: (1_522, 15_220),
        12: (1_304, 15_648),
    }
    for count in (1, 2, 3):
        free = table[count]
        assert (free.total_cents, free.interest_cents) == (12_990, 0)
        assert (free.monthly_rate_basis_points, free.annual_cost_basis_points) == (0, 0)
    dearest = table[12]
    assert (dearest.interest_cents, dearest.monthly_rate_basis_points) == (2_658, 299)
    # 42.4 % a year.
    assert round(dearest.annual_cost_basis_points, -1) == 4_240


@pytest.mark.parametrize(("rate", "each", "total"), [(299, 10_040, 120_480), (100, 8_885, 106_620)])
def test_a_thousand_reais_in_twelve_cost_what_is_published(
    rate: int, each: int, total: int
) -> None:
    option = by_count(100_000, CardInterest(monthly_rate_basis_points=rate))[12]
    assert (option.amounts, option.total_cents) == ((each,) * 12, total)
    assert option.interest_cents == total - 100_000


def test_a_monthly_rate_grows_to_the_yearly_cost_that_banks_publish() -> None:
    # 0.95 % a month is 12 % a year, 1 % is 12.68 %, 2.99 % is 42.41 %.
    for rate, yearly in ((95, 1_201), (100, 1_268), (299, 4_241), (199, 2_668)):
        amounts = by_count(999_999_999, CardInterest(monthly_rate_basis_points=rate))[12].amounts
        assert annual_cost_basis_points(999_999_999, amounts) == yearly


def test_the_remainder_is_on_the_first_installment() -> None:
    table = by_count(10_000, CardInterest())
    assert table[3].amounts == (3_334, 3_333, 3_333)
    assert table[7].amounts == (1_432, *(1_428,) * 6)


@pytest.mark.parametrize(
    ("total", "counts"), [(100, [1]), (999, [1]), (1_000, [1, 2]), (1_499, [1, 2]), (6_000, 12)]
)
def test_installments_below_the_minimum_are_not_offered(
    total: int, counts: list[int] | int
) -> None:
    expected = list(range(1, counts + 1)) if isinstance(counts, int) else counts
    assert list(by_count(total, CardInterest())) == expected


def test_no_more_installments_than_the_company_wants_are_offered() -> None:
    assert list(by_count(100_000, CardInterest(installments_max=1))) == [1]
    assert list(by_count(100_000, CardInterest(installments_max=4))) == [1, 2, 3, 4]


def test_what_interest_makes_larger_than_any_payment_is_not_offered() -> None:
    table = by_count(AMOUNT_CENTS_MAX, CardInterest(monthly_rate_basis_points=1))
    assert list(table) == [1]


@given(totals, interests())
def test_every_choice_adds_up_and_is_one_that_the_api_takes(
    total: int, interest: CardInterest
) -> None:
    table = installment_table(total, interest)
    assert table[0].amounts == (total,)
    for option in table:
        assert len(option.amounts) == option.installments <= interest.installments_max
        assert sum(option.amounts) == option.total_cents == total + option.interest_cents
        assert option.total_cents <= AMOUNT_CENTS_MAX
        if option.installments > 1:
            assert option.total_cents // option.installments >= INSTALLMENT_CENTS_MIN
        has_interest = option.interest_cents > 0
        assert (option.monthly_rate_basis_points > 0) == has_interest
        assert has_interest <= (option.installments > interest.free_installments)


@given(st.integers(100_000, 10_000_000), st.integers(10, 2_000), st.integers(2, 12))
def test_the_yearly_cost_discounts_the_installments_to_the_total(
    total: int, rate: int, count: int
) -> None:
    option = by_count(total, CardInterest(monthly_rate_basis_points=rate))[count]
    monthly = math.pow(1 + option.annual_cost_basis_points / 10_000, 1 / 12)
    worth = sum(amount / monthly**month for month, amount in enumerate(option.amounts, 1))
    # Half a basis point of the yearly rate is all that the rounding hides.
    assert abs(worth - total) / total < 0.0001
    exact = Fraction(10_000 + rate, 10_000) ** 12 - 1
    assert abs(option.annual_cost_basis_points - exact * 10_000) < 150


@pytest.mark.parametrize(
    "wrong",
    [
        {"monthly_rate_basis_points": -1},
        {"monthly_rate_basis_points": 10_001},
        {"free_installments": 0},
        {"installments_max": 13},
        {"free_installments": 4, "installments_max": 3},
    ],
)
def test_interest_out_of_its_limits_is_a_bug(wrong: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        CardInterest(**wrong)
