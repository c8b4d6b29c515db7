"""A request that is wrong in every way is refused for one reason after the other."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vintem.companies import service as companies
from vintem.companies.model import ImplicitProtection
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.withdrawals import service as withdrawals
from withdrawals.till import Till, pix_body

DOCUMENT = (Path(__file__).parents[2] / "docs/interface.md").read_text()
WRONG_KEY = {"pixKey": "nobody"}
WRONG_URL = {"postbackUrl": "https://10.0.0.1/"}
WRONG_DOCUMENT = {"beneficiary": {"document": "1"}}


def written_order() -> Sequence[str]:
    """The reasons that the documents give, those of crypto aside."""
    table = DOCUMENT.partition("| Refusal, in the order of the checks | When |")[2]
    rows = table.partition("\n\n")[0].splitlines()[2:]
    codes = [re.findall(r"`([A-Z_]+)`", row.split("|")[1]) for row in rows]
    of_crypto = {"UNSUPPORTED_NETWORK", "INVALID_WALLET_ADDRESS", "PROVIDER_ERROR"}
    return [code for row in codes for code in row if code not in of_crypto]


async def test_the_checks_come_in_the_order_that_is_written(till: Till) -> None:
    public_id = till.shop.tenant.company.public_id
    await companies.set_implicit_protection(till.database, public_id, ImplicitProtection.ENFORCE)
    await till.take(60_000)
    await till.rule(cents_max=1, daily_cents_max=1)
    await pause(till, is_paused=True)
    heard = []

    async def ask(amount: int, *changes: dict[str, Any], key: str = till.key) -> dict[str, Any]:
        body: dict[str, Any] = pix_body(amount)
        for change in changes:
            body |= change
        reply = await till.api.post("/v1/withdrawals", key=key, json=body)
        error: dict[str, Any] = reply.json["error"]
        heard.append(error["code"])
        return error

    await ask(99, WRONG_DOCUMENT, WRONG_KEY, WRONG_URL)
    await ask(10_000_000_000, WRONG_DOCUMENT, WRONG_KEY, WRONG_URL)
    await ask(60_000, WRONG_DOCUMENT, WRONG_KEY, WRONG_URL)
    await ask(60_000, WRONG_KEY, WRONG_URL)
    await ask(60_000, WRONG_URL)
    await ask(60_000, key=till.shop.tenant.sk_live)
    await ask(60_000)
    await pause(till, is_paused=False)
    assert (await ask(60_000))["details"] == {"limit": "withdrawal", "maximum": 1}
    await till.rule(daily_cents_max=1)
    await ask(60_000)
    await companies.set_implicit_protection(till.database, public_id, ImplicitProtection.OFF)
    assert (await ask(60_000))["details"] == {"limit": "day", "maximum": 1}
    await till.rule()
    assert (await ask(60_000))["details"] == {"available": 40_000}
    assert heard == written_order()
    assert heard[-1] == ErrorCode.INSUFFICIENT_BALANCE
    await till.check()


async def pause(till: Till, *, is_paused: bool) -> None:
    await withdrawals.pause(
        till.database,
        till.company_id,
        is_paused=is_paused,
        decided_by="operator:test",
        reason="test",
        now=utc_now(),
    )
