"""Group commit: calls that arrive while a commit is in flight share the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import structlog

from vintem.runtime.db import (
    Connection,
    Database,
    DatabaseBusyError,
    DatabaseUnavailableError,
    DedicatedConnection,
    named_failures,
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

# A plan made while the tables were empty must not live on, and no plan is worth compiling.
FLUSHER_SETTINGS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
}


@dataclass(slots=True)
class _Waiting(Generic[RowT, OutcomeT]):
    row: RowT
    outcome: "asyncio.Future[OutcomeT]"
    give_up_at: float

    def is_late(self) -> bool:
        """Say whether the caller has waited long enough to be told that it did not work."""
        return asyncio.get_running_loop().time() >= self.give_up_at


class GroupCommit(Generic[RowT, OutcomeT]):
    """Writes rows of many callers with one statement and one commit.

    `write_many` gets rows sorted by `sort_key` (two processes that lock the same rows in the same
    order cannot deadlock), writes them in one commit of its own and returns one outcome a row, in
    the same order. It must be repeatable: when a connection breaks, nobody knows whether the
    commit happened, and the same rows are handed to it again.
    """

    def __init__(
        self,
        database: Database,
        write_many: Callable[[Connection, Sequence[RowT]], Awaitable[Sequence[OutcomeT]]],
        *,
        sort_key: Callable[[RowT], Any],
        rows_max: int = GROUP_ROWS_MAX,
        flushers: int = FLUSHERS,
    ) -> None:
        self._database = database
        self._write_many = write_many
        self._sort_key = sort_key
        self._rows_max = rows_max
        self._waiting: deque[_Waiting[RowT, OutcomeT]] = deque()
        self._arrived = asyncio.Event()
        self._closing = False
        self._flushers = [
            asyncio.create_task(self._flush_until_closed(), name=f"group-commit-{number}")
            for number in range(flushers)
        ]

    async def write(self, row: RowT) -> OutcomeT:
        """Return the row's outcome after the commit that holds it."""
        if self._closing or len(self._waiting) >= WAITING_ROWS_MAX:
            raise DatabaseUnavailableError("too many writes are waiting")
        loop = asyncio.get_running_loop()
        waiting = _Waiting[RowT, OutcomeT](
            row, loop.create_future(), loop.time() + RETRY_SECONDS_MAX
        )
        self._waiting.append(waiting)
        self._arrived.set()
        return await waiting.outcome

    async def close(self) -> None:
        """Write what is waiting, then stop."""
        self._closing = True
        self._arrived.set()
        await asyncio.gather(*self._flushers)

    async def _flush_until_closed(self) -> None:
        connection: DedicatedConnection | None = None
        try:
            while group := await self._next_group():
                connection = await self._write_group(connection, group)
        finally:
            if connection is not None:
                connection.terminate()

    async def _next_group(self) -> "list[_Waiting[RowT, OutcomeT]]":
        """Wait for rows and take them; an empty group means closed."""
        group: list[_Waiting[RowT, OutcomeT]] = []
        while not group:
            while self._waiting and len(group) < self._rows_max:
                waiting = self._waiting.popleft()
                if not waiting.outcome.done():
                    group.append(waiting)
            if not group and self._closing:
                break
            if not group:
                self._arrived.clear()
                await self._arrived.wait()
        group.sort(key=lambda waiting: self._sort_key(waiting.row))
        return group

    async def _write_group(
        self, connection: DedicatedConnection | None, group: "list[_Waiting[RowT, OutcomeT]]"
    ) -> DedicatedConnection | None:
        """Write a group, row by row if it fails as a whole; return the connection to go on with."""
        attempt = 0
        while group := [waiting for waiting in group if not waiting.outcome.done()]:
            attempt += 1
            try:
                if connection is None or connection.is_closed():
                    connection = await self._database.connect(**FLUSHER_SETTINGS)
                await self._write_once(connection, group)
            except DatabaseBusyError as busy:
                if len(group) > 1:
                    connection = await self._write_one_by_one(connection, group, busy)
                elif attempt >= BUSY_ATTEMPTS_MAX or group[0].is_late():
                    _refuse(group, busy)
                else:
                    await asyncio.sleep(retry_pause_seconds(attempt))
            except DatabaseUnavailableError as away:
                if connection is not None:
                    connection.terminate()
                    connection = None
                _refuse([waiting for waiting in group if waiting.is_late()], away)
                await asyncio.sleep(retry_pause_seconds(min(attempt, 4)))
            except Exception as fault:  # noqa: BLE001 - it belongs to a caller, not to the flusher
                if len(group) == 1:
                    _refuse(group, fault)
                else:
                    connection = await self._write_one_by_one(connection, group, fault)
        return connection

    async def _write_one_by_one(
        self,
        connection: DedicatedConnection | None,
        group: "list[_Waiting[RowT, OutcomeT]]",
        cause: Exception,
    ) -> DedicatedConnection | None:
        """Let a row that cannot be written, or that others hold, fail without its neighbours."""
        log.warning(
            "group commit tries its rows one by one", rows=len(group), cause=type(cause).__name__
        )
        for waiting in group:
            connection = await self._write_group(connection, [waiting])
        return connection

    async def _write_once(
        self, connection: DedicatedConnection, group: "list[_Waiting[RowT, OutcomeT]]"
    ) -> None:
        with named_failures():
            outcomes = await self._write_many(connection, [waiting.row for waiting in group])
        assert len(outcomes) == len(group), "write_many returned another number of outcomes"
        for waiting, outcome in zip(group, outcomes, strict=True):
            if not waiting.outcome.done():
                waiting.outcome.set_result(outcome)


def _refuse(group: "Sequence[_Waiting[Any, Any]]", fault: Exception) -> None:
    for waiting in group:
        if not waiting.outcome.done():
            waiting.outcome.set_exception(fault)
