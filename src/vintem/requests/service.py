"""Keeps what was called off the way of the calls, and shows it."""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import structlog
from msgspec.structs import replace

from vintem.kit.clock import utc_now
from vintem.requests import store
from vintem.requests.model import (
    ACCEPTED_PER_SECOND_MAX,
    REFUSED_PER_SECOND_MAX,
    REFUSED_STATUS,
    REQUESTS_KEPT,
    WALKED_ROWS_MAX,
    CallFilter,
    CallPage,
    LoggedCall,
    readable,
    request_id_at,
)
from vintem.runtime.db import Connection, Database, DatabaseUnavailableError

log = structlog.get_logger()

WRITE_SECONDS: Final = 1.0
# Few, because a call that comes while they are written waits for the writing of all of them.
WRITTEN_AT_ONCE_MAX: Final = 100
WAITING_MAX: Final = 5_000
DELETED_AT_ONCE_MAX: Final = 2_000


class RequestLog:
    """Collects calls in memory and writes them together; the last second may be lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[LoggedCall] = []
        self._unlogged: dict[tuple[int, str], int] = {}
        # Of every key, how many accepted and refused calls are kept of this second.
        self._kept: dict[str, list[int]] = {}
        self._second = 0
        self._is_full = asyncio.Event()
        self._writing = asyncio.Lock()

    def admits(self, company_id: int, environment: str, key_id: str, status: int) -> bool:
        """Say whether a call is kept; one that is not, because there are too many, is counted."""
        second = int(time.monotonic())
        if second != self._second:
            self._second = second
            self._kept.clear()
        kept = self._kept.get(key_id)
        if kept is None:
            kept = self._kept[key_id] = [0, 0]
        is_refused = status >= REFUSED_STATUS
        limit = REFUSED_PER_SECOND_MAX if is_refused else ACCEPTED_PER_SECOND_MAX
        if kept[is_refused] < limit and len(self._waiting) < WAITING_MAX:
            kept[is_refused] += 1
            return True
        whose = (company_id, environment)
        self._unlogged[whose] = self._unlogged.get(whose, 0) + 1
        return False

    def note(self, call: LoggedCall) -> None:
        """Keep a call that was admitted."""
        self._waiting.append(call)
        if len(self._waiting) == WRITTEN_AT_ONCE_MAX:
            self._is_full.set()

    async def keep_writing(self) -> None:
        """Until cancelled: write what has come together, every second or when it is much."""
        while True:
            try:
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._is_full.wait()
            except TimeoutError:
                pass
            await self.write()

    async def write(self) -> None:
        """Write what waits, and return when all that came before is written.

        When the database is away it is let go.
        """
        async with self._writing:
            await self._write()

    async def _write(self) -> None:
        self._is_full.clear()
        waiting, self._waiting = self._waiting, []
        unlogged, self._unlogged = self._unlogged, {}
        try:
            for first in range(0, len(waiting), WRITTEN_AT_ONCE_MAX):
                part = waiting[first : first + WRITTEN_AT_ONCE_MAX]
                await store.insert_calls(
                    self._database,
                    [replace(each, body=readable(each.raw), raw=b"") for each in part],
                )
            if unlogged:
                hour = utc_now().replace(minute=0, second=0, microsecond=0)
                await store.count_unlogged(self._database, unlogged, hour=hour)
        except DatabaseUnavailableError as away:
            log.warning("calls are not kept", calls=len(waiting), cause=str(away))
        except Exception:
            # Whatever it was, the next second is written: calls go on without their log.
            log.exception("calls are not kept", calls=len(waiting))

    async def close(self) -> None:
        """Write what is waiting."""
        if self._waiting or self._unlogged:
            await self.write()


async def list_calls(
    db: Connection,
    company_id: int,
    environment: str,
    wanted: CallFilter,
    *,
    before: str,
    rows_max: int,
    now: datetime,
) -> CallPage:
    """Show a page of calls; of those that a filter leaves out, a bounded number is passed over."""
    oldest = max(wanted.since or now - REQUESTS_KEPT, now - REQUESTS_KEPT)
    since = request_id_at(oldest)
    newest = before or (store.LAST_ID if wanted.until is None else request_id_at(wanted.until))
    horizon = None
    if wanted.is_picky:
        horizon = await store.find_horizon(
            db,
            company_id,
            environment,
            is_refused=wanted.is_refused,
            before=newest,
            since=since,
            rows=WALKED_ROWS_MAX,
        )
    found: Sequence[LoggedCall] = await store.list_calls(
        db,
        company_id,
        environment,
        wanted,
        before=newest,
        since=horizon or since,
        rows_max=rows_max + 1,
    )
    shown = list(found[:rows_max])
    if len(found) > rows_max:
        return CallPage(shown, shown[-1].request_id)
    return CallPage(shown, horizon or "", is_cut=horizon is not None)


async def find_call(
    db: Connection, company_id: int, environment: str, request_id: str
) -> LoggedCall | None:
    """Find a call by the id that it was answered with."""
    return await store.find_call(db, company_id, environment, request_id)


async def unlogged(db: Connection, company_id: int, environment: str, *, since: datetime) -> int:
    """How many calls since a moment were counted only."""
    return await store.sum_unlogged(db, company_id, environment, since=since)


async def forget_old(db: Connection, *, now: datetime) -> int:
    """Delete calls that are older than they are kept; says how many."""
    before, total = now - REQUESTS_KEPT, 0
    for company_id in await store.list_companies(db):
        while count := await store.delete_old(
            db, company_id, before=before, rows_max=DELETED_AT_ONCE_MAX
        ):
            total += count
        await store.delete_old_counts(db, company_id, before=before)
    return total
