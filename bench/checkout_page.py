"""Measures GET /s/{token} as a ratio to a bare HTML route of the same size, in one run."""

import argparse
import contextlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from pipeline import HERE, free_port, platform

TARGET_RATIO: Final = 0.5
CONNECTIONS: Final = 64


def main() -> None:
    """Run both in turns and print the ratio; ends with 1 below the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=4, help="measurements of each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, platform(Path(name)) as demo:
        url = demo["checkoutUrl"]
        with urlopen(url) as response:
            content = response.read()
        kept = Path(name) / "page.html"
        kept.write_bytes(content)
        with bare(kept) as bare_url:
            measure(bare_url, 2)
            measure(url, 2)
            rates, bares = [], []
            for number in range(arguments.rounds):
                bares.append(measure(bare_url, arguments.seconds))
                rates.append(measure(url, arguments.seconds))
                print(
                    f"round {number + 1}: bare {bares[-1]:7.0f}/s   page {rates[-1]:7.0f}/s"
                    f"   ratio {rates[-1] / bares[-1]:.2f}"
                )
    ratio = statistics.median(rate / bare for rate, bare in zip(rates, bares, strict=True))
    print(
        f"GET /s/{{token}}, {len(content)} bytes: {statistics.median(rates):.0f}/s,"
        f" {statistics.median(bares):.0f}/s bare; ratio {ratio:.2f} (at least {TARGET_RATIO})"
    )
    sys.exit(0 if ratio >= TARGET_RATIO else 1)


def measure(url: str, seconds: int) -> float:
    """Pages per second that wrk saw answered with 2xx; anything else is an error."""
    wrk = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", url]
    said = subprocess.run(wrk, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        sys.exit(f"not every call was answered well:\n{said}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert found is not None
    return float(found[1])


@contextlib.contextmanager
def bare(page: Path) -> Iterator[str]:
    """The bare route on the same server class."""
    port = free_port()
    process = subprocess.Popen([sys.executable, HERE / "bare_page.py", page, str(port)])
    try:
        while True:
            with (
                contextlib.suppress(ConnectionRefusedError),
                socket.create_connection(("127.0.0.1", port)),
            ):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/s/token"
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing: make bench installs it")
    main()
