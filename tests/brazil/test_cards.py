"""Cards: brands, check digits, numbers that stay hidden, and installments."""

import copy
import json
import pickle
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import luhn as stdnum_luhn

from vintem.brazil import cards
from vintem.brazil.cards import CardBrand, CardNumber

DIGITS = "0123456789"
PANS = {
    "4111111111111111": CardBrand.VISA,
    "5555555555554444": CardBrand.MASTERCARD,
    "6362970000457013": CardBrand.ELO,
    "6062825624254001": CardBrand.HIPERCARD,
}
# Each prefix at the ends of its ranges, and its neighbours outside.
PREFIXES = {
    CardBrand.VISA: "4 401177 401180 431273 431275 451415 457392 457394 457630 457633",
    CardBrand.MASTERCARD: "51 55 2221 2229 223 229 23 26 270 271 2720",
    CardBrand.AMEX: "34 37",
    CardBrand.DINERS: "300 305 36 38 39 3840 3842",
    CardBrand.ELO: (
        "401178 401179 431274 438935 451416 457393 457631 457632 504175 506699 506778 509000"
        " 509999 627780 636297 636368 636369 650031 650033 650035 650051 650405 650439 650485"
        " 650538 650541 650598 650700 650718 650720 650727 650900 650901 650978 650979 651652"
        " 651679 655000 655019 655021 655058"
    ),
    CardBrand.HIPERCARD: "606282 3841",
    CardBrand.HIPER: "637095 63737423 63743358 637568 637599 637609 637612",
    CardBrand.DISCOVER: (
        "6011 644 649 65 650030 650034 650052 650404 650440 650484 650539 650540 650599 650699"
        " 650719 650728 651651 651680 654999 655020 655059"
    ),
    CardBrand.JCB: "2131 1800 3528 3589",
    CardBrand.AURA: "50 504174 504176 506698 506779 508999 500000",
    CardBrand.UNKNOWN: (
        "56 2220 2721 306 35 3527 3590 1801 2130 2132 606281 606283 637094 63737422"
        " 63743359 627779 627781 636296 636298 636367 636370 6010 6012 643 9"
    ),
}
FACTORS_OF_2_TO_12 = (
    *("0.52255", "0.35347", "0.26898", "0.21830", "0.18453", "0.16044"),
    *("0.14240", "0.12838", "0.11717", "0.10802", "0.10040"),
)
amounts = st.integers(100, 9_999_999_999)
counts = st.integers(1, 12)
rates = st.integers(1, 2_000)


def with_luhn_digit(stem: str) -> str:
    return stem + stdnum_luhn.calc_check_digit(stem)


@pytest.mark.parametrize("number", PANS)
def test_a_published_test_number_is_a_card_of_its_brand(number: str) -> None:
    card = CardNumber.parse(number)
    assert card is not None
    assert card.brand is PANS[number]
    assert card.first_digits == number[:6]
    assert card.last_digits == number[-4:]
    assert card.reveal() == number


@pytest.mark.parametrize(
    ("brand", "prefix"),
    [(brand, prefix) for brand, text in PREFIXES.items() for prefix in text.split()],
)
def test_a_prefix_tells_its_brand(brand: CardBrand, prefix: str) -> None:
    assert cards.brand_of(prefix.ljust(16, "0")) is brand


@pytest.mark.parametrize(
    ("brand", "prefix", "lengths"),
    [
        (CardBrand.VISA, "4000", {16, 18, 19}),
        (CardBrand.MASTERCARD, "5100", {16}),
        (CardBrand.AMEX, "3400", {15}),
        (CardBrand.DINERS, "3600", {14, 16, 19}),
        (CardBrand.ELO, "636297", {16}),
        (CardBrand.HIPERCARD, "606282", {13, 16, 19}),
        (CardBrand.HIPER, "637095", {16}),
        (CardBrand.DISCOVER, "6011", {16, 19}),
        (CardBrand.JCB, "3528", {16, 17, 18, 19}),
        (CardBrand.AURA, "5000", {19}),
        (CardBrand.UNKNOWN, "9000", set(range(12, 20))),
    ],
)
def test_a_brand_has_its_lengths_and_no_others(
    brand: CardBrand, prefix: str, lengths: set[int]
) -> None:
    accepted = set()
    for length in range(8, 24):
        number = with_luhn_digit(prefix.ljust(length - 1, "7"))
        card = CardNumber.parse(number)
        if card is not None:
            assert card.brand is brand
            accepted.add(length)
    assert accepted == lengths


@pytest.mark.parametrize("brand", CardBrand)
def test_a_security_code_has_the_length_of_its_brand(brand: CardBrand) -> None:
    four_digits = {CardBrand.AMEX: {4}, CardBrand.UNKNOWN: {3, 4}}
    accepted = {length for length in range(8) if cards.is_cvv("1" * length, brand)}
    assert accepted == four_digits.get(brand, {3})


@pytest.mark.parametrize("cvv", ["", "12", "12a", " 12", "1234", "１２３", "١٢٣", "12\n", "-12"])
def test_a_text_that_is_no_security_code_is_refused(cvv: str) -> None:
    assert not cards.is_cvv(cvv, CardBrand.VISA)


@given(st.text(DIGITS, min_size=1, max_size=24))
def test_the_check_digit_is_right_exactly_when_the_other_library_agrees(digits: str) -> None:
    assert cards.has_luhn_digit(digits) == stdnum_luhn.is_valid(digits)


@given(st.sampled_from(list(PANS)), st.integers(0, 15), st.sampled_from(DIGITS))
def test_one_wrong_digit_is_always_caught(number: str, place: int, digit: str) -> None:
    changed = number[:place] + digit + number[place + 1 :]
    assert (CardNumber.parse(changed) is not None) == (changed == number)


@pytest.mark.parametrize(
    "text",
    ["4111 1111 1111 1111", "4111-1111-1111-1111", " 4111111111111111 ", "4111 111111111111"],
)
def test_a_number_is_read_in_groups(text: str) -> None:
    assert CardNumber.parse(text) == CardNumber.parse("4111111111111111")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-",
        "0",
        "0000000000000000",
        "4111111111111112",
        "411111111111111",
        "41111111111111111",
        "4222222222222",
        "4111.1111.1111.1111",
        "4111111111111111\n",
        "4111_1111_1111_1111",
        "+4111111111111111",
        "４１１１１１１１１１１１１１１１",
        "٤١١١١١١١١١١١١١١١",
        "411111111111111¹",
        "4111111111111111 1",
    ],
)
def test_a_text_that_is_no_card_is_refused(text: str) -> None:
    assert CardNumber.parse(text) is None


@given(st.text() | st.text(DIGITS + " -", max_size=30))
def test_any_text_is_read_or_refused_without_an_error(text: str) -> None:
    card = CardNumber.parse(text)
    assert card is None or CardNumber.parse(card.reveal()) == card


@dataclass(frozen=True)
class Order:
    card: CardNumber


@given(st.text(DIGITS, min_size=11, max_size=11))
def test_a_card_never_prints_its_middle(middle: str) -> None:
    card = CardNumber.parse(with_luhn_digit("4012" + middle))
    assert card is not None
    secret = card.reveal()
    masked = f"{secret[:6]}******{secret[-4:]}"
    printed = [str(card), repr(card), f"{card}", f"{card!r:>40}", repr([card])]
    printed += [repr(Order(card)), json.dumps({"card": card}, default=str), ascii(card)]
    for text in printed:
        assert masked in text
        assert secret not in re.sub(r"[^0-9]", "", text)
    assert not hasattr(card, "__dict__")


def test_a_card_cannot_be_copied_out_of_its_object() -> None:
    card = CardNumber.parse("4111111111111111")
    assert card is not None
    for write in (pickle.dumps, copy.deepcopy, lambda kept: asdict(Order(kept))):
        with pytest.raises(TypeError) as failure:
            write(card)
        assert "4111111111111111" not in str(failure.value)


def test_cards_are_equal_by_their_number() -> None:
    one, same = CardNumber.parse("4111111111111111"), CardNumber.parse("4111 1111 1111 1111")
    other = CardNumber.parse("5555555555554444")
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != "4111111111111111"


def test_a_card_made_of_a_wrong_number_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        CardNumber("4111111111111112")


def test_a_card_expires_when_its_month_ends_in_brasilia() -> None:
    end = datetime(2026, 8, 1, 3, tzinfo=UTC)
    assert not cards.has_expired(month=7, year=2026, now=end - timedelta(microseconds=1))
    assert cards.has_expired(month=7, year=2026, now=end)
    assert not cards.has_expired(month=8, year=2026, now=end)


def test_a_card_of_december_expires_with_the_year() -> None:
    end = datetime(2027, 1, 1, 3, tzinfo=UTC)
    assert not cards.has_expired(month=12, year=2026, now=end - timedelta(microseconds=1))
    assert cards.has_expired(month=12, year=2026, now=end)
    assert cards.has_expired(month=12, year=2025, now=end - timedelta(days=300))
    assert not cards.has_expired(month=1, year=2027, now=end)


@pytest.mark.parametrize("month", [0, 13, -1])
def test_a_month_that_does_not_exist_is_a_bug(month: int) -> None:
    with pytest.raises(AssertionError):
        cards.has_expired(month=month, year=2026, now=datetime(2026, 1, 1, tzinfo=UTC))


def test_the_remainder_of_an_even_split_is_on_the_first_installment() -> None:
    plan = cards.plan_without_interest(10_000, installments=3)
    assert plan.amounts == (3_334, 3_333, 3_333)
    assert (plan.total_cents, plan.interest_cents) == (10_000, 0)


@pytest.mark.parametrize(("installments", "factor"), list(enumerate(FACTORS_OF_2_TO_12, start=2)))
def test_the_price_table_gives_the_published_factors(installments: int, factor: str) -> None:
    amount = 1_000_000_000
    installment = cards.price_installment(
        amount, monthly_rate_basis_points=299, installments=installments
    )
    difference = Fraction(installment, amount) - Fraction(factor)
    assert abs(difference) <= Fraction(2, 100_000)


@pytest.mark.parametrize(("rate", "each", "total"), [(299, 10_040, 120_480), (100, 8_885, 106_620)])
def test_a_thousand_reais_in_twelve_cost_what_is_published(
    rate: int, each: int, total: int
) -> None:
    plan = cards.plan_by_price_table(100_000, monthly_rate_basis_points=rate, installments=12)
    assert plan.amounts == (each,) * 12
    assert plan.total_cents == total
    assert plan.interest_cents == total - 100_000


@given(amounts, rates, counts)
def test_an_installment_is_within_half_a_cent_of_the_formula(
    amount: int, rate: int, installments: int
) -> None:
    monthly = Fraction(rate, 10_000)
    exact = amount * monthly / (1 - (1 + monthly) ** -installments)
    rounded = cards.price_installment(
        amount, monthly_rate_basis_points=rate, installments=installments
    )
    assert Fraction(-1, 2) < rounded - exact <= Fraction(1, 2)


def test_half_a_cent_of_an_installment_is_rounded_up() -> None:
    # One installment at 50 % owes amount × 1.5: an odd amount ends in half a cent.
    assert cards.price_installment(101, monthly_rate_basis_points=5_000, installments=1) == 152


@given(amounts, counts)
def test_a_rate_of_zero_is_a_plan_without_interest(amount: int, installments: int) -> None:
    free = cards.plan_without_interest(amount, installments=installments)
    for plan in (cards.plan_by_price_table, cards.plan_by_simple_interest):
        assert plan(amount, monthly_rate_basis_points=0, installments=installments) == free


@given(amounts, st.integers(0, 2_000), counts)
def test_every_plan_adds_up_to_amount_and_interest(
    amount: int, rate: int, installments: int
) -> None:
    for make in (cards.plan_by_price_table, cards.plan_by_simple_interest):
        plan = make(amount, monthly_rate_basis_points=rate, installments=installments)
        assert len(plan.amounts) == installments
        assert sum(plan.amounts) == plan.total_cents == amount + plan.interest_cents
        assert plan.interest_cents >= 0


def test_interest_lost_in_the_rounding_is_no_interest() -> None:
    plan = cards.plan_by_price_table(100, monthly_rate_basis_points=1, installments=3)
    assert plan == cards.plan_without_interest(100, installments=3)


def test_simple_interest_is_added_once_per_installment() -> None:
    plan = cards.plan_by_simple_interest(100_000, monthly_rate_basis_points=199, installments=3)
    assert plan.interest_cents == 5_970
    assert plan.amounts == (35_324, 35_323, 35_323)
    half = cards.plan_by_simple_interest(250, monthly_rate_basis_points=10, installments=2)
    assert half.interest_cents == 1


@pytest.mark.parametrize("installments", [0, 13])
def test_a_count_of_installments_out_of_its_limits_is_a_bug(installments: int) -> None:
    with pytest.raises(AssertionError):
        cards.plan_without_interest(10_000, installments=installments)
    with pytest.raises(AssertionError):
        cards.price_installment(10_000, monthly_rate_basis_points=1, installments=installments)
