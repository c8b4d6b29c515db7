"""A session's status changes here and nowhere else, and so does what follows from its payments."""

from collections.abc import Sequence
from dataclasses import replace as changed
from datetime import datetime

import structlog
from msgspec.structs import replace

from vintem.checkout import attempt_store, catalogue_store, link_store, store
from vintem.checkout.attempt_store import Attempt
from vintem.checkout.model import PAYABLE, Session, SessionStatus
from vintem.checkout.record import record_of
from vintem.ledger.model import Scope
from vintem.runtime import metrics
from vintem.runtime.db import Connection
from vintem.transactions.model import PaymentMethod, Status, StatusReason, Transaction
from vintem.transactions.phases import NOT_RECEIVED
from vintem.transactions.record import refused_code
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Change

log = structlog.get_logger()


async def follow(
    block: Connection, was: Status | None, transaction: Transaction, *, now: datetime
) -> None:
    """Do what a payment's move means for its session and its coupon, in the payment's commit.

    Locks come in one order everywhere: the payment, balances, the session, the coupon, the link.
    """
    assert transaction.checkout_session_id is not None
    session = await store.lock(block, transaction.scope, transaction.checkout_session_id)
    attempt = await attempt_store.find_attempt(block, transaction.scope, transaction.transaction_id)
    assert session is not None, "a payment's session was written before it"
    assert attempt is not None, "a payment of a session is written down as one"
    if was is transaction.status is Status.CANCELLED:
        # A superseded code can be paid no longer.
        await _let_go(block, session, attempt)
        return
    session = replace(session, state_version=session.state_version + 1, updated_at=now)
    moved = [SessionStatus.AWAITING_PAYMENT] if session.status is SessionStatus.OPEN else []
    if transaction.status is Status.PAID and attempt.paid_at is None:
        await _take_payment(block, session, attempt, transaction, moved, now=now)
        return
    if transaction.status in {Status.FAILED, Status.CANCELLED}:
        if not _may_still_be_paid(transaction, now):
            await _let_go(block, session, attempt)
        session = _after_end(session, transaction)
    # What is over stays so, unless money comes.
    await write(block, session, moved if session.status in PAYABLE else [], now=now)


async def _take_payment(
    block: Connection,
    session: Session,
    attempt: Attempt,
    transaction: Transaction,
    moved: Sequence[SessionStatus],
    *,
    now: datetime,
) -> None:
    """Complete a session, in time or late; a second payment of it is flagged and kept."""
    is_extra = session.status is SessionStatus.COMPLETED
    held = await attempt_store.find_place_holder(block, session)
    if held is not None:
        # The session has its place for good now.
        await attempt_store.update_attempt(block, changed(held, holds_place=False))
    kept = changed(attempt, holds_place=False)
    await _keep_coupon(block, kept, is_extra=is_extra, now=now)
    if is_extra:
        await store.update(block, replace(session, extra_payments=session.extra_payments + 1))
        metrics.EXTRA_PAYMENTS.inc()
        log.error(
            "session paid twice", session=session.session_id, transaction=attempt.transaction_id
        )
        return
    if session.link_id is not None:
        await link_store.count_payment(
            block,
            session.company_id,
            session.link_id,
            amount=transaction.amount,
            places_held=int(held is not None),
        )
    unpaid = await attempt_store.list_unpaid(block, session)
    coupon = attempt.coupon
    completed = replace(
        session,
        transaction_id=attempt.transaction_id,
        # What was paid is what it was made with, whatever the price has become since.
        coupon=coupon,
        amounts=replace(session.amounts, discount=0 if coupon is None else coupon.applied_amount),
        completed_at=now,
        # The worker ends what still waits for this buyer.
        due_at=now if unpaid else None,
    )
    await write(block, completed, [*moved, SessionStatus.COMPLETED], now=now)


def _after_end(session: Session, transaction: Transaction) -> Session:
    """A session whose payment has come to nothing."""
    is_card = transaction.payment_method is PaymentMethod.CREDIT_CARD
    if transaction.status is Status.FAILED and is_card:
        if refused_code(transaction) == NOT_RECEIVED.code:
            # Nobody has refused what nobody has seen.
            return session
        return replace(session, cards_refused=session.cards_refused + 1)
    is_current = session.transaction_id == transaction.transaction_id
    if is_current and transaction.status_reason is StatusReason.SUPERSEDED:
        return replace(session, transaction_id=None)
    return session


def _may_still_be_paid(transaction: Transaction, now: datetime) -> bool:
    """Whoever holds a superseded code can pay it, until its own time is over."""
    is_superseded = transaction.status_reason is StatusReason.SUPERSEDED
    return is_superseded and transaction.due_at is not None and now < transaction.due_at


async def _let_go(block: Connection, session: Session, attempt: Attempt) -> None:
    """Give back what a payment holds that nobody can make any more."""
    freed = changed(attempt, holds_place=False)
    await _free_coupon(block, freed)
    if attempt.holds_place and attempt.paid_at is None:
        assert session.link_id is not None, "only links have places"
        await attempt_store.update_attempt(block, changed(freed, holds_coupon=False))
        await link_store.release_place(block, session.company_id, session.link_id)


async def _free_coupon(block: Connection, attempt: Attempt) -> None:
    """Give a redemption back, unless another code of the session can still be paid with it."""
    if not attempt.holds_coupon or attempt.paid_at is not None:
        return
    assert attempt.coupon is not None
    await attempt_store.update_attempt(block, changed(attempt, holds_coupon=False))
    heir = await attempt_store.find_heir(block, attempt)
    if heir is not None:
        await attempt_store.update_attempt(block, changed(heir, holds_coupon=True))
        return
    await catalogue_store.add_redemptions(block, attempt.company_id, attempt.coupon.coupon_id, -1)


async def _keep_coupon(
    block: Connection, attempt: Attempt, *, is_extra: bool, now: datetime
) -> None:
    """Make a redemption final; one that had been given up counts all the same."""
    coupon = attempt.coupon
    if coupon is not None and not attempt.holds_coupon:
        scope = Scope(attempt.company_id, attempt.environment)
        held = await attempt_store.find_holder(block, scope, attempt.session_id, coupon.coupon_id)
        if held is not None:
            await attempt_store.update_attempt(block, changed(held, holds_coupon=False))
        else:
            await catalogue_store.add_redemptions(block, attempt.company_id, coupon.coupon_id, 1)
    paid = changed(attempt, holds_coupon=coupon is not None, is_extra=is_extra, paid_at=now)
    await attempt_store.update_attempt(block, paid)


async def write(
    block: Connection, session: Session, statuses: Sequence[SessionStatus], *, now: datetime
) -> Session:
    """Write a locked session and take it from status to status, an event for each."""
    changes = []
    for status in statuses:
        assert session.may_become(status), "a status moves only through the table of moves"
        previous = session.status
        session = replace(
            session,
            status=status,
            sequence=session.sequence + 1,
            cancelled_at=now if status is SessionStatus.CANCELLED else session.cancelled_at,
        )
        changes.append(change_of(session, previous, now=now))
    await store.update(block, session)
    if changes:
        await webhooks.record(block, changes)
    return session


async def expire_many(block: Connection, sessions: Sequence[Session], *, now: datetime) -> None:
    """Write that time has ended locked sessions of one company, all of them at once."""
    ended, changes = [], []
    for session in sessions:
        assert session.may_become(SessionStatus.EXPIRED)
        over = replace(
            session,
            status=SessionStatus.EXPIRED,
            sequence=session.sequence + 1,
            state_version=session.state_version + 1,
            updated_at=now,
            due_at=None,
        )
        ended.append(over)
        changes.append(change_of(over, session.status, now=now))
    await store.update_expired(block, ended)
    await webhooks.record(block, changes)


def change_of(
    session: Session,
    previous: SessionStatus | None,
    *,
    now: datetime,
    correlation_id: str = "",
) -> Change:
    """Say what happened to a session."""
    # What it was when this status was entered, although more may happen in the same commit.
    shown = (
        session
        if session.status is SessionStatus.COMPLETED
        else replace(session, completed_at=None)
    )
    return Change(
        company_id=session.company_id,
        environment=session.environment,
        entity_id=session.session_id,
        sequence=session.sequence,
        group="checkout.session",
        status=session.status.lower(),
        previous_status=previous,
        is_first_time=True,
        data=record_of(shown, session.status),
        at=now,
        correlation_id=correlation_id,
        idempotency_key=session.idempotency_key,
        postback_url=session.postback_url,
    )
