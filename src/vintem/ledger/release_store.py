"""The SQL of releases before their day: the sandbox's alone."""

from collections.abc import Sequence
from datetime import datetime

from vintem.ledger.model import Account, ScheduledRelease, Scope
from vintem.runtime.db import Connection


async def claim_waiting(
    db: Connection, scope: Scope, *, now: datetime, rows_max: int
) -> Sequence[ScheduledRelease]:
    """Mark releases of any day as released, and return them with what was still in them.

    The company's accounts are locked before: nobody changes its schedule without that lock.
    """
    rows = await db.fetch(
        """
        with due as materialized (
            select transaction_id, account, part, open from release_schedule
            where company_id = $1 and environment = $2 and released_at is null
            order by due_on, transaction_id, account, part
            limit $4 for update
        ),
        released as (
            update release_schedule r set released_at = $3, open = 0
            from due d
            where r.company_id = $1 and r.transaction_id = d.transaction_id
                and r.account = d.account and r.part = d.part
            returning r.environment, r.transaction_id, r.account, r.part, r.due_on, d.open
        ),
        days as (
            update release_day d set waiting = d.waiting - r.released
            from (
                select environment, account, due_on, sum(open)::bigint as released
                from released group by environment, account, due_on
            ) r
            where d.company_id = $1 and d.environment = r.environment
                and d.account = r.account and d.due_on = r.due_on
        )
        select * from released order by due_on, transaction_id, account, part
        """,
        scope.company_id,
        scope.environment,
        now,
        rows_max,
    )
    return [
        ScheduledRelease(
            scope,
            row["transaction_id"],
            Account(row["account"]),
            row["part"],
            row["due_on"],
            row["open"],
        )
        for row in rows
    ]
