"""Processes are killed in the middle of payments: nothing acknowledged is lost or done twice."""

import asyncio
import os
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from support.api import Api, HttpReply
from support.cards import card_order
from support.platform import Running, client, demo, promised, until, vintem
from vintem.audit import audit
from vintem.runtime.db import Database
from vintem.runtime.embedded import EmbeddedPostgres, read_pid

# More by a switch: PROOF_KILLS=500 PROOF_DATABASE_KILLS=100 PROOF_CARD_KILLS=50.
KILLS = int(os.environ.get("PROOF_KILLS", "20"))
DATABASE_KILLS = int(os.environ.get("PROOF_DATABASE_KILLS", "3"))
CONTROL_KILLS = 1
CARD_KILLS = int(os.environ.get("PROOF_CARD_KILLS", "2"))
CALLERS = 12
AMOUNT = 1_000
ORDER = {
    "paymentMethod": "pix",
    "amount": AMOUNT,
    "customer": {
        "name": "Cliente de Teste",
        "email": "cliente@example.com",
        "document": {"type": "cpf", "number": "529.982.247-25"},
    },
}


@dataclass
class Ledger:
    """What the integrator's side wrote down: acknowledged payments by their key."""

    created: dict[str, str] = field(default_factory=dict)
    paid: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    unknown: int = 0
    number: int = 0

    def next_key(self) -> str:
        self.number += 1
        return f"order-{self.number}"


@pytest.mark.timeout(600)
async def test_kills_of_processes_lose_no_acknowledged_payment() -> None:
    async with platform() as (running, database):
        told = await run_under_load(running, lambda: kill_api(running), times=KILLS, pause=0.3)
        await assert_nothing_lost(running, database, told)


@pytest.mark.timeout(600)
async def test_kills_of_the_database_lose_no_acknowledged_payment() -> None:
    async with platform() as (running, database):
        told = await run_under_load(
            running, lambda: kill_postmaster(running), times=DATABASE_KILLS, pause=2.0
        )
        await assert_nothing_lost(running, database, told)


async def test_the_loss_of_acknowledged_payments_would_be_seen() -> None:
    """The control: the same kills of a database that acknowledges before it has written."""
    async with platform() as (running, database):
        await acknowledge_before_writing(database)
        told = await run_under_load(
            running, lambda: kill_postmaster(running), times=CONTROL_KILLS, pause=0.5
        )
        rows = await database.fetch("select transaction_id from transaction")
        lost = {*told.created.values()} - {row["transaction_id"] for row in rows}
        assert lost
        with pytest.raises((AssertionError, KeyError)):
            await assert_nothing_lost(running, database, told)


async def acknowledge_before_writing(database: Database) -> None:
    """Let PostgreSQL keep commits in memory for as long as it can."""
    # Of more weight than what the command line of our PostgreSQL says.
    await database.execute("alter database vintem set synchronous_commit = off")
    await database.execute("alter system set wal_writer_delay = '10s'")
    await database.execute("alter system set wal_writer_flush_after = '1GB'")
    await database.execute("select pg_reload_conf()")
    await database.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )


CARDS = {"1111": "paid", "0002": "failed", "0069": "blocked", "0259": "paid"}


@pytest.mark.timeout(600)
async def test_kills_between_the_phases_of_a_card_charge_it_once_and_leave_nothing_open() -> None:
    slow = {"VINTEM_SIMULATOR_FAULTS": "slow_answers"}
    async with platform(slow) as (running, database), client(running) as api:
        for number in range(CARD_KILLS):
            orders = {f"card-{number}-{last}-{copy}": last for last in CARDS for copy in range(3)}
            calls = [
                asyncio.create_task(pay_by_card(api, running, key, last))
                for key, last in orders.items()
            ]
            # Somebody has been charged and not been told; in later rounds also somebody else.
            await until(lambda: is_between_phases(database), seconds=promised(20))
            await asyncio.sleep(0.2 * number)
            for child in (*running.children("api"), *running.children("worker")):
                os.kill(child.pid, signal.SIGKILL)
            assert None in await asyncio.gather(*calls), "the kill came too late to prove anything"
            await asyncio.gather(
                *(assert_finished(api, running, database, *each) for each in orders.items())
            )
        assert await unanswered(database) == 0
        charged = await database.fetch(
            "select reference, count(*) from simulator_charge group by 1"
        )
        assert {row["count"] for row in charged} == {1}
        assert [finding for finding in await audit(database) if finding.rows] == []


async def pay_by_card(api: Api, running: Running, key: str, last: str) -> HttpReply | None:
    try:
        return await api.post(
            "/v1/transactions",
            key=running.ready["testSecretKey"],
            json=card_order(last, amount=AMOUNT),
            headers={"X-Idempotency-Key": key},
        )
    except (aiohttp.ClientError, TimeoutError, ConnectionError):
        return None


async def assert_finished(
    api: Api, running: Running, database: Database, key: str, last: str
) -> None:
    """Repeat a call until it is answered; what it shows is what the acquirer knows."""
    codes = set()
    async with asyncio.timeout(promised(60)):
        while (reply := await pay_by_card(api, running, key, last)) is None or (
            reply.status not in {200, 201}
        ):
            if reply is not None:
                codes.add(reply.json["error"]["code"])
            await asyncio.sleep(0.5)
        assert codes <= {"IDEMPOTENCY_IN_PROGRESS", "SERVICE_UNAVAILABLE"}
        path = f"/v1/transactions/{reply.data['id']}"
        while (shown := await api.get(path, key=running.ready["testSecretKey"])).data[
            "status"
        ] == "processing":
            await asyncio.sleep(0.5)
    was_charged = await database.fetchval(
        "select exists (select from simulator_charge where company_id = 1 and reference = $1)",
        reply.data["id"],
    )
    if was_charged:
        first = await database.fetchval(
            """
            select to_status from transaction_history where company_id = 1 and transaction_id = $1
                and to_status <> 'processing' order by sequence limit 1
            """,
            reply.data["id"],
        )
        assert first == CARDS[last]
    else:
        assert shown.data["refusedReason"]["code"] == "NOT_RECEIVED"


async def is_between_phases(database: Database) -> bool:
    return bool(
        await database.fetchval(
            """
            select exists (
                select from transaction t join simulator_charge c
                    on c.company_id = t.company_id and c.reference = t.transaction_id
                where t.sequence = 0
            )
            """
        )
    )


async def unanswered(database: Database) -> int:
    return int(await database.fetchval("select count(*) from transaction where sequence = 0"))


async def test_the_acquirer_of_a_running_platform_is_heard_in_time() -> None:
    async with platform() as (running, database), client(running) as api:
        key = running.ready["testSecretKey"]
        began = time.monotonic()
        made = [await pay_by_card(api, running, f"k-{last}", last) for last in ("0119", "0259")]
        assert [reply.data["status"] for reply in made if reply] == ["processing", "paid"]
        [paying, disputed] = [reply.data["id"] for reply in made if reply]

        async def stands(transaction_id: str, status: str) -> bool:
            reply = await api.get(f"/v1/transactions/{transaction_id}", key=key)
            return bool(reply.data["status"] == status)

        for transaction_id, status, seconds in (
            (paying, "paid", 2.0),
            (disputed, "pre_chargeback", 2.0),
            (disputed, "chargeback", 4.0),
        ):
            await until(
                lambda: stands(transaction_id, status),  # noqa: B023
                seconds=promised(seconds + 2.0),
            )
            assert seconds - 0.3 < time.monotonic() - began < promised(seconds + 1.5)
        assert [finding for finding in await audit(database) if finding.rows] == []


@asynccontextmanager
async def platform(
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[Running, Database]]:
    """A demo whose company may call as often as it likes."""
    with tempfile.TemporaryDirectory(prefix="vintem-proof-") as name:
        data = Path(name) / "data"
        async with demo(data, settings=settings) as running:
            words = ["company", "set-limits", running.ready["companyId"]]
            words += ["--transactions-per-second", "100000", "--requests-per-minute", "1000000"]
            assert (await vintem(*words, "--data", str(data))).status == 0
            async with client(running) as api:
                key = running.ready["testSecretKey"]

                async def is_wide() -> bool:
                    reply = await api.get("/v1/balance", key=key)
                    return reply.headers["X-RateLimit-Limit"] == "1000000"

                await until(is_wide, seconds=promised(5))
            database = Database(EmbeddedPostgres(data).url)
            await database.open()
            try:
                yield running, database
            finally:
                await database.close()


async def run_under_load(
    running: Running, kill: Callable[[], Awaitable[None]], *, times: int, pause: float
) -> Ledger:
    """Let callers create and confirm payments while something is killed so many times."""
    told, stopping = Ledger(), asyncio.Event()
    async with client(running) as api:

        async def call(path: str, body: object, key: str | None = None) -> HttpReply | None:
            headers = {} if key is None else {"X-Idempotency-Key": key}
            try:
                return await api.post(
                    path, key=running.ready["testSecretKey"], json=body, headers=headers
                )
            except (aiohttp.ClientError, TimeoutError, ConnectionError):
                told.unknown += 1
                return None

        async def caller() -> None:
            while not stopping.is_set():
                key = told.next_key()
                # A retry with the same key until it is acknowledged, as an integrator would.
                while (reply := await call("/v1/transactions", ORDER, key)) is None or (
                    reply.status == 503
                ):
                    await asyncio.sleep(0.05)
                assert reply.status in {200, 201}, reply.json
                told.created[key] = reply.data["id"]
                path = f"/v1/sandbox/transactions/{reply.data['id']}/simulate"
                while (paid := await call(path, {"status": "paid"})) is None or paid.status == 503:
                    await asyncio.sleep(0.05)
                if paid.status == 404:
                    told.missing.add(told.created[key])
                    continue
                assert paid.status == 200 or paid.json["error"]["code"] == "INVALID_STATE"
                told.paid.add(told.created[key])

        callers = [asyncio.create_task(caller()) for _ in range(CALLERS)]
        for _ in range(times):
            # Back in work, and in the middle of it.
            seen = len(told.paid)
            await until(lambda: len(told.paid) > seen + CALLERS, seconds=promised(20))  # noqa: B023
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            await kill()
        await asyncio.sleep(1.0)
        stopping.set()
        await asyncio.wait_for(asyncio.gather(*callers), promised(60))
    return told


async def kill_api(running: Running) -> None:
    # Who dies young is started again ever later, which proves nothing and takes its time.
    await until(lambda: running.is_settled("api"), seconds=promised(10))
    [child] = running.children("api")
    os.kill(child.pid, signal.SIGKILL)


async def kill_postmaster(running: Running) -> None:
    pid = read_pid(running.data / "postgres/postmaster.pid")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


async def assert_nothing_lost(running: Running, database: Database, told: Ledger) -> None:
    rows = await database.fetch("select transaction_id, idempotency_key, status from transaction")
    standing = {row["idempotency_key"]: row for row in rows}
    assert len(standing) == len(rows), "a key holds two payments"
    assert len(told.created) > 50, "too little happened to prove anything"
    assert told.missing == set(), "acknowledged, and unknown afterwards"
    for key, transaction_id in told.created.items():
        assert standing[key]["transaction_id"] == transaction_id
    assert {row["transaction_id"] for row in rows if row["status"] == "paid"} >= told.paid
    available = await database.fetchval(
        "select balance from account where environment = 'test' and code = 'available'"
    )
    paid = sum(1 for row in rows if row["status"] == "paid")
    assert available == paid * AMOUNT
    findings = [finding for finding in await audit(database) if finding.rows]
    assert findings == []
    async with client(running) as api:
        reply = await api.get("/v1/balance", key=running.ready["testSecretKey"])
        assert reply.data["available"] == available
