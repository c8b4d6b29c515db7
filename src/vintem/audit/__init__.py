"""The invariants: each a statement that must return no rows, and the run over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vintem.audit import (
    checkout,
    companies,
    events,
    figures,
    holdings,
    ledger,
    payments,
    payouts,
    trail,
)
from vintem.audit.invariant import Invariant
from vintem.runtime.db import Connection, Database

ROWS_SHOWN_MAX: Final = 20

INVARIANTS: Final[Sequence[Invariant]] = (
    *companies.INVARIANTS,
    *ledger.INVARIANTS,
    *payments.INVARIANTS,
    *holdings.INVARIANTS,
    *payouts.INVARIANTS,
    *checkout.INVARIANTS,
    *events.INVARIANTS,
    *trail.INVARIANTS,
    *figures.INVARIANTS,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What an invariant's statement returned: nothing, if all is well."""

    invariant: Invariant
    rows: Sequence[str]


async def audit(database: Database) -> Sequence[Finding]:
    """Check every invariant on one consistent view of the database."""
    async with database.patient() as block:
        return await audit_within(block)


async def audit_within(block: Connection) -> Sequence[Finding]:
    """Check every invariant in an atomic block that has done nothing yet."""
    await block.execute("set transaction isolation level repeatable read read only")
    return [await _check(block, invariant) for invariant in INVARIANTS]


async def _check(block: Connection, invariant: Invariant) -> Finding:
    rows = await block.fetch(invariant.statement)
    return Finding(invariant, [str(dict(row)) for row in rows[:ROWS_SHOWN_MAX]])  # type: ignore[call-overload]
