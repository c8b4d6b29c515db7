"""Child processes that run as a user without rights, when we are root."""

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SYSTEM_USER = "vintem-postgres"
USERADD_TRIES_MAX = 10
USERADD_PAUSE_SECONDS = 0.05

# Runs in a Python of its own that then becomes the wanted program. Doing this between the fork and
# the exec of our own process is unsafe when it has threads, and uvloop cannot change the user. The
# order matters: Linux forgets the death signal when the user changes. It also takes the end of the
# thread that forked for our death, so servers are started from the thread of the event loop.
LAUNCHER = """
import ctypes, os, sys
parent, uid, gid, death_signal = map(int, sys.argv[1:5])
library = ctypes.CDLL(None)
if uid != -1:
    os.setgroups([gid])
    os.setgid(gid)
    os.setuid(uid)
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    library.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that wanted this one is gone")
os.execv(sys.argv[5], sys.argv[5:])
"""


@dataclass(frozen=True, slots=True)
class Account:
    """The system user a PostgreSQL process runs as."""

    uid: int
    gid: int


# PostgreSQL refuses to run as root, which is who we are in most containers. Then it runs as a
# system user without a login, who gets the cluster and the socket folder and nothing else. Folders
# on the way to them and to the programs are opened for passing through (o+x), never for reading.
# When we are an ordinary user, PostgreSQL runs as that user and no permission is touched.


def server_account(cluster: Path) -> Account | None:
    """Choose the user for the server of a cluster: None when it is our own."""
    if os.geteuid() != 0:
        return None
    # Files that have an owner keep it: the number of a system user differs between machines.
    if cluster.exists() and (found := cluster.stat()).st_uid != 0:
        return Account(found.st_uid, found.st_gid)
    return system_account()


def system_account() -> Account:
    """Find the system user for servers, or make it; without useradd it is nobody."""
    command = ["useradd", "--system", "--user-group", "--no-create-home"]
    command += ["--home-dir=/nonexistent", "--shell=/usr/sbin/nologin", SYSTEM_USER]
    # It may fail because another process of ours is doing the same at this moment.
    for _ in range(USERADD_TRIES_MAX):
        with suppress(KeyError):
            entry = pwd.getpwnam(SYSTEM_USER)
            return Account(entry.pw_uid, entry.pw_gid)
        if shutil.which("useradd") is None:
            break
        subprocess.run(command, check=False, capture_output=True)
        time.sleep(USERADD_PAUSE_SECONDS)
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_uid, entry.pw_gid)


def let_everyone_pass(path: Path) -> None:
    """Let every user pass through, not read, the folders that lead to a path."""
    for parent in path.parents:
        mode = stat.S_IMODE(parent.stat().st_mode)
        if not mode & stat.S_IXOTH:
            parent.chmod(mode | stat.S_IXOTH)


async def spawn(
    command: Sequence[str], account: Account | None, *, death_signal: signal.Signals, output: int
) -> asyncio.subprocess.Process:
    """Start a child as a user, out of reach of Ctrl-C, that gets a signal when we die."""
    user = (account.uid, account.gid) if account else (-1, -1)
    numbers = [str(int(number)) for number in (os.getpid(), *user, death_signal)]
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, *numbers]
    # None of our secrets reaches the child. PostgreSQL needs a valid locale to start on macOS.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    return await asyncio.create_subprocess_exec(
        *launcher,
        *command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=environment,
        start_new_session=True,
    )


async def run(
    command: Sequence[str], account: Account | None, *, seconds_max: float
) -> tuple[int, str]:
    """Run a program to its end and return its status and what it said."""
    process = await spawn(command, account, death_signal=signal.SIGKILL, output=subprocess.PIPE)
    try:
        said, _ = await asyncio.wait_for(process.communicate(), seconds_max)
    except TimeoutError:
        return -signal.SIGKILL, f"{command[0]} took more than {seconds_max:.0f} seconds."
    finally:
        if process.returncode is None:
            process.kill()
            # Its end is awaited, or the pipe to it would outlive the event loop.
            await process.wait()
    assert process.returncode is not None
    return process.returncode, said.decode(errors="replace")
