"""Measures GET /v1/balance through the whole pipeline as a ratio to a bare route, in one run."""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TARGET_RATIO: Final = 0.55
CONNECTIONS: Final = 32
HERE: Final = Path(__file__).parent
VINTEM: Final = Path(sys.executable).with_name("vintem")


def main() -> None:
    """Run both in turns and print the ratio; ends with 1 below the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=4, help="measurements of each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, platform(Path(folder)) as demo, bare() as url:
        headers = ["-H", f"x-api-key: {demo['testSecretKey']}"]
        measure(f"{url}/v1/balance", [], 2)
        measure(f"{demo['baseUrl']}/v1/balance", headers, 2)
        ratios, rates, bares = [], [], []
        for number in range(arguments.rounds):
            bare_rate = measure(f"{url}/v1/balance", [], arguments.seconds)
            rate = measure(f"{demo['baseUrl']}/v1/balance", headers, arguments.seconds)
            ratios.append(rate / bare_rate)
            rates.append(rate)
            bares.append(bare_rate)
            print(
                f"round {number + 1}: bare {bare_rate:7.0f}/s   pipeline {rate:7.0f}/s"
                f"   ratio {rate / bare_rate:.2f}"
            )
    ratio = statistics.median(ratios)
    print(
        f"GET /v1/balance: {statistics.median(rates):.0f}/s through the pipeline,"
        f" {statistics.median(bares):.0f}/s bare; ratio {ratio:.2f} (at least {TARGET_RATIO})"
    )
    sys.exit(0 if ratio >= TARGET_RATIO else 1)


def measure(url: str, headers: list[str], seconds: int) -> float:
    """Calls per second that wrk saw answered with 2xx; anything else is an error."""
    wrk = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", *headers, url]
    said = subprocess.run(wrk, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        sys.exit(f"not every call was answered well:\n{said}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert found is not None
    return float(found[1])


@contextlib.contextmanager
def platform(folder: Path) -> Iterator[dict[str, str]]:
    """The demo with limits that the load cannot reach, raised as an operator would."""
    ready = folder / "ready.json"
    data = ["--data", str(folder / "data")]
    with (folder / "log").open("w") as log:
        words = ["demo", "--port", str(free_port()), *data, "--ready-file", str(ready)]
        process = subprocess.Popen([VINTEM, *words], stdout=log, stderr=log)
    try:
        while not ready.exists():
            if process.poll() is not None:
                sys.exit((folder / "log").read_text())
            time.sleep(0.1)
        demo: dict[str, str] = json.loads(ready.read_text())
        limits = ["--requests-per-minute", "10000000"]
        words = ["company", "set-limits", demo["companyId"], *limits, *data]
        subprocess.run([VINTEM, *words], check=True, stdout=subprocess.DEVNULL)
        time.sleep(5)
        yield demo
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@contextlib.contextmanager
def bare() -> Iterator[str]:
    """The bare route on the same server class."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, HERE / "bare_route.py", str(port)], env={**os.environ}
    )
    try:
        time.sleep(1.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def free_port() -> int:
    """A port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing: make bench installs it")
    main()
