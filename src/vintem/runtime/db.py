"""The database: a pool of connections, atomic blocks, and what happens when it is away."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

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
)


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


class Row(Protocol):
    """One row of an answer, read by column name."""

    def __getitem__(self, column: str, /) -> Any: ...  # noqa: ANN401 - a column has its own type


class Connection(Protocol):
    """What a store function needs of a connection, a pool or an atomic block."""

    async def fetch(self, statement: str, /, *values: object) -> Sequence[Row]: ...
    async def fetchrow(self, statement: str, /, *values: object) -> Row | None: ...
    async def fetchval(self, statement: str, /, *values: object) -> Any: ...  # noqa: ANN401
    async def execute(self, statement: str, /, *values: object) -> str: ...


class _PooledConnection(Connection, Protocol):
    def transaction(self) -> AbstractAsyncContextManager[object]: ...


class DedicatedConnection(_PooledConnection, Protocol):
    """A connection that belongs to one user for long, outside the pool."""

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
                # A server that hangs does not keep its own time limit: ours comes a little later.
                command_timeout=self._options.statement_timeout_ms / 1_000 + 1.0,
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
        connection = await self.connect(statement_timeout="0", lock_timeout="0")
        try:
            with named_failures():
                async with connection.transaction():
                    yield connection
        finally:
            connection.terminate()

    async def connect(self, **settings: str) -> DedicatedConnection:
        """Open a connection outside the pool, with settings of its own."""
        with named_failures():
            connection = await asyncpg.connect(
                self.url,
                timeout=CONNECT_SECONDS_MAX,
                server_settings={**self._server_settings(), **settings},
            )
        return cast("DedicatedConnection", connection)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[_PooledConnection]:
        assert self._pool is not None, "the database is used before open() or after close()"
        with named_failures():
            async with self._pool.acquire(timeout=CONNECT_SECONDS_MAX) as connection:
                yield connection

    def _server_settings(self) -> dict[str, str]:
        return {
            "application_name": "vintem",
            "timezone": "UTC",
            "statement_timeout": str(self._options.statement_timeout_ms),
            "lock_timeout": str(self._options.lock_timeout_ms),
            "idle_in_transaction_session_timeout": str(self._options.idle_in_atomic_timeout_ms),
        }


@contextmanager
def named_failures() -> Iterator[None]:
    """Turn the driver's many ways to fail into ours: busy, away, or a bug that stays as it is."""
    try:
        yield
    except REFUSED as refused:
        raise DatabaseRefusedError(str(refused)) from refused
    except BUSY as busy:
        raise DatabaseBusyError(type(busy).__name__) from busy
    except AWAY as away:
        raise DatabaseUnavailableError(f"{type(away).__name__}: {away}") from away
    except asyncpg.InterfaceError as fault:
        # The driver has one class for a closed connection and for a wrongly called method.
        if "clos" in str(fault):
            raise DatabaseUnavailableError(str(fault)) from fault
        raise
    except asyncpg.InternalClientError as fault:
        # A server that ends an idle connection says so before it hangs up. Until then the driver
        # is in the state of reading a last error (2), and refuses to send anything.
        if "another operation (2) is in progress" in str(fault):
            raise DatabaseUnavailableError(str(fault)) from fault
        raise


def retry_pause_seconds(attempt: int) -> float:
    """A short pause, longer with each attempt and never the same for two rivals."""
    jitter = random.uniform(0.005, 0.02)  # noqa: S311 - not a secret
    return jitter * float(1 << attempt)
