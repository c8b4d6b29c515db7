"""The SQL of when the money of one payment becomes available, as people read it."""

from collections.abc import Sequence
from datetime import date, datetime

import msgspec

from vintem.ledger.model import Account, Scope
from vintem.runtime.db import Connection


class ReleaseOf(msgspec.Struct, frozen=True):
    """A part of a payment's money: when it is or was released, and how much still waits."""

    account: Account
    part: int
    due_on: date
    amount: int
    open: int
    released_at: datetime | None


async def list_releases_of(
    db: Connection, scope: Scope, transaction_id: str
) -> Sequence[ReleaseOf]:
    """All parts of one payment's money that have to wait, or had to."""
    rows = await db.fetch(
        """
        select account, part, due_on, amount, open, released_at from release_schedule
        where company_id = $1 and environment = $2 and transaction_id = $3
        order by due_on, account, part
        """,
        scope.company_id,
        scope.environment,
        transaction_id,
    )
    return [
        ReleaseOf(
            Account(row["account"]),
            row["part"],
            row["due_on"],
            row["amount"],
            row["open"],
            row["released_at"],
        )
        for row in rows
    ]
