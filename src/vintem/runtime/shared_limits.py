"""Exact sliding windows that several processes count together, in PostgreSQL.

Calls that arrive together share one statement. A process that is called often takes some calls of a
window ahead, which the others count as made, and admits them by itself; it tells of those it has
admitted when it asks for more, or when their time is over. So the windows stay exact: never more
than the limit in any stretch of their length, no refusal while somebody may give something back.
"""

import asyncio
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from vintem.runtime.db import Connection, Database, DatabaseBusyError, Row
from vintem.runtime.group_commit import GroupCommit
from vintem.runtime.rate_limit import Decision, Window

CALLS_AT_ONCE_MAX: Final = 256
# Of a limit at most this part, for this part of the window, while so little of it is used: what one
# process holds another may lack, and what it admits is told of later than it was made. Small limits
# and long windows have no part.
AHEAD_PART_OF_LIMIT: Final = 64
HELD_PART_OF_WINDOW: Final = 5
HELD_SECONDS_MAX: Final = 0.6
USED_PART_OF_LIMIT_MAX: Final = 4
WINDOW_SECONDS_MAX: Final = 60
SETTLE_SECONDS: Final = 0.05
# What is in use is asked for anew in this last part of its time, so that no call waits for it.
RENEWED_IN_LAST_PART: Final = 2
# How much later than its end what was taken ahead may be given back, where there is much to do.
GIVEN_BACK_SECONDS: Final = 0.2


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A call that waits for its decision; none, where a process only tells of what it has made."""

    window: Window
    calls: int


class _Answer(msgspec.Struct, frozen=True, gc=False):
    decision: Decision
    wait_seconds: float
    """For so long others may still give back what they have taken ahead."""


class _Ahead(msgspec.Struct, gc=False):
    """What this process has taken ahead of a window."""

    window: Window
    asked_at: float = 0.0
    """Before the question was sent, by the clock that never runs backwards."""
    answered_at: float = 0.0
    decided_at: float = 0.0
    """By the database's clock."""
    remaining: int = 0
    held: int = 0
    """As the database knows it."""
    left: int = 0
    untold: int = 0
    """Admitted, and not yet told of."""
    was_used: bool = False
    """Some had been admitted when it was last asked about."""

    def ends_at(self) -> float:
        return self.asked_at + _lasting(self.window)

    def is_frequent(self, now: float) -> bool:
        """Say whether the window was asked about a moment ago."""
        return now < self.asked_at + 2 * _lasting(self.window)

    def is_due(self, now: float) -> bool:
        """Say whether to ask: its time is over, or will soon be while it is still in use."""
        is_in_use = self.untold > 0 or self.was_used
        early = _lasting(self.window) / RENEWED_IN_LAST_PART if is_in_use else 0.0
        return self.held > 0 and now >= self.ends_at() - early

    def is_scarce(self) -> bool:
        """Say whether so much of the window is used that others may lack what is held here."""
        limit = self.window.limit
        return self.remaining < limit - limit // USED_PART_OF_LIMIT_MAX

    def expected(self, now: float, calls: int) -> int:
        """Twice the calls that will come while they are held, as many as came come again."""
        lasting = _lasting(self.window)
        elapsed = max(now - self.asked_at, lasting / 8)
        expected = math.ceil(2 * (self.untold + calls) * lasting / elapsed)
        return min(expected, self.window.limit // AHEAD_PART_OF_LIMIT)

    def take(self, now: float) -> Decision:
        """Admit a call; most of the window was free, so one more is allowed at once."""
        self.left -= 1
        self.untold += 1
        self.remaining -= 1
        moment = self.decided_at + now - self.answered_at
        return Decision(
            admitted=True,
            limit=self.window.limit,
            remaining=self.remaining,
            decided_at=moment,
            next_at=moment,
        )


class _Question(msgspec.Struct, frozen=True, gc=False):
    """What is asked about a window, and told of it."""

    window: Window
    calls: int
    held: int = 0
    untold: int = 0
    kept: int = 0
    wanted: int = 0


WindowKey = tuple[int, str, str]


class SharedLimiter:
    """Windows that several processes count together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._holder = secrets.token_hex(8)
        self._ahead: dict[WindowKey, _Ahead] = {}
        self._calls = GroupCommit[_Asked, _Answer](
            database,
            self._decide_many,
            sort_key=_asked_order,
            # One that takes all who wait: a second would hold windows that the first waits for.
            flushers=1,
            rows_max=CALLS_AT_ONCE_MAX,
            # Those who tell of what they have made come many at once, and rarely.
            awaits_crowd=False,
        )
        self._is_closing = False
        self._renewals: set[asyncio.Task[None]] = set()
        self._settling = asyncio.create_task(self._keep_settling(), name="shared limits")

    async def admit(self, window: Window) -> Decision:
        """Count the call if it fits; a refused call leaves no trace."""
        ahead = self._ahead.get(_window_order(window))
        if ahead is not None and ahead.left and ahead.window == window:
            now = time.monotonic()
            if now < ahead.ends_at():
                decision = ahead.take(now)
                if ahead.left == ahead.held // 2:
                    self._renew(ahead)
                return decision
        answer = await self._calls.write(_Asked(window, 1))
        if not answer.decision.admitted and answer.wait_seconds > 0:
            await asyncio.sleep(answer.wait_seconds)
            answer = await self._calls.write(_Asked(window, 1))
        return answer.decision

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
        """Decide what is waiting, tell of everything, then stop."""
        self._is_closing = True
        self._settling.cancel()
        await asyncio.wait([self._settling])
        # Those too whose question is on its way: it may come back with more.
        await self._settle(list(self._ahead.values()))
        await self._calls.close()

    def _renew(self, ahead: _Ahead) -> None:
        """Ask for more before the last is used."""
        renewal = asyncio.create_task(self._settle([ahead]))
        self._renewals.add(renewal)
        renewal.add_done_callback(self._renewals.discard)

    async def _keep_settling(self) -> None:
        """Give back what was taken ahead and not used in time, and tell of the rest."""
        while True:
            await asyncio.sleep(SETTLE_SECONDS)
            now = time.monotonic()
            await self._settle([each for each in self._ahead.values() if each.is_due(now)])
            idle = [
                key
                for key, each in self._ahead.items()
                if not (each.held or each.untold or each.is_frequent(now))
            ]
            for key in idle:
                del self._ahead[key]

    async def _settle(self, due: Sequence[_Ahead]) -> None:
        # Where the database is away, this is tried again; until then all of it counts as made.
        await asyncio.gather(
            *(self._calls.write(_Asked(each.window, 0)) for each in due), return_exceptions=True
        )

    async def _decide_many(self, db: Connection, asked: Sequence[_Asked]) -> Sequence[_Answer]:
        """Decide calls that are sorted by their windows; those of one window are decided together.

        Where a window's limit has just been changed, all are decided by that of the call that came
        last.
        """
        by_window = [list(same) for _, same in groupby(asked, key=_asked_order)]
        asked_at = time.monotonic()
        questions = [self._question(same, asked_at) for same in by_window]
        rows = await self._ask(db, questions)
        answers: list[_Answer] = []
        for question, same, row in zip(questions, by_window, rows, strict=True):
            self._keep(question, row, asked_at)
            answers += _answers(question, same, row)
        return answers

    async def _ask(self, db: Connection, questions: Sequence[_Question]) -> Sequence[Row]:
        try:
            return await self._fetch(db, questions)
        except DatabaseBusyError:
            raise
        except BaseException:
            # Nobody knows whether it was decided, or still will be. What was held and told stays
            # with the holder it was until it has left the window, and is used by nobody.
            self._holder = secrets.token_hex(8)
            self._ahead.clear()
            raise

    async def _fetch(self, db: Connection, questions: Sequence[_Question]) -> Sequence[Row]:
        return await db.fetch(
            "select * from admit_calls($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            self._holder,
            [each.window.company_id for each in questions],
            [each.window.key_id for each in questions],
            [each.window.group for each in questions],
            [each.window.limit for each in questions],
            [each.window.seconds for each in questions],
            [each.calls for each in questions],
            [each.held for each in questions],
            [each.untold for each in questions],
            [each.kept for each in questions],
            [each.wanted for each in questions],
            [_lasting(each.window) for each in questions],
            USED_PART_OF_LIMIT_MAX,
        )

    def _question(self, asked: Sequence[_Asked], now: float) -> _Question:
        calls = sum(each.calls for each in asked)
        # What only tells knows the limit of its last question.
        window = next((each.window for each in reversed(asked) if each.calls), asked[-1].window)
        ahead = self._ahead.get(_window_order(window))
        if ahead is None:
            return _Question(window, calls)
        has_ended = now >= ahead.ends_at()
        if has_ended or self._is_closing or ahead.is_scarce() or ahead.window != window:
            ahead.left = 0
        is_called = (calls > 0 or not has_ended) and ahead.is_frequent(now)
        is_in_use = is_called and not self._is_closing
        wanted = ahead.expected(now, calls) if is_in_use else 0
        return _Question(
            window,
            calls,
            held=ahead.held,
            untold=ahead.untold,
            # It may be used while the question is on its way.
            kept=ahead.left,
            wanted=max(0, wanted - ahead.left),
        )

    def _keep(self, question: _Question, row: Row, asked_at: float) -> None:
        """Remember what was taken ahead, beside what was admitted meanwhile."""
        window, key = question.window, _window_order(question.window)
        if window.seconds > WINDOW_SECONDS_MAX or window.limit < AHEAD_PART_OF_LIMIT:
            self._ahead.pop(key, None)
            return
        ahead = self._ahead.get(key)
        if ahead is None:
            ahead = self._ahead[key] = _Ahead(window)
        ahead.window = window
        ahead.asked_at = asked_at
        ahead.answered_at = time.monotonic()
        ahead.decided_at = row["decided_at"].timestamp()
        ahead.was_used = question.untold + question.calls > 0
        ahead.untold -= question.untold
        ahead.remaining = row["remaining"] - ahead.untold
        ahead.held = row["ahead"]
        ahead.left += row["ahead"] - question.kept


def _window_order(window: Window) -> WindowKey:
    return (window.company_id, window.key_id, window.group)


def _asked_order(asked: _Asked) -> WindowKey:
    return _window_order(asked.window)


def _lasting(window: Window) -> float:
    """For how many seconds calls of a window are taken ahead."""
    return min(window.seconds / HELD_PART_OF_WINDOW, HELD_SECONDS_MAX)


def _answers(question: _Question, asked: Sequence[_Asked], row: Row) -> Iterator[_Answer]:
    """Say to each call of a window what was decided: the first ones are admitted."""
    admitted, remaining = row["admitted"], row["remaining"]
    decided_at, full_until = row["decided_at"].timestamp(), row["next_at"].timestamp()
    held_until = row["held_until"]
    wait_seconds = 0.0
    if held_until is not None:
        wait_seconds = held_until.timestamp() + GIVEN_BACK_SECONDS - decided_at
    number = 0
    for each in asked:
        number += each.calls
        left = remaining + max(admitted - number, 0)
        yield _Answer(
            Decision(
                admitted=number <= admitted,
                limit=question.window.limit,
                remaining=left,
                decided_at=decided_at,
                next_at=decided_at if left else full_until,
            ),
            wait_seconds,
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
            delete from rate_lease l using unnest($2::text[], $3::text[]) idle (key_id, group_name)
            where l.company_id = $1 and l.key_id = idle.key_id and l.group_name = idle.group_name
            """,
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
