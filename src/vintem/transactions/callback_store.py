"""The SQL of what providers tell us: each thing once, and what became of it."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from vintem.ledger.model import Scope
from vintem.providers.port import Notice, NoticeKind
from vintem.runtime.db import Connection, Row
from vintem.transactions.model import Transaction


class State(StrEnum):
    """What became of something we were told."""

    WAITING = "waiting"
    APPLIED = "applied"
    IGNORED = "ignored"
    UNCLAIMED = "unclaimed"


async def insert_waiting(
    db: Connection,
    notice: Notice,
    transaction_id: str | None,
    *,
    look_at: datetime,
    now: datetime,
) -> bool:
    """Keep what we were told; false when it was told before."""
    found = await db.fetchval(
        """
        insert into provider_callback (
            company_id, provider, callback_id, environment, kind, reference, transaction_id,
            sequence, amount, end_to_end_id, code, message, dispute_id, state, look_at, received_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'waiting', $14, $15)
        on conflict do nothing returning true
        """,
        notice.company_id,
        notice.provider,
        notice.callback_id,
        notice.environment,
        notice.kind,
        notice.reference,
        transaction_id,
        notice.sequence,
        notice.amount,
        notice.end_to_end_id,
        notice.code,
        notice.message,
        notice.dispute_id,
        look_at,
        now,
    )
    return bool(found)


async def update_state(
    db: Connection,
    notice: Notice,
    state: State,
    cause: str | None,
    *,
    refund_id: str | None = None,
) -> None:
    """Write down what became of something we were told, and which refund it told of."""
    await db.execute(
        """
        update provider_callback set state = $4, cause = $5, refund_id = $6, look_at = null
        where company_id = $1 and provider = $2 and callback_id = $3
        """,
        notice.company_id,
        notice.provider,
        notice.callback_id,
        state,
        cause,
        refund_id,
    )


async def look_soon(db: Connection, transaction: Transaction, *, now: datetime) -> None:
    """Let what waits for a locked payment be looked at, which somebody has moved."""
    await db.execute(
        """
        update provider_callback set look_at = $3
        where company_id = $1 and transaction_id = $2 and state = 'waiting'
        """,
        transaction.company_id,
        transaction.transaction_id,
        now,
    )


async def postpone_waiting(
    db: Connection,
    scope: Scope,
    transaction_id: str,
    *,
    pause_min: timedelta,
    pause_max: timedelta,
    now: datetime,
) -> None:
    """Write down when what still waits for a payment is looked at again.

    The longer it has waited, the later that is: an eighth of its age from now.
    """
    await db.execute(
        """
        update provider_callback
        set look_at = $4::timestamptz
            + least(greatest(($4::timestamptz - received_at) / 8, $5::interval), $6::interval)
        where company_id = $1 and environment = $2 and transaction_id = $3 and state = 'waiting'
        """,
        scope.company_id,
        scope.environment,
        transaction_id,
        now,
        pause_min,
        pause_max,
    )


async def list_waiting(
    db: Connection, transaction: Transaction
) -> Sequence[tuple[Notice, datetime]]:
    """What waits for a locked payment and since when, in the order of its provider's count."""
    rows = await db.fetch(
        """
        select * from provider_callback
        where company_id = $1 and transaction_id = $2 and state = 'waiting'
        order by sequence nulls first, received_at, provider, callback_id
        """,
        transaction.company_id,
        transaction.transaction_id,
    )
    return [(_notice(row), row["received_at"]) for row in rows]


async def last_sequence(db: Connection, transaction: Transaction, provider: str) -> int:
    """How far we have come in a provider's count of a payment; 0 is before the first."""
    last = await db.fetchval(
        """
        select max(sequence) from provider_callback
        where company_id = $1 and transaction_id = $2 and provider = $3 and state <> 'waiting'
        """,
        transaction.company_id,
        transaction.transaction_id,
        provider,
    )
    return int(last or 0)


async def is_known_transfer(db: Connection, notice: Notice) -> bool:
    """Say whether a transfer of this kind and name was booked before, to a payment or to none."""
    return bool(
        await db.fetchval(
            """
            select exists (
                select from provider_callback
                where company_id = $1 and environment = $2 and end_to_end_id = $3
                    and kind = $4 and state in ('applied', 'unclaimed')
            )
            """,
            notice.company_id,
            notice.environment,
            notice.end_to_end_id,
            notice.kind,
        )
    )


async def is_known_charge(db: Connection, transaction: Transaction, notice: Notice) -> bool:
    """Say whether this charge of a locked payment was booked before, to it or to none."""
    return bool(
        await db.fetchval(
            """
            select exists (
                select from provider_callback
                where company_id = $1 and transaction_id = $2 and provider = $3 and kind = $4
                    and amount = $5 and state in ('applied', 'unclaimed')
            )
            """,
            transaction.company_id,
            transaction.transaction_id,
            notice.provider,
            notice.kind,
            notice.amount,
        )
    )


async def is_known_dispute(db: Connection, transaction: Transaction, notice: Notice) -> bool:
    """Say whether the same was told of this dispute of a locked payment, and done, before."""
    return bool(
        await db.fetchval(
            """
            select exists (
                select from provider_callback
                where company_id = $1 and transaction_id = $2 and provider = $3 and kind = $4
                    and dispute_id = $5 and state = 'applied'
            )
            """,
            transaction.company_id,
            transaction.transaction_id,
            notice.provider,
            notice.kind,
            notice.dispute_id,
        )
    )


async def is_other_dispute(db: Connection, transaction: Transaction, notice: Notice) -> bool:
    """Say whether a dispute was won that is not the one which a locked payment is in, or lost."""
    if notice.kind is not NoticeKind.DISPUTE_WON:
        return False
    latest = await db.fetchval(
        """
        select dispute_id from provider_callback
        where company_id = $1 and transaction_id = $2 and provider = $3 and state = 'applied'
            and kind = any($4)
        order by received_at desc limit 1
        """,
        transaction.company_id,
        transaction.transaction_id,
        notice.provider,
        [NoticeKind.DISPUTE_OPENED, NoticeKind.DISPUTE_LOST],
    )
    return latest is not None and latest != notice.dispute_id


async def list_unclaimed(db: Connection, transaction: Transaction, amount: int) -> Sequence[str]:
    """What the books call money of an amount that came for a locked payment and was not its own."""
    rows = await db.fetch(
        """
        select provider || '/' || callback_id as reference from provider_callback
        where company_id = $1 and transaction_id = $2 and state = 'unclaimed' and amount = $3
            and kind = any($4)
        order by received_at, callback_id
        """,
        transaction.company_id,
        transaction.transaction_id,
        amount,
        [NoticeKind.PAYMENT_RECEIVED, NoticeKind.CHARGE_PAID],
    )
    return [row["reference"] for row in rows]


async def list_told_refunds(db: Connection, transaction: Transaction) -> Collection[str]:
    """The refunds of a locked payment of which its provider has told us."""
    rows = await db.fetch(
        """
        select refund_id from provider_callback
        where company_id = $1 and transaction_id = $2 and refund_id is not null
        """,
        transaction.company_id,
        transaction.transaction_id,
    )
    return {row["refund_id"] for row in rows}


async def list_to_look_at(
    db: Connection, *, now: datetime, rows_max: int
) -> Sequence[tuple[Scope, str]]:
    """Payments for which something waits that must be looked at by now, the longest due first."""
    rows = await db.fetch(
        """
        select company_id, environment, transaction_id from provider_callback
        where look_at <= $1 and transaction_id is not null
        group by company_id, environment, transaction_id
        order by min(look_at), company_id, transaction_id limit $2
        """,
        now,
        rows_max,
    )
    return [(Scope(row["company_id"], row["environment"]), row["transaction_id"]) for row in rows]


def _notice(row: Row) -> Notice:
    return Notice(
        company_id=row["company_id"],
        environment=row["environment"],
        provider=row["provider"],
        callback_id=row["callback_id"],
        kind=NoticeKind(row["kind"]),
        reference=row["reference"],
        amount=row["amount"],
        end_to_end_id=row["end_to_end_id"],
        sequence=row["sequence"],
        code=row["code"],
        message=row["message"],
        dispute_id=row["dispute_id"],
    )
