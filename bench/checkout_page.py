"""Measures GET /s/{token} as a ratio to a bare HTML route of the same size, in one run.

Once with one session, once with many that are looked at in turns, as buyers would.
"""

import argparse
import contextlib
import json
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
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from pipeline import HERE, free_port, platform

TARGET_RATIO: Final = 0.5
CONNECTIONS: Final = 64
SESSIONS: Final = 500


def main() -> None:
    """Run all in turns and print the ratios; ends with 1 below the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=4, help="measurements of each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, platform(Path(name)) as demo:
        folder, urls = Path(name), [open_session(demo) for _ in range(SESSIONS)]
        with urlopen(urls[0]) as response:
            content = response.read()
        (folder / "page.html").write_bytes(content)
        with bare(folder / "page.html") as bare_url:
            places = {"bare": [bare_url], "one session": urls[:1], f"{SESSIONS} sessions": urls}
            rates: dict[str, list[float]] = {place: [] for place in places}
            for number in range(-1, arguments.rounds):
                for place, addresses in places.items():
                    rate = measure(addresses, arguments.seconds if number >= 0 else 2, folder)
                    rates[place] += [rate] if number >= 0 else []
    is_enough = True
    for place, measured in rates.items():
        ratios = [rate / bare for rate, bare in zip(measured, rates["bare"], strict=True)]
        ratio = statistics.median(ratios)
        is_enough = is_enough and ratio >= TARGET_RATIO
        print(
            f"GET /s/{{token}}, {len(content)} bytes, {place}: {statistics.median(measured):.0f}/s,"
            f" ratio {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}, at least {TARGET_RATIO})"
        )
    sys.exit(0 if is_enough else 1)


def open_session(demo: dict[str, str]) -> str:
    """Open a session as a shop does, and give where its page is."""
    request = Request(
        f"{demo['baseUrl']}/v1/checkout/sessions",
        data=json.dumps({"productId": demo["productId"]}).encode(),
        headers={"content-type": "application/json", "x-api-key": demo["testCheckoutKey"]},
    )
    with urlopen(request) as response:
        url: str = json.load(response)["data"]["checkoutUrl"]
    return url


def measure(urls: list[str], seconds: int, folder: Path) -> float:
    """Pages per second that wrk saw answered with 2xx; anything else is an error."""
    paths = ", ".join(f'"{urlsplit(url).path}"' for url in urls)
    script = folder / "turns.lua"
    script.write_text(
        f"local paths, at = {{{paths}}}, 0\n"
        'request = function() at = at % #paths + 1; return wrk.format("GET", paths[at]) end\n'
    )
    wrk = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script), urls[0]]
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
