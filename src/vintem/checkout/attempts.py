"""Payments of a session: one alive at a time, each with the session's amount and its coupon."""

from collections.abc import Awaitable, Callable
from dataclasses import replace as changed
from datetime import datetime

import msgspec
from msgspec.structs import replace

from vintem.checkout import attempt_store, catalogue_store, link_store, store
from vintem.checkout.attempt_store import Attempt
from vintem.checkout.model import (
    OVER,
    PIX_PER_SESSION_MAX,
    REFUSALS_PER_SESSION_MAX,
    SLIPS_PER_SESSION_MAX,
    Coupon,
    Session,
    is_alive,
    is_under_way,
)
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.intent import Intent, IntentReused, IntentSource
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Database, DatabaseBusyError
from vintem.transactions import moves as payment_moves
from vintem.transactions import service as transactions
from vintem.transactions.model import PaymentMethod, Status, StatusReason, Transaction


class SessionChangedError(Exception):
    """The session is not what the payment was made for; it must be read again."""


class NewAttempt(msgspec.Struct, frozen=True):
    """A payment that shall be tried for a session, as the session was read."""

    session: Session
    transaction: Transaction
    intent: Intent
    buyer_sealed: bytes
    document_digest: bytes
    """Who pays."""


def begin(
    attempt: NewAttempt, *, now: datetime
) -> Callable[[Connection], Awaitable[Transaction | None]]:
    """Make room for a payment in its own commit; gives the payment that stands for it, if any.

    Whoever asks at the same time waits here, and finds the payment of the first.
    """
    read, wanted = attempt.session, attempt.transaction

    async def make_room(block: Connection) -> Transaction | None:
        session, current = await lock_with_payment(block, read.scope, read.session_id)
        earlier = await find_earlier(block, session, attempt.intent)
        if earlier is not None:
            return earlier
        refuse_over(session, now=now)
        if current is not None and _stands_for(current, wanted, now):
            await _keep_key(block, session, attempt.intent, current, now=now)
            return current
        is_priced_anew = session.amounts != read.amounts or session.coupon != read.coupon
        if is_priced_anew or _outlives(wanted, session):
            raise SessionChangedError
        refuse_used_up(session, wanted.payment_method, now=now)
        if current is not None and current.status is Status.PENDING:
            await end_payment(block, current, now=now)
            session = await _locked(block, session.scope, session.session_id)
        await _reserve_coupon(block, session, attempt.document_digest, now=now)
        holds_place = await _reserve_place(block, session)
        await _write_down(block, session, attempt, holds_place=holds_place, now=now)
        return None

    return make_room


async def lock_with_payment(
    block: Connection, scope: Scope, session_id: str
) -> tuple[Session, Transaction | None]:
    """Lock a session and, before it, the payment that it is about."""
    current_id = await store.find_current(block, scope, session_id)
    current = None
    if current_id is not None:
        current = await transactions.lock(block, scope, current_id)
    session = await _locked(block, scope, session_id)
    if session.transaction_id != current_id:
        # Somebody was faster: the other payment must be locked before the session.
        raise DatabaseBusyError("the session has another payment meanwhile")
    return session, current


async def _locked(block: Connection, scope: Scope, session_id: str) -> Session:
    session = await store.lock(block, scope, session_id)
    assert session is not None, "sessions are never deleted"
    return session


async def find_earlier(block: Connection, session: Session, intent: Intent) -> Transaction | None:
    """Find the payment that an intent made for a session before; refuse the key of another."""
    earlier = await attempt_store.find_by_payment_key(block, session, intent.key)
    if earlier is None:
        return None
    transaction_id, known = earlier
    transaction = await transactions.get(block, session.scope, transaction_id)
    if known != intent.fingerprint:
        raise IntentReused(transaction.processed_at or transaction.created_at)
    return transaction


async def show_standing(
    database: Database, session: Session, intent: Intent, standing: Transaction, *, now: datetime
) -> Transaction:
    """Let a key stand for the payment that its caller is shown, or give the one it stands for."""

    async def show(block: Connection) -> Transaction:
        locked = await _locked(block, session.scope, session.session_id)
        earlier = await find_earlier(block, locked, intent)
        if earlier is not None:
            return earlier
        await _keep_key(block, locked, intent, standing, now=now)
        return standing

    return await database.atomically(show)


async def _keep_key(
    block: Connection, session: Session, intent: Intent, payment: Transaction, *, now: datetime
) -> None:
    if intent.source is IntentSource.CLIENT:
        await attempt_store.insert_payment_key(
            block, session, intent, payment.transaction_id, now=now
        )


def refuse_over(session: Session, *, now: datetime) -> None:
    """Refuse to do anything with a session that is over."""
    code = OVER.get(session.status_at(now))
    if code is not None:
        raise Refusal(code)


def refuse_used_up(session: Session, method: PaymentMethod, *, now: datetime) -> None:
    """Refuse a way to pay that was tried too often in this session."""
    is_pix = method is PaymentMethod.PIX
    if is_pix and session.pix_made >= PIX_PER_SESSION_MAX:
        raise Refusal(
            ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE,
            "Too many PIX codes were made for this session; pay in another way.",
            details={"maximum": PIX_PER_SESSION_MAX},
        )
    is_slip = method is PaymentMethod.BOLETO
    if is_slip and session.slips_made >= SLIPS_PER_SESSION_MAX:
        raise Refusal(
            ErrorCode.PAYMENT_METHOD_NOT_AVAILABLE,
            "Too many boletos were made for this session; pay in another way.",
            details={"maximum": SLIPS_PER_SESSION_MAX},
        )
    is_card = method is PaymentMethod.CREDIT_CARD
    if is_card and session.cards_refused >= REFUSALS_PER_SESSION_MAX:
        seconds = int((session.expires_at - now).total_seconds())
        raise Refusal(
            ErrorCode.CARD_ATTEMPTS_EXCEEDED,
            "Too many cards were refused in this session; pay in another way.",
            details={"maximum": REFUSALS_PER_SESSION_MAX},
            retry_after_seconds=max(1, seconds),
        )


async def end_payment(block: Connection, payment: Transaction, *, now: datetime) -> None:
    """End a locked payment that nobody has made, because another takes its place.

    If it is made all the same, the money is late and not lost; so it is looked at once more when
    it can be made no longer.
    """
    if is_alive(payment, now):
        reason, watched = StatusReason.SUPERSEDED, replace(payment, due_at=payment.expires_at)
        await payment_moves.move(block, watched, Status.CANCELLED, reason, now=now)
    else:
        await payment_moves.expire(block, payment, now=now)


def _stands_for(current: Transaction, wanted: Transaction, now: datetime) -> bool:
    """Say whether a buyer who asks to pay is shown the payment that there is."""
    is_same_method = current.payment_method is wanted.payment_method
    return is_under_way(current) or (is_same_method and is_alive(current, now))


def _outlives(wanted: Transaction, session: Session) -> bool:
    """Say whether a PIX would last longer than its session, whose time was shortened meanwhile."""
    is_pix = wanted.payment_method is PaymentMethod.PIX
    return is_pix and wanted.expires_at is not None and wanted.expires_at > session.expires_at


async def is_used_up_by(
    db: Connection, session: Session, coupon: Coupon, document_digest: bytes | None
) -> bool:
    """Say whether somebody has used a coupon as often as each may, in other sessions."""
    most = coupon.customer_redemptions_max
    if most is None or document_digest is None:
        return False
    used = await attempt_store.count_redemptions_by(
        db, session, coupon.coupon_id, document_digest, rows_max=most
    )
    return used >= most


async def _reserve_coupon(
    block: Connection, session: Session, document_digest: bytes, *, now: datetime
) -> None:
    if session.coupon is None:
        return
    held = await attempt_store.find_holder(
        block, session.scope, session.session_id, session.coupon.coupon_id
    )
    if held is not None:
        # A session holds one redemption, for whichever of its payments is made.
        await attempt_store.update_attempt(block, changed(held, holds_coupon=False))
        await catalogue_store.add_redemptions(
            block, session.company_id, session.coupon.coupon_id, -1
        )
    coupon = await catalogue_store.reserve_coupon(
        block,
        session.company_id,
        session.coupon.coupon_id,
        product_ids=[item.product_id for item in session.line_items],
        now=now,
    )
    # Counted after the coupon is locked: of two sessions of one buyer, the second sees the first.
    if coupon is None or await is_used_up_by(block, session, coupon, document_digest):
        raise Refusal(ErrorCode.COUPON_INVALID)


async def _reserve_place(block: Connection, session: Session) -> bool:
    """Take one of the last places of a session's link; false where there is no end of them."""
    if session.link_id is None:
        return False
    held = await attempt_store.find_place_holder(block, session)
    if held is not None:
        # A session holds one place, for whichever of its payments is made.
        await attempt_store.update_attempt(block, changed(held, holds_place=False))
        return True
    if not await link_store.has_maximum(block, session.company_id, session.link_id):
        return False
    if not await link_store.hold_place(block, session.company_id, session.link_id):
        raise Refusal(ErrorCode.PAYMENT_LINK_INACTIVE)
    return True


async def _write_down(
    block: Connection, session: Session, attempt: NewAttempt, *, holds_place: bool, now: datetime
) -> None:
    made, coupon = attempt.transaction, session.coupon
    await attempt_store.insert_attempt(
        block,
        Attempt(
            company_id=session.company_id,
            transaction_id=made.transaction_id,
            environment=session.environment,
            session_id=session.session_id,
            idempotency_key=attempt.intent.key,
            fingerprint=attempt.intent.fingerprint,
            coupon=coupon,
            holds_coupon=coupon is not None,
            is_extra=False,
            created_at=now,
            paid_at=None,
            document_digest=attempt.document_digest,
            holds_place=holds_place,
        ),
    )
    is_pix = made.payment_method is PaymentMethod.PIX
    is_slip = made.payment_method is PaymentMethod.BOLETO
    expires_at = session.expires_at
    if is_slip:
        # A slip takes days to be paid: the session lasts as long, and there are few of them.
        assert made.expires_at is not None
        expires_at = max(expires_at, made.expires_at)
    await store.update(
        block,
        replace(
            session,
            transaction_id=made.transaction_id,
            payments_tried=session.payments_tried + 1,
            pix_made=session.pix_made + is_pix,
            slips_made=session.slips_made + is_slip,
            buyer_sealed=attempt.buyer_sealed,
            expires_at=expires_at,
            due_at=expires_at,
            state_version=session.state_version + 1,
            updated_at=now,
        ),
    )
