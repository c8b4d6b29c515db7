"""A company's view of the API: real HTTP, and every answer held against the envelope."""

import re
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from vintem.audit import audit_within
from vintem.companies import service as companies
from vintem.companies.model import Company, Environment, KeyType, Network
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.ledger.model import Scope
from vintem.runtime.db import Database

TEST_PEPPER = "pepper-of-the-tests-0123456789abcdef"
TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")
REQUEST_ID = re.compile(r"req_\d{13}_[0-9a-z]{9}")


@dataclass(frozen=True)
class HttpReply:
    """An answer as an integrator sees it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    json: Any = field(default=None)

    @property
    def data(self) -> Any:
        assert self.json["success"] is True, self.json
        return self.json["data"]


@dataclass(frozen=True)
class Api:
    """Calls one running server."""

    base_url: str
    session: aiohttp.ClientSession

    async def call(
        self,
        method: str,
        path: str,
        *,
        key: str | None = None,
        json: object = None,
        data: bytes | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
    ) -> HttpReply:
        sent = CIMultiDict(headers or {})
        if key is not None:
            sent["x-api-key"] = key
        # The path is sent as it is written here, percent signs and all.
        url = URL(self.base_url + path, encoded=True)
        async with self.session.request(
            method, url, json=json, data=data, headers=sent
        ) as response:
            body = await response.read()
            is_json = response.content_type == "application/json"
            parsed = await response.json() if is_json and body else None
            reply = HttpReply(response.status, response.headers, body, parsed)
        if path.startswith("/v1") and is_json and method != "HEAD":
            assert_envelope(reply)
        return reply

    async def get(self, path: str, **options: Any) -> HttpReply:
        return await self.call("GET", path, **options)

    async def post(self, path: str, **options: Any) -> HttpReply:
        return await self.call("POST", path, **options)


def assert_envelope(reply: HttpReply) -> None:
    """Hold an answer against the envelope, member by member."""
    envelope = reply.json
    assert isinstance(envelope, dict), reply.body
    meta = envelope["meta"]
    assert TIMESTAMP.fullmatch(meta["timestamp"])
    assert REQUEST_ID.fullmatch(meta["requestId"])
    assert meta["version"] == "v1"
    assert reply.headers["x-request-id"] == meta["requestId"]
    if reply.status < 400:
        assert set(envelope) == {"success", "data", "meta"}
        assert set(meta) == {"timestamp", "timezone", "version", "requestId"}
        assert envelope["success"] is True
        assert meta["timezone"] == "America/Sao_Paulo"
        assert isinstance(envelope["data"], dict)
    else:
        assert set(envelope) == {"success", "error", "meta"}
        assert set(meta) == {"timestamp", "version", "requestId"}
        assert envelope["success"] is False
        assert set(envelope["error"]) == {"code", "message", "details"}
        assert envelope["error"]["code"] in ErrorCode.__members__
        assert envelope["error"]["message"]
        assert isinstance(envelope["error"]["details"], dict)
        if envelope["error"]["code"] == ErrorCode.VALIDATION_ERROR:
            errors = envelope["error"]["details"]["errors"]
            assert errors, envelope
            assert all(set(error) == {"field", "message"} for error in errors), errors
            assert all(error["message"] for error in errors), errors


def assert_refused(reply: HttpReply, code: ErrorCode, *, status: int) -> None:
    """Hold a refusal against its code and status."""
    assert reply.json is not None, reply.body
    assert (reply.json["error"]["code"], reply.status) == (code, status), reply.json


@dataclass(frozen=True)
class Tenant:
    """A company with its four keys."""

    company: Company
    sk_test: str
    ck_test: str
    sk_live: str
    ck_live: str


async def new_key(
    database: Database,
    company_id: int,
    key_type: KeyType = KeyType.SECRET,
    environment: Environment = Environment.TEST,
    *,
    networks: tuple[Network, ...] = (),
) -> companies.NewKey:
    return await companies.create_key(
        database,
        company_id,
        key_type=key_type,
        environment=environment,
        allowed_networks=networks,
        pepper=TEST_PEPPER.encode(),
        now=utc_now(),
    )


async def new_tenant(
    database: Database, *, requests_per_minute: int = 100_000, transactions_per_second: int = 5
) -> Tenant:
    company = await companies.create_company(database, "Tenant", now=utc_now())
    company = await companies.set_limits(
        database,
        company.public_id,
        requests_per_minute=requests_per_minute,
        transactions_per_second=transactions_per_second,
    )
    made = [
        (await new_key(database, company.company_id, key_type, environment)).key
        for environment in (Environment.TEST, Environment.LIVE)
        for key_type in (KeyType.SECRET, KeyType.CHECKOUT)
    ]
    return Tenant(company, *made)


def pix_order(amount: int = 10_000, **changed: object) -> dict[str, Any]:
    """The body of a PIX payment, with what a test wants otherwise."""
    return {
        "paymentMethod": "pix",
        "amount": amount,
        "customer": {
            "name": "Cliente de Teste",
            "email": "cliente@example.com",
            "document": {"type": "cpf", "number": "529.982.247-25"},
        },
        **changed,
    }


@dataclass(frozen=True)
class Shop:
    """A company at work in the sandbox: short calls, each of them over HTTP."""

    api: Api
    database: Database
    tenant: Tenant

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant.company.company_id, "test")

    @property
    def key(self) -> str:
        return self.tenant.sk_test

    async def order(self, body: object, *, idempotency_key: str | None = None) -> HttpReply:
        headers = {} if idempotency_key is None else {"X-Idempotency-Key": idempotency_key}
        return await self.api.post("/v1/transactions", key=self.key, json=body, headers=headers)

    async def create(self, amount: int = 10_000, **changed: object) -> Any:
        """A pending payment, as it was answered."""
        reply = await self.order(pix_order(amount, **changed))
        assert reply.status == 201, reply.json
        return reply.data

    async def simulate(self, transaction_id: str, status: str) -> HttpReply:
        path = f"/v1/sandbox/transactions/{transaction_id}/simulate"
        return await self.api.post(path, key=self.key, json={"status": status})

    async def move(self, transaction_id: str, *statuses: str) -> Any:
        """Take a payment from status to status; the last answer."""
        data = None
        for status in statuses:
            reply = await self.simulate(transaction_id, status)
            assert (reply.status, reply.json.get("error")) == (200, None)
            data = reply.data
        return data

    async def paid(self, amount: int = 10_000, **changed: object) -> str:
        """The id of a payment that was made."""
        transaction_id: str = (await self.create(amount, **changed))["id"]
        await self.move(transaction_id, "paid")
        return transaction_id

    async def refund(
        self, transaction_id: str, amount: int | None = None, *, idempotency_key: str | None = None
    ) -> HttpReply:
        headers = {} if idempotency_key is None else {"X-Idempotency-Key": idempotency_key}
        body = None if amount is None else {"amount": amount}
        path = f"/v1/transactions/{transaction_id}/refund"
        return await self.api.post(path, key=self.key, json=body, headers=headers)

    async def read(self, transaction_id: str) -> Any:
        return (await self.api.get(f"/v1/transactions/{transaction_id}", key=self.key)).data

    async def list(self, query: str = "") -> Any:
        return (await self.api.get(f"/v1/transactions{query}", key=self.key)).data

    async def balance(self) -> dict[str, Any]:
        """What stands where, without the moment and the empty fields."""
        data = (await self.api.get("/v1/balance", key=self.key)).data
        return {name: value for name, value in data.items() if value and name not in BALANCE_NOISE}

    async def agree(self, **terms: int) -> None:
        """Change what is agreed with the company; to be done before its first call."""
        columns = ", ".join(f"{column} = {value}" for column, value in terms.items())
        await self.database.execute(
            f"update company set {columns} where company_id = $1", self.scope.company_id
        )

    async def charge(self, *, fixed_cents: int = 0, percent_basis_points: int = 0) -> None:
        """Set the fee of a PIX; to be done before the company's first call."""
        await self.database.execute(
            """
            insert into company_fee (company_id, method, fixed_cents, percent_basis_points)
            values ($1, 'pix', $2, $3)
            """,
            self.scope.company_id,
            fixed_cents,
            percent_basis_points,
        )


BALANCE_NOISE = ("currency", "updatedAt", "nextReleases")


async def new_shop(api: Api, database: Database) -> Shop:
    return Shop(api, database, await new_tenant(database, transactions_per_second=1_000_000))


async def complaints(database: Database) -> dict[str, Sequence[str]]:
    """The invariants that do not hold, with the rows that say so."""
    # On a connection that knows the statements from the last time: a new one takes ten times as
    # long. How to do them it decides anew, for the tables have grown.
    async with database.atomic() as block:
        await block.execute("set local plan_cache_mode = force_custom_plan")
        findings = await audit_within(block)
    return {finding.invariant.name: finding.rows for finding in findings if finding.rows}
