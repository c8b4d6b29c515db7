"""A hundred integrators in one process of their own: each answers as its path says, all are timed.

`python -m support.crowd` prints its port, serves until its input ends, and prints what arrived.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

SILENT_SECONDS = 600.0
ANSWERS = {
    b"healthy": (b"200 OK", 0.0),
    b"failing": (b"500 Internal Server Error", 0.0),
    # A tenth of 14 s, and far beyond the time that anybody waits.
    b"slow": (b"200 OK", 1.4),
    b"hanging": (b"200 OK", SILENT_SECONDS),
}


@dataclass(frozen=True)
class Seen:
    """One call: where it arrived, when by the clock of the machine, and what it told."""

    path: str
    event_id: str
    entity_id: str
    sequence: int
    at: float


@dataclass
class Crowd:
    """The integrators while they run, and what they saw once they have stopped."""

    base_url: str
    seen: list[Seen] = field(default_factory=list)


@asynccontextmanager
async def running_crowd() -> AsyncIterator[Crowd]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.crowd",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1],
        limit=1 << 30,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    crowd = Crowd(f"http://127.0.0.1:{int(await process.stdout.readline())}")
    try:
        yield crowd
    finally:
        process.stdin.close()
        said, _ = await process.communicate()
        crowd.seen = [Seen(*each) for each in json.loads(said)]


class Integrator(asyncio.Protocol):
    """Reads one call after the other from a connection, and answers in its time."""

    def __init__(self, seen: list[tuple[float, bytes, bytes]]) -> None:
        self._seen = seen
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, mark, body = self._read.partition(b"\r\n\r\n")
        if not mark:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < length:
            return
        self._read = b""
        self._seen.append((time.time(), head, body))
        answer, seconds = ANSWERS[head.split(b"/", 2)[1]]
        text = b"HTTP/1.1 " + answer + b"\r\ncontent-length: 0\r\n\r\n"
        if seconds:
            asyncio.get_running_loop().call_later(seconds, self._transport.write, text)
        else:
            self._transport.write(text)


async def serve() -> list[Seen]:
    calls: list[tuple[float, bytes, bytes]] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Integrator(calls), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    return [read(*each) for each in calls]


def read(at: float, head: bytes, body: bytes) -> Seen:
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    event = json.loads(body)
    assert headers["webhook-id"] == event["eventId"].lower()
    path = lines[0].split(" ")[1]
    return Seen(path, event["eventId"], event["data"]["id"], event["sequence"], at)


if __name__ == "__main__":
    found = asyncio.run(serve())
    sys.stdout.write(json.dumps([list(vars(each).values()) for each in found]))
