"""What the page of a boleto shows."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

from vintem.kit.money import Cents

INSTRUCTIONS_CHARACTERS_MAX: Final = 255
LATE_LINES_MAX: Final = 4
LATE_LINE_CHARACTERS_MAX: Final = 100

_POSTAL_CODE: Final = re.compile(r"^([0-9]{5})([0-9]{3})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoletoSheet:
    """All that a boleto shows; documents and the line come without their masks."""

    bank_name: str
    bank_code: str
    beneficiary_name: str
    beneficiary_document: str
    beneficiary_address: str
    payer_name: str
    payer_document: str
    payer_address_lines: tuple[str, ...]
    our_number: str
    document_number: str
    document_date: date
    due_date: date
    amount_cents: Cents
    instructions: str
    late_lines: tuple[str, ...]
    digitable_line: str
    barcode: str
    pix_code: str | None
    is_test: bool
    # Known to the bank alone, which may not tell: the boxes then stay empty.
    beneficiary_code: str = ""
    wallet: str = ""


def format_postal_code(code: str) -> str:
    """Write a CEP as it is printed; anything else stays as it is."""
    return _POSTAL_CODE.sub(r"\1-\2", code)


def bank_code_with_digit(bank: str) -> str:
    """Write the three digits of a bank as its boletos show them, with their check digit."""
    total = sum(weight * int(digit) for weight, digit in zip((4, 3, 2), bank, strict=True))
    return f"{bank}-{-total % 11 % 10}"
