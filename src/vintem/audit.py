"""The invariants: each a statement that must return no rows, and the run over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vintem.runtime.db import Connection, Database

ROWS_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Invariant:
    """A sentence that must be true, and the statement that returns what contradicts it."""

    name: str
    sentence: str
    statement: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What an invariant's statement returned: nothing, if all is well."""

    invariant: Invariant
    rows: Sequence[str]


INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "K1",
        "A key that was replaced has an end, and its successor belongs to the same company.",
        """
        select k.key_id, k.replaced_by
        from api_key k left join api_key s on s.key_id = k.replaced_by
        where k.replaced_by is not null
            and (k.expires_at is null or s.company_id is distinct from k.company_id
                or s.type <> k.type or s.environment <> k.environment)
        """,
    ),
    Invariant(
        "L1",
        "A shared rate window holds exactly the calls between its first and its last.",
        """
        select w.company_id, w.key_id, w.group_name, w.first_call, w.last_call,
            count(c.call) as held
        from rate_window w left join rate_call c
            on c.company_id = w.company_id and c.key_id = w.key_id
            and c.group_name = w.group_name and c.call between w.first_call and w.last_call
        group by w.company_id, w.key_id, w.group_name, w.first_call, w.last_call
        having count(c.call) <> w.last_call - w.first_call + 1
        """,
    ),
)


async def audit(database: Database) -> Sequence[Finding]:
    """Check every invariant on one consistent view of the database."""
    async with database.patient() as block:
        await block.execute("set transaction isolation level repeatable read read only")
        return [await _check(block, invariant) for invariant in INVARIANTS]


async def _check(block: Connection, invariant: Invariant) -> Finding:
    rows = await block.fetch(invariant.statement)
    return Finding(invariant, [str(dict(row)) for row in rows[:ROWS_SHOWN_MAX]])  # type: ignore[call-overload]
