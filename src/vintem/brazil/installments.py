"""What a buyer may choose from: every number of installments, what each costs, and the rates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from vintem.brazil.cards import (
    INSTALLMENTS_MAX,
    MONTHLY_RATE_BASIS_POINTS_MAX,
    InstallmentPlan,
    plan_by_price_table,
    plan_without_interest,
)
from vintem.kit.money import AMOUNT_CENTS_MAX, Cents

INSTALLMENT_CENTS_MIN: Final = 500
MONTHS_OF_A_YEAR: Final = 12

_WHOLE_BASIS_POINTS: Final = 10_000
# Rates are searched for in steps of a thousandth of a millionth.
_WHOLE: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class CardInterest:
    """What buyers pay a company for paying later."""

    monthly_rate_basis_points: int = 0
    free_installments: int = 1
    """Up to so many installments cost nothing."""
    installments_max: int = INSTALLMENTS_MAX

    def __post_init__(self) -> None:
        assert 0 <= self.monthly_rate_basis_points <= MONTHLY_RATE_BASIS_POINTS_MAX
        assert 1 <= self.free_installments <= self.installments_max <= INSTALLMENTS_MAX

    def up_to(self, installments: int | None) -> "CardInterest":
        """Offer no more installments than so many."""
        if installments is None or installments >= self.installments_max:
            return self
        free = min(installments, self.free_installments)
        return replace(self, installments_max=installments, free_installments=free)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallmentOption:
    """One line of the table: so many installments, what each is, and what the whole costs."""

    installments: int
    amounts: tuple[Cents, ...]
    total_cents: Cents
    interest_cents: Cents
    monthly_rate_basis_points: int
    annual_cost_basis_points: int
    """The total effective cost a year, as the law wants it shown (CET)."""


def installment_table(total: Cents, interest: CardInterest) -> Sequence[InstallmentOption]:
    """List what a total can be paid in; leaves out installments that would be too small."""
    assert 1 <= total <= AMOUNT_CENTS_MAX
    plans = [_plan(total, interest, count) for count in range(1, interest.installments_max + 1)]
    return [
        _option(total, plan, interest.monthly_rate_basis_points)
        for plan in plans
        if len(plan.amounts) == 1 or _is_offered(plan)
    ]


def annual_cost_basis_points(total: Cents, amounts: Sequence[Cents]) -> int:
    """Work out what a year of paying monthly, from the next month on, effectively costs."""
    low, high = 0, 2 * _WHOLE
    assert not _is_worth_more(total, amounts, high), "no plan is as dear as that"
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_worth_more(total, amounts, middle) else (low, middle)
    whole: int = _WHOLE**MONTHS_OF_A_YEAR
    grown: int = (_WHOLE + high) ** MONTHS_OF_A_YEAR
    return (2 * _WHOLE_BASIS_POINTS * (grown - whole) + whole) // (2 * whole)


def _plan(total: Cents, interest: CardInterest, count: int) -> InstallmentPlan:
    if count <= interest.free_installments:
        return plan_without_interest(total, installments=count)
    return plan_by_price_table(
        total,
        monthly_rate_basis_points=interest.monthly_rate_basis_points,
        installments=count,
    )


def _is_offered(plan: InstallmentPlan) -> bool:
    return min(plan.amounts) >= INSTALLMENT_CENTS_MIN and plan.total_cents <= AMOUNT_CENTS_MAX


def _option(total: Cents, plan: InstallmentPlan, rate_basis_points: int) -> InstallmentOption:
    has_interest = plan.interest_cents > 0
    return InstallmentOption(
        installments=len(plan.amounts),
        amounts=plan.amounts,
        total_cents=plan.total_cents,
        interest_cents=plan.interest_cents,
        monthly_rate_basis_points=rate_basis_points if has_interest else 0,
        annual_cost_basis_points=(
            annual_cost_basis_points(total, plan.amounts) if has_interest else 0
        ),
    )


def _is_worth_more(total: Cents, amounts: Sequence[Cents], rate: int) -> bool:
    """Tell whether amounts due month by month are worth more than the total at a monthly rate."""
    # Both sides times (1 + rate)^n, so that all of it are whole numbers.
    grown, count = _WHOLE + rate, len(amounts)
    worth = sum(
        amount * _WHOLE**month * grown ** (count - month) for month, amount in enumerate(amounts, 1)
    )
    return bool(worth > total * grown**count)
