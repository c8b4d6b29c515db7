"""A payment read in one statement with the record that it belongs to."""

from typing import Any, Final

from vintem.runtime.db import Row
from vintem.transactions.model import Transaction
from vintem.transactions.store import transaction_of

PREFIX: Final = "payment_"
COLUMNS: Final = (
    *("company_id", "transaction_id", "environment", "status", "status_reason", "payment_method"),
    *("amount", "fee", "installments", "refunded_amount", "idempotency_key", "fingerprint"),
    *("sequence", "hold_reference", "document_sealed", "details", "terms", "end_to_end_id"),
    *("created_at", "updated_at", "paid_at", "expires_at", "cancelled_at", "refunded_at"),
    *("due_at", "answered_at", "checkout_session_id", "late_amount"),
)

PAYMENT_COLUMNS: Final = ", ".join(f"t.{column} as {PREFIX}{column}" for column in COLUMNS)
"""What a statement selects of the payment that it has named `t`."""


class _Part:
    """The columns of a row that were selected for the payment."""

    __slots__ = ("_row",)

    def __init__(self, row: Row) -> None:
        self._row = row

    def __getitem__(self, column: str, /) -> Any:  # noqa: ANN401 - a column has its own type
        return self._row[PREFIX + column]


def payment_in(row: Row) -> Transaction | None:
    """Read the payment of a row, where there is one."""
    if row[f"{PREFIX}transaction_id"] is None:
        return None
    return transaction_of(_Part(row))
