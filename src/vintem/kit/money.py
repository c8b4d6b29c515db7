"""Money: whole cents, and divisions that say where the remainder goes."""

from typing import Final, TypeAlias

Cents: TypeAlias = int

AMOUNT_CENTS_MIN: Final = 100
AMOUNT_CENTS_MAX: Final = 9_999_999_999
REFUND_CENTS_MIN: Final = 1
UNIT_PRICE_CENTS_MIN: Final = 1
SHIPPING_CENTS_MIN: Final = 0
BASIS_POINTS_MAX: Final = 100_000
PARTS_MAX: Final = 1_000

_WHOLE_BASIS_POINTS: Final = 10_000


def percent_half_up(amount: Cents, *, basis_points: int) -> Cents:
    """Take hundredths of a percent of an amount, half a cent rounded up."""
    assert amount >= 0
    assert 0 <= basis_points <= BASIS_POINTS_MAX
    return (amount * basis_points + _WHOLE_BASIS_POINTS // 2) // _WHOLE_BASIS_POINTS


def split_evenly(amount: Cents, *, parts: int) -> tuple[Cents, ...]:
    """Split an amount into equal parts, the whole remainder on the first."""
    assert amount >= 0
    assert 1 <= parts <= PARTS_MAX
    share, remainder = divmod(amount, parts)
    return (share + remainder, *(share for _ in range(parts - 1)))
