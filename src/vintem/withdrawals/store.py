"""The SQL of withdrawals, their history and their days."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from vintem.kit.paging import COUNTED_ROWS_MAX, Cursor
from vintem.ledger.model import Purchase, Scope
from vintem.runtime.db import Connection, Row
from vintem.withdrawals.model import (
    DestinationUse,
    Failure,
    Filter,
    Method,
    Status,
    Withdrawal,
)


async def insert(db: Connection, made: Withdrawal) -> bool:
    """Add a withdrawal with its first history row; false when its key was used before."""
    bought = made.bought
    found = await db.fetchval(
        """
        with w as (
            insert into withdrawal (
                company_id, withdrawal_id, environment, status, method, amount, fee, net_amount,
                total_debited, external_ref, destination_sealed, destination_digest, requested_by,
                idempotency_key, fingerprint, sequence, details, asset, asset_units, exchange_rate,
                rate_source, quoted_at, due_at, created_at, updated_at
            ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 1, $16,
                $17, $18, $19, $20, $21, $22, $23, $23)
            on conflict (company_id, environment, idempotency_key) do nothing
            returning company_id, withdrawal_id, status, created_at
        )
        insert into withdrawal_history (
            company_id, withdrawal_id, sequence, to_status, created_at)
        select company_id, withdrawal_id, 1, status, created_at from w
        returning true
        """,
        made.company_id,
        made.withdrawal_id,
        made.environment,
        made.status,
        made.method,
        made.amount,
        made.fee,
        made.net_amount,
        made.total_debited,
        made.external_ref,
        made.destination_sealed,
        made.destination_digest,
        made.requested_by,
        made.idempotency_key,
        made.fingerprint,
        made.details,
        None if bought is None else bought.asset,
        None if bought is None else Decimal(bought.units),
        None if bought is None else bought.exchange_rate,
        None if bought is None else bought.rate_source,
        None if bought is None else bought.quoted_at,
        made.due_at,
        made.created_at,
    )
    return bool(found)


async def find_by_key(db: Connection, scope: Scope, idempotency_key: str) -> Withdrawal | None:
    """Find the withdrawal that holds an idempotency key."""
    row = await db.fetchrow(
        """
        select * from withdrawal
        where company_id = $1 and environment = $2 and idempotency_key = $3
        """,
        scope.company_id,
        scope.environment,
        idempotency_key,
    )
    return None if row is None else _withdrawal(row)


async def find(db: Connection, scope: Scope, withdrawal_id: str) -> Withdrawal | None:
    """Find a withdrawal."""
    row = await db.fetchrow(
        """
        select * from withdrawal
        where company_id = $1 and environment = $2 and withdrawal_id = $3
        """,
        scope.company_id,
        scope.environment,
        withdrawal_id,
    )
    return None if row is None else _withdrawal(row)


async def lock(db: Connection, company_id: int, withdrawal_id: str) -> Withdrawal | None:
    """Find a withdrawal and keep others from changing it until the block ends."""
    row = await db.fetchrow(
        """
        select * from withdrawal where company_id = $1 and withdrawal_id = $2 for update
        """,
        company_id,
        withdrawal_id,
    )
    return None if row is None else _withdrawal(row)


async def find_owner(db: Connection, withdrawal_id: str) -> Scope | None:
    """Say whose a withdrawal is, for an operator who knows its id alone."""
    row = await db.fetchrow(
        "select company_id, environment from withdrawal where withdrawal_id = $1", withdrawal_id
    )
    return None if row is None else Scope(row["company_id"], row["environment"])


async def find_request(db: Connection, scope: Scope, request_id: str) -> str | None:
    """Say which withdrawal of a company a provider's request is."""
    withdrawal_id: str | None = await db.fetchval(
        """
        select withdrawal_id from withdrawal
        where company_id = $1 and environment = $2 and request_id = $3
        """,
        scope.company_id,
        scope.environment,
        request_id,
    )
    return withdrawal_id


async def is_known_destination(db: Connection, scope: Scope, digest: bytes) -> bool:
    """Say whether a withdrawal to a destination was ever completed."""
    return bool(
        await db.fetchval(
            """
            select exists (
                select from withdrawal
                where company_id = $1 and environment = $2 and destination_digest = $3
                    and status = 'completed'
            )
            """,
            scope.company_id,
            scope.environment,
            digest,
        )
    )


async def find_destination_uses(
    db: Connection, scope: Scope, digests: Sequence[bytes], *, counted_max: int
) -> Mapping[bytes, DestinationUse]:
    """How often withdrawals to destinations were completed, and since when as far as counted."""
    rows = await db.fetch(
        """
        select asked.digest, u.completions, u.first_at
        from unnest($3::bytea[]) as asked (digest) cross join lateral (
            select count(*) as completions, min(completed_at) as first_at from (
                select completed_at from withdrawal
                where company_id = $1 and environment = $2 and destination_digest = asked.digest
                    and status = 'completed'
                limit $4
            ) as counted
        ) as u
        """,
        scope.company_id,
        scope.environment,
        list(digests),
        counted_max,
    )
    return {row["digest"]: DestinationUse(row["completions"], row["first_at"]) for row in rows}


async def add_to_day(
    db: Connection, scope: Scope, day: date, *, cents: int, cents_max: int | None
) -> bool:
    """Count a withdrawal into its day, unless the day would hold more than it may."""
    counted = await db.fetchval(
        """
        insert into withdrawal_day (company_id, environment, day, total)
        select $1, $2, $3, $4::bigint where $4 <= coalesce($5, 9223372036854775807)
        on conflict (company_id, environment, day) do update
            set total = withdrawal_day.total + excluded.total
            where withdrawal_day.total + excluded.total <= coalesce($5, 9223372036854775807)
        returning true
        """,
        scope.company_id,
        scope.environment,
        day,
        cents,
        cents_max,
    )
    return bool(counted)


async def take_from_day(db: Connection, scope: Scope, day: date, *, cents: int) -> None:
    """Take a withdrawal that came to nothing out of its day."""
    await db.execute(
        """
        update withdrawal_day set total = total - $4
        where company_id = $1 and environment = $2 and day = $3
        """,
        scope.company_id,
        scope.environment,
        day,
        cents,
    )


async def update_moved(db: Connection, moved: Withdrawal, *, was: Status) -> None:
    """Write a locked withdrawal as it stands now, with a history row of where it stood."""
    failure = moved.failure
    await db.execute(
        """
        with w as (
            update withdrawal set status = $3, sequence = $4, request_id = $5, fence = $6,
                asked = $7, due_at = $8, failure_code = $9, failure_reason = $10,
                end_to_end_id = $11, tx_hash = $12, confirmations = $13, processed_at = $14,
                completed_at = $15, cancelled_at = $16, updated_at = $17
            where company_id = $1 and withdrawal_id = $2
        )
        insert into withdrawal_history (
            company_id, withdrawal_id, sequence, from_status, to_status, created_at)
        values ($1, $2, $4, $18, $3, $17)
        """,
        moved.company_id,
        moved.withdrawal_id,
        moved.status,
        moved.sequence,
        moved.request_id,
        moved.fence,
        moved.asked,
        moved.due_at,
        None if failure is None else failure.code,
        None if failure is None else failure.reason,
        moved.end_to_end_id,
        moved.tx_hash,
        moved.confirmations,
        moved.processed_at,
        moved.completed_at,
        moved.cancelled_at,
        moved.updated_at,
        was,
    )


async def list_companies_with_due(
    db: Connection, environment: str, *, now: datetime
) -> Sequence[int]:
    """Companies with a withdrawal that must be sent or asked about."""
    rows = await db.fetch(
        "select distinct company_id from withdrawal where due_at <= $1 and environment = $2",
        now,
        environment,
    )
    return [row["company_id"] for row in rows]


async def lock_due(
    db: Connection,
    scope: Scope,
    *,
    statuses: Sequence[Status],
    quoted_since: datetime,
    now: datetime,
    rows_max: int,
) -> Sequence[Withdrawal]:
    """Lock a company's withdrawals that are due, passing over those that another worker holds.

    One that is still to be sent and whose price is too old waits for a new one.
    """
    rows = await db.fetch(
        """
        select * from withdrawal
        where company_id = $1 and due_at <= $2 and status = any($3::text[])
            and (status <> 'pending' or quoted_at is null or quoted_at >= $4)
            and environment = $6
        order by due_at, withdrawal_id limit $5
        for update skip locked
        """,
        scope.company_id,
        now,
        list(statuses),
        quoted_since,
        rows_max,
        scope.environment,
    )
    return [_withdrawal(row) for row in rows]


async def list_stale_quotes(
    db: Connection, scope: Scope, *, quoted_before: datetime, now: datetime, rows_max: int
) -> Sequence[Withdrawal]:
    """A company's withdrawals that are due and need a new price before they are sent."""
    rows = await db.fetch(
        """
        select * from withdrawal
        where company_id = $1 and due_at <= $2 and status = 'pending' and quoted_at < $3
            and environment = $5
        order by due_at, withdrawal_id limit $4
        """,
        scope.company_id,
        now,
        quoted_before,
        rows_max,
        scope.environment,
    )
    return [_withdrawal(row) for row in rows]


async def update_quote(db: Connection, withdrawal: Withdrawal, bought: Purchase) -> None:
    """Write a new price of a withdrawal that nobody has sent meanwhile."""
    await db.execute(
        """
        update withdrawal set asset_units = $3, exchange_rate = $4, rate_source = $5, quoted_at = $6
        where company_id = $1 and withdrawal_id = $2 and status = 'pending' and quoted_at < $6
        """,
        withdrawal.company_id,
        withdrawal.withdrawal_id,
        Decimal(bought.units),
        bought.exchange_rate,
        bought.rate_source,
        bought.quoted_at,
    )


async def postpone(db: Connection, withdrawal: Withdrawal, *, due_at: datetime) -> None:
    """Let a withdrawal that is still to be sent wait a little."""
    await db.execute(
        """
        update withdrawal set due_at = $3
        where company_id = $1 and withdrawal_id = $2 and status = 'pending'
        """,
        withdrawal.company_id,
        withdrawal.withdrawal_id,
        due_at,
    )


async def claim(
    db: Connection, withdrawal: Withdrawal, *, asked: int, due_at: datetime
) -> Withdrawal:
    """Take the next turn of a locked withdrawal; it ends when the withdrawal is due again."""
    row = await db.fetchrow(
        """
        update withdrawal set fence = fence + 1, asked = $3, due_at = $4
        where company_id = $1 and withdrawal_id = $2 returning *
        """,
        withdrawal.company_id,
        withdrawal.withdrawal_id,
        asked,
        due_at,
    )
    assert row is not None
    return _withdrawal(row)


async def set_due(db: Connection, claimed: Withdrawal, *, due_at: datetime) -> bool:
    """Say when to ask again, if it is still our turn."""
    found = await db.fetchval(
        """
        update withdrawal set due_at = $4
        where company_id = $1 and withdrawal_id = $2 and fence = $3 and status = 'processing'
        returning true
        """,
        claimed.company_id,
        claimed.withdrawal_id,
        claimed.fence,
        due_at,
    )
    return bool(found)


async def count_processing_since_before(db: Connection, moment: datetime) -> int:
    """How many withdrawals have been on their way for longer than is well, over all companies."""
    counted = await db.fetchval(
        """
        select count(company_id) from withdrawal
        where due_at is not null and status = 'processing' and processed_at < $1
        """,
        moment,
    )
    return int(counted)


async def list_page(
    db: Connection, wanted: Filter, *, cursor: Cursor | None, offset: int, rows_max: int
) -> Sequence[Withdrawal]:
    """List withdrawals, the newest first."""
    rows = await db.fetch(
        f"""
        select * from withdrawal
        where company_id = $1 and environment = $2 and {_FILTER}
            and ($8::timestamptz is null or (created_at, withdrawal_id) < ($8, $9::text))
        order by created_at desc, withdrawal_id desc
        limit $10 offset $11
        """,  # noqa: S608 - the filter is a constant
        *_filter_values(wanted),
        None if cursor is None else cursor.created_at,
        None if cursor is None else cursor.id,
        rows_max,
        offset,
    )
    return [_withdrawal(row) for row in rows]


async def count(db: Connection, wanted: Filter) -> int:
    """Count withdrawals, as far as anybody wants to know."""
    counted = await db.fetchval(
        f"""
        select count(*) from (
            select from withdrawal
            where company_id = $1 and environment = $2 and {_FILTER}
            limit $8
        ) as counted
        """,  # noqa: S608 - the filter is a constant
        *_filter_values(wanted),
        COUNTED_ROWS_MAX,
    )
    return int(counted)


async def list_by_status(db: Connection, status: Status, *, rows_max: int) -> Sequence[Withdrawal]:
    """Withdrawals of all companies in a status, the oldest first."""
    rows = await db.fetch(
        """
        select * from withdrawal where status = $1
        order by created_at, company_id, withdrawal_id limit $2
        """,
        status,
        rows_max,
    )
    return [_withdrawal(row) for row in rows]


_FILTER: Final = """
    ($3::text[] is null or status = any($3))
    and ($4::text is null or method = $4)
    and ($5::timestamptz is null or created_at >= $5)
    and ($6::timestamptz is null or created_at < $6)
    and ($7::text is null or external_ref = $7)
"""


def _filter_values(wanted: Filter) -> tuple[object, ...]:
    return (
        wanted.scope.company_id,
        wanted.scope.environment,
        None if wanted.statuses is None else list(wanted.statuses),
        wanted.method,
        wanted.created_from,
        wanted.created_before,
        wanted.external_ref,
    )


def _withdrawal(row: Row) -> Withdrawal:
    code, asset = row["failure_code"], row["asset"]
    bought = None
    if asset is not None:
        bought = Purchase(
            asset=asset,
            units=int(row["asset_units"]),
            exchange_rate=row["exchange_rate"],
            rate_source=row["rate_source"],
            quoted_at=row["quoted_at"],
        )
    return Withdrawal(
        company_id=row["company_id"],
        withdrawal_id=row["withdrawal_id"],
        environment=row["environment"],
        status=Status(row["status"]),
        method=Method(row["method"]),
        amount=row["amount"],
        fee=row["fee"],
        net_amount=row["net_amount"],
        external_ref=row["external_ref"],
        destination_sealed=row["destination_sealed"],
        destination_digest=row["destination_digest"],
        requested_by=row["requested_by"],
        idempotency_key=row["idempotency_key"],
        fingerprint=row["fingerprint"],
        sequence=row["sequence"],
        details=row["details"],
        bought=bought,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        request_id=row["request_id"],
        fence=row["fence"],
        asked=row["asked"],
        due_at=row["due_at"],
        failure=None if code is None else Failure(code, row["failure_reason"]),
        end_to_end_id=row["end_to_end_id"],
        tx_hash=row["tx_hash"],
        confirmations=row["confirmations"],
        processed_at=row["processed_at"],
        completed_at=row["completed_at"],
        cancelled_at=row["cancelled_at"],
    )
