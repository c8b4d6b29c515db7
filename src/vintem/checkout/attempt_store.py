"""The SQL of the payments that are tried for sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from vintem.checkout.model import AppliedCoupon, Session
from vintem.checkout.store import coupon_of
from vintem.kit.intent import Intent
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Row


@dataclass(frozen=True, slots=True)
class Attempt:
    """A payment that was tried for a session."""

    company_id: int
    transaction_id: str
    environment: str
    session_id: str
    idempotency_key: str
    fingerprint: bytes
    coupon: AppliedCoupon | None
    holds_coupon: bool
    """Whether it counts as one of its coupon's redemptions; of those unpaid, one a session does."""
    is_extra: bool
    created_at: datetime
    paid_at: datetime | None
    document_digest: bytes | None
    holds_place: bool
    """Whether it is one of its link's last payments; of those unpaid, one a session is."""


async def insert_attempt(db: Connection, attempt: Attempt) -> None:
    """Add a payment that is tried for a session."""
    coupon = attempt.coupon
    await db.execute(
        """
        insert into checkout_payment (
            company_id, transaction_id, environment, session_id, idempotency_key, fingerprint,
            coupon_id, coupon_code, coupon_discount_type, discount_amount, holds_coupon, created_at,
            document_digest, holds_place
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        """,
        attempt.company_id,
        attempt.transaction_id,
        attempt.environment,
        attempt.session_id,
        attempt.idempotency_key,
        attempt.fingerprint,
        None if coupon is None else coupon.coupon_id,
        None if coupon is None else coupon.code,
        None if coupon is None else coupon.discount_type,
        0 if coupon is None else coupon.applied_amount,
        attempt.holds_coupon,
        attempt.created_at,
        attempt.document_digest,
        attempt.holds_place,
    )


async def find_attempt(db: Connection, scope: Scope, transaction_id: str) -> Attempt | None:
    """Find a payment that was tried for a session; whoever changes it holds the session."""
    row = await db.fetchrow(
        """
        select * from checkout_payment
        where company_id = $1 and transaction_id = $3 and environment = $2
        """,
        scope.company_id,
        scope.environment,
        transaction_id,
    )
    return None if row is None else _attempt(row)


async def find_by_payment_key(
    db: Connection, session: Session, idempotency_key: str
) -> tuple[str, bytes] | None:
    """Name the payment of a session that a key stands for, and what was asked for with it."""
    row = await db.fetchrow(
        """
        select transaction_id, fingerprint from checkout_payment
        where company_id = $1 and session_id = $2 and idempotency_key = $3
        union all
        select transaction_id, fingerprint from checkout_payment_key
        where company_id = $1 and session_id = $2 and idempotency_key = $3
        """,
        session.company_id,
        session.session_id,
        idempotency_key,
    )
    return None if row is None else (row["transaction_id"], row["fingerprint"])


async def insert_payment_key(
    db: Connection, session: Session, intent: Intent, transaction_id: str, *, now: datetime
) -> None:
    """Let a key stand for a payment that another has made; whoever does holds the session."""
    await db.execute(
        """
        insert into checkout_payment_key (
            company_id, session_id, idempotency_key, environment, fingerprint, transaction_id,
            created_at
        ) values ($1, $2, $3, $4, $5, $6, $7)
        """,
        session.company_id,
        session.session_id,
        intent.key,
        session.environment,
        intent.fingerprint,
        transaction_id,
        now,
    )


async def find_holder(
    db: Connection, scope: Scope, session_id: str, coupon_id: str
) -> Attempt | None:
    """Find the payment, not made yet, for which a session holds a redemption of a coupon."""
    row = await db.fetchrow(
        """
        select * from checkout_payment
        where company_id = $1 and environment = $2 and session_id = $3 and coupon_id = $4
            and holds_coupon and paid_at is null
        """,
        scope.company_id,
        scope.environment,
        session_id,
        coupon_id,
    )
    return None if row is None else _attempt(row)


async def find_heir(db: Connection, attempt: Attempt) -> Attempt | None:
    """Find another code of the same session and coupon that was superseded and can be paid yet."""
    assert attempt.coupon is not None
    row = await db.fetchrow(
        """
        select p.* from checkout_payment p join transaction t on t.company_id = p.company_id
            and t.transaction_id = p.transaction_id
        where p.company_id = $1 and p.session_id = $2 and p.coupon_id = $3 and p.paid_at is null
            and p.transaction_id <> $4 and t.status = 'cancelled'
            and t.status_reason = 'superseded' and t.due_at is not null
        order by t.due_at desc limit 1
        """,
        attempt.company_id,
        attempt.session_id,
        attempt.coupon.coupon_id,
        attempt.transaction_id,
    )
    return None if row is None else _attempt(row)


async def update_attempt(db: Connection, attempt: Attempt) -> None:
    """Write what became of a payment that was tried."""
    await db.execute(
        """
        update checkout_payment set holds_coupon = $3, is_extra = $4, paid_at = $5,
            holds_place = $6
        where company_id = $1 and transaction_id = $2
        """,
        attempt.company_id,
        attempt.transaction_id,
        attempt.holds_coupon,
        attempt.is_extra,
        attempt.paid_at,
        attempt.holds_place,
    )


async def list_unpaid(db: Connection, session: Session) -> Sequence[str]:
    """Name the payments of a session that were not made, in one order for all who lock them."""
    rows = await db.fetch(
        """
        select transaction_id from checkout_payment
        where company_id = $1 and session_id = $2 and paid_at is null
        order by transaction_id
        """,
        session.company_id,
        session.session_id,
    )
    return [row["transaction_id"] for row in rows]


async def find_place_holder(db: Connection, session: Session) -> Attempt | None:
    """Find the payment, not made yet, for which a session holds one of its link's last places."""
    row = await db.fetchrow(
        """
        select * from checkout_payment
        where company_id = $1 and session_id = $2 and holds_place and paid_at is null
        """,
        session.company_id,
        session.session_id,
    )
    return None if row is None else _attempt(row)


async def find_payer(db: Connection, session: Session) -> bytes | None:
    """Find by whom a session was tried to be paid last: the digest of a document."""
    digest: bytes | None = await db.fetchval(
        """
        select document_digest from checkout_payment
        where company_id = $1 and session_id = $2
        order by created_at desc, transaction_id desc limit 1
        """,
        session.company_id,
        session.session_id,
    )
    return digest


async def count_redemptions_by(
    db: Connection, session: Session, coupon_id: str, document_digest: bytes, *, rows_max: int
) -> int:
    """Count how often somebody holds or has used a coupon in other sessions, up to so many."""
    counted = await db.fetchval(
        """
        select count(*) from (
            select from checkout_payment
            where company_id = $1 and coupon_id = $2 and document_digest = $3 and holds_coupon
                and session_id <> $4
            limit $5
        ) as counted
        """,
        session.company_id,
        coupon_id,
        document_digest,
        session.session_id,
        rows_max,
    )
    return int(counted)


def _attempt(row: Row) -> Attempt:
    return Attempt(
        company_id=row["company_id"],
        transaction_id=row["transaction_id"],
        environment=row["environment"],
        session_id=row["session_id"],
        idempotency_key=row["idempotency_key"],
        fingerprint=row["fingerprint"],
        coupon=coupon_of(row),
        holds_coupon=row["holds_coupon"],
        is_extra=row["is_extra"],
        created_at=row["created_at"],
        paid_at=row["paid_at"],
        document_digest=row["document_digest"],
        holds_place=row["holds_place"],
    )
