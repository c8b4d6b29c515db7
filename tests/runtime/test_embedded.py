"""The embedded PostgreSQL, against the real programs and with real deaths."""

import asyncio
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import psutil
import pytest

from vintem.runtime.embedded import (
    SOCKET_PATH_BYTES_MAX,
    EmbeddedPostgres,
    EmbeddedPostgresError,
    ask,
    next_pause,
    read_pid,
    refuse_foreign_folder,
    send,
    server_processes,
)

RECOVERY_SECONDS_MAX = 15.0
# Another process of the platform: it says that it is ready and who it is, and stops when its
# standard input ends.
NEIGHBOUR = """
import asyncio, sys
from pathlib import Path
from vintem.runtime.embedded import EmbeddedPostgres

async def main():
    server = EmbeddedPostgres(Path(sys.argv[1]))
    await server.start()
    keeper = asyncio.create_task(server.keep_running())
    print("ready", file=sys.stderr, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    keeper.cancel()
    await server.stop()

if sys.argv[2] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose servers, should a test fail, do not outlive it."""
    place = tmp_path.resolve() / "data"
    yield place
    send(server_processes(place), signal.SIGKILL)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def kept(server: EmbeddedPostgres) -> AsyncIterator[None]:
    keeper = asyncio.create_task(server.keep_running())
    try:
        yield
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


@asynccontextmanager
async def neighbour(
    folder: Path, loop: str = "asyncio"
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        NEIGHBOUR,
        str(folder),
        loop,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), RECOVERY_SECONDS_MAX)
    if process.returncode is None:
        process.kill()
        await process.wait()


async def until_ready(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    said = b""
    async with asyncio.timeout(RECOVERY_SECONDS_MAX):
        while b"ready" not in said:
            line = await process.stderr.readline()
            assert line, said.decode()
            said += line


async def until_answering(server: EmbeddedPostgres, query: str) -> object:
    async with asyncio.timeout(RECOVERY_SECONDS_MAX):
        while True:
            try:
                return await ask(server.url, query)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(RECOVERY_SECONDS_MAX):
        while True:
            if condition():
                return
            await asyncio.sleep(0.05)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def unfinished_clusters(folder: Path) -> list[Path]:
    return list(folder.glob("postgres.new-*/base"))


def postmaster(folder: Path) -> int:
    pid = read_pid(folder / "postgres/postmaster.pid")
    assert pid is not None
    return pid


async def keep_a_value(server: EmbeddedPostgres) -> None:
    await ask(server.url, "create table kept as select 42 as value")


KEPT = "select value from kept"


async def test_first_start_puts_the_durable_settings_in_force(folder: Path) -> None:
    async with running(folder) as server:
        for name in ("fsync", "synchronous_commit", "full_page_writes", "data_checksums"):
            assert await ask(server.url, f"show {name}") == "on"
        assert await ask(server.url, "show backend_flush_after") == "2MB"
        assert await ask(server.url, "show autovacuum_vacuum_cost_limit") == "60"
        assert await ask(server.url, "show listen_addresses") == ""
        assert await ask(server.url, "show timezone") == "UTC"
        assert await ask(server.url, "show server_encoding") == "UTF8"
        assert await ask(server.url, "select lower('ÇÃO')") == "ção"
        assert str(await ask(server.url, "show server_version")).startswith("18.")


async def test_only_the_servers_user_may_reach_the_socket(folder: Path) -> None:
    async with running(folder):
        assert permissions(folder / "run") == 0o700
        assert permissions(folder / "postgres") == 0o700
        assert permissions(folder) & ~stat.S_IXOTH == 0o700


async def test_data_is_found_again_after_stop_and_start(folder: Path) -> None:
    async with running(folder) as server:
        await keep_a_value(server)
    async with running(folder) as server:
        assert await ask(server.url, KEPT) == 42


async def test_stop_leaves_no_process(folder: Path) -> None:
    async with running(folder):
        assert server_processes(folder)
    assert not server_processes(folder)


async def test_server_killed_under_its_clients_answers_again_with_its_data(folder: Path) -> None:
    async with running(folder) as server, kept(server):
        await keep_a_value(server)
        # The second of these notices nothing of its postmaster's death while it counts.
        queries = ("select pg_sleep(60)", "select count(*) from generate_series(1, 1e12)")
        clients = [asyncio.create_task(ask(server.url, query)) for query in queries]
        await asyncio.sleep(0.5)
        killed = postmaster(folder)
        os.kill(killed, signal.SIGKILL)
        assert await until_answering(server, KEPT) == 42
        assert postmaster(folder) != killed
        for outcome in await asyncio.gather(*clients, return_exceptions=True):
            assert isinstance(outcome, (OSError, asyncpg.PostgresError))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_server_goes_away_with_a_killed_owner_and_leaves_its_data(
    folder: Path, loop: str
) -> None:
    async with neighbour(folder, loop) as owner:
        await until_ready(owner)
        await keep_a_value(EmbeddedPostgres(folder))
        owner.kill()
        await owner.wait()
        await until(lambda: not server_processes(folder))
    async with running(folder) as server:
        assert await ask(server.url, KEPT) == 42


async def test_second_process_uses_the_running_server_and_does_not_stop_it(folder: Path) -> None:
    async with running(folder) as server:
        before = postmaster(folder)
        async with neighbour(folder) as second:
            await until_ready(second)
            assert postmaster(folder) == before
            heads = [p for p in server_processes(folder) if p.ppid() != before]
            assert [head.pid for head in heads] == [before]
        assert second.returncode == 0
        assert await ask(server.url, "select 1") == 1
        assert postmaster(folder) == before


async def test_second_process_takes_over_when_the_owner_is_killed(folder: Path) -> None:
    async with neighbour(folder) as owner:
        await until_ready(owner)
        async with running(folder) as second, kept(second):
            await keep_a_value(second)
            before = postmaster(folder)
            owner.kill()
            await owner.wait()
            await until(lambda: not psutil.pid_exists(before))
            assert await until_answering(second, KEPT) == 42
            assert psutil.Process(postmaster(folder)).ppid() == os.getpid()
    assert not server_processes(folder)


async def test_start_repairs_an_interrupted_initdb(folder: Path) -> None:
    async with neighbour(folder) as owner:
        await until(lambda: bool(unfinished_clusters(folder)))
        owner.kill()
        await owner.wait()
    assert not (folder / "postgres").exists()
    async with running(folder) as server:
        assert await ask(server.url, "select 1") == 1
        assert not unfinished_clusters(folder)


async def test_stray_server_that_nobody_owns_is_replaced(folder: Path) -> None:
    lost = EmbeddedPostgres(folder)
    await lost.start()
    await keep_a_value(lost)
    before = postmaster(folder)
    assert lost._lock is not None
    os.close(lost._lock)
    lost._lock = None
    async with running(folder) as server:
        assert postmaster(folder) != before
        assert await ask(server.url, KEPT) == 42
    assert lost._process is not None
    assert await lost._process.wait() == 0


async def test_stale_pid_file_of_a_living_process_does_not_block_the_start(folder: Path) -> None:
    async with running(folder):
        pass
    bystander = await asyncio.create_subprocess_exec("sleep", "60")
    (folder / "postgres/postmaster.pid").write_text(f"{bystander.pid}\n{folder / 'postgres'}\n")
    try:
        async with running(folder) as server:
            assert await ask(server.url, "select 1") == 1
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()


async def test_path_too_long_for_a_socket_uses_a_private_temporary_folder(folder: Path) -> None:
    deep = folder / ("d" * SOCKET_PATH_BYTES_MAX)
    sockets = EmbeddedPostgres(deep)._sockets
    try:
        async with running(deep) as server:
            assert await ask(server.url, "select 1") == 1
            assert server._sockets == sockets
            assert not sockets.is_relative_to(folder)
            assert permissions(sockets) == 0o700
    finally:
        shutil.rmtree(sockets)


async def test_path_with_spaces_and_accents_works() -> None:
    # Pytest's own folders can be so long that the socket would not be inside.
    with tempfile.TemporaryDirectory() as short:
        async with running(Path(short) / "vintém & 1%") as server:
            assert server._sockets.parent.name == "vintém & 1%"
            assert await ask(server.url, "select 1") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder for somebody else")
def test_socket_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12_345, 12_345)
    with pytest.raises(EmbeddedPostgresError, match="made by somebody else"):
        refuse_foreign_folder(tmp_path, None)


async def test_folder_of_another_major_version_is_refused_with_both_versions(folder: Path) -> None:
    (folder / "postgres").mkdir(parents=True)
    (folder / "postgres/PG_VERSION").write_text("15\n")
    server = EmbeddedPostgres(folder)
    with pytest.raises(EmbeddedPostgresError, match=r"PostgreSQL 15.* runs PostgreSQL 18"):
        await server.start()
    (folder / "postgres/PG_VERSION").unlink()
    shutil.rmtree(folder / "postgres")
    async with running(folder):
        pass


async def test_folder_with_other_files_is_not_overwritten(folder: Path) -> None:
    (folder / "postgres").mkdir(parents=True)
    (folder / "postgres/letter.txt").write_text("dear")
    with pytest.raises(EmbeddedPostgresError, match="holds files, but no PostgreSQL"):
        await EmbeddedPostgres(folder).start()
    assert (folder / "postgres/letter.txt").read_text() == "dear"


async def test_server_that_cannot_start_says_what_postgresql_said(folder: Path) -> None:
    async with running(folder):
        pass
    (folder / "postgres/global/pg_control").unlink()
    began = time.monotonic()
    with pytest.raises(EmbeddedPostgresError, match=r"PostgreSQL said:[\s\S]*pg_control"):
        await EmbeddedPostgres(folder).start()
    assert time.monotonic() - began < RECOVERY_SECONDS_MAX


async def test_lost_database_is_not_replaced_by_an_empty_one(folder: Path) -> None:
    async with running(folder) as server, kept(server):
        os.kill(postmaster(folder), signal.SIGKILL)
        (folder / "postgres").rename(folder / "moved")
        await asyncio.sleep(1.5)
        assert not (folder / "postgres").exists()
        (folder / "moved").rename(folder / "postgres")
        assert await until_answering(server, "select 1") == 1


def test_pauses_grow_for_a_server_that_keeps_dying_and_end_for_a_stable_one() -> None:
    pauses = [0.0]
    for _ in range(7):
        pauses.append(next_pause(pauses[-1], lived_seconds=1))
    assert pauses[1:] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert next_pause(5.0, lived_seconds=60) == 0
