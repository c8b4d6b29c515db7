"""Group commit: calls that arrive while a commit is in flight share the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import structlog

from vintem.runtime.db import (
    Database,
    DatabaseBusyError,
    DatabaseUnavailableError,
    DedicatedConnection,
    retry_pause_seconds,
)

RowT = TypeVar("RowT")
OutcomeT = TypeVar("OutcomeT")

log = structlog.get_logger()

GROUP_ROWS_MAX: Final = 32
FLUSHERS: Final = 2
WAITING_ROWS_MAX: Final = 20_000
BUSY_ATTEMPTS_MAX: Final = 4
RETRY_SECONDS_MAX: Final = 5.0
# From a readable socket to the row that waits are three turns of the event loop, a few microseconds
# each; a third of all groups would else hold one row or two of those that arrive together.
JOINING_TURNS: Final = 3
# Callers who were answered together come again together, within some milliseconds. A group that is
# taken when the first of them are back lets all others wait for its commit and their own. So where
# many come, a group waits for as many as one of the last had; few callers never wait.
CROWD_ROWS_MIN: Final = 8
CROWD_GROUPS: Final = 3
CROWD_PART_OF_WRITE: Final = 0.6
CROWD_SECONDS_MAX: Final = 0.008

TOO_LATE: Final = "the write waited too long"

# A plan made while the tables were empty must not live on, and no plan is worth compiling.
FLUSHER_SETTINGS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    # A group is looked up row by row; any other join reads what grows with the number of companies.
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
}


@dataclass(slots=True)
class _Waiting(Generic[RowT, OutcomeT]):
    row: RowT
    key: Any
    outcome: "asyncio.Future[OutcomeT]"
    give_up_at: float

    def is_late(self, now: float) -> bool:
        """Say whether the caller has waited long enough to be told that it did not work."""
        return now >= self.give_up_at

    def refuse(self, fault: Exception) -> None:
        """Tell the caller, unless it knows more already or is gone."""
        if not self.outcome.done():
            self.outcome.set_exception(fault)


class _Link:
    """A flusher's connection, made when it is needed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: DedicatedConnection | None = None

    async def get(self) -> DedicatedConnection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect(**FLUSHER_SETTINGS)
        return self._connection

    def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


class GroupCommit(Generic[RowT, OutcomeT]):
    """Writes rows of many callers with one statement and one commit.

    `write_many` gets rows sorted by `sort_key` (two processes that lock the same rows in the same
    order cannot deadlock), writes them in one commit of its own and returns one outcome a row, in
    the same order. It must be repeatable: when a connection breaks, nobody knows whether the
    commit happened, and the same rows are handed to it again.

    With `awaits_crowd` a group of a busy time is not taken before as many rows wait as the last
    groups had, unless that takes long.
    """

    def __init__(
        self,
        database: Database,
        write_many: Callable[[DedicatedConnection, Sequence[RowT]], Awaitable[Sequence[OutcomeT]]],
        *,
        sort_key: Callable[[RowT], Any],
        rows_max: int = GROUP_ROWS_MAX,
        flushers: int = FLUSHERS,
        awaits_crowd: bool = True,
    ) -> None:
        self._database = database
        self._write_many = write_many
        self._sort_key = sort_key
        self._rows_max = rows_max
        self._waiting: deque[_Waiting[RowT, OutcomeT]] = deque()
        self._arrived = asyncio.Event()
        self._awaits_crowd = awaits_crowd
        self._last_sizes: deque[int] = deque([0], maxlen=CROWD_GROUPS)
        self._last_seconds = 0.0
        self._crowd = 0
        self._crowd_is_there = asyncio.Event()
        self._closing = False
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._flushers_left = flushers
        self._flushers = [
            asyncio.create_task(self._flush_until_closed(), name=f"group-commit-{number}")
            for number in range(flushers)
        ]

    async def write(self, row: RowT) -> OutcomeT:
        """Return the row's outcome after the commit that holds it."""
        if self._closing or len(self._waiting) >= WAITING_ROWS_MAX:
            raise DatabaseUnavailableError("too many writes are waiting")
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + RETRY_SECONDS_MAX
        waiting: _Waiting[RowT, OutcomeT] = _Waiting(
            row, self._sort_key(row), loop.create_future(), give_up_at
        )
        self._waiting.append(waiting)
        self._arrived.set()
        if len(self._waiting) == self._crowd:
            self._crowd_is_there.set()
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_at(give_up_at, self._sweep)
        return await waiting.outcome

    async def close(self) -> None:
        """Write what is waiting, then stop."""
        self._closing = True
        self._arrived.set()
        await asyncio.gather(*self._flushers, return_exceptions=True)
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()

    def _sweep(self) -> None:
        """Refuse in time the rows that no flusher could attend to, which the oldest are first."""
        self._sweep_timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting and (self._waiting[0].outcome.done() or self._waiting[0].is_late(now)):
            self._waiting.popleft().refuse(DatabaseUnavailableError(TOO_LATE))
        if self._waiting:
            self._sweep_timer = loop.call_at(self._waiting[0].give_up_at, self._sweep)

    async def _flush_until_closed(self) -> None:
        link = _Link(self._database)
        try:
            while group := await self._next_group():
                await self._write_or_refuse(link, group)
        finally:
            link.drop()
            self._flushers_left -= 1
            if not self._flushers_left:
                self._closing = True
                while self._waiting:
                    self._waiting.popleft().refuse(DatabaseUnavailableError("no flusher is left"))

    async def _next_group(self) -> "list[_Waiting[RowT, OutcomeT]]":
        """Wait for rows and take them; an empty group means closed."""
        group: list[_Waiting[RowT, OutcomeT]] = []
        while not group:
            await self._let_others_join()
            while self._waiting and len(group) < self._rows_max:
                waiting = self._waiting.popleft()
                if not waiting.outcome.done():
                    group.append(waiting)
            if not group and self._closing:
                break
            if not group:
                self._arrived.clear()
                await self._arrived.wait()
        return group

    async def _let_others_join(self) -> None:
        """Let calls that are being read at this moment become part of the group."""
        for _ in range(JOINING_TURNS):
            if not self._waiting or len(self._waiting) >= self._rows_max:
                return
            await asyncio.sleep(0)
        if self._awaits_crowd and self._waiting:
            await self._await_crowd()

    async def _await_crowd(self) -> None:
        """Let those come again who were answered a moment ago, if they were many."""
        self._crowd = max(self._last_sizes)
        if self._crowd < CROWD_ROWS_MIN or len(self._waiting) >= self._crowd:
            return
        self._crowd_is_there.clear()
        seconds = min(CROWD_PART_OF_WRITE * self._last_seconds, CROWD_SECONDS_MAX)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._crowd_is_there.wait()

    async def _write_or_refuse(
        self, link: _Link, group: "Sequence[_Waiting[RowT, OutcomeT]]"
    ) -> None:
        """Write a group; whatever happens, no caller of it is left without an answer."""
        try:
            await self._write_group(link, list(group))
        except BaseException as fault:
            link.drop()
            task = asyncio.current_task()
            assert task is not None
            # Something inside may have been cancelled; then this flusher need not end with it.
            if task.cancelling() or not isinstance(fault, Exception | asyncio.CancelledError):
                raise
            log.exception("group commit failed", rows=len(group))
        finally:
            for waiting in group:
                waiting.refuse(DatabaseUnavailableError("the flusher ended"))

    async def _write_group(self, link: _Link, group: "list[_Waiting[RowT, OutcomeT]]") -> None:
        """Write a group until each of its rows has an outcome, row by row if it must be."""
        attempt = 0
        late = DatabaseUnavailableError(TOO_LATE)
        while group := _still_waiting(group, late):
            attempt += 1
            try:
                connection = await link.get()
                if group := _still_waiting(group, late):
                    await self._write_once(connection, group)
            except DatabaseBusyError as busy:
                late = busy
                if len(group) > 1 and attempt > 1:
                    await self._write_one_by_one(link, group, busy)
                elif attempt >= BUSY_ATTEMPTS_MAX:
                    group[0].refuse(busy)
                else:
                    await asyncio.sleep(retry_pause_seconds(attempt))
            except DatabaseUnavailableError as away:
                late = away
                link.drop()
                await asyncio.sleep(retry_pause_seconds(min(attempt, 4)))
            except Exception as fault:  # noqa: BLE001 - it belongs to a caller, not to the flusher
                if len(group) > 1:
                    await self._write_one_by_one(link, group, fault)
                else:
                    group[0].refuse(fault)

    async def _write_one_by_one(
        self, link: _Link, group: "list[_Waiting[RowT, OutcomeT]]", cause: Exception
    ) -> None:
        """Let a row that cannot be written, or that others hold, fail without its neighbours."""
        log.warning(
            "group commit tries its rows one by one", rows=len(group), cause=type(cause).__name__
        )
        for waiting in group:
            await self._write_group(link, [waiting])

    async def _write_once(
        self, connection: DedicatedConnection, group: "list[_Waiting[RowT, OutcomeT]]"
    ) -> None:
        group.sort(key=lambda waiting: waiting.key)
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        outcomes = await self._write_many(connection, [waiting.row for waiting in group])
        self._last_seconds = loop.time() - began_at
        self._last_sizes.append(len(group))
        assert len(outcomes) == len(group), "write_many returned another number of outcomes"
        for waiting, outcome in zip(group, outcomes, strict=True):
            if not waiting.outcome.done():
                waiting.outcome.set_result(outcome)


def _still_waiting(
    group: "list[_Waiting[RowT, OutcomeT]]", late: DatabaseUnavailableError
) -> "list[_Waiting[RowT, OutcomeT]]":
    """Refuse the rows that have waited long enough; give those that have no answer."""
    now = asyncio.get_running_loop().time()
    for waiting in group:
        if waiting.is_late(now):
            waiting.refuse(late)
    return [waiting for waiting in group if not waiting.outcome.done()]
