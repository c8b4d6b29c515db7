"""The SQL of the simulated acquirer's own book, which nobody else reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from vintem.providers.port import Charge
from vintem.runtime.db import Connection, Row

PAUSE_SECONDS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class KeptCharge:
    """A charge as the acquirer remembers it: of the card, only what is printed on a slip."""

    last_four: str
    queries: int


@dataclass(frozen=True, slots=True)
class KeptCallback:
    """Something the acquirer has to tell."""

    company_id: int
    callback_id: str
    reference: str
    sequence: int
    body: str
    due_at: datetime
    repeats_left: int = 0


async def insert_charge(db: Connection, charge: Charge, *, now: datetime) -> bool:
    """Add a charge; false when one with its reference is there."""
    found = await db.fetchval(
        """
        insert into simulator_charge (
            company_id, reference, account, amount, installments, last_four, charged_at
        ) values ($1, $2, $3, $4, $5, $6, $7)
        on conflict do nothing returning true
        """,
        charge.company_id,
        charge.reference,
        charge.account,
        charge.amount,
        charge.installments,
        charge.card.number.last_digits,
        now,
    )
    return bool(found)


async def find_charge(db: Connection, company_id: int, reference: str) -> KeptCharge | None:
    """Find a charge."""
    row = await db.fetchrow(
        "select last_four, queries from simulator_charge where company_id = $1 and reference = $2",
        company_id,
        reference,
    )
    return None if row is None else _charge(row)


async def count_query(db: Connection, company_id: int, reference: str) -> KeptCharge | None:
    """Find a charge and count that it was asked about."""
    row = await db.fetchrow(
        """
        update simulator_charge set queries = queries + 1
        where company_id = $1 and reference = $2 returning last_four, queries
        """,
        company_id,
        reference,
    )
    return None if row is None else _charge(row)


async def insert_callbacks(db: Connection, callbacks: Sequence[KeptCallback]) -> None:
    """Add what is to be told."""
    await db.execute(
        """
        insert into simulator_callback (
            company_id, callback_id, reference, sequence, body, due_at, repeats_left
        )
        select * from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[],
            $6::timestamptz[], $7::bigint[])
        """,
        [each.company_id for each in callbacks],
        [each.callback_id for each in callbacks],
        [each.reference for each in callbacks],
        [each.sequence for each in callbacks],
        [each.body for each in callbacks],
        [each.due_at for each in callbacks],
        [each.repeats_left for each in callbacks],
    )


async def delete_untold(db: Connection, company_id: int, reference: str) -> None:
    """Forget what was still to be told of a charge."""
    await db.execute(
        """
        delete from simulator_callback
        where company_id = $1 and reference = $2 and due_at is not null
        """,
        company_id,
        reference,
    )


async def list_companies_with_due(db: Connection, *, now: datetime) -> Sequence[int]:
    """Companies about which something is to be told by now."""
    rows = await db.fetch(
        "select distinct company_id from simulator_callback where due_at <= $1", now
    )
    return [row["company_id"] for row in rows]


async def claim_due(
    db: Connection, company_id: int, *, now: datetime, rows_max: int
) -> Sequence[KeptCallback]:
    """Take what is to be told by now; it is due again later, unless it is heard."""
    rows = await db.fetch(
        """
        with due as materialized (
            select callback_id, due_at from simulator_callback
            where company_id = $1 and due_at <= $2
            order by due_at, reference, sequence limit $3
            for update skip locked
        )
        update simulator_callback c set attempts = c.attempts + 1,
            due_at = $2 + make_interval(secs => least(power(2, c.attempts), $4))
        from due d
        where c.company_id = $1 and c.callback_id = d.callback_id
        returning c.company_id, c.callback_id, c.reference, c.sequence, c.body, d.due_at,
            c.repeats_left
        """,
        company_id,
        now,
        rows_max,
        PAUSE_SECONDS_MAX,
    )
    claimed = [
        KeptCallback(
            company_id=row["company_id"],
            callback_id=row["callback_id"],
            reference=row["reference"],
            sequence=row["sequence"],
            body=row["body"],
            due_at=row["due_at"],
            repeats_left=row["repeats_left"],
        )
        for row in rows
    ]
    return sorted(claimed, key=lambda each: (each.due_at, each.reference, each.sequence))


async def update_heard(db: Connection, callback: KeptCallback, *, now: datetime) -> None:
    """Write down that something was heard; it is told once more where it is to be repeated."""
    await db.execute(
        """
        update simulator_callback set repeats_left = greatest(repeats_left - 1, 0),
            due_at = case when repeats_left > 0 then $3::timestamptz end
        where company_id = $1 and callback_id = $2
        """,
        callback.company_id,
        callback.callback_id,
        now + timedelta(seconds=1),
    )


def _charge(row: Row) -> KeptCharge:
    return KeptCharge(row["last_four"], row["queries"])
