"""Measures deliveries a second from one worker to a sink on this machine, signed and recorded."""

import argparse
import asyncio
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil
from asyncpg import connect

from payments import execute
from pipeline import VINTEM
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.runtime.embedded import EmbeddedPostgres
from vintem.webhooks import service as webhooks
from vintem.webhooks.service import Place, Wishes

COMPANIES: Final = 20
ENDPOINTS_EACH: Final = 2
BAR_PER_SECOND: Final = 1_000
GROWTH_MAX: Final = 1.3
BODY: Final = '{"event":"transaction.paid","data":{"filler":"' + "x" * 1_500 + '"}}'
ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Sink(asyncio.Protocol):
    """The least server there is: every request is answered 200."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._left = 0
        self._head = b""

    def data_received(self, data: bytes) -> None:
        """Answer each request once it is whole."""
        while data:
            if self._left:
                taken = min(self._left, len(data))
                self._left -= taken
                data = data[taken:]
                if not self._left:
                    self._transport.write(ANSWER)
                continue
            head, mark, rest = (self._head + data).partition(b"\r\n\r\n")
            if not mark:
                self._head = head
                return
            self._head, data = b"", rest
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    self._left = int(line.partition(b":")[2])


def run_sink(ports: "multiprocessing.Queue[int]") -> None:
    """Be the sink, in a process of its own."""

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def main() -> None:
    """Print the rate, and the worker's memory with a small and with a large backlog."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--backlog", type=int, default=200_000)
    arguments = parser.parse_args()
    ports: multiprocessing.Queue[int] = multiprocessing.Queue()
    sink = multiprocessing.Process(target=run_sink, args=(ports,), daemon=True)
    sink.start()
    with tempfile.TemporaryDirectory() as name:
        is_good = measure(Path(name), ports.get(), arguments.seconds, arguments.backlog)
    sink.terminate()
    sys.exit(0 if is_good else 1)


def measure(folder: Path, port: int, seconds: int, backlog: int) -> bool:
    """Fill a backlog, let one worker at it, and watch."""
    data = folder / "data"
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [VINTEM, "serve", "--port", "0", "--data", str(data)], stdout=log, stderr=log
        )
        try:
            while "serving" not in (folder / "log").read_text():
                if server.poll() is not None:
                    sys.exit((folder / "log").read_text())
                time.sleep(0.1)
            url = EmbeddedPostgres(data).url
            pepper = json.loads((data / "secrets.json").read_text())["pepper"]
            asyncio.run(make_endpoints(url, pepper.encode(), port))
            return measure_worker(data, url, log.fileno(), seconds, backlog)
        finally:
            server.terminate()
            server.wait(30)


def measure_worker(data: Path, url: str, log: int, seconds: int, backlog: int) -> bool:
    """Run one worker on a small backlog and then on a large one."""
    rates, memories = [], []
    for rows in (backlog // 10, backlog):
        asyncio.run(execute(url, fill_sql(rows)))
        asyncio.run(execute(url, "vacuum analyze webhook_delivery"))
        asyncio.run(execute(url, "checkpoint"))
        worker = subprocess.Popen(
            [VINTEM, "work", "--data", str(data)],
            stdout=log,
            stderr=log,
            env={"VINTEM_ALLOW_LOOPBACK_WEBHOOKS": "1", "PATH": "/usr/bin:/bin"},
        )
        try:
            rates.append(asyncio.run(rate(url, seconds)))
            memories.append(psutil.Process(worker.pid).memory_info().rss / 1_000_000)
        finally:
            worker.terminate()
            worker.wait(30)
    growth = memories[1] / memories[0]
    print(
        f"\nwebhooks, one worker, {COMPANIES * ENDPOINTS_EACH} endpoints, 2 cores:"
        f" {rates[1]:.0f} deliveries/s signed and recorded (at least {BAR_PER_SECOND})"
        f"   memory {memories[0]:.0f} MB with {backlog // 10} waiting,"
        f" {memories[1]:.0f} MB with {backlog} ({growth:.2f} times, at most {GROWTH_MAX})",
        flush=True,
    )
    return rates[1] >= BAR_PER_SECOND and growth <= GROWTH_MAX


async def rate(url: str, seconds: int) -> float:
    """Deliveries a second once the worker runs, read from what it has recorded."""
    connection = await connect(url)

    async def delivered() -> int:
        return int(await connection.fetchval("select count(*) from webhook_attempt"))

    try:
        start = await delivered()
        while await delivered() < start + 500:
            await asyncio.sleep(0.1)
        first, began = await delivered(), time.monotonic()
        await asyncio.sleep(seconds)
        last, ended = await delivered(), time.monotonic()
    finally:
        await connection.close()
    return (last - first) / (ended - began)


async def make_endpoints(url: str, pepper: bytes, port: int) -> Sequence[str]:
    """Make companies with endpoints that lead to the sink."""
    database = Database(url)
    await database.open()
    made = []
    for number in range(COMPANIES):
        company = await companies.create_company(database, f"Loja {number}", now=utc_now())
        for path in range(ENDPOINTS_EACH):
            wishes = Wishes(f"http://127.0.0.1:{port}/{path}", ("*",))
            place = Place(company.company_id, "test")
            endpoint, _ = await webhooks.register(
                database, Sealer(pepper), place, wishes, now=utc_now()
            )
            made.append(endpoint.endpoint_id)
    await database.close()
    return made


def fill_sql(rows: int) -> str:
    """Events that wait for every endpoint, of as many records as there are events."""
    return f"""
set synchronous_commit = off;
with e as (
    insert into webhook_event (company_id, entity_id, sequence, event_id, kind, environment, body,
        created_at)
    select company_id, entity_id, 1, 'tx' || chr(58) || entity_id || chr(58) || 'PAID',
        'transaction.paid', 'test', '{BODY}', now()
    from company, generate_series(1, {rows // (COMPANIES * ENDPOINTS_EACH)}) as n,
        lateral (select 'tx_' || md5(company_id || ' ' || n || random()) as entity_id) as named
    returning company_id, entity_id, created_at
)
insert into webhook_delivery (company_id, delivery_id, environment, lane, entity_id, sequence,
    due_at, created_at, asked_at)
select e.company_id, new_delivery_id(e.created_at), 'test', p.endpoint_id, e.entity_id, 1,
    e.created_at, e.created_at, e.created_at
from e join webhook_endpoint p on p.company_id = e.company_id
"""


if __name__ == "__main__":
    main()
