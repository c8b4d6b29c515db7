"""A company that takes money out, over HTTP, with a worker that a test winds by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from support.api import TEST_PEPPER, Api, HttpReply, Shop, complaints, new_shop
from vintem.companies import service as companies
from vintem.companies.model import Environment, WithdrawalRules
from vintem.kit.clock import utc_now
from vintem.providers.payout_simulator import PayoutSimulator
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.dispatch import Dispatcher

WALLET = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@dataclass
class Clock:
    """A clock that goes on when it is told to, ahead of the real one."""

    ahead: timedelta = field(default_factory=timedelta)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def wait(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


def pix_body(amount: int = 1_000, **changed: object) -> dict[str, Any]:
    return {
        "method": "pix",
        "amount": amount,
        "pixKey": "cliente@example.com",
        "pixKeyType": "email",
        **changed,
    }


def crypto_body(amount: int = 10_000, **changed: object) -> dict[str, Any]:
    return {
        "method": "crypto",
        "amount": amount,
        "coin": "USDT",
        "walletAddress": WALLET,
        "walletNetwork": "ERC20",
        **changed,
    }


@dataclass(frozen=True)
class Till:
    """A company's withdrawals: short calls, each of them over HTTP."""

    shop: Shop
    clock: Clock = field(default_factory=Clock)

    @property
    def api(self) -> Api:
        return self.shop.api

    @property
    def key(self) -> str:
        return self.shop.key

    @property
    def database(self) -> Database:
        return self.shop.database

    @property
    def company_id(self) -> int:
        return self.shop.scope.company_id

    @property
    def simulator(self) -> PayoutSimulator:
        return PayoutSimulator(self.database, clock=self.clock)

    def dispatcher(self, **faults: Any) -> Dispatcher:
        provider = PayoutSimulator(self.database, clock=self.clock, **faults)
        return Dispatcher(
            self.database,
            provider,
            Sealer(TEST_PEPPER.encode()),
            Environment.TEST,
            clock=self.clock,
        )

    async def fund(self, amount: int) -> None:
        await self.shop.paid(amount)

    async def ask(self, body: object, *, idempotency_key: str | None = None) -> HttpReply:
        headers = {} if idempotency_key is None else {"X-Idempotency-Key": idempotency_key}
        return await self.api.post("/v1/withdrawals", key=self.key, json=body, headers=headers)

    async def take(self, amount: int = 1_000, **changed: object) -> Any:
        """A withdrawal by PIX, as it was answered."""
        reply = await self.ask(pix_body(amount, **changed))
        assert reply.status == 201, reply.json
        return reply.data

    async def read(self, withdrawal_id: str) -> Any:
        return (await self.api.get(f"/v1/withdrawals/{withdrawal_id}", key=self.key)).data

    async def status(self, withdrawal_id: str) -> str:
        return str((await self.read(withdrawal_id))["status"])

    async def list(self, query: str = "") -> Any:
        return (await self.api.get(f"/v1/withdrawals{query}", key=self.key)).data

    async def cancel(self, withdrawal_id: str) -> HttpReply:
        return await self.api.call("PATCH", f"/v1/withdrawals/{withdrawal_id}/cancel", key=self.key)

    async def simulate(self, withdrawal_id: str, status: str, **more: object) -> HttpReply:
        path = f"/v1/sandbox/withdrawals/{withdrawal_id}/simulate"
        return await self.api.post(path, key=self.key, json={"status": status, **more})

    async def work(self, *, after: float = 0.0, **faults: Any) -> None:
        """Let a worker come by, some seconds later."""
        self.clock.wait(after)
        dispatcher = self.dispatcher(**faults)
        await dispatcher.run()
        await dispatcher.close()

    async def rule(self, **rules: Any) -> None:
        await withdrawals.set_rules(
            self.database,
            self.company_id,
            WithdrawalRules(**rules),
            decided_by="operator:test",
            now=utc_now(),
        )

    async def charge(self, method: str, *, fixed: int = 0, percent: int = 0) -> None:
        """Set a fee of withdrawals; to be done before the company's first call."""
        await self.database.execute(
            """
            insert into company_fee (company_id, method, fixed_cents, percent_basis_points)
            values ($1, $2, $3, $4)
            """,
            self.company_id,
            method,
            fixed,
            percent,
        )

    async def balance(self) -> dict[str, Any]:
        return await self.shop.balance()

    async def events(self, withdrawal_id: str) -> Sequence[str]:
        rows = await self.database.fetch(
            "select event_id from webhook_event where company_id = $1 and entity_id = $2"
            " order by sequence",
            self.company_id,
            withdrawal_id,
        )
        return [row["event_id"].rpartition(":")[2] for row in rows]

    async def decisions(self, subject: str) -> Sequence[tuple[str, str]]:
        rows = await self.database.fetch(
            "select decision, decided_by from decision_log where company_id = $1 and subject = $2"
            " order by created_at, decision_id",
            self.company_id,
            subject,
        )
        return [(row["decision"], row["decided_by"]) for row in rows]

    async def check(self) -> None:
        """Nothing is wrong: by our own invariants, and by the provider's own books."""
        assert await complaints(self.database) == {}
        assert await disagreements(self.database, self.company_id) == []


async def disagreements(database: Database, company_id: int) -> Sequence[str]:
    """Compare what the provider did with what we say, request by request."""
    rows = await database.fetch(
        """
        select company_id, request_id, p.outcome, p.executions, p.amount, w.status, w.net_amount
        from simulated_payout p full join (
            select company_id, request_id, status, net_amount from withdrawal
            where request_id is not null
        ) w using (company_id, request_id)
        where company_id = $1
        """,
        company_id,
    )
    found = []
    for row in rows:
        name, status, outcome = row["request_id"], row["status"], row["outcome"]
        if row["executions"] is not None and row["executions"] > 1:
            found.append(f"{name} was executed {row['executions']} times")
        if outcome is not None and status is None:
            found.append(f"{name} was executed or rejected, and nobody asked for it")
        if outcome == "executed" and status != "completed":
            found.append(f"{name} was executed and is {status}")
        if outcome != "executed" and status == "completed":
            found.append(f"{name} is completed and was {outcome}")
        if row["amount"] is not None and row["amount"] != row["net_amount"]:
            found.append(f"{name} was sent as {row['amount']}, not as {row['net_amount']}")
    return found


async def new_till(api: Api, database: Database, *, funds: int = 0) -> Till:
    till = Till(await new_shop(api, database))
    await companies.set_limits(
        database, till.shop.tenant.company.public_id, withdrawals_per_minute=1_000_000
    )
    if funds:
        await till.fund(funds)
    return till
