"""The SQL of money that belongs to no payment, and that nobody has decided about yet."""

from collections.abc import Sequence

from vintem.ledger.model import Account, Kind, Scope, Unclaimed
from vintem.runtime.db import Connection, Row

# By its company, so that the ledger's key leads to it: no walk over all that was ever posted.
_UNCLAIMED = """
    select s.company_id, s.environment, s.reference, s.codes, s.amounts, s.created_at
    from unnest($3::bigint[]) as c (company_id)
    join posting s on s.company_id = c.company_id and s.kind = $1 and 'suspense' = any(s.codes)
    where not exists (
        select from posting e
        where e.company_id = s.company_id and e.kind = $2 and e.reference = s.reference
    )
"""


async def list_unclaimed(db: Connection, company_ids: Sequence[int]) -> Sequence[Unclaimed]:
    """All money of companies in suspense, the oldest first."""
    rows = await db.fetch(
        f"{_UNCLAIMED} order by s.created_at, s.company_id, s.reference",
        Kind.SUSPENSE,
        Kind.SUSPENSE_ENDED,
        company_ids,
    )
    return [_unclaimed(row) for row in rows]


async def find_unclaimed(db: Connection, company_id: int, reference: str) -> Unclaimed | None:
    row = await db.fetchrow(
        f"{_UNCLAIMED} and s.reference = $4",
        Kind.SUSPENSE,
        Kind.SUSPENSE_ENDED,
        [company_id],
        reference,
    )
    return None if row is None else _unclaimed(row)


def _unclaimed(row: Row) -> Unclaimed:
    legs = {
        Account(code): amount for code, amount in zip(row["codes"], row["amounts"], strict=True)
    }
    amount = legs.pop(Account.SUSPENSE)
    [source] = legs
    return Unclaimed(
        Scope(row["company_id"], row["environment"]),
        row["reference"],
        source,
        amount,
        row["created_at"],
    )
