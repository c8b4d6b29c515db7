"""The SQL of money that is held for withdrawals, and of what is bought with it."""

from datetime import datetime
from decimal import Decimal
from typing import Final

import msgspec

from vintem.ledger.model import Kind, Payout, Purchase, Resolution, Split
from vintem.runtime.db import Connection

# The condition and the change are one statement: nothing is read first and believed later. The
# accounts are locked in the order of their codes, as everywhere.
HOLD: Final = """
with taken as (
    update account set balance = balance - $4, version = version + 1
    where company_id = $1 and environment = $2 and code = 'available' and balance >= $4
    returning company_id, environment, balance, version
),
held as (
    update account a set balance = a.balance + $4, version = a.version + 1
    from taken t
    where a.company_id = t.company_id and a.environment = t.environment and a.code = 'payout'
    returning a.version
),
posted as (
    insert into posting (
        company_id, environment, kind, reference, codes, amounts, versions,
        available_amount, available_version, available_after, created_at
    )
    select $1, $2, $6, $3, '{available,payout}', array[-$4::bigint, $4::bigint],
        array[t.version, h.version], -$4, t.version, t.balance, $5
    from taken t cross join held h
    returning reference
),
noted as (
    insert into hold (company_id, environment, kind, reference, amount, split, opened_at)
    select $1, $2, 'withdrawal', p.reference, $4, $7, $5 from posted p
    returning reference
)
select count(*) from noted
"""


async def hold_and_lock_accounts(db: Connection, payout: Payout, *, now: datetime) -> bool:
    """Move a withdrawal's money from available to payout, if there is enough of it."""
    held = await db.fetchval(
        HOLD,
        payout.scope.company_id,
        payout.scope.environment,
        payout.withdrawal_id,
        payout.total,
        now,
        Kind.WITHDRAWAL,
        msgspec.json.encode(Split(available=payout.total)).decode(),
    )
    return bool(held)


async def resolve_hold(
    db: Connection, payout: Payout, *, resolution: Resolution, now: datetime
) -> int | None:
    """End a withdrawal's hold that is still open, and say how much it held."""
    held: int | None = await db.fetchval(
        """
        update hold set resolved_at = $5, resolution = $4
        where company_id = $1 and environment = $2 and kind = 'withdrawal' and reference = $3
            and resolution is null
        returning amount
        """,
        payout.scope.company_id,
        payout.scope.environment,
        payout.withdrawal_id,
        resolution,
        now,
    )
    return held


async def insert_asset_posting(
    db: Connection, payout: Payout, bought: Purchase, *, now: datetime
) -> None:
    """Write what an amount in reais became, balanced in the asset's own smallest unit."""
    await db.execute(
        """
        insert into asset_posting (
            company_id, environment, kind, reference, asset, codes, amounts, exchange_rate,
            rate_source, quoted_at, created_at
        ) values ($1, $2, $3, $4, $5, '{fx,crypto}', array[-$6::numeric, $6::numeric], $7, $8,
            $9, $10)
        """,
        payout.scope.company_id,
        payout.scope.environment,
        Kind.WITHDRAWAL_PAID,
        payout.withdrawal_id,
        bought.asset,
        Decimal(bought.units),
        bought.exchange_rate,
        bought.rate_source,
        bought.quoted_at,
        now,
    )
