"""Debian's packages, installed by name where the tests run as root."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

INSTALL_SECONDS_MAX = 600.0
LOCK = Path(tempfile.gettempdir()) / "vintem-tests-apt.lock"


def can_install() -> bool:
    """Tell whether this machine is Debian's and ours."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def missing(packages: Sequence[str]) -> list[str]:
    """Those of the packages that are not installed."""
    said = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    there = {line.split()[0] for line in said.stdout.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in there]


def install(packages: Sequence[str]) -> str:
    """Install packages, one process at a time; give what was said against it, else nothing."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = missing(packages)
        if not wanted:
            return ""
        apt_get("update")
        done = apt_get("install", "-y", "--no-install-recommends", *wanted)
    return "" if done.returncode == 0 else done.stderr.strip()[-300:]


def apt_get(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=120", "-qq", *words],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_SECONDS_MAX,
    )
