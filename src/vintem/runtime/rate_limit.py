"""Exact sliding windows: never more than the limit in any stretch of the window's length."""

import math
import time
from collections import deque
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from vintem.kit.clock import EpochSeconds

NANOSECONDS: Final = 1_000_000_000


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
