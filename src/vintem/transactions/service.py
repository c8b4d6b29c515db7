"""What integrators, providers and the worker can have done to payments."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

import structlog
from msgspec.structs import replace

from vintem.companies.model import ImplicitProtection
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.intent import Intent, IntentReused
from vintem.kit.paging import PageRequest
from vintem.ledger.model import Scope
from vintem.providers.port import CardAcquirer, Notice
from vintem.runtime.db import (
    Connection,
    Database,
    DatabaseBusyError,
    DatabaseUnavailableError,
    wait_briefly,
)
from vintem.runtime.group_commit import FLUSHERS, GROUP_ROWS_MAX, GroupCommit
from vintem.transactions import arrivals, callback_store, following, implicit, moves, phases, store
from vintem.transactions.batches import (
    Confirmed,
    Created,
    Creation,
    Payment,
    confirm_many,
    create_many,
    creation_order,
    payment_order,
    write_new,
)
from vintem.transactions.listing import Lists, Page
from vintem.transactions.model import (
    Filter,
    Refund,
    Status,
    StatusReason,
    Transaction,
    check_refund,
)
from vintem.transactions.phases import Desk, refuse_other_intent
from vintem.transactions.rehearsal import REASONS, sandbox_transfer

log = structlog.get_logger()

DUE_AT_ONCE_MAX: Final = 100
WAIT_MILLISECONDS_MAX: Final = 50
ANSWER_POLL_SECONDS: Final = 0.05


class Transactions:
    """Creates and confirms payments, many callers to a commit."""

    def __init__(
        self, database: Database, acquirer: CardAcquirer, *, is_one_of_several: bool = False
    ) -> None:
        # Of several processes each writes one group at a time, a larger one: they wait for rows of
        # each other's groups.
        rows_max = GROUP_ROWS_MAX * FLUSHERS if is_one_of_several else GROUP_ROWS_MAX
        flushers = 1 if is_one_of_several else FLUSHERS
        self._database = database
        self._desk = Desk(database, acquirer, asyncio.Semaphore(phases.COMMITS_AT_ONCE_MAX))
        self._creations = GroupCommit[Creation, Created](
            database,
            create_many,
            sort_key=creation_order,
            rows_max=rows_max,
            flushers=flushers,
        )
        self._payments = GroupCommit[Payment, Confirmed | None](
            database,
            confirm_many,
            sort_key=payment_order,
            rows_max=rows_max,
            flushers=flushers,
        )
        self._lists = Lists(database)

    async def close(self) -> None:
        """Write what is waiting, then stop."""
        await self._creations.close()
        await self._payments.close()

    async def create(
        self,
        creation: Creation,
        intent: Intent,
        protection: ImplicitProtection = ImplicitProtection.OFF,
    ) -> Created:
        """Create a payment once an intent; protected, also once a request without a key."""
        if protection is not ImplicitProtection.OFF:
            return await implicit.create(self._desk, creation, intent, protection)
        if creation.charge is not None:
            return await phases.charge(self._desk, creation, creation.charge, intent)
        created = await self._creations.write(creation)
        if created.is_replay:
            refuse_other_intent(created.transaction, intent)
        return created

    async def create_for_session(
        self, creation: Creation, intent: Intent, begin: phases.FindEarlier
    ) -> Created:
        """Create a payment that a session follows; `begin` takes part in the commit.

        What `begin` finds is given instead of a new payment.
        """
        if creation.charge is not None:
            return await phases.charge(self._desk, creation, creation.charge, intent, begin)
        made = creation.new.transaction

        async def create(block: Connection) -> Created:
            earlier = await begin(block)
            if earlier is not None:
                return Created(earlier, is_replay=True)
            fresh = await write_new(block, [creation])
            assert fresh, "the key of a session's payment is made here, for it alone"
            await following.tell(block, None, made, now=made.created_at)
            return Created(made, is_replay=False)

        async with self._desk.turns:
            return await self._database.atomically(create)

    async def list(self, wanted: Filter, request: PageRequest, *, now: datetime) -> Page:
        """Show a page of a list of payments, the newest first."""
        return await self._lists.page(wanted, request, now=now)

    async def receive(self, notice: Notice, *, now: datetime) -> bool:
        """Do what a provider tells us, once; false when it told us before."""
        return await arrivals.receive(self._database, notice, now=now)

    async def finish(self, *, now: datetime) -> int:
        """Ask what became of charges that were begun and not decided."""
        return await phases.ask_due(self._database, self._desk.acquirer, now=now)

    async def confirm(self, payment: Payment) -> Confirmed:
        """Book a payment that was made; asked again, it is as it was."""
        confirmed = await self._payments.write(payment)
        if confirmed is None:
            raise Refusal(ErrorCode.TRANSACTION_NOT_FOUND)
        return confirmed

    async def move(
        self, scope: Scope, transaction_id: str, status: Status, *, now: datetime
    ) -> Confirmed:
        """Force a legal move, as the provider, an analyst or a dispute would."""
        if status is Status.PAID:
            # A name of its own for each call, however the payment was made: whoever finds it there
            # has made it.
            name = sandbox_transfer(now)
            confirmed = await self.confirm(Payment(scope, transaction_id, name, now))
            # A group is tried again when its connection breaks, perhaps after its commit.
            if confirmed.is_moved or confirmed.transaction.end_to_end_id == name:
                return confirmed

        async def move(block: Connection) -> Confirmed:
            locked = await lock(block, scope, transaction_id)
            refuse_illegal(locked, status)
            moved = await moves.move(block, locked, status, REASONS.get(status), now=now)
            await callback_store.look_soon(block, moved, now=now)
            return Confirmed(moved, is_moved=True)

        return await self._database.atomically(move)

    async def cancel(
        self,
        scope: Scope,
        transaction_id: str,
        *,
        now: datetime,
        also: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> Transaction:
        """Cancel a payment that nobody has made yet; `also` takes part in the commit."""

        async def cancel(block: Connection) -> Transaction:
            locked = await lock(block, scope, transaction_id)
            if locked.status is not Status.PENDING:
                raise Refusal(ErrorCode.INVALID_STATE, details={"status": locked.status})
            reason = StatusReason.MERCHANT
            cancelled = await moves.move(block, locked, Status.CANCELLED, reason, now=now)
            if also is not None:
                await also(block)
            return cancelled

        return await self._database.atomically(cancel)

    async def refund(
        self,
        scope: Scope,
        transaction_id: str,
        intent: Intent,
        *,
        amount: int | None,
        reason: str | None,
        now: datetime,
        correlation_id: str = "",
        also: Callable[[Connection, Refund], Awaitable[None]] | None = None,
    ) -> tuple[Refund, bool]:
        """Give money back once an intent; says whether this answer repeats an earlier one.

        `also` takes part in the commit of a new one.
        """

        async def refund(block: Connection) -> tuple[Refund, bool]:
            locked = await lock(block, scope, transaction_id)
            earlier = await store.find_refund_by_key(block, scope, transaction_id, intent.key)
            if earlier is not None:
                if earlier.fingerprint != intent.fingerprint:
                    raise IntentReused(earlier.created_at)
                return earlier, True
            wanted = check_refund(locked, amount, now=now)
            _, made = await moves.refund(
                block, locked, wanted, reason, intent, correlation_id=correlation_id, now=now
            )
            if also is not None:
                await also(block, made)
            return made, False

        return await self._database.atomically(refund)


async def get(db: Connection, scope: Scope, transaction_id: str) -> Transaction:
    """Find a payment, or refuse."""
    transaction = await store.find(db, scope, transaction_id)
    if transaction is None:
        raise Refusal(ErrorCode.TRANSACTION_NOT_FOUND)
    return transaction


async def find_replay(db: Connection, scope: Scope, intent: Intent) -> Transaction | None:
    """Find what an intent made before; refuse the key of another intent."""
    transaction = await store.find_by_key(db, scope, intent.key)
    if transaction is not None:
        refuse_other_intent(transaction, intent)
    return transaction


async def refunds_of(db: Connection, transactions: Sequence[Transaction]) -> Sequence[Refund]:
    """The refunds of one company's payments."""
    return await moves.refunds_of(db, transactions)


async def find_refund(db: Connection, scope: Scope, refund_id: str) -> Refund | None:
    """Find a refund."""
    return await store.find_refund(db, scope, refund_id)


async def look_again(database: Database, *, now: datetime) -> int:
    """Do what providers told us too early, where its time has come."""
    return await arrivals.look_again(database, now=now)


async def find_processed(
    db: Connection, transaction: Transaction, *, seconds_max: float
) -> Transaction:
    """Wait a little for the first answer to a payment; give it as it stands then."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + seconds_max
    found: Transaction | None = transaction
    while found is not None and found.processed_at is None and loop.time() < give_up_at:
        await asyncio.sleep(ANSWER_POLL_SECONDS)
        found = await store.find(db, transaction.scope, transaction.transaction_id)
    assert found is not None, "payments are never deleted"
    return found


async def move_due(database: Database, *, now: datetime) -> int:
    """End every payment whose time is over by now; any number of workers may do this at once."""
    moved = 0
    for company_id in await store.list_companies_with_due(database, now=now):
        try:
            while count := await database.atomically(_due_moves(company_id, now)):
                moved += count
            moved += await _move_due_of_sessions(database, company_id, now=now)
        except DatabaseBusyError as busy:
            # Somebody holds one of this company's payments or sessions; the others go on.
            log.info("payments are ended later", company_id=company_id, cause=str(busy))
        except DatabaseUnavailableError:
            raise
        except Exception:
            # One company's trouble must not keep the others waiting.
            log.exception("due payments could not be moved", company_id=company_id)
    return moved


def refuse_illegal(transaction: Transaction, status: Status) -> None:
    """Refuse a move that the table of moves does not have."""
    if not transaction.may_become(status):
        raise Refusal(
            ErrorCode.INVALID_STATE,
            f"A {transaction.status} transaction cannot become {status}.",
            details={"status": transaction.status},
        )


async def _move_due_of_sessions(database: Database, company_id: int, *, now: datetime) -> int:
    """End the due payments of sessions, one a block: two would hold what payers of both wait for.

    One whose session somebody holds is passed over: the others go on.
    """
    moved, after = 0, store.FIRST_DUE
    while due := await store.list_due_of_sessions(
        database, company_id, now=now, after=after, rows_max=DUE_AT_ONCE_MAX
    ):
        for each in due:
            try:
                async with database.atomic() as block:
                    moved += await _move_if_due(block, company_id, each, now)
            except DatabaseBusyError as busy:
                log.info("a payment is ended later", transaction=each[1], cause=str(busy))
        after = due[-1]
    return moved


async def _move_if_due(block: Connection, company_id: int, due: store.Due, now: datetime) -> int:
    await wait_briefly(block, milliseconds=WAIT_MILLISECONDS_MAX)
    transaction = await store.lock_if_due(block, company_id, due[1], now=now)
    if transaction is None:
        return 0
    await moves.expire(block, transaction, now=now)
    return 1


def _due_moves(company_id: int, now: datetime) -> Callable[[Connection], Awaitable[int]]:
    async def move(block: Connection) -> int:
        due = await store.lock_due(block, company_id, now=now, rows_max=DUE_AT_ONCE_MAX)
        for transaction in due:
            await moves.expire(block, transaction, now=now)
        return len(due)

    return move


async def lock(block: Connection, scope: Scope, transaction_id: str) -> Transaction:
    """Lock a payment that somebody decides about: its time is not up any more."""
    transaction = await store.lock(block, scope, transaction_id)
    if transaction is None:
        raise Refusal(ErrorCode.TRANSACTION_NOT_FOUND)
    return replace(transaction, due_at=None)
