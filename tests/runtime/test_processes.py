"""Child processes that are kept running, and what keeps the keeping from ending."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from vintem import launch
from vintem.runtime import embedded, processes
from vintem.runtime.embedded import EmbeddedPostgres, EmbeddedPostgresError
from vintem.runtime.processes import Child, KeptProcess
from vintem.settings import Settings


class Machine:
    """Starts processes that end at once, but has no room for some of them."""

    def __init__(self, *, refused: set[int]) -> None:
        self.starts = 0
        self._refused = refused
        self._start = asyncio.create_subprocess_exec

    async def start(self, *_words: str, **_options: object) -> asyncio.subprocess.Process:
        self.starts += 1
        if self.starts in self._refused:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return await self._start(sys.executable, "-c", "pass")


@asynccontextmanager
async def kept(child: Child) -> AsyncIterator[KeptProcess]:
    process = KeptProcess(child)
    try:
        yield process
    finally:
        async with asyncio.timeout(5):
            await process.stop(seconds=1)


async def until_started(machine: Machine, *, times: int) -> None:
    async with asyncio.timeout(20):
        while machine.starts < times:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("refused", [{1}, {2, 3}], ids=["the first", "later ones"])
async def test_a_process_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, refused: set[int]
) -> None:
    machine = Machine(refused=refused)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", machine.start)
    monkeypatch.setattr(processes, "RESTART_PAUSE_SECONDS_MAX", 0.05)
    async with kept(Child("child", [], {})):
        await until_started(machine, times=max(refused) + 2)


async def test_a_lock_that_cannot_be_asked_for_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = 0

    def take_lock(_self: EmbeddedPostgres) -> bool:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise EmbeddedPostgresError("The data folder cannot be used.")
        if asked == 3:
            raise RuntimeError("too many open files")
        return False

    monkeypatch.setattr(EmbeddedPostgres, "_take_lock", take_lock)
    monkeypatch.setattr(embedded, "OWNER_POLL_SECONDS", 0.01)
    keeping = asyncio.create_task(EmbeddedPostgres(tmp_path).keep_running())
    async with asyncio.timeout(10):
        while asked < 5:
            await asyncio.sleep(0.01)
    assert not keeping.done()
    keeping.cancel()


async def test_postgres_is_stopped_even_if_its_keeper_has_died(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stops = 0

    class Unkept(EmbeddedPostgres):
        async def start(self) -> None: ...

        async def keep_running(self) -> None:
            raise RuntimeError("a bug of the keeper")

        async def stop(self) -> None:
            nonlocal stops
            stops += 1

    monkeypatch.setattr(launch, "EmbeddedPostgres", Unkept)
    async with launch.prepared(Settings(data=tmp_path, pepper="p" * 32), may_create=True):
        await asyncio.sleep(0.01)
    assert stops == 1
