"""Who may be called at once: lanes that fail or are slow never have all the places."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from enum import IntEnum
from typing import Final


class Standing(IntEnum):
    """What a lane did when it was last called; the best first."""

    PROVEN = 0
    UNKNOWN = 1
    TROUBLED = 2


# Of all places, lanes of a standing have so many, together with those of worse ones: whatever the
# troubled do, others find a place, and whatever newcomers do, those that answer well find one.
SHARES: Final = {Standing.PROVEN: 1.0, Standing.UNKNOWN: 0.75, Standing.TROUBLED: 0.5}


class Places:
    """Places for calls in flight, which are waited for."""

    def __init__(self, count: int) -> None:
        self._free = [asyncio.Semaphore(int(count * share)) for share in SHARES.values()]

    @asynccontextmanager
    async def one(self, standing: Standing) -> AsyncIterator[None]:
        """Have a place as soon as there is one for a lane that stands so."""
        async with AsyncExitStack() as taken:
            for free in reversed(self._free[: standing + 1]):
                await taken.enter_async_context(free)
            yield


class Quota:
    """How many lanes may be worked on at once."""

    def __init__(self, count: int) -> None:
        self._left = [int(count * share) for share in SHARES.values()]

    def has(self, standing: Standing) -> bool:
        """Say whether one more lane that stands so may be begun."""
        return min(self._left[: standing + 1]) > 0

    def take(self, standing: Standing) -> None:
        """Count a lane."""
        for index in range(standing + 1):
            self._left[index] -= 1
