"""Every refusal of a withdrawal says why, and leaves the balance as it was."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.api import Api, assert_refused
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.withdrawals import service as withdrawals
from withdrawals.till import Till, crypto_body, new_till, pix_body

CODE_30_REAIS = (
    "00020126330014BR.GOV.BCB.PIX011197212482404520400005303986540530.005802BR"
    "5918Victor Julio Rocha6006RECIFE62110507VIPSURF630425A1"
)
DYNAMIC = (
    "00020101021226700014br.gov.bcb.pix2548pix.example.com/8b3da2f39a4140d1a91abd93113bd4415204"
    "000053039865802BR5913Fulano de Tal6008BRASILIA62070503***630464E4"
)
WRONG_CRC = (
    "00020126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-4266554400005204000053039865802BR"
    "5913Fulano de Tal6008BRASILIA62070503***63041D3E"
)


@pytest.fixture
async def unmoved(till: Till) -> AsyncIterator[Till]:
    """A company whose balance, records and events must be as before when the test ends."""
    yield till
    assert await till.balance() == {"available": 100_000}
    for table in ("withdrawal", "withdrawal_day", "hold", "decision_log", "implicit_intent"):
        count = await till.database.fetchval(
            f"select count(*) from {table} where company_id = $1", till.company_id
        )
        assert (table, count) == (table, 0)
    await till.check()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "method"),
        (pix_body(method="ted"), "method"),
        ({"method": "pix", "pixKey": "a@b.com", "pixKeyType": "email"}, "amount"),
        ({**pix_body(), "amount": "1000"}, "amount"),
        ({**pix_body(), "amount": 10.5}, "amount"),
        (pix_body(pixKey=None), "pixKey"),
        (pix_body(pixKeyType=None), "pixKeyType"),
        (pix_body(pixKeyType="iban"), "pixKeyType"),
        (pix_body(coin="USDT"), "coin"),
        (pix_body(walletAddress="x"), "walletAddress"),
        (pix_body(netPayout=1), "netPayout"),
        (pix_body(description="x" * 141), "description"),
        (pix_body(externalRef="x" * 121), "externalRef"),
        (pix_body(metadata={"a": {"b": 1}}), "metadata"),
        (pix_body(metadata={"a": "x" * 5_000}), "metadata"),
        (pix_body(surprise=1), "surprise"),
        (crypto_body(coin=None), "coin"),
        (crypto_body(coin="DOGE"), "coin"),
        (crypto_body(walletAddress=None), "walletAddress"),
        (crypto_body(walletNetwork=None), "walletNetwork"),
        (crypto_body(pixKey="a@b.com"), "pixKey"),
    ],
)
async def test_a_wrong_form_is_refused_by_its_field(
    unmoved: Till, body: dict[str, Any], field: str
) -> None:
    reply = await unmoved.ask(body)
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    named = [fault["field"] for fault in reply.json["error"]["details"]["errors"]]
    assert any(name == field or name.startswith(f"{field}.") for name in named), named


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (pix_body(99), ErrorCode.AMOUNT_BELOW_MINIMUM),
        (pix_body(-1), ErrorCode.AMOUNT_BELOW_MINIMUM),
        (pix_body(10_000_000_000), ErrorCode.AMOUNT_ABOVE_MAXIMUM),
        (pix_body(pixKey="nobody"), ErrorCode.INVALID_PIX_KEY),
        (pix_body(pixKey="529.982.247-26", pixKeyType="cpf"), ErrorCode.INVALID_PIX_KEY),
        (pix_body(pixKey="11.222.333/0001-82", pixKeyType="cnpj"), ErrorCode.INVALID_PIX_KEY),
        (pix_body(pixKey="1133334444", pixKeyType="phone"), ErrorCode.INVALID_PIX_KEY),
        (pix_body(pixKey="not-a-uuid", pixKeyType="evp"), ErrorCode.INVALID_PIX_KEY),
        (pix_body(pixKey="a@b.com", pixKeyType="random"), ErrorCode.INVALID_PIX_KEY),
        (pix_body(pixKey=WRONG_CRC, pixKeyType="copypaste"), ErrorCode.INVALID_PIX_KEY),
        (pix_body(pixKey=DYNAMIC, pixKeyType="copypaste"), ErrorCode.INVALID_PIX_KEY),
        (pix_body(2_999, pixKey=CODE_30_REAIS, pixKeyType="copypaste"), ErrorCode.INVALID_PIX_KEY),
        (crypto_body(walletNetwork="BTC"), ErrorCode.UNSUPPORTED_NETWORK),
        (crypto_body(walletNetwork="SOL"), ErrorCode.UNSUPPORTED_NETWORK),
        (crypto_body(coin="BTC"), ErrorCode.UNSUPPORTED_NETWORK),
        (crypto_body(walletAddress="0x" + "0" * 40), ErrorCode.INVALID_WALLET_ADDRESS),
        (crypto_body(walletAddress="0x5"), ErrorCode.INVALID_WALLET_ADDRESS),
        (pix_body(beneficiary={"document": "529.982.247-26"}), ErrorCode.INVALID_DOCUMENT),
        (pix_body(postbackUrl="ftp://example.com/x"), ErrorCode.INVALID_URL),
        (pix_body(postbackUrl="https://10.0.0.1/x"), ErrorCode.INVALID_URL),
    ],
)
async def test_what_cannot_be_paid_is_refused(
    unmoved: Till, body: dict[str, Any], code: ErrorCode
) -> None:
    reply = await unmoved.ask(body)
    assert_refused(reply, code, status=422)
    assert reply.headers["X-Idempotency-Key-Source"] == "generated"


async def test_a_short_balance_is_told_with_what_there_is(unmoved: Till) -> None:
    reply = await unmoved.ask(pix_body(100_001))
    assert_refused(reply, ErrorCode.INSUFFICIENT_BALANCE, status=422)
    assert reply.json["error"]["details"] == {"available": 100_000}


async def test_a_company_that_never_had_money_has_none(api: Api, database: Database) -> None:
    poor = await new_till(api, database)
    reply = await poor.ask(pix_body())
    assert_refused(reply, ErrorCode.INSUFFICIENT_BALANCE, status=422)
    assert reply.json["error"]["details"] == {"available": 0}


async def test_money_that_waits_or_is_held_cannot_be_taken(api: Api, database: Database) -> None:
    till = await new_till(api, database)
    await till.shop.agree(pix_release_days=3)
    await till.fund(5_000)
    assert_refused(await till.ask(pix_body()), ErrorCode.INSUFFICIENT_BALANCE, status=422)
    assert await till.balance() == {"waitingFunds": 5_000}


async def test_a_net_amount_below_the_minimum_is_refused(api: Api, database: Database) -> None:
    till = await new_till(api, database)
    await till.charge("pix_withdrawal", fixed=60)
    await till.charge("crypto_withdrawal", percent=10_000)
    await till.fund(5_000)
    for body in (pix_body(159), crypto_body(500)):
        reply = await till.ask(body)
        assert_refused(reply, ErrorCode.AMOUNT_BELOW_MINIMUM, status=422)
        assert reply.json["error"]["details"] == {"field": "netAmount", "minimum": 100}
    assert await till.balance() == {"available": 5_000}
    assert (await till.take(160))["netAmount"] == 100
    assert (await till.take(159, netPayout=True))["totalDebited"] == 219


async def test_a_debit_above_the_maximum_is_refused(api: Api, database: Database) -> None:
    till = await new_till(api, database)
    await till.charge("pix_withdrawal", fixed=1)
    reply = await till.ask(pix_body(9_999_999_999, netPayout=True))
    assert_refused(reply, ErrorCode.AMOUNT_ABOVE_MAXIMUM, status=422)


async def test_the_checks_come_in_their_order(unmoved: Till) -> None:
    """Fields, then the destination, then limits, then the balance."""
    await unmoved.rule(cents_max=500)
    wrong = pix_body(200_000, pixKey="nobody")
    assert_refused(await unmoved.ask({**wrong, "x": 1}), ErrorCode.VALIDATION_ERROR, status=400)
    assert_refused(await unmoved.ask(wrong), ErrorCode.INVALID_PIX_KEY, status=422)
    reply = await unmoved.ask(pix_body(200_000))
    assert_refused(reply, ErrorCode.WITHDRAWAL_LIMIT_EXCEEDED, status=422)
    await unmoved.rule()
    reply = await unmoved.ask(pix_body(200_000))
    assert_refused(reply, ErrorCode.INSUFFICIENT_BALANCE, status=422)
    await forget_rules(unmoved)


async def test_a_paused_company_or_platform_takes_nothing(unmoved: Till) -> None:
    for company_id in (unmoved.company_id, None):
        await pause(unmoved, company_id, is_paused=True)
        try:
            reply = await unmoved.ask(pix_body())
            assert_refused(reply, ErrorCode.WITHDRAWALS_PAUSED, status=403)
        finally:
            await pause(unmoved, company_id, is_paused=False)
    await forget_rules(unmoved)


async def test_the_live_environment_has_no_provider_yet(till: Till) -> None:
    key = till.shop.tenant.sk_live
    reply = await till.api.post("/v1/withdrawals", key=key, json=pix_body())
    assert_refused(reply, ErrorCode.PROVIDER_NOT_CONFIGURED, status=503)
    testnet = crypto_body(
        coin="BTC", walletNetwork="BTC", walletAddress="mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn"
    )
    reply = await till.api.post("/v1/withdrawals", key=key, json=testnet)
    assert_refused(reply, ErrorCode.INVALID_WALLET_ADDRESS, status=422)
    assert (await till.ask(testnet)).status == 201


async def test_a_checkout_key_takes_nothing(unmoved: Till) -> None:
    key = unmoved.shop.tenant.ck_test
    for method, path in (("POST", ""), ("GET", ""), ("GET", "/wd_x"), ("PATCH", "/wd_x/cancel")):
        reply = await unmoved.api.call(method, f"/v1/withdrawals{path}", key=key, json=None)
        assert_refused(reply, ErrorCode.KEY_TYPE_NOT_ALLOWED, status=403)


async def test_ten_withdrawals_a_minute_are_taken(api: Api, database: Database) -> None:
    from support.api import Shop, new_tenant

    tenant = await new_tenant(database, transactions_per_second=1_000)
    till = Till(Shop(api, database, tenant))
    await till.fund(50_000)
    replies = await asyncio.gather(*(till.ask(pix_body(100 + number)) for number in range(12)))
    assert sorted(reply.status for reply in replies) == [201] * 10 + [429] * 2
    refused = next(reply for reply in replies if reply.status == 429)
    assert_refused(refused, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)
    assert refused.headers["X-RateLimit-Limit"] == "10"
    assert int(refused.headers["Retry-After"]) >= 1
    count = await database.fetchval(
        "select count(*) from withdrawal where company_id = $1", till.company_id
    )
    assert count == 10
    await till.check()


async def pause(till: Till, company_id: int | None, *, is_paused: bool) -> None:
    await withdrawals.pause(
        till.database,
        company_id,
        is_paused=is_paused,
        decided_by="operator:test",
        reason="test",
        now=utc_now(),
    )


async def forget_rules(till: Till) -> None:
    """The decisions of the test itself are not those of a refused call."""
    await till.database.execute("alter table decision_log disable trigger user")
    await till.database.execute("delete from decision_log where company_id = $1", till.company_id)
    await till.database.execute("alter table decision_log enable trigger user")
