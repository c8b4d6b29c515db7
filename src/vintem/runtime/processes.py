"""Child processes that are kept running, and a process that notices when its parent is gone."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import structlog

log = structlog.get_logger()

RESTART_PAUSE_SECONDS_MAX: Final = 5.0
STABLE_AFTER_SECONDS: Final = 2.0
PARENT_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Child:
    """A process of ours: its name in the log, and the words after `vintem`."""

    name: str
    words: Sequence[str]
    environment: Mapping[str, str]
    descriptors: Sequence[int] = ()


class KeptProcess:
    """A child that is started again whenever it ends by itself."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self._keeping = asyncio.create_task(self._keep(), name=child.name)

    async def stop(self, *, seconds: float) -> None:
        """Ask it to stop, wait, and only then kill it."""
        self._is_stopping = True
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(seconds):
                    await self._process.wait()
            except TimeoutError:
                log.warning("process killed", name=self._child.name, waited_seconds=seconds)
                with suppress(ProcessLookupError):
                    self._process.kill()
        self._keeping.cancel()
        await asyncio.wait({self._keeping})

    def _is_asked_to_stop(self) -> bool:
        return self._is_stopping

    async def _keep(self) -> None:
        pause_seconds = 0.2
        while not self._is_asked_to_stop():
            started_at = time.monotonic()
            try:
                status = await self._run()
            except Exception:
                # The machine may have no room for one more process now, and have it later.
                log.exception("process could not be started", name=self._child.name)
            else:
                if not self._is_asked_to_stop():
                    log.error("process ended by itself", name=self._child.name, exit_status=status)
            if not self._is_asked_to_stop():
                if time.monotonic() - started_at > STABLE_AFTER_SECONDS:
                    pause_seconds = 0.2
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(pause_seconds * 2, RESTART_PAUSE_SECONDS_MAX)

    async def _run(self) -> int:
        # Its own session: Ctrl-C in the terminal reaches the parent, who stops things in order.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "vintem",
            *self._child.words,
            "--parent",
            str(os.getpid()),
            env={**os.environ, **self._child.environment},
            pass_fds=tuple(self._child.descriptors),
            start_new_session=True,
        )
        return await self._process.wait()


async def stop_without_parent(parent: int) -> None:
    """End this process as SIGTERM would, once the one that started it is gone."""
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_POLL_SECONDS)
    log.warning("the process that started this one is gone")
    os.kill(os.getpid(), signal.SIGTERM)


def stop_signal() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set; a second signal ends the process at once."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        if stopping.is_set():
            for handled in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(handled)
            signal.raise_signal(number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    return stopping


@asynccontextmanager
async def unless_stopping(stopping: asyncio.Event) -> AsyncIterator[None]:
    """Leave the block where it stands, without an error, as soon as the event is set."""
    loop = asyncio.get_running_loop()

    async def watch(patience: asyncio.Timeout) -> None:
        await stopping.wait()
        patience.reschedule(loop.time())

    try:
        async with asyncio.timeout(None) as patience:
            watching = asyncio.create_task(watch(patience))
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError:
        if not stopping.is_set():
            raise
