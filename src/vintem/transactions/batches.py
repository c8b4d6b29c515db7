"""Payments of many callers, created or confirmed with one commit."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from vintem.ledger import recipes
from vintem.ledger import service as ledger
from vintem.ledger.model import Scope
from vintem.providers.port import Charge
from vintem.runtime.db import Connection, DedicatedConnection
from vintem.transactions import grouped_store, store
from vintem.transactions.grouped_store import Confirmation
from vintem.transactions.model import (
    NewTransaction,
    Transaction,
    capture_of,
)
from vintem.transactions.moves import change_of, is_payable, paid_by, pay
from vintem.webhooks.model import Change, event_of


class Creation(msgspec.Struct, frozen=True, gc=False):
    """A payment to be created, and the words that came with the call."""

    new: NewTransaction
    record: bytes
    correlation_id: str
    card_token_digest: bytes | None = None
    """The card token that is used up by it."""
    charge: Charge | None = None
    """What its acquirer must be asked, where there is one."""
    postback_url: str | None = None
    """Who hears of it beside the company's endpoints."""


class Created(msgspec.Struct, frozen=True, gc=False):
    """The payment that holds the key: just made, or made by an earlier call."""

    transaction: Transaction
    is_replay: bool
    record: bytes = b""
    """How the world sees it, where that is not what was to be written."""


class Payment(msgspec.Struct, frozen=True, gc=False):
    """Word that a payment was made: which one, and how the bank names it."""

    scope: Scope
    transaction_id: str
    end_to_end_id: str
    now: datetime


class Confirmed(msgspec.Struct, frozen=True, gc=False):
    """The payment as it stands, and whether this word moved it."""

    transaction: Transaction
    is_moved: bool
    record: bytes = b""
    """How the world sees it, where that has just been written."""


def creation_order(creation: Creation) -> tuple[int, str, str]:
    transaction = creation.new.transaction
    return (transaction.company_id, transaction.environment, transaction.idempotency_key)


def payment_order(payment: Payment) -> tuple[int, str]:
    return (payment.scope.company_id, payment.transaction_id)


async def create_many(
    connection: DedicatedConnection, creations: Sequence[Creation]
) -> Sequence[Created]:
    """Create payments of any number of companies in one commit."""
    made = [creation.new.transaction for creation in creations]
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


async def write_new(db: Connection, creations: Sequence[Creation]) -> set[str]:
    """Write payments that wait for their buyers, and their events; gives the ids of the new ones.

    One statement, and so a commit of its own where the caller has not begun one.
    """
    return await grouped_store.create(
        db,
        [creation.new for creation in creations],
        [event_of(_creation_change(creation)) for creation in creations],
    )


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
        postback_url=creation.postback_url,
    )


async def confirm_many(
    connection: DedicatedConnection, payments: Sequence[Payment]
) -> Sequence[Confirmed | None]:
    """Book payments of any number of companies in one commit, read before without a lock.

    Those of sessions, and of companies that owe us, are booked one by one. The others are booked
    together or not at all: when one was changed meanwhile, it fails as busy, and the whole is to be
    tried again.
    """
    wanted: dict[tuple[int, str], Payment] = {}
    for payment in payments:
        # Of several with the same word it is the first who moves it, and whose name it bears.
        wanted.setdefault((payment.scope.company_id, payment.transaction_id), payment)
    outcomes: dict[tuple[int, str], Confirmed] = {}
    # One moment for all of a commit: the row, its history and its event tell the same.
    now = max(payment.now for payment in payments)
    together: list[Transaction] = []
    alone: list[Transaction] = []
    unopened: set[int] = set()
    for transaction, owes in await store.find_many(
        connection, [(each.scope, each.transaction_id) for each in wanted.values()]
    ):
        key = (transaction.company_id, transaction.transaction_id)
        outcomes[key] = Confirmed(transaction, is_moved=False)
        if is_payable(transaction):
            if owes is None:
                unopened.add(transaction.company_id)
            # A session's payment moves its session in the same commit.
            is_alone = owes or transaction.checkout_session_id is not None
            (alone if is_alone else together).append(transaction)
    if unopened:
        await ledger.open_accounts(connection, unopened)
    confirmations = [
        _confirmation(each, wanted[each.company_id, each.transaction_id], now=now)
        for each in sorted(together, key=_row_order)
    ]
    if confirmations:
        await grouped_store.confirm(connection, confirmations, now=now)
    for done in confirmations:
        key = (done.paid.company_id, done.paid.transaction_id)
        outcomes[key] = Confirmed(done.paid, is_moved=True, record=done.record)
    for each in alone:
        key = (each.company_id, each.transaction_id)
        outcomes[key] = await _confirm_alone(connection, wanted[key], now=now)
    return [_told_once(outcomes, each) for each in payments]


def _row_order(transaction: Transaction) -> tuple[int, str]:
    return (transaction.company_id, transaction.transaction_id)


def _confirmation(was: Transaction, payment: Payment, *, now: datetime) -> Confirmation:
    paid = paid_by(was, payment.end_to_end_id, now=now)
    change = change_of(paid, was.status, (), is_first_time=True, now=now)
    capture = capture_of(paid, now=now)
    return Confirmation(
        was=was,
        paid=paid,
        record=change.data,
        event=event_of(change),
        posting=recipes.capture(capture),
        releases=capture.releases,
    )


async def _confirm_alone(
    connection: DedicatedConnection, payment: Payment, *, now: datetime
) -> Confirmed:
    """Book one payment whatever stands in its way: a session, debt, a first posting."""
    async with connection.transaction():
        transaction = await store.lock(connection, payment.scope, payment.transaction_id)
        assert transaction is not None, "payments are never deleted"
        if not is_payable(transaction):
            return Confirmed(transaction, is_moved=False)
        paid = await pay(connection, transaction, end_to_end_id=payment.end_to_end_id, now=now)
        return Confirmed(paid, is_moved=True)


def _told_once(outcomes: dict[tuple[int, str], Confirmed], payment: Payment) -> Confirmed | None:
    """The outcome for one caller: of several with the same word, the first one moved it."""
    key = (payment.scope.company_id, payment.transaction_id)
    outcome = outcomes.get(key)
    if outcome is not None and outcome.is_moved:
        outcomes[key] = replace(outcome, is_moved=False)
    return outcome
