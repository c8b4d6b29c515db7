"""What providers tell us: each thing once, in its order, and money that is never lost."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from vintem.kit.clock import business_day
from vintem.ledger import service as ledger
from vintem.ledger.model import Account, Scope
from vintem.providers.port import Authorised, Blocked, Notice, NoticeKind, Refused
from vintem.runtime import metrics
from vintem.runtime.db import Connection, Database, DatabaseUnavailableError
from vintem.transactions import answers, callback_store, moves, returns, store
from vintem.transactions.callback_store import State
from vintem.transactions.model import PaymentMethod, Status, Transaction, ids_of_reference
from vintem.transactions.record import late_amount_max
from vintem.transactions.returns import Step

log = structlog.get_logger()

TURN_MAX: Final = timedelta(minutes=10)
"""So long something waits for what its provider counts before it; then it is done without."""
LOOK_PAUSE_MIN: Final = timedelta(seconds=30)
LOOK_PAUSE_MAX: Final = timedelta(minutes=5)
LOOKS_AT_ONCE_MAX: Final = 100

MONEY: Final = frozenset({NoticeKind.PAYMENT_RECEIVED, NoticeKind.CHARGE_PAID})
DISPUTED: Final = frozenset({Status.PRE_CHARGEBACK, Status.CHARGEBACK})
TARGETS: Final[Mapping[NoticeKind, Status]] = {
    NoticeKind.CHARGE_REFUSED: Status.FAILED,
    NoticeKind.CHARGE_BLOCKED: Status.BLOCKED,
    NoticeKind.DISPUTE_OPENED: Status.PRE_CHARGEBACK,
    NoticeKind.DISPUTE_WON: Status.PAID,
    NoticeKind.DISPUTE_LOST: Status.CHARGEBACK,
}
SAID_BEFORE: Final = "repeated"
"""The cause of what was told, and done, under another id."""
AFTER_PAYMENT: Final = frozenset(
    {NoticeKind.DISPUTE_OPENED, NoticeKind.DISPUTE_WON, NoticeKind.DISPUTE_LOST}
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of something we were told."""

    notice: Notice
    state: State
    cause: str | None = None


async def receive(database: Database, notice: Notice, *, now: datetime) -> bool:
    """Do what a provider's word means, once; false when it was told before."""

    async def take_in(block: Connection) -> Sequence[Outcome] | None:
        transaction = await _lock(block, notice)
        return await take(block, transaction, notice, now=now)

    outcomes = await database.atomically(take_in)
    report(outcomes or ())
    return outcomes is not None and Outcome(notice, State.IGNORED, SAID_BEFORE) not in outcomes


async def take(
    block: Connection, transaction: Transaction | None, notice: Notice, *, now: datetime
) -> Sequence[Outcome] | None:
    """Keep a word about a locked payment and do what can be done; nothing when it was told before.

    Whoever calls this reports the outcomes once the block is committed.
    """
    transaction_id = None if transaction is None else transaction.transaction_id
    is_new = await callback_store.insert_waiting(
        block, notice, transaction_id, look_at=now + LOOK_PAUSE_MIN, now=now
    )
    if not is_new:
        return None
    if transaction is not None:
        _, outcomes = await do_waiting(block, transaction, now=now)
        return outcomes
    state = await _without_payment(block, notice, now)
    await callback_store.update_state(block, notice, state, "unknown_reference")
    return [Outcome(notice, state, "unknown_reference")]


async def do_waiting(
    block: Connection, transaction: Transaction, *, now: datetime
) -> tuple[Transaction, Sequence[Outcome]]:
    """Do all that waits for a locked payment and can be done now, in the provider's order."""
    outcomes: list[Outcome] = []
    has_moved = transaction.is_answered
    while has_moved:
        has_moved = False
        waiting = await callback_store.list_waiting(block, transaction)
        if not outcomes:
            await _lock_names(block, transaction.scope, [notice for notice, _ in waiting])
        for notice, since in waiting:
            is_overdue = now >= since + TURN_MAX
            step = await _try(block, transaction, notice, now, is_overdue=is_overdue)
            if step.state is State.WAITING:
                continue
            transaction, has_moved = step.transaction, True
            await callback_store.update_state(
                block, notice, step.state, step.cause, refund_id=step.refund_id
            )
            outcomes.append(Outcome(notice, step.state, step.cause))
    return transaction, outcomes


async def look_again(database: Database, *, now: datetime) -> int:
    """Look again at what waits: the payment may have moved, or the wait been long enough."""
    done = 0
    waiting = await callback_store.list_to_look_at(database, now=now, rows_max=LOOKS_AT_ONCE_MAX)
    for scope, transaction_id in waiting:
        try:
            outcomes = await database.atomically(_look(scope, transaction_id, now))
        except DatabaseUnavailableError:
            raise
        except Exception:
            # One payment's trouble must not keep the others waiting.
            log.exception("callbacks could not be applied", reference=transaction_id)
            await _postpone(database, scope, transaction_id, now)
            continue
        report(outcomes)
        done += len(outcomes)
    return done


def report(outcomes: Sequence[Outcome]) -> None:
    """Raise the alarm for money that belongs to no payment, and note what was not expected."""
    for outcome in outcomes:
        notice = outcome.notice
        if outcome.state is State.UNCLAIMED:
            metrics.UNCLAIMED_MONEY.labels(outcome.cause).inc()
        if outcome.state is not State.APPLIED:
            level = log.error if outcome.state is State.UNCLAIMED else log.info
            level(
                "money without a payment"
                if outcome.state is State.UNCLAIMED
                else "callback without effect",
                company_id=notice.company_id,
                provider=notice.provider,
                callback=notice.callback_id,
                kind=notice.kind,
                reference=notice.reference,
                amount=notice.amount,
                cause=outcome.cause,
            )


async def _try(
    block: Connection, transaction: Transaction, notice: Notice, now: datetime, *, is_overdue: bool
) -> Step:
    if notice.kind in MONEY:
        # Money never waits for its turn.
        return await _take_money(block, transaction, notice, now)
    is_refund = notice.kind is NoticeKind.REFUND_DONE
    if notice.sequence is not None:
        last = await callback_store.last_sequence(block, transaction, notice.provider)
        if notice.sequence <= last and not is_refund:
            return Step(transaction, State.IGNORED, "obsolete")
        if notice.sequence > last + 1 and not is_overdue:
            return Step(transaction, State.WAITING)
    if is_refund:
        # What has left is booked, overtaken or not.
        return await returns.take(block, transaction, notice, now, is_overdue=is_overdue)
    cause = await _why_no_news(block, transaction, notice)
    if cause is not None:
        return Step(transaction, State.IGNORED, cause)
    if _may_apply(transaction, notice):
        return await _apply(block, transaction, notice, now)
    if _may_apply_later(transaction, notice):
        return Step(transaction, State.WAITING)
    return Step(transaction, State.IGNORED, f"is_{transaction.status}")


async def _why_no_news(block: Connection, transaction: Transaction, notice: Notice) -> str | None:
    """Say why word of a dispute that has a name changes nothing; nothing when it may."""
    if notice.dispute_id is None:
        return None
    # A provider that counts has told by its number that this is news.
    is_counted = notice.sequence is not None
    if not is_counted and await callback_store.is_known_dispute(block, transaction, notice):
        return SAID_BEFORE
    is_other = await callback_store.is_other_dispute(block, transaction, notice)
    return "other_dispute" if is_other else None


async def _take_money(
    block: Connection, transaction: Transaction, notice: Notice, now: datetime
) -> Step:
    cause = await _why_unclaimed(block, transaction, notice, now)
    if cause == SAID_BEFORE:
        return Step(transaction, State.IGNORED, cause)
    if cause is not None:
        is_boleto = transaction.payment_method is PaymentMethod.BOLETO
        await _book_unclaimed(block, notice, now, is_owed_by_bank=is_boleto)
        return Step(transaction, State.UNCLAIMED, cause)
    if notice.kind is NoticeKind.CHARGE_PAID:
        paid = await answers.settle(block, transaction, Authorised(notice.code), now=now)
    else:
        paid = await moves.pay(
            block,
            transaction,
            end_to_end_id=notice.end_to_end_id,
            late_amount=_amount(notice) - transaction.amount,
            now=now,
        )
    return Step(paid, State.APPLIED)


async def _why_unclaimed(
    block: Connection, transaction: Transaction, notice: Notice, now: datetime
) -> str | None:
    """Say why money is not this payment's; nothing when it is."""
    is_charge = notice.kind is NoticeKind.CHARGE_PAID
    if is_charge != (transaction.payment_method is PaymentMethod.CREDIT_CARD):
        return "other_method"
    if await _is_repeated(block, transaction, notice):
        return SAID_BEFORE
    if not _is_owed(transaction, _amount(notice), now):
        return "amount_mismatch"
    if transaction.paid_at is not None:
        return "paid_before"
    return None if transaction.may_become(Status.PAID) else f"is_{transaction.status}"


def _is_owed(transaction: Transaction, amount: int, now: datetime) -> bool:
    """Say whether so much pays a payment: its amount, and at most what being late adds today."""
    more = amount - transaction.amount
    return more == 0 or 0 < more <= late_amount_max(transaction, paid_on=business_day(now))


async def _is_repeated(block: Connection, transaction: Transaction, notice: Notice) -> bool:
    """Say whether this very money was told of before, under another id."""
    brought = transaction.amount + transaction.late_amount
    is_made = transaction.paid_at is not None and notice.amount == brought
    if notice.kind is NoticeKind.CHARGE_PAID:
        # A charge has our id, under which the acquirer charges once.
        return is_made or await callback_store.is_known_charge(block, transaction, notice)
    if notice.end_to_end_id is None:
        return False
    is_same = is_made and notice.end_to_end_id == transaction.end_to_end_id
    return is_same or await callback_store.is_known_transfer(block, notice)


def _may_apply(transaction: Transaction, notice: Notice) -> bool:
    if notice.kind is NoticeKind.DISPUTE_WON:
        return transaction.status in DISPUTED
    if notice.kind is NoticeKind.CHARGE_REFUSED and transaction.paid_at is not None:
        return False
    return transaction.may_become(TARGETS[notice.kind])


def _may_apply_later(transaction: Transaction, notice: Notice) -> bool:
    """Say whether something that was told too early may yet come to its turn."""
    if notice.kind not in AFTER_PAYMENT or transaction.status in {Status.FAILED, Status.REFUNDED}:
        return False
    is_before_dispute = notice.kind is NoticeKind.DISPUTE_WON and transaction.status is Status.PAID
    # What is held for an analyst comes back before a dispute can take it.
    is_held = transaction.status is Status.BLOCKED
    return transaction.paid_at is None or is_before_dispute or is_held


async def _apply(
    block: Connection, transaction: Transaction, notice: Notice, now: datetime
) -> Step:
    match notice.kind:
        case NoticeKind.CHARGE_REFUSED:
            refused = Refused(notice.code or "REFUSED", notice.message or "The charge was refused.")
            moved = await answers.settle(block, transaction, refused, now=now)
        case NoticeKind.CHARGE_BLOCKED:
            moved = await answers.settle(block, transaction, Blocked(notice.code), now=now)
        case _:
            moved = await moves.move(block, transaction, TARGETS[notice.kind], None, now=now)
    return Step(moved, State.APPLIED)


async def _without_payment(block: Connection, notice: Notice, now: datetime) -> State:
    await _lock_names(block, Scope(notice.company_id, notice.environment), [notice])
    if notice.kind is NoticeKind.REFUND_DONE:
        return await returns.take_unknown(block, notice, now)
    is_known = notice.end_to_end_id is not None and await callback_store.is_known_transfer(
        block, notice
    )
    if notice.kind not in MONEY or is_known:
        return State.IGNORED
    await _book_unclaimed(block, notice, now)
    return State.UNCLAIMED


async def _lock_names(block: Connection, scope: Scope, notices: Sequence[Notice]) -> None:
    """Let one at a time of a company ask whether a transfer is known, until it is booked."""
    if any(each.end_to_end_id is not None for each in notices):
        await ledger.lock(block, scope)


async def _book_unclaimed(
    block: Connection, notice: Notice, now: datetime, *, is_owed_by_bank: bool = False
) -> None:
    """Keep money in suspense; it comes from where the payment's own would have come from."""
    is_receivable = notice.kind is NoticeKind.CHARGE_PAID or is_owed_by_bank
    await ledger.book_unclaimed(
        block,
        Scope(notice.company_id, notice.environment),
        f"{notice.provider}/{notice.callback_id}",
        source=Account.RECEIVABLE if is_receivable else Account.BANK,
        amount=_amount(notice),
        now=now,
    )


def _amount(notice: Notice) -> int:
    assert notice.amount is not None, "money has an amount"
    return notice.amount


def _look(
    scope: Scope, transaction_id: str, now: datetime
) -> Callable[[Connection], Awaitable[Sequence[Outcome]]]:
    async def look(block: Connection) -> Sequence[Outcome]:
        transaction = await store.lock(block, scope, transaction_id)
        assert transaction is not None, "payments are never deleted"
        _, outcomes = await do_waiting(block, transaction, now=now)
        await _postpone(block, scope, transaction_id, now)
        return outcomes

    return look


async def _postpone(db: Connection, scope: Scope, transaction_id: str, now: datetime) -> None:
    await callback_store.postpone_waiting(
        db,
        scope,
        transaction_id,
        pause_min=LOOK_PAUSE_MIN,
        pause_max=LOOK_PAUSE_MAX,
        now=now,
    )


async def _lock(block: Connection, notice: Notice) -> Transaction | None:
    scope = Scope(notice.company_id, notice.environment)
    candidates = ids_of_reference(notice.reference)
    if notice.kind is NoticeKind.REFUND_DONE:
        refund = await store.find_refund(block, scope, notice.reference)
        candidates = candidates if refund is None else [refund.transaction_id]
    for transaction_id in candidates:
        transaction = await store.lock(block, scope, transaction_id)
        if transaction is not None:
            return transaction
    return None
