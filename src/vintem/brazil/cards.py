"""Cards: numbers that never show themselves, brands, expiry and installments."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NoReturn, Self

from vintem.kit.clock import business_day
from vintem.kit.money import Cents, split_evenly

CARD_DIGITS_MIN: Final = 12
CARD_DIGITS_MAX: Final = 19
INSTALLMENTS_MAX: Final = 12
MONTHLY_RATE_BASIS_POINTS_MAX: Final = 10_000

_WHOLE_BASIS_POINTS: Final = 10_000
_GROUP_CHARACTERS: Final = str.maketrans("", "", " -")
# The sum of the digits of twice each digit.
_DOUBLED: Final = str.maketrans("0123456789", "0246813579")


class CardBrand(StrEnum):
    """Whose network a card belongs to."""

    VISA = "visa"
    MASTERCARD = "mastercard"
    AMEX = "amex"
    DINERS = "diners"
    ELO = "elo"
    HIPERCARD = "hipercard"
    HIPER = "hiper"
    DISCOVER = "discover"
    JCB = "jcb"
    AURA = "aura"
    UNKNOWN = "unknown"


# Ends of ranges are included; both have as many digits as the prefix.
_PREFIXES: Final[dict[CardBrand, tuple[str, ...]]] = {
    CardBrand.VISA: ("4",),
    CardBrand.MASTERCARD: ("51-55", "2221-2229", "223-229", "23-26", "270-271", "2720"),
    CardBrand.AMEX: ("34", "37"),
    CardBrand.DINERS: ("300-305", "36", "38", "39"),
    CardBrand.ELO: (
        *("401178-401179", "431274", "438935", "451416", "457393", "457631-457632", "504175"),
        *("506699-506778", "509000-509999", "627780", "636297", "636368-636369"),
        *("650031-650033", "650035-650051", "650405-650439", "650485-650538", "650541-650598"),
        *("650700-650718", "650720-650727", "6509", "651652-651679"),
        *("655000-655019", "655021-655058"),
    ),
    CardBrand.HIPERCARD: ("606282", "3841"),
    CardBrand.HIPER: ("637095", "63737423", "63743358", "637568", "637599", "637609", "637612"),
    CardBrand.DISCOVER: ("6011", "644-649", "65"),
    CardBrand.JCB: ("2131", "1800", "3528-3589"),
    CardBrand.AURA: ("50",),
}
_LENGTHS: Final[dict[CardBrand, frozenset[int]]] = {
    CardBrand.VISA: frozenset({16, 18, 19}),
    CardBrand.MASTERCARD: frozenset({16}),
    CardBrand.AMEX: frozenset({15}),
    CardBrand.DINERS: frozenset({14, 16, 19}),
    CardBrand.ELO: frozenset({16}),
    CardBrand.HIPERCARD: frozenset({13, 16, 19}),
    CardBrand.HIPER: frozenset({16}),
    CardBrand.DISCOVER: frozenset({16, 19}),
    CardBrand.JCB: frozenset({16, 17, 18, 19}),
    CardBrand.AURA: frozenset({19}),
    CardBrand.UNKNOWN: frozenset(range(CARD_DIGITS_MIN, CARD_DIGITS_MAX + 1)),
}
_CVV_LENGTHS: Final[dict[CardBrand, frozenset[int]]] = {
    **dict.fromkeys(CardBrand, frozenset({3})),
    CardBrand.AMEX: frozenset({4}),
    CardBrand.UNKNOWN: frozenset({3, 4}),
}


def _expanded(prefix: str) -> Iterator[str]:
    first, _, last = prefix.partition("-")
    for number in range(int(first), int(last or first) + 1):
        yield str(number)


_BRAND_OF_PREFIX: Final = {
    prefix: brand
    for brand, ranges in _PREFIXES.items()
    for written in ranges
    for prefix in _expanded(written)
}
# The longest prefix wins, so that Elo and Hiper are told from Visa and Discover around them.
_PREFIX_LENGTHS: Final = sorted({len(prefix) for prefix in _BRAND_OF_PREFIX}, reverse=True)


class CardNumber:
    """A card number that has passed its checks, and prints only its ends."""

    __slots__ = ("_brand", "_digits")

    def __init__(self, digits: str) -> None:
        assert has_luhn_digit(digits), "a card number is made by parse"
        self._digits = digits
        self._brand = brand_of(digits)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a number, blanks and hyphens between its digits ignored, or give None."""
        digits = text.translate(_GROUP_CHARACTERS)
        # No issuer's number begins with zero, and zeros alone would pass the check.
        if digits.startswith("0") or not has_luhn_digit(digits):
            return None
        return cls(digits) if len(digits) in _LENGTHS[brand_of(digits)] else None

    @property
    def brand(self) -> CardBrand:
        """Tell whose network the card belongs to."""
        return self._brand

    @property
    def first_digits(self) -> str:
        """Give the six digits that name the issuer."""
        return self._digits[:6]

    @property
    def last_digits(self) -> str:
        """Give the four digits by which the holder knows the card."""
        return self._digits[-4:]

    @property
    def masked(self) -> str:
        """Write the number with only its ends legible."""
        return f"{self.first_digits}{'*' * (len(self._digits) - 10)}{self.last_digits}"

    def reveal(self) -> str:
        """Give the whole number, for the provider or the seal and nothing else."""
        return self._digits

    def __repr__(self) -> str:
        return f"CardNumber({self.masked})"

    def __str__(self) -> str:
        return self.masked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CardNumber) and self._digits == other._digits

    def __hash__(self) -> int:
        return hash(self._digits)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a card number is never written down as it is")


def brand_of(digits: str) -> CardBrand:
    """Tell the brand of a number by its longest known prefix."""
    for length in _PREFIX_LENGTHS:
        brand = _BRAND_OF_PREFIX.get(digits[:length])
        if brand is not None:
            return brand
    return CardBrand.UNKNOWN


def has_luhn_digit(digits: str) -> bool:
    """Tell whether the last digit guards the others as on every card."""
    if not (digits.isascii() and digits.isdigit()):
        return False
    doubled = digits[-2::-2].translate(_DOUBLED)
    return sum(map(int, digits[::-2] + doubled)) % 10 == 0


def is_cvv(text: str, brand: CardBrand) -> bool:
    """Tell whether a text has the form of the brand's security code."""
    return text.isascii() and text.isdigit() and len(text) in _CVV_LENGTHS[brand]


def has_expired(*, month: int, year: int, now: datetime) -> bool:
    """Tell whether the last day printed on a card is over in the business zone."""
    assert 1 <= month <= 12
    today = business_day(now)
    return (year, month) < (today.year, today.month)


@dataclass(frozen=True, slots=True)
class InstallmentPlan:
    """What a buyer pays month by month."""

    amounts: tuple[Cents, ...]
    total_cents: Cents
    interest_cents: Cents


def plan_without_interest(amount: Cents, *, installments: int) -> InstallmentPlan:
    """Split an amount evenly, the remainder on the first installment."""
    assert 1 <= installments <= INSTALLMENTS_MAX
    amounts = split_evenly(amount, parts=installments)
    return InstallmentPlan(amounts=amounts, total_cents=amount, interest_cents=0)


def plan_by_price_table(
    amount: Cents, *, monthly_rate_basis_points: int, installments: int
) -> InstallmentPlan:
    """Plan equal installments with compound interest, the first due after a month."""
    free = plan_without_interest(amount, installments=installments)
    if monthly_rate_basis_points == 0:
        return free
    installment = price_installment(
        amount, monthly_rate_basis_points=monthly_rate_basis_points, installments=installments
    )
    total = installment * installments
    # Rounding each installment down may take more than a tiny rate adds.
    if total <= amount:
        return free
    return InstallmentPlan(
        amounts=(installment,) * installments,
        total_cents=total,
        interest_cents=total - amount,
    )


def plan_by_simple_interest(
    amount: Cents, *, monthly_rate_basis_points: int, installments: int
) -> InstallmentPlan:
    """Add the rate once per installment to the amount, and split the sum evenly."""
    assert 0 <= monthly_rate_basis_points <= MONTHLY_RATE_BASIS_POINTS_MAX
    raised = amount * monthly_rate_basis_points * installments
    interest = (raised + _WHOLE_BASIS_POINTS // 2) // _WHOLE_BASIS_POINTS
    plan = plan_without_interest(amount + interest, installments=installments)
    return InstallmentPlan(
        amounts=plan.amounts, total_cents=plan.total_cents, interest_cents=interest
    )


def price_installment(amount: Cents, *, monthly_rate_basis_points: int, installments: int) -> Cents:
    """Work out the equal installment of the Price table exactly, half a cent rounded up."""
    assert amount >= 0
    assert 1 <= monthly_rate_basis_points <= MONTHLY_RATE_BASIS_POINTS_MAX
    assert 1 <= installments <= INSTALLMENTS_MAX
    # With the rate as r over w, amount·i / (1 - (1+i)^-n) is a quotient of whole numbers.
    grown: int = (_WHOLE_BASIS_POINTS + monthly_rate_basis_points) ** installments
    dividend = amount * monthly_rate_basis_points * grown
    whole: int = _WHOLE_BASIS_POINTS**installments
    divisor = _WHOLE_BASIS_POINTS * (grown - whole)
    return (2 * dividend + divisor) // (2 * divisor)
