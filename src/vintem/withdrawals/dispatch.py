"""Sending withdrawals: first the commit that says so, then the provider, then what it answered.

A turn is taken by a number that only grows. Whoever loses a turn writes nothing down but what is
certain, and the provider knows one request id a withdrawal: two turns cannot pay twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec
import structlog

from vintem.brazil.wallets import Network
from vintem.companies import service as companies
from vintem.companies.model import Environment
from vintem.kit.clock import utc_now
from vintem.ledger.model import Scope
from vintem.providers.payouts import (
    Paid,
    PayoutAnswer,
    PayoutOrder,
    PayoutProvider,
    Rejected,
    Unheard,
    Unknown,
    WalletDestination,
)
from vintem.runtime import metrics
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection, Database, DatabaseUnavailableError
from vintem.runtime.failpoints import Failpoint, die_at
from vintem.withdrawals import moves, service, store
from vintem.withdrawals.model import (
    ALARM_AFTER,
    CLAIM_SECONDS,
    QUOTE_LIFETIME,
    Status,
    Withdrawal,
    ask_again_after,
    purchase,
    request_id_of,
)

log = structlog.get_logger()

CLAIMED_AT_ONCE_MAX: Final = 16
# A call that begins in time also ends before the turn does.
CALL_SECONDS_MAX: Final = 6.0
BEGIN_SECONDS_MAX: Final = CLAIM_SECONDS - CALL_SECONDS_MAX - 1.0
ROUND_SECONDS_MAX: Final = 1.0


class _Described(msgspec.Struct):
    description: str | None


_decode_details: Final = msgspec.json.Decoder(type=_Described).decode


@dataclass(frozen=True, slots=True)
class Turn:
    """A claimed withdrawal: whether it is new to the provider, and when the turn was taken."""

    withdrawal: Withdrawal
    is_first: bool
    may_send: bool
    taken_at: float


class Dispatcher:
    """Carries the withdrawals of an environment out, each company beside the others."""

    def __init__(
        self,
        database: Database,
        provider: PayoutProvider,
        sealer: Sealer,
        environment: Environment,
        *,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._database = database
        self._provider = provider
        self._environment = environment
        self._sealer = sealer
        self._clock = clock
        self._busy: dict[int, asyncio.Task[int]] = {}

    async def run(self) -> int:
        """Begin what is due and say how much was done; a slow company is not waited for."""
        for company_id in await store.list_companies_with_due(
            self._database, self._environment, now=self._clock()
        ):
            if company_id not in self._busy:
                task = asyncio.create_task(self._serve(company_id), name=f"payouts {company_id}")
                self._busy[company_id] = task
                task.add_done_callback(partial(self._forget, company_id))
        if not self._busy:
            return 0
        done, _slow = await asyncio.wait(self._busy.values(), timeout=ROUND_SECONDS_MAX)
        return sum(task.result() for task in done)

    async def close(self) -> None:
        """Finish what is in hand."""
        if self._busy:
            await asyncio.wait(self._busy.values(), timeout=CLAIM_SECONDS)

    def _forget(self, company_id: int, _task: asyncio.Task[int]) -> None:
        del self._busy[company_id]

    async def _serve(self, company_id: int) -> int:
        """Do all that is due of one company; its trouble is its own."""
        carried = 0
        try:
            while turns := await self._claim(company_id):
                await asyncio.gather(*(self._carry_alone(turn) for turn in turns))
                carried += len(turns)
        except DatabaseUnavailableError as away:
            log.warning("withdrawals wait for the database", cause=str(away))
        except Exception:
            log.exception("withdrawals could not be carried out", company_id=company_id)
        return carried

    async def _claim(self, company_id: int) -> Sequence[Turn]:
        """Take turns: what is sent is on its way, with its request id, before it is sent."""
        now = self._clock()
        await self._renew_quotes(company_id, now)

        async def claim(block: Connection) -> Sequence[Turn]:
            policy = await companies.withdrawal_policy(block, company_id)
            sendable = () if policy.is_paused else (Status.PENDING,)
            due = await store.lock_due(
                block,
                Scope(company_id, self._environment),
                statuses=[Status.PROCESSING, *sendable],
                quoted_since=now - QUOTE_LIFETIME,
                now=now,
                rows_max=CLAIMED_AT_ONCE_MAX,
            )
            taken_at = asyncio.get_running_loop().time()
            turns = [
                Turn(
                    await _claimed(block, each, now=now),
                    is_first=each.status is Status.PENDING,
                    may_send=not policy.is_paused,
                    taken_at=taken_at,
                )
                for each in due
            ]
            if turns:
                die_at(Failpoint.CLAIMING)
            return turns

        turns = await self._database.atomically(claim)
        if turns:
            die_at(Failpoint.CLAIMED)
        return turns

    async def _renew_quotes(self, company_id: int, now: datetime) -> None:
        """Ask for new prices of what is sent next, where the old ones no longer hold."""
        stale = await store.list_stale_quotes(
            self._database,
            Scope(company_id, self._environment),
            quoted_before=now - QUOTE_LIFETIME,
            now=now,
            rows_max=CLAIMED_AT_ONCE_MAX,
        )
        for withdrawal in stale:
            destination = service.open_destination(self._sealer, withdrawal)
            assert isinstance(destination, WalletDestination)
            try:
                async with asyncio.timeout(CALL_SECONDS_MAX):
                    quote = await self._provider.quote(destination.coin)
            except Exception:
                # Without a price this one waits; what needs none goes on.
                log.exception("no price", withdrawal=withdrawal.withdrawal_id)
                due_at = now + timedelta(seconds=CLAIM_SECONDS)
                await store.postpone(self._database, withdrawal, due_at=due_at)
                continue
            bought = purchase(Network(destination.network), quote, net_amount=withdrawal.net_amount)
            await store.update_quote(self._database, withdrawal, bought)

    async def _carry_alone(self, turn: Turn) -> None:
        """Carry a withdrawal on; what goes wrong with it keeps no other one waiting."""
        withdrawal_id = turn.withdrawal.withdrawal_id
        try:
            await self._carry(turn)
        except DatabaseUnavailableError as away:
            log.warning("withdrawal waits for the database", cause=str(away))
        except Exception:
            log.exception("withdrawal could not be carried on", withdrawal=withdrawal_id)

    async def _carry(self, turn: Turn) -> None:
        """Ask the provider and write down what it says; a silence is written down as nothing."""
        waited_seconds = asyncio.get_running_loop().time() - turn.taken_at
        if waited_seconds > BEGIN_SECONDS_MAX:
            log.warning("turn lost", withdrawal=turn.withdrawal.withdrawal_id)
            return
        answer = await self._ask(turn)
        die_at(Failpoint.ANSWERED if turn.is_first else Failpoint.ASKED)
        await self._write(turn, answer)

    async def _ask(self, turn: Turn) -> PayoutAnswer:
        withdrawal = turn.withdrawal
        assert withdrawal.request_id is not None
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                if turn.is_first:
                    return await self._provider.send(self._order(withdrawal))
                answer = await self._provider.query(withdrawal.company_id, withdrawal.request_id)
                if isinstance(answer, Unheard) and turn.may_send:
                    # It died on the way there: the same request once more, under the same id.
                    return await self._provider.send(self._order(withdrawal))
                return answer
        except Exception as fault:  # noqa: BLE001
            # Whatever it was, it does not say that nothing was paid.
            log.warning(
                "payout outcome unknown",
                withdrawal=withdrawal.withdrawal_id,
                cause=type(fault).__name__,
            )
            return Unknown(type(fault).__name__)

    async def _write(self, turn: Turn, answer: PayoutAnswer) -> None:
        withdrawal, now = turn.withdrawal, self._clock()
        if isinstance(answer, Paid | Rejected):
            await self._database.atomically(_settlement(withdrawal, answer, now))
            die_at(Failpoint.SETTLED)
        else:
            due_at = now + ask_again_after(withdrawal.asked)
            await store.set_due(self._database, withdrawal, due_at=due_at)

    def _order(self, withdrawal: Withdrawal) -> PayoutOrder:
        return order_of(withdrawal, self._sealer)


def order_of(withdrawal: Withdrawal, sealer: Sealer) -> PayoutOrder:
    """What the provider is asked to do for a withdrawal."""
    return PayoutOrder(
        company_id=withdrawal.company_id,
        request_id=request_id_of(withdrawal.withdrawal_id),
        destination=service.open_destination(sealer, withdrawal),
        amount=withdrawal.net_amount,
        units=None if withdrawal.bought is None else withdrawal.bought.units,
        asked_amount=withdrawal.amount,
        description=_decode_details(withdrawal.details).description,
    )


async def count_overdue(database: Database, *, now: datetime) -> int:
    """Raise the alarm about withdrawals whose outcome has not been known for too long."""
    overdue = await store.count_processing_since_before(database, now - ALARM_AFTER)
    metrics.WITHDRAWALS_OVERDUE.set(overdue)
    if overdue:
        log.error("withdrawals of unknown outcome", overdue=overdue)
    return overdue


async def _claimed(block: Connection, due: Withdrawal, *, now: datetime) -> Withdrawal:
    ends_at = now + timedelta(seconds=CLAIM_SECONDS)
    if due.status is Status.PROCESSING:
        return await store.claim(block, due, asked=due.asked + 1, due_at=ends_at)
    return await moves.begin(block, due, due_at=ends_at, now=now)


def _settlement(
    withdrawal: Withdrawal, answer: Paid | Rejected, now: datetime
) -> Callable[[Connection], Awaitable[None]]:
    async def settle(block: Connection) -> None:
        locked = await store.lock(block, withdrawal.company_id, withdrawal.withdrawal_id)
        assert locked is not None
        # A notice may have come first; it says the same.
        if locked.status is Status.PROCESSING:
            await moves.settle(block, locked, answer, now=now)
        else:
            service.note_contradiction(locked, answer)

    return settle
