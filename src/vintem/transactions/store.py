"""The SQL of payments, their history and their refunds."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec

from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Row
from vintem.transactions.model import (
    PaymentMethod,
    Refund,
    RefundStatus,
    Status,
    StatusReason,
    Terms,
    Transaction,
)

COMPANIES_WITH_DUE: Final = "select distinct company_id from transaction where due_at <= $1"
LOCK_DUE: Final = """
    select * from transaction
    where company_id = $1 and due_at <= $2 and checkout_session_id is null
    order by due_at, transaction_id limit $3
    for update skip locked
"""


async def find_by_keys(db: Connection, wanted: Sequence[Transaction]) -> Sequence[Transaction]:
    """Find the payments that hold these payments' idempotency keys."""
    rows = await db.fetch(
        """
        select t.* from unnest($1::bigint[], $2::text[], $3::text[]) as k (
            company_id, environment, idempotency_key)
        join transaction t on t.company_id = k.company_id and t.environment = k.environment
            and t.idempotency_key = k.idempotency_key
        """,
        [each.company_id for each in wanted],
        [each.environment for each in wanted],
        [each.idempotency_key for each in wanted],
    )
    return [transaction_of(row) for row in rows]


async def find_by_key(db: Connection, scope: Scope, idempotency_key: str) -> Transaction | None:
    """Find the payment that holds an idempotency key."""
    row = await db.fetchrow(
        """
        select * from transaction
        where company_id = $1 and environment = $2 and idempotency_key = $3
        """,
        scope.company_id,
        scope.environment,
        idempotency_key,
    )
    return None if row is None else transaction_of(row)


async def find(db: Connection, scope: Scope, transaction_id: str) -> Transaction | None:
    """Find a payment."""
    row = await db.fetchrow(
        """
        select * from transaction
        where company_id = $1 and transaction_id = $3 and environment = $2
        """,
        scope.company_id,
        scope.environment,
        transaction_id,
    )
    return None if row is None else transaction_of(row)


async def lock(db: Connection, scope: Scope, transaction_id: str) -> Transaction | None:
    """Find a payment and keep others from changing it until the block ends."""
    row = await db.fetchrow(
        """
        select * from transaction
        where company_id = $1 and transaction_id = $3 and environment = $2
        for update
        """,
        scope.company_id,
        scope.environment,
        transaction_id,
    )
    return None if row is None else transaction_of(row)


async def find_many(
    db: Connection, wanted: Sequence[tuple[Scope, str]]
) -> Sequence[tuple[Transaction, bool | None]]:
    """Find payments of any number of companies, each with whether its company owes us.

    Of a company whose accounts are not open that is not known.
    """
    # The environment is looked at here: named in the join, it makes the planner take the index of
    # a company's list, and read all of it for each payment.
    environments = {(scope.company_id, each): scope.environment for scope, each in wanted}
    rows = await db.fetch(
        """
        select t.*, a.owes from unnest($1::bigint[], $2::text[]) as w (company_id, transaction_id)
        join transaction t on t.company_id = w.company_id
            and t.transaction_id = w.transaction_id
        left join account a on a.company_id = t.company_id and a.environment = t.environment
            and a.code = 'available'
        """,
        [company_id for company_id, _ in environments],
        [transaction_id for _, transaction_id in environments],
    )
    found = [(transaction_of(row), row["owes"]) for row in rows]
    return [
        (each, owes)
        for each, owes in found
        if environments[(each.company_id, each.transaction_id)] == each.environment
    ]


async def update_moved(
    db: Connection, moved: Sequence[tuple[Transaction, Status]], *, now: datetime
) -> None:
    """Write locked payments as they stand now, each with a history row of where it stood."""
    await db.execute(
        """
        with d as (
            select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[],
                $6::bigint[], $7::text[], $8::text[], $9::timestamptz[], $10::timestamptz[],
                $11::timestamptz[], $12::timestamptz[], $13::text[]) as d (
                company_id, transaction_id, status, status_reason, refunded_amount, sequence,
                hold_reference, end_to_end_id, paid_at, cancelled_at, refunded_at, due_at,
                from_status)
        ),
        t as (
            update transaction t set status = d.status, status_reason = d.status_reason,
                refunded_amount = d.refunded_amount, sequence = d.sequence,
                hold_reference = d.hold_reference, end_to_end_id = d.end_to_end_id,
                paid_at = d.paid_at, cancelled_at = d.cancelled_at,
                refunded_at = d.refunded_at, due_at = d.due_at, updated_at = $14
            from d
            where t.company_id = d.company_id and t.transaction_id = d.transaction_id
        )
        insert into transaction_history (
            company_id, transaction_id, sequence, from_status, to_status, reason, created_at)
        select company_id, transaction_id, sequence, from_status, status, status_reason, $14
        from d
        """,
        [each.company_id for each, _ in moved],
        [each.transaction_id for each, _ in moved],
        [each.status for each, _ in moved],
        [each.status_reason for each, _ in moved],
        [each.refunded_amount for each, _ in moved],
        [each.sequence for each, _ in moved],
        [each.hold_reference for each, _ in moved],
        [each.end_to_end_id for each, _ in moved],
        [each.paid_at for each, _ in moved],
        [each.cancelled_at for each, _ in moved],
        [each.refunded_at for each, _ in moved],
        [each.due_at for each, _ in moved],
        [was for _, was in moved],
        now,
    )


async def update_refunded_amount(
    db: Connection, transaction: Transaction, *, now: datetime
) -> None:
    """Write how much of a locked payment has been given back, its status unchanged."""
    await db.execute(
        """
        update transaction set refunded_amount = $3, updated_at = $4
        where company_id = $1 and transaction_id = $2
        """,
        transaction.company_id,
        transaction.transaction_id,
        transaction.refunded_amount,
        now,
    )


async def update_late_amount(db: Connection, transaction: Transaction) -> None:
    """Write what came with a locked payment for being late."""
    await db.execute(
        "update transaction set late_amount = $3 where company_id = $1 and transaction_id = $2",
        transaction.company_id,
        transaction.transaction_id,
        transaction.late_amount,
    )


async def update_due(db: Connection, transaction: Transaction, *, now: datetime) -> None:
    """Write when a locked payment ends and what is due next for it, its status unchanged."""
    await db.execute(
        """
        update transaction set due_at = $3, updated_at = $4, expires_at = $5
        where company_id = $1 and transaction_id = $2
        """,
        transaction.company_id,
        transaction.transaction_id,
        transaction.due_at,
        now,
        transaction.expires_at,
    )


async def has_entered(db: Connection, transaction: Transaction, status: Status) -> bool:
    """Say whether a payment was in a status before."""
    return bool(
        await db.fetchval(
            """
            select exists (
                select from transaction_history
                where company_id = $1 and transaction_id = $2 and to_status = $3
            )
            """,
            transaction.company_id,
            transaction.transaction_id,
            status,
        )
    )


async def list_companies_with_due(db: Connection, *, now: datetime) -> Sequence[int]:
    """Companies with a payment that the worker must look at."""
    rows = await db.fetch(COMPANIES_WITH_DUE, now)
    return [row["company_id"] for row in rows]


async def lock_due(
    db: Connection, company_id: int, *, now: datetime, rows_max: int
) -> Sequence[Transaction]:
    """Lock a company's due payments without a session, passing over those that others hold."""
    rows = await db.fetch(
        LOCK_DUE,
        company_id,
        now,
        rows_max,
    )
    return [transaction_of(row) for row in rows]


Due = tuple[datetime, str]
"""When a payment is due, and its id."""

FIRST_DUE: Final[Due] = (datetime.min.replace(tzinfo=UTC), "")


async def list_due_of_sessions(
    db: Connection, company_id: int, *, now: datetime, after: Due, rows_max: int
) -> Sequence[Due]:
    """List a company's due payments of sessions that come after one, in their order."""
    rows = await db.fetch(
        """
        select due_at, transaction_id from transaction
        where company_id = $1 and due_at <= $2 and checkout_session_id is not null
            and (due_at, transaction_id) > ($3, $4)
        order by due_at, transaction_id limit $5
        """,
        company_id,
        now,
        *after,
        rows_max,
    )
    return [(row["due_at"], row["transaction_id"]) for row in rows]


async def lock_if_due(
    db: Connection, company_id: int, transaction_id: str, *, now: datetime
) -> Transaction | None:
    """Lock a payment that is due; nothing when it is not any more, or another holds it."""
    row = await db.fetchrow(
        """
        select * from transaction where company_id = $1 and transaction_id = $2 and due_at <= $3
        for update skip locked
        """,
        company_id,
        transaction_id,
        now,
    )
    return None if row is None else transaction_of(row)


async def insert_refund(db: Connection, refund: Refund) -> bool:
    """Add a refund; false when its key was used for this payment before."""
    found = await db.fetchval(
        """
        insert into refund (
            company_id, refund_id, transaction_id, environment, amount, status, reason,
            idempotency_key, fingerprint, created_at, completed_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        on conflict do nothing returning true
        """,
        refund.company_id,
        refund.refund_id,
        refund.transaction_id,
        refund.environment,
        refund.amount,
        refund.status,
        refund.reason,
        refund.idempotency_key,
        refund.fingerprint,
        refund.created_at,
        refund.completed_at,
    )
    return bool(found)


async def find_refund_by_key(
    db: Connection, scope: Scope, transaction_id: str, idempotency_key: str
) -> Refund | None:
    """Find the refund of a payment that holds an idempotency key."""
    row = await db.fetchrow(
        """
        select * from refund
        where company_id = $1 and transaction_id = $2 and idempotency_key = $3
        """,
        scope.company_id,
        transaction_id,
        idempotency_key,
    )
    return None if row is None else _refund(row)


async def find_refund(db: Connection, scope: Scope, refund_id: str) -> Refund | None:
    """Find a refund."""
    row = await db.fetchrow(
        "select * from refund where company_id = $1 and refund_id = $2 and environment = $3",
        scope.company_id,
        refund_id,
        scope.environment,
    )
    return None if row is None else _refund(row)


async def list_refunds(
    db: Connection, company_id: int, transaction_ids: Sequence[str]
) -> Sequence[Refund]:
    """The refunds of payments, the oldest first."""
    rows = await db.fetch(
        """
        select * from refund where company_id = $1 and transaction_id = any($2::text[])
        order by created_at, refund_id
        """,
        company_id,
        list(transaction_ids),
    )
    return [_refund(row) for row in rows]


def transaction_of(row: Row) -> Transaction:
    """Read a payment from its row."""
    reason = row["status_reason"]
    return Transaction(
        company_id=row["company_id"],
        transaction_id=row["transaction_id"],
        environment=row["environment"],
        status=Status(row["status"]),
        status_reason=None if reason is None else StatusReason(reason),
        payment_method=PaymentMethod(row["payment_method"]),
        amount=row["amount"],
        fee=row["fee"],
        installments=row["installments"],
        refunded_amount=row["refunded_amount"],
        idempotency_key=row["idempotency_key"],
        fingerprint=row["fingerprint"],
        sequence=row["sequence"],
        hold_reference=row["hold_reference"],
        document_sealed=row["document_sealed"],
        details=row["details"],
        terms=_terms(row["terms"]),
        end_to_end_id=row["end_to_end_id"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        paid_at=row["paid_at"],
        expires_at=row["expires_at"],
        cancelled_at=row["cancelled_at"],
        refunded_at=row["refunded_at"],
        due_at=row["due_at"],
        answered_at=row["answered_at"],
        checkout_session_id=row["checkout_session_id"],
        late_amount=row["late_amount"],
    )


@lru_cache(maxsize=10_000)
def _terms(text: str) -> Terms:
    """Read what was agreed; the payments of a company mostly say the same."""
    return msgspec.json.decode(text, type=Terms)


def _refund(row: Row) -> Refund:
    return Refund(
        company_id=row["company_id"],
        refund_id=row["refund_id"],
        transaction_id=row["transaction_id"],
        environment=row["environment"],
        amount=row["amount"],
        status=RefundStatus(row["status"]),
        reason=row["reason"],
        idempotency_key=row["idempotency_key"],
        fingerprint=row["fingerprint"],
        created_at=row["created_at"],
        completed_at=row["completed_at"],
    )
