"""Processes die at every named point of a withdrawal: it is paid once or not, and we know."""

import asyncio
import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.api import Api, HttpReply
from support.platform import Running, client, demo, promised, until, vintem
from vintem.audit import audit
from vintem.kit.clock import utc_now
from vintem.ledger.model import Scope
from vintem.providers.payout_simulator import answer_of
from vintem.providers.payouts import Paid, Rejected
from vintem.runtime.db import Database
from vintem.runtime.embedded import EmbeddedPostgres
from vintem.runtime.failpoints import Failpoint
from vintem.withdrawals.model import PayoutNotice
from vintem.withdrawals.service import apply_payout_notice
from withdrawals.till import disagreements, pix_body

# More by a switch: PROOF_PAYOUT_KILLS=500.
KILLS = int(os.environ.get("PROOF_PAYOUT_KILLS", "4"))
FUNDS = 90_000_000
ENDINGS = (0, 1, 2, 3)
OVER = {"completed", "failed", "cancelled"}


@dataclass
class Books:
    """What the integrator's side wrote down: acknowledged withdrawals by their key."""

    made: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Bank:
    """A running platform with its database, its integrator and the points that can be armed."""

    running: Running
    database: Database
    api: Api
    points: Path
    books: Books = field(default_factory=Books)

    @property
    def key(self) -> str:
        return str(self.running.ready["testSecretKey"])

    async def call(self, path: str, body: object, key: str | None = None) -> HttpReply:
        """One call, again until it is answered, as an integrator would."""
        headers = {} if key is None else {"X-Idempotency-Key": key}
        async with asyncio.timeout(promised(60)):
            while True:
                with suppress(aiohttp.ClientError, TimeoutError, ConnectionError):
                    reply = await self.api.post(path, key=self.key, json=body, headers=headers)
                    if reply.status != 503:
                        return reply
                await asyncio.sleep(0.05)

    async def withdraw(self, amount: int) -> None:
        key = f"withdrawal-{len(self.books.made) + 1}"
        self.books.made[key] = {}
        reply = await self.call("/v1/withdrawals", pix_body(amount), key)
        assert reply.status in {200, 201}, reply.json
        self.books.made[key] = reply.data

    def arm(self, point: Failpoint) -> None:
        (self.points / point).touch()

    def is_armed(self, point: Failpoint) -> bool:
        return (self.points / point).exists()

    async def company_id(self) -> int:
        found = await self.database.fetchval(
            "select company_id from company where public_id = $1",
            self.running.ready["companyId"],
        )
        assert isinstance(found, int)
        return found

    async def until_over(self) -> None:
        async def is_over() -> bool:
            # The dead keep what they claimed for a while, and whoever was asked about often is
            # asked again after minutes; let them pass.
            await self.database.execute(
                "update withdrawal set due_at = now() where due_at > now() + interval '5 s'"
            )
            rows = await self.database.fetch("select distinct status from withdrawal")
            return {row["status"] for row in rows} <= OVER

        await until(is_over, seconds=promised(60))


@pytest.mark.timeout(600)
async def test_a_death_at_any_point_pays_nothing_twice_and_loses_nothing() -> None:
    async with bank() as here:
        hits: Counter[str] = Counter()
        for point in Failpoint:
            # Who dies young is started again ever later, which proves nothing and takes its time.
            await until(lambda: here.running.is_settled("api", "worker"), seconds=promised(40))
            here.arm(point)
            # One of each fate, so that every point lies on the way of one of them.
            await asyncio.gather(*(here.withdraw(10_000 + ending) for ending in ENDINGS))
            await until(lambda: not here.is_armed(point), seconds=promised(40))  # noqa: B023
            hits[point] += 1
        assert set(hits) == set(Failpoint)
        logged = [
            line["point"]
            for line in here.running.log_lines()
            if line.get("event") == "failpoint hit"
        ]
        assert set(logged) == set(Failpoint)
        await here.until_over()
        await assert_paid_once(here)


@pytest.mark.timeout(600)
async def test_deaths_lost_answers_and_repeated_notices_together() -> None:
    async with bank() as here:
        stopping = asyncio.Event()
        notifying = asyncio.create_task(notify(here, stopping))
        try:
            for _ in range(KILLS):
                here.arm(Failpoint.ANSWER_LOST)
                await asyncio.gather(*(here.withdraw(20_000 + ending) for ending in ENDINGS * 2))
                await asyncio.sleep(random.uniform(0.1, 1.5))
                await kill(here.running, "worker")
                await kill(here.running, "api")
            await here.until_over()
        finally:
            stopping.set()
            await notifying
        await assert_paid_once(here)


async def notify(here: Bank, stopping: asyncio.Event) -> None:
    """Be a provider that tells of every outcome by itself, twice and at once."""
    told: set[str] = set()
    while not stopping.is_set():
        await asyncio.sleep(0.2)
        rows = await here.database.fetch(
            "select * from simulated_payout where outcome is not null and company_id > 0"
        )
        for row in rows:
            answer = answer_of(row)
            assert isinstance(answer, Paid | Rejected)
            if row["request_id"] not in told:
                told.add(row["request_id"])
                notice = PayoutNotice(
                    Scope(row["company_id"], "test"),
                    f"notice-{row['request_id']}",
                    row["request_id"],
                    answer,
                )
                await asyncio.gather(
                    *(apply_payout_notice(here.database, notice, now=utc_now()) for _ in range(2))
                )


async def assert_paid_once(here: Bank) -> None:
    company_id = await here.company_id()
    assert await disagreements(here.database, company_id) == []
    rows = await here.database.fetch("select * from withdrawal")
    standing = {row["idempotency_key"]: row for row in rows}
    assert len(standing) == len(rows), "a key holds two withdrawals"
    assert set(standing) == set(here.books.made), "every wish is one withdrawal"
    for key, made in here.books.made.items():
        assert standing[key]["withdrawal_id"] == made["id"]
        fate = {0: "completed", 1: "failed", 2: "completed", 3: "failed"}
        assert standing[key]["status"] == fate[made["amount"] % 100]
    paid = sum(row["net_amount"] for row in rows if row["status"] == "completed")
    executed = await here.database.fetchval(
        "select sum(amount)::bigint from simulated_payout"
        " where outcome = 'executed' and company_id = $1",
        company_id,
    )
    assert executed == paid
    reply = await here.api.get("/v1/balance", key=here.key)
    assert (reply.data["available"], reply.data["inTransit"]) == (FUNDS - paid, 0)
    assert [finding for finding in await audit(here.database) if finding.rows] == []


@asynccontextmanager
async def bank() -> AsyncIterator[Bank]:
    """A demo whose company has money and may call as often as it likes."""
    with tempfile.TemporaryDirectory(prefix="vintem-proof-") as name:
        data, points = Path(name) / "data", Path(name) / "points"
        points.mkdir()
        settings = {"VINTEM_TEST_MODE": "1", "VINTEM_FAILPOINTS": str(points)}
        async with demo(data, settings=settings) as running, client(running) as api:
            words = ["company", "set-limits", running.ready["companyId"]]
            words += ["--withdrawals-per-minute", "1000000", "--requests-per-minute", "1000000"]
            assert (await vintem(*words, "--data", str(data))).status == 0
            database = Database(EmbeddedPostgres(data).url)
            await database.open()
            here = Bank(running, database, api, points)
            try:
                await fund(here)
                yield here
            finally:
                await database.close()


async def fund(here: Bank) -> None:
    async def is_wide() -> bool:
        reply = await here.api.get("/v1/balance", key=here.key)
        return reply.headers["X-RateLimit-Limit"] == "1000000"

    await until(is_wide, seconds=promised(10))
    order = {
        "paymentMethod": "pix",
        "amount": FUNDS,
        "customer": {
            "name": "Cliente de Teste",
            "email": "cliente@example.com",
            "document": {"type": "cpf", "number": "529.982.247-25"},
        },
    }
    made = await here.call("/v1/transactions", order)
    path = f"/v1/sandbox/transactions/{made.data['id']}/simulate"
    assert (await here.call(path, {"status": "paid"})).status == 200


async def kill(running: Running, kind: str) -> None:
    def find() -> list[int]:
        return [child.pid for child in running.children(kind)]

    await until(lambda: bool(find()), seconds=promised(10))
    for pid in find()[:1]:
        os.kill(pid, signal.SIGKILL)
