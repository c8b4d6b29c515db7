"""Names of strangers' hosts, looked up by the system in threads: one that hangs delays no other.

A lookup cannot be broken off, so a name server that does not answer holds its thread for as long
as the system waits. Each asker has one thread for a name at most, however often it asks meanwhile,
and askers that have been answered well of late have threads of their own.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Final

import msgspec

RESOLVE_SECONDS_MAX: Final = 5.0
PROVEN_THREADS_MAX: Final = 64
OTHER_THREADS_MAX: Final = 512

Ask = Callable[[str, int], Sequence[str]]
"""Gives the addresses of a host; it may take its time, and raise OSError."""


class NamesBusyError(Exception):
    """There was nobody left to ask: nothing was learnt about the host."""


class _Question(msgspec.Struct, frozen=True):
    asker: str
    host: str
    port: int


def ask_system(host: str, port: int) -> Sequence[str]:
    """Ask as every program of this machine does."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


class Names:
    """Looks names up anew for each call; nothing is remembered."""

    def __init__(self, ask: Ask = ask_system) -> None:
        self._ask = ask
        self._asked: dict[_Question, asyncio.Future[Sequence[str]]] = {}
        self._threads_left = {True: PROVEN_THREADS_MAX, False: OTHER_THREADS_MAX}

    async def resolve(
        self, host: str, port: int, *, asker: str, is_proven: bool
    ) -> Sequence[str] | None:
        """The addresses of a host, none when it has none; nothing when no answer came in time."""
        question = _Question(asker, host, port)
        # What is being asked at this moment will be answered no earlier than what is asked now.
        answer = self._asked.get(question) or self._begin(question, is_proven=is_proven)
        try:
            async with asyncio.timeout(RESOLVE_SECONDS_MAX):
                return await asyncio.shield(answer)
        except TimeoutError:
            return None

    def _begin(self, question: _Question, *, is_proven: bool) -> "asyncio.Future[Sequence[str]]":
        # Those that are proven have threads of their own before they take any of the others.
        is_own = is_proven and self._threads_left[True] > 0
        if not self._threads_left[is_own]:
            raise NamesBusyError
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[str]] = loop.create_future()

        def end(found: Sequence[str]) -> None:
            self._threads_left[is_own] += 1
            del self._asked[question]
            answer.set_result(found)

        def look_up() -> None:
            found: Sequence[str] = ()
            try:
                with suppress(OSError, UnicodeError):
                    found = self._ask(question.host, question.port)
            finally:
                # The program may have ended without waiting.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(end, found)

        try:
            # A thread that hangs must not keep the program from ending.
            Thread(target=look_up, name="resolver", daemon=True).start()
        except RuntimeError:
            raise NamesBusyError from None
        self._threads_left[is_own] -= 1
        self._asked[question] = answer
        return answer
