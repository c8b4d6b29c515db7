"""Exact sliding windows: never more than the limit in any stretch of the window's length."""

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Final, Protocol

import msgspec

from vintem.kit.clock import EpochSeconds
from vintem.runtime.db import Connection, Database, Row
from vintem.runtime.group_commit import GroupCommit

NANOSECONDS: Final = 1_000_000_000
CALLS_AT_ONCE_MAX: Final = 256


class PublicLimit(StrEnum):
    """What is counted for each IP address, of calls that carry no working key."""

    WRONG_KEYS = "wrong keys"
    PICTURES = "pictures"
    MEDIA = "media"
    READS = "session reads"
    READS_OF_ONE = "reads of one session"
    COUPONS = "coupons"
    PAYMENTS = "payments"
    CARD_TOKENS = "card tokens"
    LINK_SESSIONS = "payment-link sessions"
    REFUSED_CARDS = "refused cards"
    REFUSALS_OF_CARD = "refusals of one card"
    REFUSALS_OF_TEST_CARD = "refusals of one test card"
    WRONG_CODES = "wrong coupon codes"
    SIGN_INS = "sign-ins"


class Window(msgspec.Struct, frozen=True, gc=False):
    """Whose calls are counted, and how many may fall into how long."""

    company_id: int
    key_id: str
    group: str
    limit: int
    seconds: int


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What a window says to one call."""

    admitted: bool
    limit: int
    remaining: int
    decided_at: float
    """Epoch seconds, of the clock that the window is counted with."""
    next_at: float
    """When one more call is allowed."""

    @property
    def reset(self) -> EpochSeconds:
        """When one more call is allowed, in whole seconds, rounded up."""
        return EpochSeconds(math.ceil(self.next_at))

    @property
    def retry_after_seconds(self) -> int:
        """How long to wait, in whole seconds, at least one."""
        return max(1, math.ceil(self.next_at - self.decided_at))


class Limiter(Protocol):
    """Decides whether a call fits into its window."""

    async def admit(self, window: Window) -> Decision:
        """Count the call if it fits; a refused call leaves no trace."""
        ...

    async def count(self, window: Window) -> int:
        """Say how many calls the window holds now."""
        ...

    async def give_back(self, window: Window) -> None:
        """Forget the last call that was counted, which is found not to count."""
        ...


class MemoryLimiter:
    """Windows of one process, none of them longer than its `seconds_max`."""

    def __init__(self, *, seconds_max: int = 120) -> None:
        self.seconds_max = seconds_max
        self._calls: dict[tuple[str, str], deque[int]] = {}

    async def admit(self, window: Window) -> Decision:
        """Count the call if it fits; a refused call leaves no trace."""
        return self.admit_now(window)

    def admit_now(self, window: Window) -> Decision:
        """Decide without waiting for anybody."""
        return self.admit_at(window, now_ns=time.monotonic_ns(), wall_ns=time.time_ns())

    def admit_at(self, window: Window, *, now_ns: int, wall_ns: int) -> Decision:
        """Decide by a clock that never runs backwards; the wall clock only names the moments."""
        key = (window.key_id, window.group)
        calls = self._calls.get(key)
        if calls is None:
            calls = self._calls[key] = deque()
        window_ns = window.seconds * NANOSECONDS
        expired_ns = now_ns - window_ns
        while calls and calls[0] <= expired_ns:
            calls.popleft()
        admitted = len(calls) < window.limit
        if admitted:
            calls.append(now_ns)
        remaining = window.limit - len(calls)
        next_ns = wall_ns
        if remaining <= 0:
            remaining = 0
            next_ns += calls[-window.limit] + window_ns - now_ns
        return Decision(
            admitted, window.limit, remaining, wall_ns / NANOSECONDS, next_ns / NANOSECONDS
        )

    async def count(self, window: Window) -> int:
        """Say how many calls the window holds now."""
        expired_ns = time.monotonic_ns() - window.seconds * NANOSECONDS
        calls = self._calls.get((window.key_id, window.group), ())
        return sum(1 for call_ns in calls if call_ns > expired_ns)

    async def give_back(self, window: Window) -> None:
        """Forget the last call that was counted, which another window refused or does not count."""
        calls = self._calls.get((window.key_id, window.group))
        if calls:
            calls.pop()

    def forget_idle(self, *, idle_seconds: int) -> None:
        """Drop the windows that nobody has called into for so long."""
        oldest_ns = time.monotonic_ns() - idle_seconds * NANOSECONDS
        for key in [
            key for key, calls in self._calls.items() if not calls or calls[-1] < oldest_ns
        ]:
            del self._calls[key]


class SharedLimiter:
    """Windows that several processes count together in PostgreSQL.

    Calls that arrive together share one statement, and those of one window one decision.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calls = GroupCommit[Window, Decision](
            database,
            _admit_many,
            sort_key=_window_order,
            # One that takes all who wait: a second would hold windows that the first waits for.
            flushers=1,
            rows_max=CALLS_AT_ONCE_MAX,
        )

    async def admit(self, window: Window) -> Decision:
        """Count the call if it fits; a refused call leaves no trace."""
        return await self._calls.write(window)

    async def count(self, window: Window) -> int:
        """Say how many calls the window holds now."""
        held: int = await self._database.fetchval(
            """
            select coalesce(sum(calls), 0)::bigint from rate_call
            where company_id = $1 and key_id = $2 and group_name = $3
                and admitted_at > clock_timestamp() - make_interval(secs => $4)
            """,
            window.company_id,
            window.key_id,
            window.group,
            float(window.seconds),
        )
        return held

    async def give_back(self, window: Window) -> None:
        """Forget the last call that was counted, which is found not to count."""
        await self._database.execute(
            "select give_back_call($1, $2, $3)", window.company_id, window.key_id, window.group
        )

    async def close(self) -> None:
        """Decide what is waiting, then stop."""
        await self._calls.close()


def _window_order(window: Window) -> tuple[int, str, str]:
    return (window.company_id, window.key_id, window.group)


async def _admit_many(db: Connection, calls: Sequence[Window]) -> Sequence[Decision]:
    """Decide calls that are sorted by their windows; those of one window are decided together.

    Where a window's limit has just been changed, all are decided by that of the call that came
    last.
    """
    by_window = [list(same) for _, same in groupby(calls, key=_window_order)]
    together = [(same[-1], len(same)) for same in by_window]
    rows = await db.fetch(
        "select * from admit_calls($1, $2, $3, $4, $5, $6)",
        [window.company_id for window, _ in together],
        [window.key_id for window, _ in together],
        [window.group for window, _ in together],
        [window.limit for window, _ in together],
        [window.seconds for window, _ in together],
        [count for _, count in together],
    )
    return [
        decision
        for (window, count), row in zip(together, rows, strict=True)
        for decision in _decisions(window, count, row)
    ]


def _decisions(window: Window, count: int, row: Row) -> Iterator[Decision]:
    """Say to each call of a window what was decided: the first ones are admitted."""
    admitted, remaining = row["admitted"], row["remaining"]
    decided_at, full_until = row["decided_at"].timestamp(), row["next_at"].timestamp()
    for number in range(1, count + 1):
        left = remaining + max(admitted - number, 0)
        yield Decision(
            admitted=number <= admitted,
            limit=window.limit,
            remaining=left,
            decided_at=decided_at,
            next_at=decided_at if left else full_until,
        )


async def forget_idle_windows(database: Database, *, company_id: int, idle_seconds: int) -> int:
    """Delete a company's shared windows that nobody has called into for so long."""
    async with database.atomic() as block:
        # The windows are held before the calls are looked for: a call that was in flight meanwhile
        # would otherwise stay behind, and its number would be taken when the window starts anew.
        idle = await block.fetch(
            """
            select key_id, group_name from rate_window
            where company_id = $1 and last_at < now() - make_interval(secs => $2)
            order by key_id, group_name
            for update
            """,
            company_id,
            float(idle_seconds),
        )
        for statement in (
            """
            delete from rate_call c using unnest($2::text[], $3::text[]) idle (key_id, group_name)
            where c.company_id = $1 and c.key_id = idle.key_id and c.group_name = idle.group_name
            """,
            """
            delete from rate_window w using unnest($2::text[], $3::text[]) idle (key_id, group_name)
            where w.company_id = $1 and w.key_id = idle.key_id and w.group_name = idle.group_name
            """,
        ):
            await block.execute(
                statement,
                company_id,
                [row["key_id"] for row in idle],
                [row["group_name"] for row in idle],
            )
    return len(idle)
