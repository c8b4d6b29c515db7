"""The platform as an operator runs it: real commands in processes of their own."""

import asyncio
import fcntl
import json
import os
import random
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import aiohttp
import psutil

from support.api import Api, HttpReply
from support.warm import warm_process
from vintem.runtime.embedded import ask, send, server_processes
from vintem.runtime.processes import STABLE_AFTER_SECONDS

COMMAND = [sys.executable, "-m", "vintem"]
START_SECONDS_MAX = 40.0
STOP_SECONDS_MAX = 20.0
COMMAND_SECONDS_MAX = 40.0
POLL_SECONDS = 0.05
MARK = "TEST_PLATFORM"
# Commands that do one thing and end; the others start processes, or go on until they are stopped.
SHORT = {
    (word,) for word in ("audit", "company", "key", "migrate", "trigger", "unclaimed", "withdrawal")
}
SECRET = re.compile(r"[sc]k_(?:live|test)_[0-9A-Za-z]{38}")


@dataclass(frozen=True)
class Said:
    """How a command ended and what it said."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass
class Running:
    """A command that goes on until it is told to stop."""

    process: asyncio.subprocess.Process
    data: Path
    address: str
    mark: str
    out_file: Path
    log_file: Path
    ready: dict[str, Any] = field(default_factory=dict)
    start_seconds: float = 0.0

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def base_url(self) -> str:
        return f"http://{self.address}"

    @property
    def out(self) -> str:
        return self.out_file.read_text()

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def log_lines(self) -> list[dict[str, Any]]:
        """The log's JSON lines; the last one may still be in the writing."""
        lines = []
        for line in self.log.splitlines():
            with suppress(ValueError):
                lines.append(json.loads(line))
        return lines

    def children(self, kind: str) -> list[psutil.Process]:
        """The living processes of one kind, `api` or `worker`, that this one started."""
        found = []
        for child in psutil.Process(self.pid).children():
            with suppress(psutil.Error):
                if child.status() != psutil.STATUS_ZOMBIE and kind in child.cmdline():
                    found.append(child)
        return found

    def is_settled(self, *kinds: str) -> bool:
        """Whether each kind has a process that is started anew at once, should it die now."""
        born = [[child.create_time() for child in self.children(kind)] for kind in kinds]
        return all(each and time.time() - max(each) > STABLE_AFTER_SECONDS for each in born)

    async def ended(self, seconds: float = STOP_SECONDS_MAX) -> int:
        """The exit status, once the command has ended."""
        return await asyncio.wait_for(self.process.wait(), seconds)

    async def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send one signal to the command alone, and wait for its end."""
        self.process.send_signal(number)
        return await self.ended()


def free_port(count: int = 1) -> int:
    """The first of so many ports in a row that nobody uses, below those of outgoing connections."""
    while True:
        first = random.randrange(10_000, 30_000)
        if all(is_free(port) for port in range(first, first + count)):
            return first


def is_free(port: int) -> bool:
    """Tell whether one could listen on a port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder outside pytest's own, which every new run of pytest closes to PostgreSQL's user."""
    with TemporaryDirectory(prefix="vintem-cli-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def clean_environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a fresh shell would give, without anything of the test run, and some settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "VINTEM_LOG_FORMAT": "json", **(settings or {})}


async def vintem(
    *words: str,
    settings: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    is_started: bool = False,
) -> Said:
    """Run one command to its end, in a process of its own.

    A short one that is told to start is a new program; otherwise it has been loaded before.
    """
    environment, folder = clean_environment(settings), cwd or Path("/")
    if is_started or words[:1] not in SHORT or "COLUMNS" in environment:
        said = await start(words, environment, folder)
    else:
        warm = warm_process(tuple(clean_environment().items()))
        said = Said(
            *await warm.run(
                words, environment=environment, folder=folder, seconds=COMMAND_SECONDS_MAX
            )
        )
    assert "Traceback" not in said.text, said.text
    return said


async def start(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> Said:
    """Start one command, as a shell would, and wait for its end."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *words,
        env=environment,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), COMMAND_SECONDS_MAX)
    finally:
        await kill(process)
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def command(
    words: Sequence[str],
    *,
    data: Path,
    address: str,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Running]:
    """Start a command; whatever it leaves behind is gone after the block."""
    data.parent.mkdir(parents=True, exist_ok=True)
    mark = uuid4().hex[:12]
    out_file = data.parent / f"{data.name}-{mark}.out"
    # Scanned for secrets when the run ends; standard output shows keys on purpose.
    log_file = Path(os.environ["TEST_LOG_FOLDER"]) / f"{words[0]}-{mark}.log"
    with out_file.open("wb") as out, log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *words,
            env={**clean_environment(settings), MARK: mark},
            cwd=data.parent,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            start_new_session=True,
        )
    running = Running(process, data, address, mark, out_file, log_file)
    try:
        yield running
    finally:
        await sweep(running)


@asynccontextmanager
async def demo(
    data: Path,
    *,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    is_first: bool = False,
) -> AsyncIterator[Running]:
    """A demo that answers; unless it must be the first of its folder, one was there before."""
    if not is_first and "DATABASE_URL" not in (settings or {}):
        await copy_used_folder(data)
    ready_file(data).unlink(missing_ok=True)
    async with starting_demo(data, port=port, settings=settings) as running:
        began = time.monotonic()
        await until_file(running, ready_file(data))
        running.start_seconds = time.monotonic() - began
        running.ready = json.loads(ready_file(data).read_text())
        yield running


async def copy_used_folder(data: Path) -> None:
    """Have a data folder that a demo has used before: made once a test run, and copied."""
    if await asyncio.to_thread(data.exists):
        return
    used = Path(os.environ["TEST_LOG_FOLDER"]).parent / "used"
    with used.with_suffix(".lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        if not used.exists():
            fresh = used.with_name("fresh")
            async with demo(fresh, is_first=True) as running:
                assert await running.stop() == 0
            fresh.rename(used)
    data.parent.mkdir(parents=True, exist_ok=True)
    copying = await asyncio.create_subprocess_exec("cp", "-a", str(used), str(data))
    assert await copying.wait() == 0


@asynccontextmanager
async def starting_demo(
    data: Path, *, port: int | None = None, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """A demo that has just been started."""
    port = free_port() if port is None else port
    words = ["demo", "--host", "127.0.0.1", "--port", str(port), "--data", str(data)]
    words += ["--ready-file", str(ready_file(data))]
    async with command(words, data=data, address=f"127.0.0.1:{port}", settings=settings) as running:
        yield running


def ready_file(data: Path) -> Path:
    """Where the helpers let a demo of a data folder write its ready file."""
    return data.with_name(f"{data.name}.ready.json")


@asynccontextmanager
async def served(
    data: Path, *, workers: int = 1, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """API processes that answer."""
    port = free_port()
    words = ["serve", "--workers", str(workers), "--host", "127.0.0.1", "--port", str(port)]
    if "DATABASE_URL" not in (settings or {}):
        words += ["--data", str(data)]
    async with command(words, data=data, address=f"127.0.0.1:{port}", settings=settings) as running:
        await until_logged(running, '"event":"serving"')
        yield running


@asynccontextmanager
async def client(running: Running, *, connections: int = 0) -> AsyncIterator[Api]:
    """An integrator's HTTP connections to a running platform."""
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=30),
        connector=aiohttp.TCPConnector(limit=connections),
    ) as session:
        yield Api(running.base_url, session)


async def get_once(running: Running, path: str, *, key: str | None = None) -> HttpReply:
    """One call on a connection of its own."""
    async with client(running) as api:
        return await api.get(path, key=key)


async def try_once(running: Running, path: str, *, key: str | None = None) -> HttpReply | None:
    """One call on a connection of its own, or nothing when there was no answer."""
    try:
        return await get_once(running, path, key=key)
    except (aiohttp.ClientError, OSError):
        return None


async def fresh_database() -> str:
    """The address of an empty database on the run's PostgreSQL."""
    name = f"cli_{uuid4().hex[:12]}"
    url = os.environ["TEST_CLUSTER_URL"]
    await ask(url, f"create database {name}")
    return url.replace("/vintem?", f"/{name}?")


async def make_key(
    company: str,
    data: Path,
    *,
    kind: str = "sk",
    environment: str = "test",
    settings: Mapping[str, str] | None = None,
) -> tuple[str, str]:
    """Make a key by the command and return its id and the key."""
    words = ["key", "create", company, "--type", kind, "--environment", environment]
    if "DATABASE_URL" not in (settings or {}):
        words += ["--data", str(data)]
    return read_key(await vintem(*words, settings=settings))


def read_key(said: Said) -> tuple[str, str]:
    """The id and the key that `key create` and `key rotate` print."""
    assert said.status == 0, said.text
    key = said.out.strip()
    assert SECRET.fullmatch(key), said.out
    assert key not in said.err
    found = re.search(r"key_[0-9a-z]{26}", said.err)
    assert found, said.err
    return found[0], key


async def until(
    condition: Callable[[], Awaitable[object]] | Callable[[], object], *, seconds: float
) -> float:
    """Wait until something is true, and say how long that took."""
    began = time.monotonic()
    async with asyncio.timeout(seconds):
        while True:
            answer = condition()
            if await answer if isinstance(answer, Awaitable) else answer:
                return time.monotonic() - began
            await asyncio.sleep(POLL_SECONDS)


def promised(seconds: float) -> float:
    """A promise about time, stretched by as much as this machine has more to do than it can."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


async def until_file(running: Running, file: Path) -> None:
    """Wait for a file that a command writes, as long as the command lives."""
    await until(
        lambda: file.exists() or running.process.returncode is not None, seconds=START_SECONDS_MAX
    )
    assert running.process.returncode is None, running.log + running.out


async def until_logged(running: Running, words: str) -> None:
    """Wait for words in a command's log, as long as the command lives."""
    await until(
        lambda: words in running.log or running.process.returncode is not None,
        seconds=START_SECONDS_MAX,
    )
    assert words in running.log, running.log + running.out


def leftovers(running: Running) -> list[str]:
    """Every living process that a command started, PostgreSQL's included, and itself."""
    return [
        *(f"postgres {process.pid}" for process in server_processes(running.data.resolve())),
        *(f"vintem {process.pid}" for process in marked_processes(running.mark)),
    ]


def marked_processes(mark: str) -> list[psutil.Process]:
    """The processes of one command: all inherit the mark in its environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            is_dead = process.status() == psutil.STATUS_ZOMBIE
            if not is_dead and process.environ().get(MARK) == mark:
                found.append(process)
    return found


async def sweep(running: Running) -> None:
    """Leave nothing of a command, however its test ended."""
    await kill(running.process)
    send(marked_processes(running.mark), signal.SIGKILL)
    send(server_processes(running.data.resolve()), signal.SIGKILL)


async def kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
