"""The PostgreSQL 15 of Debian, the oldest server the platform promises to run on."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest

from support import debian
from vintem.runtime.embedded import NAME, ask, database_url, socket_folder
from vintem.runtime.unprivileged import Account, let_everyone_pass, run, server_account, spawn

PROGRAMS = Path("/usr/lib/postgresql/15/bin")
CLUSTER_DEFAULTS = Path("/etc/postgresql-common/createcluster.d")
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 10.0


@asynccontextmanager
async def debian_postgres_15(tmp: Path) -> AsyncIterator[str]:
    """Run a throwaway PostgreSQL 15 and yield its address; skip the test where there is none."""
    await asyncio.to_thread(find_or_install)
    folder = tmp / "postgres-15"
    sockets = socket_folder(folder)
    account = server_account(folder)
    for place in (folder, folder / "cluster", sockets):
        make_folder(place, account)
    flags = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-U", NAME]
    initdb = [str(PROGRAMS / "initdb"), *flags, "-D", str(folder / "cluster")]
    status, said = await run(initdb, account, seconds_max=START_SECONDS_MAX)
    assert status == 0, said
    # The settings are Debian's own, but for the address and for as many connections as four tests
    # at once may hold; nothing here needs to last.
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(sockets),
        "max_connections": "300",
        "fsync": "off",
    }
    server = [str(PROGRAMS / "postgres"), "-D", str(folder / "cluster")]
    for name, value in settings.items():
        server += ["-c", f"{name}={value}"]
    process = await spawn(server, account, death_signal=signal.SIGINT, output=subprocess.DEVNULL)
    try:
        await make_database(process, sockets)
        yield database_url(sockets, NAME)
    finally:
        await end(process)
        await asyncio.to_thread(shutil.rmtree, sockets, ignore_errors=True)


def find_or_install() -> None:
    if (PROGRAMS / "postgres").exists():
        return
    if not debian.can_install():
        pytest.skip("PostgreSQL 15 is not installed: apt-get install postgresql-15")
    # Debian would make a cluster and start it at once; this file forbids it during the install.
    CLUSTER_DEFAULTS.mkdir(parents=True, exist_ok=True)
    forbid = CLUSTER_DEFAULTS / "vintem-tests.conf"
    forbid.write_text("create_main_cluster = false\n")
    try:
        fault = debian.install(["postgresql-15"])
    finally:
        forbid.unlink(missing_ok=True)
    if fault:
        pytest.skip(f"PostgreSQL 15 could not be installed: {fault}")


def make_folder(folder: Path, account: Account | None) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if account is not None:
        let_everyone_pass(folder)
        os.chown(folder, account.uid, account.gid)


async def make_database(process: asyncio.subprocess.Process, sockets: Path) -> None:
    async with asyncio.timeout(START_SECONDS_MAX):
        while True:
            assert process.returncode is None, "PostgreSQL 15 did not start"
            try:
                await ask(database_url(sockets, "postgres"), f"create database {NAME}")
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(0.05)
            else:
                return


async def end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if process.returncode is None:
            with suppress(ProcessLookupError, TimeoutError):
                process.send_signal(number)
                await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
