"""Cards in the sandbox: what each number does, tokens that work once, and numbers kept nowhere."""

import asyncio
import base64
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import running_api
from support.acquirer import tell
from support.api import (
    TEST_PEPPER,
    Api,
    HttpReply,
    Tenant,
    assert_refused,
    new_tenant,
)
from vintem.api.transaction_shapes import CardBody, RawCardBody
from vintem.audit import audit
from vintem.brazil.calendar import next_business_day
from vintem.brazil.cards import CardNumber, has_luhn_digit
from vintem.companies import service as companies
from vintem.companies.model import Fee, Method
from vintem.kit.clock import business_day, parse_public_time, utc_now
from vintem.kit.errors import ErrorCode
from vintem.kit.ids import Prefix, is_id
from vintem.ledger.model import Scope
from vintem.providers.port import Card
from vintem.runtime import log as logs
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.transactions import card_tokens
from vintem.transactions import service as transactions

VISA = "4111111111111111"
AMEX = "378282246310005"
CUSTOMER = {
    "name": "Cliente de Teste",
    "email": "cliente@example.com",
    "document": {"type": "cpf", "number": "529.982.247-25"},
}
SEALER = Sealer(TEST_PEPPER.encode())


@pytest.fixture(scope="module", autouse=True)
async def _books(database: Database) -> AsyncIterator[None]:
    """Whatever the tests of this file did, the books agree when they are done."""
    yield
    findings = [finding for finding in await audit(database) if finding.rows]
    assert findings == []


@pytest.fixture
async def merchant(database: Database) -> Tenant:
    """A fresh company that may call as often as a test needs."""
    return await new_tenant(database, transactions_per_second=10_000)


def number_ending_in(last: str, *, first: str = "400000") -> str:
    return next(
        digits
        for middle in range(1_000_000)
        if has_luhn_digit(digits := f"{first}{middle:06}{last}")
    )


def raw_card(number: str = VISA, **changes: object) -> dict[str, Any]:
    card: dict[str, Any] = {
        "number": number,
        "holderName": "CLIENTE DE TESTE",
        "expirationMonth": 12,
        "expirationYear": utc_now().year + 3,
        "cvv": "123",
    }
    return {name: value for name, value in {**card, **changes}.items() if value is not None}


def order(card: Mapping[str, object] | None = None, **changes: object) -> dict[str, Any]:
    made: dict[str, Any] = {
        "paymentMethod": "credit_card",
        "amount": 10_000,
        "customer": CUSTOMER,
        "card": raw_card() if card is None else card,
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


async def create(
    api: Api, tenant: Tenant, body: object, *, key: str | None = None, sk: str | None = None
) -> HttpReply:
    headers = {} if key is None else {"X-Idempotency-Key": key}
    return await api.post("/v1/transactions", key=sk or tenant.sk_test, json=body, headers=headers)


async def tokenise(api: Api, tenant: Tenant, card: object = None) -> str:
    reply = await api.post("/v1/card-tokens", key=tenant.sk_test, json=card or raw_card())
    assert reply.status == 201, reply.json
    token = reply.data["token"]
    assert isinstance(token, str)
    return token


async def read(api: Api, tenant: Tenant, transaction_id: str) -> Any:
    reply = await api.get(f"/v1/transactions/{transaction_id}", key=tenant.sk_test)
    assert reply.status == 200, reply.json
    return reply.data


async def balance(api: Api, tenant: Tenant) -> Any:
    return (await api.get("/v1/balance", key=tenant.sk_test)).data


async def events_of(database: Database, tenant: Tenant, transaction_id: str) -> Sequence[str]:
    rows = await database.fetch(
        "select kind from webhook_event where company_id = $1 and entity_id = $2 order by sequence",
        tenant.company.company_id,
        transaction_id,
    )
    return [row["kind"] for row in rows]


async def tokens_kept(database: Database, tenant: Tenant) -> int:
    kept = await database.fetchval(
        "select count(*) from card_token where company_id = $1", tenant.company.company_id
    )
    return int(kept)


async def pass_seconds(api: Api, database: Database, seconds: float) -> None:
    """Let the worker see everything that is due so many seconds from now."""
    now = utc_now() + timedelta(seconds=seconds)
    await transactions.move_due(database, now=now)
    await tell(api, database, now=now)


# What each number does


@pytest.mark.parametrize(
    ("number", "brand"),
    [(VISA, "visa"), ("5555555555554444", "mastercard"), ("6362970000457013", "elo")],
)
async def test_any_other_number_is_paid_at_once(
    api: Api, merchant: Tenant, database: Database, number: str, brand: str
) -> None:
    reply = await create(api, merchant, order(raw_card(number)))
    assert reply.status == 201
    made = reply.data
    assert made["status"] == "paid"
    assert made["paidAt"] == made["updatedAt"] >= made["createdAt"]
    assert reply.headers["X-Idempotency-Processed-At"] == made["paidAt"]
    assert made["statusReason"] is None
    assert made["refusedReason"] is None
    assert made["pix"] is made["boleto"] is made["pixQrCode"] is made["boletoUrl"] is None
    assert made["interestAmount"] == 0
    assert (made["installments"], made["installmentAmount"]) == (1, 10_000)
    code = made["card"].pop("authorizationCode")
    assert len(code) == 6
    assert made["card"] == {
        "brand": brand,
        "firstDigits": number[:6],
        "lastDigits": number[-4:],
        "holderName": "CLIENTE DE TESTE",
        "expirationMonth": 12,
        "expirationYear": utc_now().year + 3,
    }
    assert (await balance(api, merchant))["waitingFunds"] == 10_000
    assert await events_of(database, merchant, made["id"]) == ["transaction.paid"]
    await pass_seconds(api, database, 60)
    assert (await read(api, merchant, made["id"]))["status"] == "paid"


@pytest.mark.parametrize(
    ("last", "code"),
    [("0002", "CARD_REFUSED"), ("9995", "INSUFFICIENT_FUNDS"), ("0127", "INCORRECT_CVV")],
)
async def test_a_refusal_of_the_issuer_is_a_failed_transaction(
    api: Api, merchant: Tenant, database: Database, last: str, code: str
) -> None:
    reply = await create(api, merchant, order(raw_card(number_ending_in(last))))
    assert reply.status == 201
    made = reply.data
    assert made["status"] == "failed"
    assert made["statusReason"] == "provider"
    assert made["refusedReason"]["code"] == code
    assert made["refusedReason"]["message"]
    assert made["paidAt"] is None
    assert made["card"]["authorizationCode"] is None
    assert made["card"]["lastDigits"] == last
    assert (await balance(api, merchant))["waitingFunds"] == 0
    assert await events_of(database, merchant, made["id"]) == ["transaction.failed"]
    for status in ("paid", "processing", "cancelled"):
        moved = await simulate(api, merchant, made["id"], status)
        assert_refused(moved, ErrorCode.INVALID_STATE, status=409)


async def simulate(api: Api, tenant: Tenant, transaction_id: str, status: str) -> HttpReply:
    return await api.post(
        f"/v1/sandbox/transactions/{transaction_id}/simulate",
        key=tenant.sk_test,
        json={"status": status},
    )


async def test_a_card_in_process_is_paid_after_two_seconds(
    api: Api, merchant: Tenant, database: Database
) -> None:
    made = (await create(api, merchant, order(raw_card(number_ending_in("0119"))))).data
    assert (made["status"], made["paidAt"]) == ("processing", None)
    assert (await balance(api, merchant))["waitingFunds"] == 0
    await tell(api, database, now=moment(made) + timedelta(seconds=1.9))
    assert (await read(api, merchant, made["id"]))["status"] == "processing"
    await pass_seconds(api, database, 3)
    paid = await read(api, merchant, made["id"])
    assert paid["status"] == "paid"
    assert paid["paidAt"] is not None
    assert (await balance(api, merchant))["waitingFunds"] == 10_000
    assert await events_of(database, merchant, made["id"]) == [
        "transaction.processing",
        "transaction.paid",
    ]


def moment(made: Mapping[str, Any]) -> Any:
    return parse_public_time(made["createdAt"])


async def test_a_card_in_process_that_was_moved_by_hand_takes_no_step_later(
    api: Api, merchant: Tenant, database: Database
) -> None:
    made = (await create(api, merchant, order(raw_card(number_ending_in("0119"))))).data
    assert (await simulate(api, merchant, made["id"], "failed")).status == 200
    await pass_seconds(api, database, 3)
    assert (await read(api, merchant, made["id"]))["status"] == "failed"


async def test_a_blocked_card_is_not_paid_until_an_analyst_says_so(
    api: Api, merchant: Tenant, database: Database
) -> None:
    made = (await create(api, merchant, order(raw_card(number_ending_in("0069"))))).data
    assert (made["status"], made["statusReason"]) == ("blocked", "risk")
    assert made["paidAt"] is None
    await pass_seconds(api, database, 60)
    assert (await read(api, merchant, made["id"]))["status"] == "blocked"
    assert (await balance(api, merchant))["waitingFunds"] == 0
    assert_refused(
        await simulate(api, merchant, made["id"], "refunded"), ErrorCode.INVALID_STATE, status=409
    )
    assert (await simulate(api, merchant, made["id"], "paid")).data["status"] == "paid"
    assert (await balance(api, merchant))["waitingFunds"] == 10_000


async def test_a_disputed_card_is_paid_then_warned_about_then_lost(
    api: Api, merchant: Tenant, database: Database
) -> None:
    made = (await create(api, merchant, order(raw_card(number_ending_in("0259"))))).data
    assert made["status"] == "paid"
    assert (await balance(api, merchant))["waitingFunds"] == 10_000

    await tell(api, database, now=moment(made) + timedelta(seconds=3))
    assert (await read(api, merchant, made["id"]))["status"] == "pre_chargeback"
    held = await balance(api, merchant)
    assert (held["waitingFunds"], held["reserve"]) == (0, 10_000)

    await tell(api, database, now=moment(made) + timedelta(seconds=5))
    assert (await read(api, merchant, made["id"]))["status"] == "chargeback"
    lost = await balance(api, merchant)
    assert (lost["waitingFunds"], lost["reserve"], lost["debt"]) == (0, 0, 0)
    assert await events_of(database, merchant, made["id"]) == [
        "transaction.paid",
        "transaction.pre_chargeback",
        "transaction.chargeback",
    ]


async def test_a_worker_that_comes_late_takes_every_step_in_order(
    api: Api, merchant: Tenant, database: Database
) -> None:
    made = (await create(api, merchant, order(raw_card(number_ending_in("0259"))))).data
    await pass_seconds(api, database, 3_600)
    assert (await read(api, merchant, made["id"]))["status"] == "chargeback"
    assert len(await events_of(database, merchant, made["id"])) == 3


async def test_a_disputed_card_that_was_refunded_is_disputed_no_more(
    api: Api, merchant: Tenant, database: Database
) -> None:
    made = (await create(api, merchant, order(raw_card(number_ending_in("0259"))))).data
    refund = await api.post(f"/v1/transactions/{made['id']}/refund", key=merchant.sk_test)
    assert refund.status == 201
    await pass_seconds(api, database, 10)
    assert (await read(api, merchant, made["id"]))["status"] == "refunded"


async def test_a_dispute_is_about_what_was_not_given_back(
    api: Api, merchant: Tenant, database: Database
) -> None:
    made = (await create(api, merchant, order(raw_card(number_ending_in("0259"))))).data
    path = f"/v1/transactions/{made['id']}/refund"
    assert (await api.post(path, key=merchant.sk_test, json={"amount": 4_000})).status == 201
    await tell(api, database, now=moment(made) + timedelta(seconds=3))
    assert (await balance(api, merchant))["reserve"] == 6_000
    refused = await api.post(path, key=merchant.sk_test, json={"amount": 1})
    assert_refused(refused, ErrorCode.TRANSACTION_UNDER_DISPUTE, status=409)


async def test_a_card_is_listed_as_it_was_answered(api: Api, merchant: Tenant) -> None:
    made = (await create(api, merchant, order(installments=2), key="listed")).data
    assert await read(api, merchant, made["id"]) == made
    listed = (
        await api.get("/v1/transactions?paymentMethod=credit_card", key=merchant.sk_test)
    ).data["transactions"]
    assert [each["card"] for each in listed] == [made["card"]]


# Installments, fees and releases


@pytest.mark.parametrize(
    ("amount", "installments", "first", "others"),
    [
        (10_000, 1, 10_000, []),
        (10_000, 3, 3_334, [3_333, 3_333]),
        (10_007, 12, 844, [833] * 11),
        (6_000, 12, 500, [500] * 11),
        (100, 1, 100, []),
    ],
)
async def test_the_remainder_of_installments_is_on_the_first(
    api: Api,
    merchant: Tenant,
    amount: int,
    installments: int,
    first: int,
    others: Sequence[int],
) -> None:
    reply = await create(api, merchant, order(amount=amount, installments=installments))
    made = reply.data
    assert made["installments"] == installments
    assert made["installmentAmount"] == first
    assert first + sum(others) == amount
    now = await balance(api, merchant)
    assert now["waitingFunds"] == amount
    paid_on = business_day(moment(made))
    expected: Counter[str] = Counter()
    for number, part in enumerate([first, *others], 1):
        due_on = next_business_day(paid_on + timedelta(days=30 * number))
        expected[due_on.isoformat()] += part
    assert now["nextReleases"] == [
        {"date": due_on, "amount": part} for due_on, part in sorted(expected.items())[:10]
    ]


@pytest.mark.parametrize(
    ("amount", "installments"),
    [(10_000, 0), (10_000, -1), (100_000, 13), (5_999, 12), (999, 2), (1_499, 3)],
)
async def test_installments_that_no_card_offers_are_refused(
    api: Api, merchant: Tenant, amount: int, installments: int
) -> None:
    reply = await create(api, merchant, order(amount=amount, installments=installments))
    assert_refused(reply, ErrorCode.INVALID_INSTALLMENTS, status=422)


async def test_fees_follow_the_band_of_the_installments(
    api: Api, merchant: Tenant, database: Database
) -> None:
    bands = [(1, 39, 399), (2, 39, 500), (7, 0, 750)]
    for installments_from, fixed, percent in bands:
        fee = Fee(Method.CREDIT_CARD, fixed, percent, installments_from)
        await companies.set_fee(database, merchant.company.public_id, fee)
    expected = {1: 39 + 399, 2: 39 + 500, 6: 39 + 500, 7: 750, 12: 750}
    for installments, fee_cents in expected.items():
        made = (await create(api, merchant, order(installments=installments))).data
        assert (made["fee"], made["netAmount"]) == (fee_cents, 10_000 - fee_cents), installments
    now = await balance(api, merchant)
    assert now["waitingFunds"] == 5 * 10_000 - sum(expected.values())


async def test_the_net_is_what_is_released_in_parts(
    api: Api, merchant: Tenant, database: Database
) -> None:
    await companies.set_fee(
        database, merchant.company.public_id, Fee(Method.CREDIT_CARD, 100, 0, 1)
    )
    made = (await create(api, merchant, order(installments=3))).data
    assert (made["fee"], made["installmentAmount"]) == (100, 3_334)
    releases = (await balance(api, merchant))["nextReleases"]
    assert [each["amount"] for each in releases] == [3_300, 3_300, 3_300]


async def test_a_company_may_have_its_card_money_at_once(
    api: Api, merchant: Tenant, database: Database
) -> None:
    await database.execute(
        "update company set card_release_days = 0 where company_id = $1",
        merchant.company.company_id,
    )
    await create(api, merchant, order(installments=3))
    now = await balance(api, merchant)
    assert (now["available"], now["waitingFunds"]) == (10_000, 0)


# What is refused


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"number": "4111111111111112"}, "number"),
        ({"number": "41111111111111111111"}, "number"),
        ({"number": "4"}, "number"),
        ({"number": "0000000000000000"}, "number"),
        ({"number": "4111 1111 1111 111x"}, "number"),
        ({"holderName": VISA}, "holderName"),
        ({"expirationYear": 2020}, "expirationYear"),
        ({"cvv": "12"}, "cvv"),
        ({"cvv": "1234"}, "cvv"),
        ({"cvv": ""}, "cvv"),
        ({"cvv": "12a"}, "cvv"),
        ({"number": AMEX, "cvv": "123"}, "cvv"),
    ],
)
async def test_a_card_that_cannot_be_is_refused_without_repeating_it(
    api: Api, merchant: Tenant, database: Database, changes: dict[str, Any], field: str
) -> None:
    card = raw_card(**changes)
    for reply in (
        await create(api, merchant, order(card)),
        await api.post("/v1/card-tokens", key=merchant.sk_test, json=card),
    ):
        assert_refused(reply, ErrorCode.INVALID_CARD, status=422)
        assert reply.json["error"]["details"] == {"field": field}
        assert len(card["number"]) < 5 or card["number"].encode() not in reply.body
    assert await tokens_kept(database, merchant) == 0


async def test_a_card_works_until_its_month_is_over(api: Api, merchant: Tenant) -> None:
    today = business_day(utc_now())
    this_month = raw_card(expirationMonth=today.month, expirationYear=today.year)
    assert (await create(api, merchant, order(this_month))).data["status"] == "paid"
    last = today.replace(day=1) - timedelta(days=1)
    last_month = raw_card(expirationMonth=last.month, expirationYear=last.year)
    reply = await create(api, merchant, order(last_month))
    assert_refused(reply, ErrorCode.INVALID_CARD, status=422)


async def test_a_number_may_be_written_in_groups(api: Api, merchant: Tenant) -> None:
    made = (await create(api, merchant, order(raw_card("4111 1111-1111 1111")))).data
    assert (made["card"]["firstDigits"], made["card"]["lastDigits"]) == ("411111", "1111")
    amex = (await create(api, merchant, order(raw_card(AMEX, cvv="1234")))).data
    assert amex["card"]["brand"] == "amex"


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"card": None}, {"card"}),
        ({"card": {}}, {"number", "holderName", "expirationMonth", "expirationYear", "cvv"}),
        ({"card": raw_card(cvv=None)}, {"cvv"}),
        ({"card": raw_card(token="card_x")}, set(raw_card())),
        ({"card": {"token": "card_x", "cvv": "123"}}, {"cvv"}),
        ({"card": raw_card(expirationMonth=13)}, {"expirationMonth"}),
        ({"card": raw_card(expirationMonth="12")}, {"expirationMonth"}),
        ({"card": raw_card(expirationYear=30)}, {"expirationYear"}),
        ({"card": raw_card(4111111111111111)}, {"number"}),  # type: ignore[arg-type]
        ({"card": raw_card(brand="visa")}, {"brand"}),
        ({"paymentMethod": "pix"}, {"card"}),
    ],
)
async def test_a_card_of_the_wrong_form_is_named_field_by_field(
    api: Api, merchant: Tenant, changes: dict[str, Any], fields: set[str]
) -> None:
    body = {**order(), **changes}
    if body["card"] is None:
        del body["card"]
    reply = await create(api, merchant, body)
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    named = {fault["field"] for fault in reply.json["error"]["details"]["errors"]}
    assert named == {field if field == "card" else f"card.{field}" for field in fields}
    assert VISA.encode() not in reply.body


async def test_what_is_wrong_with_the_payment_is_said_before_what_is_wrong_with_the_card(
    api: Api, merchant: Tenant
) -> None:
    card = {"token": "card_unknown"}
    reply = await create(api, merchant, order(card, amount=99))
    assert_refused(reply, ErrorCode.AMOUNT_BELOW_MINIMUM, status=422)
    reply = await create(api, merchant, order(card, installments=13))
    assert_refused(reply, ErrorCode.INVALID_INSTALLMENTS, status=422)


async def test_the_live_environment_charges_no_card_yet(
    api: Api, merchant: Tenant, database: Database
) -> None:
    reply = await create(api, merchant, order(), sk=merchant.sk_live)
    assert_refused(reply, ErrorCode.RAW_CARD_NOT_ALLOWED, status=403)
    reply = await create(api, merchant, order({"token": "card_x"}), sk=merchant.sk_live)
    assert_refused(reply, ErrorCode.PROVIDER_NOT_CONFIGURED, status=503)
    reply = await api.post("/v1/card-tokens", key=merchant.sk_live, json=raw_card())
    assert_refused(reply, ErrorCode.PROVIDER_NOT_CONFIGURED, status=503)
    assert await tokens_kept(database, merchant) == 0


async def test_an_operator_may_allow_cards_themselves_in_the_live_environment(
    merchant: Tenant, settings: Settings, database: Database
) -> None:
    assert not settings.live_raw_cards
    async with running_api(replace(settings, live_raw_cards=True)) as api:
        # Nobody is there yet to charge it: that is the next thing to be looked at.
        reply = await create(api, merchant, order(), sk=merchant.sk_live)
        assert_refused(reply, ErrorCode.PROVIDER_NOT_CONFIGURED, status=503)
        reply = await create(api, merchant, order(amount=99), sk=merchant.sk_live)
        assert_refused(reply, ErrorCode.AMOUNT_BELOW_MINIMUM, status=422)
        assert (await create(api, merchant, order())).status == 201
    assert await tokens_kept(database, merchant) == 0


# Tokens


async def test_a_token_stands_for_its_card_once(
    api: Api, merchant: Tenant, database: Database
) -> None:
    before = utc_now()
    reply = await api.post("/v1/card-tokens", key=merchant.sk_test, json=raw_card())
    assert reply.status == 201
    made = reply.data
    assert set(made) == {"token", "brand", "firstDigits", "lastDigits", "expiresAt"}
    assert (made["brand"], made["firstDigits"], made["lastDigits"]) == ("visa", "411111", "1111")
    assert is_id(made["token"], Prefix.CARD)
    lifetime = parse_public_time(made["expiresAt"]) - before
    assert timedelta(minutes=14, seconds=59) < lifetime < timedelta(minutes=15, seconds=10)

    paid = await create(api, merchant, order({"token": made["token"]}, installments=2))
    assert (paid.status, paid.data["status"]) == (201, "paid")
    assert paid.data["card"]["holderName"] == "CLIENTE DE TESTE"
    assert await tokens_kept(database, merchant) == 0
    again = await create(api, merchant, order({"token": made["token"]}))
    assert_refused(again, ErrorCode.CARD_TOKEN_INVALID, status=422)
    assert made["token"].encode() not in again.body


async def test_two_tokens_of_one_card_have_nothing_in_common(api: Api, merchant: Tenant) -> None:
    first, second = [await tokenise(api, merchant) for _ in range(2)]
    assert first != second
    for token in (first, second):
        assert (await create(api, merchant, order({"token": token}))).status == 201


@pytest.mark.parametrize("last", ["0002", "0119", "0069"])
async def test_every_answer_of_the_issuer_uses_the_token_up(
    api: Api, merchant: Tenant, database: Database, last: str
) -> None:
    token = await tokenise(api, merchant, raw_card(number_ending_in(last)))
    assert (await create(api, merchant, order({"token": token}))).status == 201
    assert await tokens_kept(database, merchant) == 0


@pytest.mark.parametrize(
    "token", ["", "card_", "card_01jd0000000000000000000000", "tx_1", "💳", "card_" + "x" * 43]
)
async def test_an_unknown_token_is_refused(api: Api, merchant: Tenant, token: str) -> None:
    reply = await create(api, merchant, order({"token": token}))
    assert_refused(reply, ErrorCode.CARD_TOKEN_INVALID, status=422)


async def test_sealed_cards_are_in_no_log_of_the_database(database: Database) -> None:
    # What is not logged ahead is in no backup of the log and on no standby.
    kind = await database.fetchval(
        "select relpersistence from pg_class where oid = 'card_token'::regclass"
    )
    assert kind == b"u"


async def test_a_token_ends_after_fifteen_minutes(
    api: Api, merchant: Tenant, database: Database
) -> None:
    token, other = await tokenise(api, merchant), await tokenise(api, merchant)
    await database.execute(
        "update card_token set expires_at = $2 where company_id = $1 and token_digest = $3",
        merchant.company.company_id,
        utc_now(),
        card_tokens.digest_of(SEALER, token),
    )
    reply = await create(api, merchant, order({"token": token}))
    assert_refused(reply, ErrorCode.CARD_TOKEN_INVALID, status=422)
    assert await card_tokens.forget_expired(database, now=utc_now()) >= 1
    assert await tokens_kept(database, merchant) == 1
    assert (await create(api, merchant, order({"token": other}))).status == 201


async def test_a_token_is_of_one_company_and_one_environment(
    api: Api, merchant: Tenant, database: Database
) -> None:
    stranger = await new_tenant(database, transactions_per_second=10_000)
    token = await tokenise(api, merchant)
    reply = await create(api, stranger, order({"token": token}))
    assert_refused(reply, ErrorCode.CARD_TOKEN_INVALID, status=422)

    number = CardNumber.parse(VISA)
    assert number is not None
    card = Card(number, "CLIENTE DE TESTE", 12, utc_now().year + 1, "123")
    live = Scope(merchant.company.company_id, "live")
    live_token = await card_tokens.keep(database, SEALER, live, card, utc_now())
    reply = await create(api, merchant, order({"token": live_token.token}))
    assert_refused(reply, ErrorCode.CARD_TOKEN_INVALID, status=422)
    assert await tokens_kept(database, merchant) == 2
    assert (await create(api, merchant, order({"token": token}))).status == 201


async def test_a_sealed_card_does_not_open_for_another_company(
    api: Api, merchant: Tenant, database: Database
) -> None:
    thief = await new_tenant(database, transactions_per_second=10_000)
    token = await tokenise(api, merchant)
    await database.execute(
        "update card_token set company_id = $2 where company_id = $1",
        merchant.company.company_id,
        thief.company.company_id,
    )
    reply = await create(api, thief, order({"token": token}))
    assert_refused(reply, ErrorCode.CARD_TOKEN_INVALID, status=422)


async def test_a_create_that_is_refused_does_not_use_the_token_up(
    api: Api, merchant: Tenant
) -> None:
    token = await tokenise(api, merchant)
    by_token = order({"token": token})
    assert (await create(api, merchant, order(), key="taken")).status == 201
    refused = [
        await create(api, merchant, {**by_token, "installments": 13}),
        await create(api, merchant, {**by_token, "amount": 1}),
        await create(api, merchant, by_token, key="taken"),
    ]
    assert [reply.json["error"]["code"] for reply in refused] == [
        "INVALID_INSTALLMENTS",
        "AMOUNT_BELOW_MINIMUM",
        "IDEMPOTENCY_KEY_REUSED",
    ]
    assert (await create(api, merchant, by_token, key="free")).status == 201


async def test_a_repeat_is_answered_although_the_token_is_spent(
    api: Api, merchant: Tenant, database: Database
) -> None:
    by_token = order({"token": await tokenise(api, merchant)})
    first = await create(api, merchant, by_token, key="order-1")
    assert first.status == 201
    again = await create(api, merchant, by_token, key="order-1")
    assert (again.status, again.headers["x-idempotency-replayed"]) == (200, "true")
    assert again.data == first.data
    other = await create(api, merchant, {**by_token, "amount": 20_000}, key="order-1")
    assert_refused(other, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)
    assert (await balance(api, merchant))["waitingFunds"] == 10_000
    assert len(await events_of(database, merchant, first.data["id"])) == 1


async def test_a_repeat_with_the_card_itself_charges_once(api: Api, merchant: Tenant) -> None:
    replies = await asyncio.gather(
        *(create(api, merchant, order(), key="order-1") for _ in range(16))
    )
    assert Counter(reply.status for reply in replies) == {201: 1, 200: 15}
    assert len({reply.data["id"] for reply in replies}) == 1
    assert (await balance(api, merchant))["waitingFunds"] == 10_000
    other = await create(api, merchant, order(raw_card(cvv="124")), key="order-1")
    assert_refused(other, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)


@pytest.mark.parametrize("has_keys", [True, False])
async def test_of_sixteen_at_once_exactly_one_uses_the_token(
    api: Api, merchant: Tenant, database: Database, has_keys: bool
) -> None:
    by_token = order({"token": await tokenise(api, merchant)})
    replies = await asyncio.gather(
        *(
            create(api, merchant, by_token, key=f"order-{number}" if has_keys else None)
            for number in range(16)
        )
    )
    assert Counter(reply.status for reply in replies) == {201: 1, 422: 15}
    for reply in replies:
        if reply.status == 422:
            assert_refused(reply, ErrorCode.CARD_TOKEN_INVALID, status=422)
    made = await database.fetchval(
        "select count(*) from transaction where company_id = $1", merchant.company.company_id
    )
    assert made == 1
    assert (await balance(api, merchant))["waitingFunds"] == 10_000


async def test_of_sixteen_repeats_at_once_one_creates_and_the_others_are_answered(
    api: Api, merchant: Tenant
) -> None:
    by_token = order({"token": await tokenise(api, merchant)})
    replies = await asyncio.gather(
        *(create(api, merchant, by_token, key="order-1") for _ in range(16))
    )
    assert Counter(reply.status for reply in replies) == {201: 1, 200: 15}
    assert len({reply.data["id"] for reply in replies}) == 1


async def test_one_key_with_sixteen_tokens_uses_one_of_them_up(
    api: Api, merchant: Tenant, database: Database
) -> None:
    tokens = [await tokenise(api, merchant) for _ in range(16)]
    replies = await asyncio.gather(
        *(create(api, merchant, order({"token": token}), key="order-1") for token in tokens)
    )
    assert Counter(reply.status for reply in replies) == {201: 1, 422: 15}
    assert await tokens_kept(database, merchant) == 15


async def test_only_a_secret_key_makes_tokens(api: Api, merchant: Tenant) -> None:
    reply = await api.post("/v1/card-tokens", key=merchant.ck_test, json=raw_card())
    assert_refused(reply, ErrorCode.KEY_TYPE_NOT_ALLOWED, status=403)
    assert_refused(
        await api.post("/v1/card-tokens", json=raw_card()), ErrorCode.MISSING_API_KEY, status=401
    )


async def test_tokens_and_transactions_share_one_limit(api: Api, database: Database) -> None:
    for _ in range(3):
        tenant = await new_tenant(database, transactions_per_second=2)
        began = time.monotonic()
        made = [
            await api.post("/v1/card-tokens", key=tenant.sk_test, json=raw_card()),
            await create(api, tenant, order()),
        ]
        refused = [
            await api.post("/v1/card-tokens", key=tenant.sk_test, json=raw_card()),
            await create(api, tenant, order()),
            await api.get("/v1/transactions", key=tenant.sk_test),
        ]
        # The window is a second.
        if time.monotonic() - began < 1:
            break
    else:
        pytest.fail("five calls took longer than a second")
    for reply, left in zip(made, ("1", "0"), strict=True):
        assert reply.status == 201
        assert reply.headers["x-ratelimit-limit"] == "2"
        assert reply.headers["x-ratelimit-remaining"] == left
    for reply in refused:
        assert_refused(reply, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)


# Numbers are kept nowhere


async def test_no_number_and_no_cvv_is_at_rest_anywhere(
    api: Api, merchant: Tenant, database: Database
) -> None:
    holder, cvv = "TITULAR PROCURADO", "8642"
    raw, spent, waiting, wrong, refused = numbers = [
        number_ending_in(last, first="37828") for last in ("1111", "2222", "3333", "4444", "5555")
    ]

    def card(number: str, **changes: object) -> dict[str, Any]:
        return raw_card(number, **{"holderName": holder, "cvv": cvv, **changes})

    token = await tokenise(api, merchant, card(spent))
    replies = [
        await create(api, merchant, order(card(raw)), key="scanned"),
        await create(api, merchant, order(card(raw)), key="scanned"),
        await create(api, merchant, order({"token": token})),
        await api.post("/v1/card-tokens", key=merchant.sk_test, json=card(waiting)),
        await create(api, merchant, order(card(wrong, cvv="86420"))),
        await create(api, merchant, order(card(refused), installments=13)),
        await create(api, merchant, order(card(refused), amount="100")),
        await create(api, merchant, order(card(number_ending_in("0259"), cvv="864"))),
    ]
    assert [reply.status for reply in replies] == [201, 200, 201, 201, 422, 422, 400, 201]
    await pass_seconds(api, database, 10)
    assert await tokens_kept(database, merchant) == 1

    places = {**everything_logged(), **await everything_stored(database)}
    places.update({f"answer {place}": reply.body for place, reply in enumerate(replies)})
    assert any(holder.encode() in content for content in places.values()), "the scan is blind"
    # A bare CVV is found in any long number; as a value of JSON it can only be one.
    wanted = [b'"cvv":', b'"8642"', b'"86420"', b'"864"']
    wanted += [form for each in (*numbers, number_ending_in("0259")) for form in forms_of(each)]
    found = [place for place, content in places.items() for form in wanted if form in content]
    assert found == []


def everything_logged() -> Mapping[str, bytes]:
    """Every file of the run's log folder: the calls, the events, and what PostgreSQL said."""
    logs.flush_access()
    folder = Path(os.environ["TEST_LOG_FOLDER"])
    return {str(file): file.read_bytes() for file in folder.iterdir() if file.is_file()}


def forms_of(number: str) -> list[bytes]:
    groups = [number[start : start + 4] for start in range(0, len(number), 4)]
    forms = [number.encode(), " ".join(groups).encode(), "-".join(groups).encode()]
    forms += [number[::-1].encode(), number.encode().hex().encode()]
    return [*forms, base64.b64encode(number.encode())[:16]]


async def everything_stored(database: Database) -> Mapping[str, bytes]:
    """Every column of every table of the database, as one run of bytes each."""
    columns = await database.fetch(
        """
        select table_name, column_name, data_type from information_schema.columns
        where table_schema = 'public'
        """
    )
    stored = {}
    for column in columns:
        table, name = column["table_name"], column["column_name"]
        kind = "bytea" if column["data_type"] == "bytea" else "text"
        rows = await database.fetch(
            f'select "{name}"::{kind} as value from "{table}" where "{name}" is not null'
        )
        values = [row["value"] for row in rows]
        stored[f"{table}.{name}"] = b"\n".join(
            value if isinstance(value, bytes) else value.encode() for value in values
        )
    assert {"transaction.details", "card_token.card_sealed", "webhook_event.body"} <= set(stored)
    assert b"0259" in stored["simulator_charge.last_four"]
    assert b"dispute.lost" in stored["simulator_callback.body"]
    assert b"dispute.lost" in stored["provider_callback.kind"]
    assert stored["provider_request.transaction_id"]
    return stored


def test_a_card_is_never_printed() -> None:
    number = CardNumber.parse(VISA)
    assert number is not None
    shown = repr(Card(number, "CLIENTE DE TESTE", 12, 2030, "987"))
    shown += repr(RawCardBody(VISA, "CLIENTE DE TESTE", 12, 2030, "987"))
    shown += repr(CardBody(number=VISA, cvv="987"))
    assert VISA not in shown
    assert "987" not in shown
