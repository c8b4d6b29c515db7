"""The database: a pool of connections, atomic blocks, and what happens when it is away."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol, TypeVar

import asyncpg
import structlog

T = TypeVar("T")

log = structlog.get_logger()

ATTEMPTS_MAX: Final = 4
CONNECT_SECONDS_MAX: Final = 3.0

# The other side was busy with the same rows: the whole block may simply be tried again.
BUSY: Final = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
)

# The server is not there, is going away, or does not answer in time.
AWAY: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.QueryCanceledError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    # The server was the first one, and has become a copy of another since.
    asyncpg.ReadOnlySQLTransactionError,
)

# Whoever is on the other side of such a connection will not do better the next time.
LOST: Final = (TimeoutError, asyncpg.ReadOnlySQLTransactionError)


class DatabaseUnavailableError(Exception):
    """The database cannot be used now; what was asked of it may or may not have happened."""


class DatabaseRefusedError(DatabaseUnavailableError):
    """The database does not let us in; only an operator can mend that."""


class DatabaseBusyError(DatabaseUnavailableError):
    """Other work holds the rows; nothing of this one happened."""


# The address, the role, the password or the database's name is wrong.
REFUSED: Final = (
    asyncpg.ClientConfigurationError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)


# All that may be given a name of ours; some of the last two kinds are bugs, and keep their own.
FAILURES: Final = (
    *REFUSED,
    *BUSY,
    *AWAY,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


# The driver has one class for a closed connection and for a wrongly called method.
CLOSED: Final = (
    "connection is closed",
    "connection was closed",
    "pool is clos",
    # What the pool does by itself with a connection that was closed.
    "connection has been released back to the pool",
    # A server that ends an idle connection says so before it hangs up. Until then the driver is in
    # the state of reading a last error (2), and refuses to send anything.
    "another operation (2) is in progress",
)


class Row(Protocol):
    """One row of an answer, read by column name."""

    def __getitem__(self, column: str, /) -> Any: ...  # noqa: ANN401 - a column has its own type


def row_values(row: Row) -> tuple[object, ...]:
    """All that is in a row, to be compared with another of the same statement."""
    assert isinstance(row, asyncpg.Record)
    return tuple(row.values())


class Connection(Protocol):
    """What a store function needs of a connection, a pool or an atomic block."""

    async def fetch(self, statement: str, /, *values: object) -> Sequence[Row]: ...
    async def fetchrow(self, statement: str, /, *values: object) -> Row | None: ...
    async def fetchval(self, statement: str, /, *values: object) -> Any: ...  # noqa: ANN401
    async def execute(self, statement: str, /, *values: object) -> str: ...


class DedicatedConnection(Connection, Protocol):
    """A connection that belongs to one user for long, outside the pool."""

    def transaction(self) -> AbstractAsyncContextManager[object]: ...
    def is_closed(self) -> bool: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """How many connections, and how long anything may take."""

    connections_max: int = 10
    statement_timeout_ms: int = 5_000
    lock_timeout_ms: int = 2_000
    idle_in_atomic_timeout_ms: int = 10_000


class Database:
    """PostgreSQL, through a pool; every failure to reach it is DatabaseUnavailableError."""

    def __init__(self, url: str, options: DatabaseOptions | None = None) -> None:
        self.url = url
        self._options = options or DatabaseOptions()
        self._pool: asyncpg.Pool | None = None

    async def open(self) -> None:
        """Make the pool; connections are made when they are first needed."""
        with named_failures():
            self._pool = await asyncpg.create_pool(
                self.url,
                min_size=0,
                max_size=self._options.connections_max,
                max_inactive_connection_lifetime=60.0,
                timeout=CONNECT_SECONDS_MAX,
                command_timeout=self._command_seconds_max,
                server_settings=self._server_settings(),
            )

    async def close(self) -> None:
        """Give back every connection, waiting a little for those in use."""
        if self._pool is None:
            return
        try:
            await asyncio.wait_for(self._pool.close(), timeout=5.0)
        except AWAY:
            self._pool.terminate()
        self._pool = None

    async def fetch(self, statement: str, /, *values: object) -> Sequence[Row]:
        """All rows of one statement in its own commit."""
        async with self._connection() as connection:
            return await connection.fetch(statement, *values)

    async def fetchrow(self, statement: str, /, *values: object) -> Row | None:
        """The first row of one statement in its own commit."""
        async with self._connection() as connection:
            return await connection.fetchrow(statement, *values)

    async def fetchval(self, statement: str, /, *values: object) -> Any:  # noqa: ANN401
        """The first column of the first row of one statement in its own commit."""
        async with self._connection() as connection:
            return await connection.fetchval(statement, *values)

    async def execute(self, statement: str, /, *values: object) -> str:
        """Run one statement in its own commit and return its command tag."""
        async with self._connection() as connection:
            return await connection.execute(statement, *values)

    @asynccontextmanager
    async def atomic(self) -> AsyncIterator[Connection]:
        """Everything inside is committed together at the end, or not at all."""
        async with self._connection() as connection, connection.transaction():
            yield connection

    async def atomically(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` in an atomic block, again from its start when it met a busy row."""
        for attempt in range(1, ATTEMPTS_MAX):
            try:
                async with self.atomic() as connection:
                    return await work(connection)
            except DatabaseBusyError as busy:
                log.info("atomic block tried again", attempt=attempt, cause=str(busy))
                await asyncio.sleep(retry_pause_seconds(attempt))
        async with self.atomic() as connection:
            return await work(connection)

    @asynccontextmanager
    async def patient(self) -> AsyncIterator[Connection]:
        """An atomic block on a connection of its own, which may take as long as it needs."""
        limits = {"statement_timeout": "0", "lock_timeout": "0"}
        connection = await self._connect(limits, command_seconds_max=None)
        try:
            async with connection.transaction():
                yield connection
        finally:
            connection.terminate()

    async def connect(self, **settings: str) -> DedicatedConnection:
        """Open a connection outside the pool, with settings of its own."""
        return await self._connect(settings, command_seconds_max=self._command_seconds_max)

    async def is_writable(self) -> bool:
        """Say whether the server takes writes, which a copy of another one does not."""
        is_read_only = await self.fetchval(
            "select pg_is_in_recovery() or current_setting('transaction_read_only')::bool"
        )
        return not is_read_only

    @property
    def _command_seconds_max(self) -> float:
        # A server that hangs does not keep its own time limit: ours comes a little later.
        return self._options.statement_timeout_ms / 1_000 + 1.0

    async def _connect(
        self, settings: Mapping[str, str], *, command_seconds_max: float | None
    ) -> DedicatedConnection:
        with named_failures():
            connection = await asyncpg.connect(
                self.url,
                timeout=CONNECT_SECONDS_MAX,
                command_timeout=command_seconds_max,
                server_settings={**self._server_settings(), **settings},
            )
        return NamingConnection(connection)

    @asynccontextmanager
    async def _connection(self) -> "AsyncIterator[NamingConnection]":
        # Failures are named while a connection is had, used and given back. What else happens in
        # between is the caller's own: a file that it does not find is no fault of the database.
        assert self._pool is not None, "the database is used before open() or after close()"
        with named_failures():
            connection = await self._pool.acquire(timeout=CONNECT_SECONDS_MAX)
        lent = NamingConnection(connection)
        try:
            yield lent
        finally:
            lent.part()
            with named_failures():
                await self._pool.release(connection)

    def _server_settings(self) -> dict[str, str]:
        return {
            "application_name": "vintem",
            "timezone": "UTC",
            "statement_timeout": str(self._options.statement_timeout_ms),
            "lock_timeout": str(self._options.lock_timeout_ms),
            "idle_in_transaction_session_timeout": str(self._options.idle_in_atomic_timeout_ms),
        }


class NamingConnection:
    """A connection of the driver whose statements and commits fail by our names."""

    __slots__ = ("_driver",)

    def __init__(self, driver: asyncpg.Connection) -> None:
        self._driver = driver

    async def fetch(self, statement: str, /, *values: object) -> Sequence[Row]:
        """All rows of a statement."""
        try:
            rows: Sequence[Row] = await self._driver.fetch(statement, *values)
        except FAILURES as fault:
            self._fail(fault)
        return rows

    async def fetchrow(self, statement: str, /, *values: object) -> Row | None:
        """The first row of a statement."""
        try:
            row: Row | None = await self._driver.fetchrow(statement, *values)
        except FAILURES as fault:
            self._fail(fault)
        return row

    async def fetchval(self, statement: str, /, *values: object) -> Any:  # noqa: ANN401
        """The first column of the first row of a statement."""
        try:
            return await self._driver.fetchval(statement, *values)
        except FAILURES as fault:
            self._fail(fault)

    async def execute(self, statement: str, /, *values: object) -> str:
        """Run a statement and return its command tag."""
        try:
            tag: str = await self._driver.execute(statement, *values)
        except FAILURES as fault:
            self._fail(fault)
        return tag

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit at the end, or undo everything when the block fails."""
        block = self._driver.transaction()
        with named_failures():
            await block.start()
        try:
            yield
        except BaseException:
            # A server that is not there any more undoes it by itself.
            with suppress(DatabaseUnavailableError), named_failures():
                await block.rollback()
            raise
        with named_failures():
            await block.commit()

    def is_closed(self) -> bool:
        """Say whether a new connection is needed."""
        is_closed: bool = self._driver.is_closed()
        return is_closed

    async def close(self) -> None:
        """Take leave of the server."""
        await self._driver.close()

    def terminate(self) -> None:
        """Hang up."""
        self._driver.terminate()

    def part(self) -> None:
        """Let go of the connection; to use this one still is a bug."""
        del self._driver

    def _fail(self, fault: Exception) -> NoReturn:
        if isinstance(fault, LOST):
            # Undoing would wait for the same server once more, or for ever.
            self._driver.terminate()
        fail(fault)


@contextmanager
def named_failures() -> Iterator[None]:
    """Turn the driver's many ways to fail into ours: busy, away, or a bug that stays as it is."""
    try:
        yield
    except FAILURES as fault:
        fail(fault)


def fail(fault: Exception) -> NoReturn:
    """Raise a failure of the driver under our name for it; one that is a bug keeps its own."""
    said = str(fault)
    if isinstance(fault, REFUSED):
        raise DatabaseRefusedError(said) from fault
    if isinstance(fault, BUSY):
        raise DatabaseBusyError(type(fault).__name__) from fault
    if isinstance(fault, AWAY):
        raise DatabaseUnavailableError(f"{type(fault).__name__}: {said}") from fault
    if any(mark in said for mark in CLOSED):
        raise DatabaseUnavailableError(said) from fault
    raise fault


async def wait_briefly(block: Connection, *, milliseconds: int) -> None:
    """Let a block give up soon where others hold what it wants."""
    await block.execute("select set_config('lock_timeout', $1, true)", f"{milliseconds}ms")


def retry_pause_seconds(attempt: int) -> float:
    """A short pause, longer with each attempt and never the same for two rivals."""
    jitter = random.uniform(0.005, 0.02)  # noqa: S311 - not a secret
    return jitter * float(1 << attempt)
