"""Starting and stopping the processes of a platform in the right order."""

import asyncio
import gc
import json
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import structlog

from vintem.runtime.db import Database, DatabaseRefusedError, DatabaseUnavailableError
from vintem.runtime.embedded import EmbeddedPostgres
from vintem.runtime.listening import listen, listen_beside
from vintem.runtime.migrations import migrate
from vintem.runtime.pepper import check_pepper
from vintem.runtime.processes import (
    Child,
    KeptProcess,
    stop_signal,
    stop_without_parent,
    unless_stopping,
)
from vintem.settings import Settings, SettingsError

log = structlog.get_logger()

DATABASE_SECONDS_MAX: Final = 30.0
READY_SECONDS_MAX: Final = 60.0
READY_POLL_SECONDS: Final = 0.05
READY_QUESTION: Final = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
ANSWER_SECONDS_MAX: Final = 10.0
STOP_MARGIN_SECONDS: Final = 3.0
COLLECTED_FROM_OBJECTS: Final = 10_000


class LaunchError(Exception):
    """The processes do not come up; the sentence says what is known about it."""


@asynccontextmanager
async def prepared(settings: Settings, *, may_create: bool) -> AsyncIterator[Settings]:
    """Have a PostgreSQL and a pepper, made here where the settings name none and it may be made."""
    if settings.database_url:
        yield settings
        return
    if not may_create and not has_database(settings.data):
        raise LaunchError(
            f"There is no database in {settings.data.absolute()}. Name the folder of one with"
            " --data or VINTEM_DATA, or a server with DATABASE_URL; `vintem demo`, `vintem serve`"
            " and `vintem migrate` make a new one."
        )
    embedded = EmbeddedPostgres(settings.data)
    await embedded.start()
    keeping = asyncio.create_task(embedded.keep_running(), name="embedded postgres")
    try:
        pepper = settings.pepper or kept_pepper(settings.data)
        yield replace(settings, database_url=embedded.url, pepper=pepper)
    finally:
        keeping.cancel()
        try:
            await asyncio.wait({keeping})
        finally:
            await embedded.stop()


@asynccontextmanager
async def migrated(
    settings: Settings, *, seconds_max: float = DATABASE_SECONDS_MAX
) -> AsyncIterator[Database]:
    """Open the database, waiting a little for it, with every migration and the right pepper."""
    database = Database(settings.database_url, settings.database_options)
    await database.open()
    try:
        give_up_at = asyncio.get_running_loop().time() + seconds_max
        while True:
            try:
                await migrate(database)
                break
            except DatabaseRefusedError:
                raise
            except DatabaseUnavailableError as away:
                if asyncio.get_running_loop().time() > give_up_at:
                    address = address_of(settings.database_url)
                    sentence = f"The database at {address} cannot be reached: {away}"
                    raise LaunchError(sentence) from away
                log.warning("waiting for the database", cause=str(away))
                await asyncio.sleep(1.0)
        if settings.pepper:
            await check_pepper(database, settings.pepper.encode())
        yield database
    finally:
        await database.close()


class Platform:
    """API processes and, if wanted, a worker, that share one address and one database."""

    def __init__(self, settings: Settings, *, api_processes: int, has_worker: bool) -> None:
        """Bind the address and start the processes; `settings` must be complete."""
        require_pepper(settings)
        require_metrics_ports(settings, processes=api_processes + has_worker)
        self._settings = settings
        self._listeners = bind(settings, api_processes)
        self.port: int = self._listeners[0].getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.base_url = f"http://{host}:{self.port}"
        self._api = [
            self._start_api(number, is_shared=api_processes > 1) for number in range(api_processes)
        ]
        self._worker = self._start_worker(api_processes) if has_worker else None

    async def until_ready(self) -> None:
        """Return once the API answers that it is ready."""
        give_up_at = asyncio.get_running_loop().time() + READY_SECONDS_MAX
        while not await self._is_ready():
            if asyncio.get_running_loop().time() > give_up_at:
                raise LaunchError(
                    f"The API is not ready after {READY_SECONDS_MAX:.0f} seconds;"
                    " the log above says why."
                )
            await asyncio.sleep(READY_POLL_SECONDS)

    async def stop(self) -> None:
        """Drain the API, then let the worker finish what it has in hand."""
        settings = self._settings
        seconds = settings.drain_notice_seconds + settings.drain_seconds + STOP_MARGIN_SECONDS
        for listener in self._listeners:
            listener.close()
        await asyncio.gather(*(process.stop(seconds=seconds) for process in self._api))
        if self._worker is not None:
            await self._worker.stop(seconds=seconds)

    def _start_api(self, number: int, *, is_shared: bool) -> KeptProcess:
        descriptor = self._listeners[number % len(self._listeners)].fileno()
        words = ["process", "api", "--fd", str(descriptor), "--number", str(number)]
        shared = "1" if is_shared or self._settings.shared_limits else "0"
        environment = {**self._environment(), "VINTEM_SHARED_LIMITS": shared}
        return KeptProcess(Child(f"api {number}", words, environment, [descriptor]))

    def _start_worker(self, api_processes: int) -> KeptProcess:
        words = ["process", "worker", "--number", str(api_processes)]
        return KeptProcess(Child("worker", words, self._environment()))

    def _environment(self) -> dict[str, str]:
        settings = self._settings
        return {
            "DATABASE_URL": settings.database_url,
            "VINTEM_PEPPER": settings.pepper,
            "VINTEM_HOST": settings.host,
            "VINTEM_PORT": str(self.port),
            "VINTEM_PUBLIC_URL": settings.public_url,
            "VINTEM_ALLOW_LOOPBACK_WEBHOOKS": "1" if settings.allow_loopback_webhooks else "0",
            "VINTEM_MAIL_TO_LOG": "1" if settings.mail_to_log else "0",
        }

    async def _is_ready(self) -> bool:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(  # noqa: S104 - asked, not bound
            self._settings.host, self._settings.host
        )
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                reader, writer = await asyncio.open_connection(host, self.port)
                writer.write(READY_QUESTION)
                status_line = await reader.readline()
                writer.close()
        except (OSError, TimeoutError):
            return False
        return b" 200 " in status_line


async def run_serve(settings: Settings, *, workers: int) -> None:
    """Serve the API with so many processes until told to stop."""
    stopping = stop_signal()
    async with AsyncExitStack() as running:
        async with unless_stopping(stopping):
            complete = await running.enter_async_context(prepared(settings, may_create=True))
            require_pepper(complete)
            async with migrated(complete):
                pass
            platform = Platform(complete, api_processes=workers, has_worker=False)
            running.push_async_callback(platform.stop)
            await platform.until_ready()
            log.info("serving", address=platform.base_url, processes=workers)
        await stopping.wait()


async def run_work(settings: Settings, *, number: int = 0) -> None:
    """Do due work until told to stop."""
    stopping = stop_signal()
    async with AsyncExitStack() as running:
        async with unless_stopping(stopping):
            complete = await running.enter_async_context(prepared(settings, may_create=False))
            require_pepper(complete)
            async with migrated(complete):
                pass
        if not stopping.is_set():
            await _work_in_process(complete, stopping, number=number)


async def run_api_process(settings: Settings, *, parent: int, descriptor: int, number: int) -> None:
    """Be one API process on a socket that the parent bound."""
    # Only this process answers calls; every other does without what answering takes to load.
    from vintem.app import build_app  # noqa: PLC0415
    from vintem.resources import open_resources  # noqa: PLC0415
    from vintem.server import serve  # noqa: PLC0415

    listener = socket.socket(fileno=descriptor)
    watching = asyncio.create_task(stop_without_parent(parent), name="parent watch")
    start_metrics(settings, number)
    async with open_resources(settings, shared_limits=settings.shared_limits) as resources:
        app = build_app(resources)
        # What exists now lives until the end: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        # Calls leave no circles behind: what a crowd of them holds at once is no reason to look.
        gc.set_threshold(COLLECTED_FROM_OBJECTS)
        await serve(
            app,
            [listener],
            life=resources.life,
            notice_seconds=settings.drain_notice_seconds,
            drain_seconds=settings.drain_seconds,
        )
    watching.cancel()


async def run_worker_process(settings: Settings, *, parent: int, number: int) -> None:
    """Be the worker that a parent started."""
    watching = asyncio.create_task(stop_without_parent(parent), name="parent watch")
    await _work_in_process(settings, stop_signal(), number=number)
    watching.cancel()


async def _work_in_process(settings: Settings, stopping: asyncio.Event, *, number: int) -> None:
    from vintem.resources import open_resources  # noqa: PLC0415 - a command does without it
    from vintem.worker import work  # noqa: PLC0415 - a command does without it

    start_metrics(settings, number)
    async with open_resources(settings, shared_limits=settings.shared_limits) as resources:
        await work(resources, stopping)


def start_metrics(settings: Settings, number: int) -> None:
    """Answer Prometheus on this machine, where the operator wants it."""
    if settings.metrics_port:
        from prometheus_client import start_http_server  # noqa: PLC0415 - for those who want it

        from vintem.runtime import metrics  # noqa: PLC0415 - a command does without it

        start_http_server(settings.metrics_port + number, "127.0.0.1", registry=metrics.REGISTRY)


def bind(settings: Settings, api_processes: int) -> list[socket.socket]:
    """Bind the address, or say in a sentence why it cannot be had."""
    try:
        listener = listen(settings.host, settings.port)
        if api_processes == 1 or sys.platform != "linux":
            return [listener]
        # Of processes that share one socket, whoever wakes first takes all that wait. With a socket
        # each, Linux spreads the connections. The first one has proved that the address is free.
        port = listener.getsockname()[1]
        listener.close()
        return [listen_beside(settings.host, port) for _ in range(api_processes)]
    except OSError as error:
        raise SettingsError(
            f"Cannot listen on {settings.host} port {settings.port}: {error.strerror}."
            " Choose another with --host and --port, or VINTEM_HOST and VINTEM_PORT."
        ) from error


def require_metrics_ports(settings: Settings, *, processes: int) -> None:
    """Refuse ports that are taken: each process would die of it, again and again."""
    if not settings.metrics_port:
        return
    for port in range(settings.metrics_port, settings.metrics_port + processes):
        try:
            listen("127.0.0.1", port).close()
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"VINTEM_METRICS_PORT is {settings.metrics_port}, so port {port} of 127.0.0.1 is"
                f" needed and cannot be had: {error}."
            ) from error


def require_pepper(settings: Settings) -> None:
    """Refuse to start with a database of one's own and no secret to digest keys with."""
    if not settings.pepper:
        raise SettingsError(
            "VINTEM_PEPPER is missing: with DATABASE_URL every process needs the same secret,"
            " at least 32 characters."
        )


def has_database(data: Path) -> bool:
    """Say whether an embedded database was made in a folder."""
    try:
        return (data / "postgres" / "PG_VERSION").exists()
    except PermissionError:
        # Whatever is there belongs to somebody else; starting it says so.
        return True


def address_of(database_url: str) -> str:
    """Where a database is, without who may use it and by which password."""
    parts = urlsplit(database_url)
    places = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", [""])[0]
    return f"{places or 'this machine'}{parts.path}"


def kept_pepper(data: Path) -> str:
    """Read the data folder's pepper, made the first time."""
    file = data / "secrets.json"
    if not file.exists():
        fresh = data / f"secrets.json.{os.getpid()}"
        write_private(fresh, {"pepper": secrets.token_urlsafe(48)})
        with suppress(FileExistsError):
            file.hardlink_to(fresh)
        fresh.unlink()
    return str(json.loads(file.read_text())["pepper"])


def write_private(file: Path, content: object) -> None:
    """Write JSON that only its owner may read; appears whole or not at all."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump(content, stream, indent=2)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
