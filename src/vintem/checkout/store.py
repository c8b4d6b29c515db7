"""The SQL of sessions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from vintem.checkout.model import (
    Amounts,
    AppliedCoupon,
    DiscountType,
    LineItem,
    Session,
    SessionStatus,
)
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Row
from vintem.transactions.model import PaymentMethod

_encode: Final = msgspec.json.Encoder().encode
_line_items: Final = msgspec.json.Decoder(type=tuple[LineItem, ...]).decode
_metadata: Final = msgspec.json.Decoder(type=Mapping[str, str | int | float | bool | None]).decode


async def insert(db: Connection, session: Session) -> bool:
    """Add a session and what its token is found by; false when its key is taken."""
    amounts, coupon = session.amounts, session.coupon
    found = await db.fetchval(
        """
        insert into checkout_session (
            company_id, session_id, environment, token_digest, status, sequence, state_version,
            link_id, appearance_version, line_items, subtotal_amount, discount_amount,
            shipping_amount, additional_amount, total_amount, coupon_id, coupon_code,
            coupon_discount_type, success_url, cancel_url, external_ref, postback_url, metadata,
            buyer_sealed, idempotency_key, fingerprint, created_at, updated_at, expires_at, due_at,
            offered_methods, installments_limit
        ) values (
            $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
            $20, $21, $22, $23, $24, $25, $26, $27, $27, $28, $28, $29, $30
        )
        on conflict do nothing returning true
        """,
        session.company_id,
        session.session_id,
        session.environment,
        session.token_digest,
        session.status,
        session.sequence,
        session.state_version,
        session.link_id,
        session.appearance_version,
        _encode(session.line_items).decode(),
        amounts.subtotal,
        amounts.discount,
        amounts.shipping,
        amounts.additional,
        amounts.total,
        None if coupon is None else coupon.coupon_id,
        None if coupon is None else coupon.code,
        None if coupon is None else coupon.discount_type,
        session.success_url,
        session.cancel_url,
        session.external_ref,
        session.postback_url,
        _encode(session.metadata).decode(),
        session.buyer_sealed,
        session.idempotency_key,
        session.fingerprint,
        session.created_at,
        session.expires_at,
        list(session.offered_methods),
        session.installments_limit,
    )
    if found:
        await db.execute(
            """
            insert into checkout_session_token (token_digest, company_id, session_id)
            values ($1, $2, $3)
            """,
            session.token_digest,
            session.company_id,
            session.session_id,
        )
    return bool(found)


async def find(db: Connection, scope: Scope, session_id: str) -> Session | None:
    """Find a session."""
    row = await db.fetchrow(
        """
        select * from checkout_session
        where company_id = $1 and session_id = $3 and environment = $2
        """,
        scope.company_id,
        scope.environment,
        session_id,
    )
    return None if row is None else session_of(row)


async def find_by_key(db: Connection, scope: Scope, idempotency_key: str) -> Session | None:
    """Find the session that holds an idempotency key."""
    row = await db.fetchrow(
        """
        select * from checkout_session
        where company_id = $1 and environment = $2 and idempotency_key = $3
        """,
        scope.company_id,
        scope.environment,
        idempotency_key,
    )
    return None if row is None else session_of(row)


async def find_current(db: Connection, scope: Scope, session_id: str) -> str | None:
    """Name the payment that a session is about."""
    current: str | None = await db.fetchval(
        """
        select transaction_id from checkout_session
        where company_id = $1 and session_id = $3 and environment = $2
        """,
        scope.company_id,
        scope.environment,
        session_id,
    )
    return current


async def lock(db: Connection, scope: Scope, session_id: str) -> Session | None:
    """Find a session and keep others from changing it until the block ends."""
    row = await db.fetchrow(
        """
        select * from checkout_session
        where company_id = $1 and session_id = $3 and environment = $2
        for update
        """,
        scope.company_id,
        scope.environment,
        session_id,
    )
    return None if row is None else session_of(row)


async def update(db: Connection, session: Session) -> None:
    """Write a locked session as it stands now."""
    amounts, coupon = session.amounts, session.coupon
    await db.execute(
        """
        update checkout_session set status = $3, sequence = $4, state_version = $5,
            discount_amount = $6, total_amount = $7, coupon_id = $8, coupon_code = $9,
            coupon_discount_type = $10, buyer_sealed = $11, transaction_id = $12,
            payments_tried = $13, pix_made = $14, cards_refused = $15, extra_payments = $16,
            wrong_codes = $17, coupon_locked_until = $18, updated_at = $19, expires_at = $20,
            completed_at = $21, cancelled_at = $22, due_at = $23, slips_made = $24
        where company_id = $1 and session_id = $2
        """,
        session.company_id,
        session.session_id,
        session.status,
        session.sequence,
        session.state_version,
        amounts.discount,
        amounts.total,
        None if coupon is None else coupon.coupon_id,
        None if coupon is None else coupon.code,
        None if coupon is None else coupon.discount_type,
        session.buyer_sealed,
        session.transaction_id,
        session.payments_tried,
        session.pix_made,
        session.cards_refused,
        session.extra_payments,
        session.wrong_codes,
        session.coupon_locked_until,
        session.updated_at,
        session.expires_at,
        session.completed_at,
        session.cancelled_at,
        session.due_at,
        session.slips_made,
    )


async def list_companies_with_due(db: Connection, *, now: datetime) -> Sequence[int]:
    """Companies with a session that the worker must look at."""
    rows = await db.fetch(
        "select distinct company_id from checkout_session where due_at <= $1", now
    )
    return [row["company_id"] for row in rows]


async def lock_over(
    db: Connection, company_id: int, *, now: datetime, rows_max: int
) -> Sequence[Session]:
    """Lock a company's unpaid sessions whose time is over, passing over those that others hold."""
    rows = await db.fetch(
        """
        select * from checkout_session
        where company_id = $1 and due_at <= $2 and status in ('OPEN', 'AWAITING_PAYMENT')
        order by due_at, session_id limit $3
        for update skip locked
        """,
        company_id,
        now,
        rows_max,
    )
    return [session_of(row) for row in rows]


async def update_expired(db: Connection, sessions: Sequence[Session]) -> None:
    """Write locked sessions of one company that time has ended."""
    await db.execute(
        """
        update checkout_session s set status = ended.status, sequence = ended.sequence,
            state_version = ended.state_version, updated_at = ended.updated_at, due_at = null
        from unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::timestamptz[])
            as ended (session_id, status, sequence, state_version, updated_at)
        where s.company_id = $1 and s.session_id = ended.session_id
        """,
        sessions[0].company_id,
        [session.session_id for session in sessions],
        [session.status for session in sessions],
        [session.sequence for session in sessions],
        [session.state_version for session in sessions],
        [session.updated_at for session in sessions],
    )


async def list_left_over(
    db: Connection, company_id: int, *, now: datetime, rows_max: int
) -> Sequence[Session]:
    """A company's completed sessions with payments to be ended, longest waiting first."""
    rows = await db.fetch(
        """
        select * from checkout_session
        where company_id = $1 and due_at <= $2 and status not in ('OPEN', 'AWAITING_PAYMENT')
        order by due_at, session_id limit $3
        """,
        company_id,
        now,
        rows_max,
    )
    return [session_of(row) for row in rows]


def session_of(row: Row) -> Session:
    """Read a session from its row."""
    return Session(
        company_id=row["company_id"],
        session_id=row["session_id"],
        environment=row["environment"],
        token_digest=row["token_digest"],
        status=SessionStatus(row["status"]),
        sequence=row["sequence"],
        state_version=row["state_version"],
        line_items=_line_items(row["line_items"]),
        amounts=Amounts(
            row["subtotal_amount"],
            row["discount_amount"],
            row["shipping_amount"],
            row["additional_amount"],
        ),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        expires_at=row["expires_at"],
        idempotency_key=row["idempotency_key"],
        fingerprint=row["fingerprint"],
        coupon=coupon_of(row),
        link_id=row["link_id"],
        appearance_version=row["appearance_version"],
        success_url=row["success_url"],
        cancel_url=row["cancel_url"],
        external_ref=row["external_ref"],
        postback_url=row["postback_url"],
        metadata=_metadata(row["metadata"]),
        buyer_sealed=row["buyer_sealed"],
        transaction_id=row["transaction_id"],
        payments_tried=row["payments_tried"],
        pix_made=row["pix_made"],
        slips_made=row["slips_made"],
        cards_refused=row["cards_refused"],
        extra_payments=row["extra_payments"],
        wrong_codes=row["wrong_codes"],
        coupon_locked_until=row["coupon_locked_until"],
        completed_at=row["completed_at"],
        cancelled_at=row["cancelled_at"],
        due_at=row["due_at"],
        offered_methods=methods_of(row["offered_methods"]),
        installments_limit=row["installments_limit"],
    )


def methods_of(names: Sequence[str]) -> Sequence[PaymentMethod]:
    """Name the methods in one order, whichever way they were written down."""
    return tuple(each for each in PaymentMethod if each in names) if names else ()


def coupon_of(row: Row) -> AppliedCoupon | None:
    """Read the coupon of a session, or of a payment that was tried for one."""
    if row["coupon_id"] is None:
        return None
    return AppliedCoupon(
        coupon_id=row["coupon_id"],
        code=row["coupon_code"],
        discount_type=DiscountType(row["coupon_discount_type"]),
        applied_amount=row["discount_amount"],
    )
