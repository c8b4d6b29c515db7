"""The overdraft race: 64 at once against money for k of them, over two API processes."""

import asyncio
import os
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.api import TEST_PEPPER, complaints, new_tenant
from support.platform import client, fresh_database, served
from vintem.companies import service as companies
from vintem.ledger import service as ledger
from vintem.ledger.model import Account, Capture, Scope
from vintem.runtime.db import Database
from withdrawals.till import pix_body

# `PROOF_ROUNDS=5000` is the long proof.
ROUNDS = int(os.environ.get("PROOF_ROUNDS", "50"))
AT_ONCE = 64
AMOUNT = 1_000


@pytest.mark.timeout(300)
async def test_exactly_as_many_succeed_as_there_is_money_for(tmp_path: Path) -> None:
    settings = {"DATABASE_URL": await fresh_database(), "VINTEM_PEPPER": TEST_PEPPER}
    async with served(tmp_path / "data", workers=2, settings=settings) as running:
        database = Database(settings["DATABASE_URL"])
        await database.open()
        tenant = await new_tenant(database, requests_per_minute=10_000_000)
        public_id = tenant.company.public_id
        await companies.set_limits(database, public_id, withdrawals_per_minute=10_000_000)
        scope = Scope(tenant.company.company_id, "test")
        chance = random.Random(7)
        try:
            async with client(running) as api:

                async def withdraw() -> str:
                    reply = await api.post("/v1/withdrawals", key=tenant.sk_test, json=pix_body())
                    return "201" if reply.status == 201 else str(reply.json["error"]["code"])

                for number in range(ROUNDS):
                    k = chance.randrange(0, AT_ONCE + 1)
                    await fund(database, scope, number, k * AMOUNT)
                    outcomes = Counter(await asyncio.gather(*(withdraw() for _ in range(AT_ONCE))))
                    expected = Counter({"201": k, "INSUFFICIENT_BALANCE": AT_ONCE - k})
                    assert outcomes == expected, f"round {number}"
            assert await complaints(database) == {}
        finally:
            await database.close()


async def fund(database: Database, scope: Scope, number: int, amount: int) -> None:
    if amount:
        payment = Capture(scope, f"tx_{number}", Account.BANK, amount, 0)
        async with database.atomic() as block:
            await ledger.capture_many(block, [payment], now=datetime.now(UTC))
