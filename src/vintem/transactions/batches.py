"""Payments of many callers, created or confirmed with one commit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from vintem.ledger import service as ledger
from vintem.ledger.model import Scope
from vintem.providers.port import Charge
from vintem.runtime.db import Connection, DedicatedConnection
from vintem.transactions import store
from vintem.transactions.model import (
    NewTransaction,
    PaymentMethod,
    Status,
    StatusReason,
    Transaction,
    capture_of,
)
from vintem.transactions.moves import change_of
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Change


@dataclass(frozen=True, slots=True)
class Creation:
    """A payment to be created, and the words that came with the call."""

    new: NewTransaction
    record: bytes
    correlation_id: str
    card_token_digest: bytes | None = None
    """The card token that is used up by it."""
    charge: Charge | None = None
    """What its acquirer must be asked, where there is one."""


@dataclass(frozen=True, slots=True)
class Created:
    """The payment that holds the key: just made, or made by an earlier call."""

    transaction: Transaction
    is_replay: bool
    record: bytes = b""
    """How the world sees it, where that is not what was to be written."""


@dataclass(frozen=True, slots=True)
class Payment:
    """Word that a payment was made: which one, and how the bank names it."""

    scope: Scope
    transaction_id: str
    end_to_end_id: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The payment as it stands, whether this word moved it, and how the world sees it then."""

    transaction: Transaction
    is_moved: bool
    record: bytes = b""


def creation_order(creation: Creation) -> tuple[int, str, str]:
    transaction = creation.new.transaction
    return (transaction.company_id, transaction.environment, transaction.idempotency_key)


def payment_order(payment: Payment) -> tuple[int, str]:
    return (payment.scope.company_id, payment.transaction_id)


async def create_many(
    connection: DedicatedConnection, creations: Sequence[Creation]
) -> Sequence[Created]:
    made = [creation.new.transaction for creation in creations]
    async with connection.transaction():
        fresh = await write_new(connection, creations)
    if len(fresh) == len(made):
        return [Created(transaction, is_replay=False) for transaction in made]
    taken = {
        (each.company_id, each.environment, each.idempotency_key): each
        for each in await store.find_by_keys(connection, made)
    }
    outcomes = []
    for transaction in made:
        key = (transaction.company_id, transaction.environment, transaction.idempotency_key)
        holder = taken[key]
        # A row with our own id is ours: an earlier try of this very call had been committed.
        is_ours = holder.transaction_id == transaction.transaction_id
        outcomes.append(Created(holder, is_replay=not is_ours))
    return outcomes


async def write_new(block: Connection, creations: Sequence[Creation]) -> set[str]:
    """Write payments, their events and the money of those paid; return the ids of the new ones."""
    fresh = await store.insert_transactions(block, [creation.new for creation in creations])
    news = [creation for creation in creations if creation.new.transaction.transaction_id in fresh]
    if news:
        await webhooks.record(block, [_creation_change(each) for each in news])
        paid = [each.new.transaction for each in news if each.new.transaction.status is Status.PAID]
        if paid:
            now = max(transaction.created_at for transaction in paid)
            await ledger.capture_many(block, [capture_of(each, now=now) for each in paid], now=now)
    return fresh


def _creation_change(creation: Creation) -> Change:
    transaction = creation.new.transaction
    return Change(
        company_id=transaction.company_id,
        environment=transaction.environment,
        entity_id=transaction.transaction_id,
        sequence=1,
        group="transaction",
        status=transaction.status,
        previous_status=None,
        is_first_time=True,
        data=creation.record,
        at=transaction.created_at,
        correlation_id=creation.correlation_id,
        idempotency_key=transaction.idempotency_key,
    )


async def confirm_many(
    connection: DedicatedConnection, payments: Sequence[Payment]
) -> Sequence[Confirmed | None]:
    """Book payments of any number of companies in one commit."""
    wanted = {(each.scope.company_id, each.transaction_id): each for each in payments}
    outcomes: dict[tuple[int, str], Confirmed] = {}
    # One moment for all of a commit: the row, its history and its event tell the same.
    now = max(payment.now for payment in payments)
    async with connection.transaction():
        locked = await store.lock_many(
            connection, [(each.scope, each.transaction_id) for each in wanted.values()]
        )
        changes, captures, moved = [], [], []
        for transaction in locked:
            key = (transaction.company_id, transaction.transaction_id)
            if transaction.paid_at is not None or not transaction.may_become(Status.PAID):
                outcomes[key] = Confirmed(transaction, is_moved=False)
                continue
            paid = _paid(transaction, wanted[key], now=now)
            change = change_of(paid, transaction.status, (), is_first_time=True, now=now)
            outcomes[key] = Confirmed(paid, is_moved=True, record=change.data)
            moved.append((paid, transaction.status))
            captures.append(capture_of(paid, now=now))
            changes.append(change)
        if moved:
            await store.update_moved(connection, moved, now=now)
            await ledger.capture_many(connection, captures, now=now)
            await webhooks.record(connection, changes)
    return [_told_once(outcomes, each) for each in payments]


def _told_once(outcomes: dict[tuple[int, str], Confirmed], payment: Payment) -> Confirmed | None:
    """The outcome for one caller: of several with the same word, the first one moved it."""
    key = (payment.scope.company_id, payment.transaction_id)
    outcome = outcomes.get(key)
    if outcome is not None and outcome.is_moved:
        outcomes[key] = replace(outcome, is_moved=False)
    return outcome


def _paid(transaction: Transaction, payment: Payment, *, now: datetime) -> Transaction:
    is_late = transaction.status is Status.CANCELLED
    is_pix = transaction.payment_method is PaymentMethod.PIX
    return replace(
        transaction,
        status=Status.PAID,
        status_reason=StatusReason.LATE_PAYMENT if is_late else None,
        sequence=transaction.sequence + 1,
        end_to_end_id=payment.end_to_end_id if is_pix else None,
        paid_at=now,
        updated_at=now,
        due_at=None,
    )
