"""Boleto: the barcode, the line that people type, and what a late payment adds."""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from itertools import cycle
from operator import mul
from typing import Final, assert_never

from vintem.brazil.calendar import next_business_day
from vintem.kit.money import BASIS_POINTS_MAX, Cents, percent_half_up

BOLETO_CENTS_MAX: Final = 9_999_999_999
DUE_DATE_MIN: Final = date(2000, 7, 3)
DUE_DATE_MAX: Final = date(2999, 12, 31)
OUR_NUMBER_MAX: Final = 99_999_999_999_999_999
DAYS_LATE_MAX: Final = 36_500
SANDBOX_BANK: Final = "999"

# Four digits count the days of the due date; they ran out in February 2025 and began again at 1000.
_FACTOR_ORIGIN: Final = date(1997, 10, 7)
_FACTOR_MIN: Final = 1_000
_FACTOR_MAX: Final = 9_999
_FACTOR_CYCLE_DAYS: Final = 9_000

_REAL: Final = "9"
_UTILITY_BILL: Final = "8"
_SANDBOX_FREE_FIELD_HEAD: Final = "0001001"  # branch 0001, wallet 001
_MONTH_DAYS: Final = 30
_WHOLE_BASIS_POINTS: Final = 10_000

_BANK: Final = re.compile(r"[0-79][0-9]{2}")
_FREE_FIELD: Final = re.compile(r"[0-9]{25}")
_BARCODE: Final = re.compile(r"[0-9]{44}")
_LINE: Final = re.compile(
    r"([0-9]{5})\.?([0-9]{5}) ?([0-9]{5})\.?([0-9]{6}) ?([0-9]{5})\.?([0-9]{6}) ?"
    r"([0-9]) ?([0-9]{14})"
)
# The sum of the digits of twice each digit.
_DOUBLED: Final = str.maketrans("0123456789", "0246813579")
_MOD_11_WEIGHTS: Final = range(2, 10)


class FineKind(StrEnum):
    """How the value of a fine is meant: hundredths of a percent, or cents."""

    PERCENTAGE = "PERCENTAGE"
    FIXED = "FIXED"


@dataclass(frozen=True, slots=True)
class Fine:
    """What a late payment adds once."""

    kind: FineKind
    value: int


@dataclass(frozen=True, slots=True)
class LateCharges:
    """What a payment owes beyond the amount of its boleto."""

    days_late: int
    fine_cents: Cents
    interest_cents: Cents


@dataclass(frozen=True, slots=True)
class Boleto:
    """A boleto whose check digits are all right."""

    bank: str
    due_date: date | None
    amount_cents: Cents
    free_field: str
    barcode: str
    line: str


def make_boleto(
    *, bank: str, due_date: date | None, amount_cents: Cents, free_field: str
) -> Boleto:
    """Make the codes of a boleto; the free field is the bank's, zero cents leave it open."""
    assert _BANK.fullmatch(bank)
    assert 0 <= amount_cents <= BOLETO_CENTS_MAX
    assert _FREE_FIELD.fullmatch(free_field)
    start, end = bank + _REAL, f"{due_date_factor(due_date):04d}{amount_cents:010d}{free_field}"
    barcode = f"{start}{check_digit_mod_11(start + end)}{end}"
    return Boleto(
        bank=bank,
        due_date=due_date,
        amount_cents=amount_cents,
        free_field=free_field,
        barcode=barcode,
        line=line_of_barcode(barcode),
    )


def make_sandbox_boleto(*, our_number: int, due_date: date, amount_cents: Cents) -> Boleto:
    """Make a boleto of the bank that does not exist."""
    return make_boleto(
        bank=SANDBOX_BANK,
        due_date=due_date,
        amount_cents=amount_cents,
        free_field=sandbox_free_field(our_number),
    )


def parse_boleto(text: str, *, reference: date) -> Boleto | None:
    """Read a line, masked or not, or a barcode; the due date is the one nearest the reference."""
    barcode = _barcode_of_text(text.strip(" "))
    # What starts with 8 is a bill of a utility or a tax, which has another layout.
    if barcode is None or barcode[0] == _UTILITY_BILL or barcode[3] != _REAL:
        return None
    if check_digit_mod_11(barcode[:4] + barcode[5:]) != int(barcode[4]):
        return None
    factor = int(barcode[5:9])
    if 0 < factor < _FACTOR_MIN:
        return None
    return Boleto(
        bank=barcode[:3],
        due_date=due_date_of_factor(factor, reference=reference),
        amount_cents=int(barcode[9:19]),
        free_field=barcode[19:],
        barcode=barcode,
        line=line_of_barcode(barcode),
    )


def line_of_barcode(barcode: str) -> str:
    """Write the 47 digits that a person types for a barcode."""
    assert _BARCODE.fullmatch(barcode)
    free = barcode[19:]
    parts = (barcode[:4] + free[:5], free[5:15], free[15:])
    typed = "".join(f"{part}{check_digit_mod_10(part)}" for part in parts)
    return f"{typed}{barcode[4:19]}"


def format_line(line: str) -> str:
    """Write the 47 digits of a line in the groups that people read."""
    assert len(line) == 47
    return (
        f"{line[:5]}.{line[5:10]} {line[10:15]}.{line[15:21]} {line[21:26]}.{line[26:32]} "
        f"{line[32]} {line[33:]}"
    )


def due_date_factor(due_date: date | None) -> int:
    """Count a due date as the barcode does, zero when there is none."""
    if due_date is None:
        return 0
    assert DUE_DATE_MIN <= due_date <= DUE_DATE_MAX
    days = (due_date - _FACTOR_ORIGIN).days
    return (days - _FACTOR_MIN) % _FACTOR_CYCLE_DAYS + _FACTOR_MIN


def due_date_of_factor(factor: int, *, reference: date) -> date | None:
    """Give the due date nearest a reference, the later of two as near; None for factor zero."""
    if factor == 0:
        return None
    assert _FACTOR_MIN <= factor <= _FACTOR_MAX
    assert reference <= DUE_DATE_MAX
    first = _FACTOR_ORIGIN + timedelta(days=factor)
    cycles = ((reference - first).days + _FACTOR_CYCLE_DAYS // 2) // _FACTOR_CYCLE_DAYS
    return first + timedelta(days=max(cycles, 0) * _FACTOR_CYCLE_DAYS)


def sandbox_free_field(our_number: int) -> str:
    """Write the free field of the sandbox bank: branch, wallet, our number, check digit."""
    assert 0 <= our_number <= OUR_NUMBER_MAX
    field = f"{_SANDBOX_FREE_FIELD_HEAD}{our_number:017d}"
    return f"{field}{check_digit_mod_10(field)}"


def sandbox_our_number(boleto: Boleto) -> int | None:
    """Give our number of a boleto of the sandbox bank, or None for any other boleto."""
    our_number = int(boleto.free_field[7:24])
    is_ours = boleto.bank == SANDBOX_BANK and boleto.free_field == sandbox_free_field(our_number)
    return our_number if is_ours else None


def check_digit_mod_10(digits: str) -> int:
    """Give the digit that guards a field of the line."""
    doubled = digits[::-2].translate(_DOUBLED)
    total = sum(map(int, digits[-2::-2] + doubled))
    return -total % 10


def check_digit_mod_11(digits: str) -> int:
    """Give the digit that guards a whole barcode, one standing in for zero, ten and eleven."""
    total: int = sum(map(mul, cycle(_MOD_11_WEIGHTS), map(int, reversed(digits))))
    check = 11 - total % 11
    return 1 if check > 9 else check


def late_charges(
    amount: Cents,
    *,
    fine: Fine | None,
    monthly_interest_basis_points: int,
    due_date: date,
    paid_on: date,
) -> LateCharges:
    """Work out fine and interest; a due date without banks moves to the next day with them."""
    days_late = max((paid_on - next_business_day(due_date)).days, 0)
    if days_late == 0:
        return LateCharges(days_late=0, fine_cents=0, interest_cents=0)
    return LateCharges(
        days_late=days_late,
        fine_cents=0 if fine is None else fine_cents(amount, fine),
        interest_cents=interest_cents(
            amount,
            monthly_interest_basis_points=monthly_interest_basis_points,
            days_late=days_late,
        ),
    )


def fine_cents(amount: Cents, fine: Fine) -> Cents:
    """Work out the one-time fine, half a cent rounded up."""
    match fine.kind:
        case FineKind.PERCENTAGE:
            return percent_half_up(amount, basis_points=fine.value)
        case FineKind.FIXED:
            assert 0 <= fine.value <= BOLETO_CENTS_MAX
            return fine.value
        case _:
            assert_never(fine.kind)


def interest_cents(amount: Cents, *, monthly_interest_basis_points: int, days_late: int) -> Cents:
    """Work out simple interest by the day, a month being thirty, half a cent rounded up."""
    assert 0 <= amount <= BOLETO_CENTS_MAX
    assert 0 <= monthly_interest_basis_points <= BASIS_POINTS_MAX
    assert 0 <= days_late <= DAYS_LATE_MAX
    divisor = _WHOLE_BASIS_POINTS * _MONTH_DAYS
    return (amount * monthly_interest_basis_points * days_late + divisor // 2) // divisor


def _barcode_of_text(text: str) -> str | None:
    if _BARCODE.fullmatch(text):
        return text
    parts = _LINE.fullmatch(text)
    if parts is None:
        return None
    line = "".join(parts.groups())
    barcode = f"{line[:4]}{line[32:47]}{line[4:9]}{line[10:20]}{line[21:31]}"
    # The three digits that the line has and the barcode lacks are right when they come back.
    return barcode if line_of_barcode(barcode) == line else None
