"""A PIX payment as an integrator asks for it and sees it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.api import TIMESTAMP, Api, Shop, assert_refused, complaints, new_shop, pix_order
from vintem.brazil.br_code import BrCodeKind, parse_br_code
from vintem.kit.clock import parse_public_time
from vintem.kit.errors import ErrorCode
from vintem.kit.ids import Prefix, is_id
from vintem.runtime.db import Database

FIELDS = {
    *("id", "companyId", "environment", "status", "statusReason", "amount", "currency"),
    *("paymentMethod", "installments", "installmentAmount", "interestAmount", "fee", "netAmount"),
    *("refundedAmount", "customer", "items", "shipping", "externalRef", "description", "metadata"),
    *("postbackUrl", "pix", "boleto", "card", "refusedReason", "refunds", "checkoutSessionId"),
    *("createdAt", "updatedAt", "paidAt", "expiresAt", "cancelledAt", "refundedAt"),
    *("pixQrCode", "pixQrCodeImage"),
}
ADDRESS = {
    "street": "Avenida Paulista",
    "streetNumber": "1578",
    "neighborhood": "Bela Vista",
    "zipCode": "01310-200",
    "city": "São Paulo",
    "state": "SP",
    "country": "BR",
}


@pytest.fixture
async def shop(api: Api, database: Database) -> Shop:
    return await new_shop(api, database)


@pytest.fixture
async def audited(database: Database) -> AsyncIterator[None]:
    """For tests that move money: no invariant complains afterwards."""
    yield
    assert await complaints(database) == {}


def customer(**changed: object) -> dict[str, object]:
    return {**pix_order()["customer"], **changed}


def document(kind: object, number: object) -> dict[str, Any]:
    return {"customer": customer(document={"type": kind, "number": number})}


def items_at(*unit_prices: int) -> dict[str, Any]:
    items = [{"title": "x", "unitPrice": price, "quantity": 1} for price in unit_prices]
    return {"items": items}


async def test_a_bare_order_is_answered_with_every_field(shop: Shop) -> None:
    reply = await shop.order(pix_order(12_345))
    assert reply.status == 201
    data = reply.data
    assert FIELDS <= set(data) <= FIELDS | {"boletoUrl"}
    assert data.get("boletoUrl") is None
    assert is_id(data["id"], Prefix.TRANSACTION)
    assert data["companyId"] == shop.tenant.company.public_id
    expected: dict[str, object] = {
        "environment": "test",
        "status": "pending",
        "statusReason": None,
        "amount": 12_345,
        "currency": "BRL",
        "paymentMethod": "pix",
        "installments": 1,
        "installmentAmount": 12_345,
        "interestAmount": 0,
        "fee": 0,
        "netAmount": 12_345,
        "refundedAmount": 0,
        "customer": {
            "name": "Cliente de Teste",
            "email": "cliente@example.com",
            "document": {"type": "cpf", "number": "52998224725"},
            "phone": None,
            "address": None,
            "externalRef": None,
        },
        "items": [],
        "shipping": None,
        "externalRef": None,
        "description": None,
        "metadata": {},
        "postbackUrl": None,
        "boleto": None,
        "card": None,
        "refusedReason": None,
        "refunds": [],
        "checkoutSessionId": None,
        "paidAt": None,
        "cancelledAt": None,
        "refundedAt": None,
    }
    assert {name: data[name] for name in expected} == expected
    assert set(data["pix"]) == {"qrCode", "qrCodeImage", "txid", "endToEndId", "expiresAt"}
    assert data["pix"]["endToEndId"] is None
    assert data["createdAt"] == data["updatedAt"] == reply.json["meta"]["timestamp"]
    assert TIMESTAMP.fullmatch(data["expiresAt"])
    lifetime = parse_public_time(data["expiresAt"]) - parse_public_time(data["createdAt"])
    assert lifetime.total_seconds() == 3_600
    assert data["pix"]["expiresAt"] == data["expiresAt"]


async def test_the_code_says_what_is_to_be_paid_and_to_whom(shop: Shop) -> None:
    data = await shop.create(123_456_789)
    code = parse_br_code(data["pixQrCode"])
    assert code is not None
    assert code.kind is BrCodeKind.STATIC
    assert code.amount_cents == 123_456_789
    assert code.txid == data["id"].removeprefix("tx_")[1:] == data["pix"]["txid"]
    assert (code.merchant_name, code.merchant_city) == ("Tenant", "SAO PAULO")
    assert data["pixQrCode"] == data["pix"]["qrCode"]
    assert data["pixQrCodeImage"] == data["pix"]["qrCodeImage"]
    assert "/v1/pix/" in data["pixQrCodeImage"]
    assert data["pixQrCodeImage"].endswith(".svg")
    assert data["id"] not in data["pixQrCodeImage"]


async def test_a_full_order_is_shown_again_as_it_was_asked_for(shop: Shop) -> None:
    order = pix_order(
        3_500,
        currency="BRL",
        installments=1,
        customer=customer(
            name='Conceição d\'Ávila "Zé" \\ 日本',
            phone="(11) 98765-4321",
            address={**ADDRESS, "complement": "conj. 12"},
            externalRef="c-1",
        ),
        items=[
            {"title": "Livro", "unitPrice": 1_000, "quantity": 2},
            {
                "title": "Caneta",
                "unitPrice": 500,
                "quantity": 1,
                "tangible": True,
                "externalRef": "i",
            },
        ],
        shipping={"fee": 1_000, "address": ADDRESS},
        pix={"expiresInSeconds": 2_592_000},
        externalRef="order 1",
        description="Pedido nº 1",
        metadata={"a": "1", "b": 2, "c": 2.5, "d": True, "e": None, "f": -1, "g": 1.0, "h": 1e20},
        ip="2001:db8::1",
    )
    data = await shop.create(**order)
    assert data["customer"] == {
        **order["customer"],
        "document": {"type": "cpf", "number": "52998224725"},
        "phone": "+5511987654321",
    }
    defaults = {"tangible": False, "externalRef": None}
    assert data["items"] == [{**defaults, **item} for item in order["items"]]
    assert data["shipping"] == {"fee": 1_000, "address": {**ADDRESS, "complement": None}}
    for name in ("externalRef", "description", "metadata"):
        assert data[name] == order[name]
    assert await shop.read(data["id"]) == data


@pytest.mark.parametrize("amount", [100, 9_999_999_999])
@pytest.mark.usefixtures("audited")
async def test_the_smallest_and_the_greatest_amount_are_payable(shop: Shop, amount: int) -> None:
    data = await shop.create(amount)
    await shop.move(data["id"], "paid")
    assert await shop.balance() == {"available": amount}


REFUSED: dict[str, tuple[dict[str, Any], ErrorCode, int]] = {
    "one cent too little": ({"amount": 99}, ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
    "nothing": ({"amount": 0}, ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
    "less than nothing": ({"amount": -10_000}, ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
    "one cent too much": ({"amount": 10_000_000_000}, ErrorCode.AMOUNT_ABOVE_MAXIMUM, 422),
    "beyond 64 bits": ({"amount": 2**63}, ErrorCode.AMOUNT_ABOVE_MAXIMUM, 422),
    "item for nothing": (items_at(0), ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
    "item for less than nothing": (items_at(1, -1), ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
    "item for too much": (items_at(10_000_000_000), ErrorCode.AMOUNT_ABOVE_MAXIMUM, 422),
    "item beyond 64 bits": (items_at(2**63), ErrorCode.AMOUNT_ABOVE_MAXIMUM, 422),
    "negative shipping": ({"shipping": {"fee": -1}}, ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
    "shipping for too much": (
        {"shipping": {"fee": 10_000_000_000}},
        ErrorCode.AMOUNT_ABOVE_MAXIMUM,
        422,
    ),
    "CPF with a wrong digit": (document("cpf", "52998224724"), ErrorCode.INVALID_DOCUMENT, 422),
    "CPF of one digit": (document("cpf", "111.111.111-11"), ErrorCode.INVALID_DOCUMENT, 422),
    "CPF that is a CNPJ": (document("cpf", "11444777000161"), ErrorCode.INVALID_DOCUMENT, 422),
    "CNPJ that is a CPF": (document("cnpj", "52998224725"), ErrorCode.INVALID_DOCUMENT, 422),
    "CNPJ with a wrong digit": (
        document("cnpj", "12.ABC.345/01DE-36"),
        ErrorCode.INVALID_DOCUMENT,
        422,
    ),
    "CPF in other digits": (
        document("cpf", "５２９９８２２４７２５"),
        ErrorCode.INVALID_DOCUMENT,
        422,
    ),
    "document of letters": (document("cpf", "x"), ErrorCode.INVALID_DOCUMENT, 422),
    "two installments": ({"installments": 2}, ErrorCode.INVALID_INSTALLMENTS, 422),
    "no installment": ({"installments": 0}, ErrorCode.INVALID_INSTALLMENTS, 422),
    "items that do not add up": (
        {"items": [{"title": "x", "unitPrice": 9_999, "quantity": 1}]},
        ErrorCode.ITEMS_TOTAL_MISMATCH,
        422,
    ),
    "items that add up without shipping": (
        {"items": [{"title": "x", "unitPrice": 10_000, "quantity": 1}], "shipping": {"fee": 1}},
        ErrorCode.ITEMS_TOTAL_MISMATCH,
        422,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_cannot_be_paid_is_refused_and_leaves_nothing(shop: Shop, case: str) -> None:
    changed, code, status = REFUSED[case]
    reply = await shop.order({**pix_order(), **changed}, idempotency_key="refused")
    assert_refused(reply, code, status=status)
    assert (await shop.list())["pagination"]["total"] == 0
    # Nothing was recorded: the same key is free for an order that can be paid.
    assert (await shop.order(pix_order(), idempotency_key="refused")).status == 201


@pytest.mark.parametrize(
    ("changed", "details"),
    [
        ({"amount": 99}, {"field": "amount", "minimum": 100}),
        ({"amount": 10_000_000_000}, {"field": "amount", "maximum": 9_999_999_999}),
        (items_at(10_000, 0), {"field": "items[1].unitPrice", "minimum": 1}),
        (items_at(10_000_000_000), {"field": "items[0].unitPrice", "maximum": 9_999_999_999}),
        ({"shipping": {"fee": -1}}, {"field": "shipping.fee", "minimum": 0}),
    ],
)
async def test_an_amount_out_of_bounds_is_named_with_its_bound(
    shop: Shop, changed: dict[str, Any], details: dict[str, object]
) -> None:
    reply = await shop.order({**pix_order(), **changed})
    assert reply.status == 422
    assert reply.json["error"]["details"] == details


async def test_a_key_that_was_used_is_told_before_a_price_that_cannot_be(shop: Shop) -> None:
    assert (await shop.order(pix_order(), idempotency_key="used")).status == 201
    reply = await shop.order({**pix_order(), **items_at(0)}, idempotency_key="used")
    assert_refused(reply, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "amount as text": ({"amount": "10000"}, "amount"),
    "amount with a fraction": ({"amount": 100.5}, "amount"),
    "amount of a truth": ({"amount": True}, "amount"),
    "unknown method": ({"paymentMethod": "cash"}, "paymentMethod"),
    "other currency": ({"currency": "USD"}, "currency"),
    "unknown field": ({"amuont": 1}, "amuont"),
    "unknown field of the customer": ({"customer": customer(cpf="1")}, "customer.cpf"),
    "unknown field of the code": ({"pix": {"expiresIn": 60}}, "pix.expiresIn"),
    "short life": ({"pix": {"expiresInSeconds": 59}}, "pix.expiresInSeconds"),
    "long life": ({"pix": {"expiresInSeconds": 2_592_001}}, "pix.expiresInSeconds"),
    "no customer": ({"customer": None}, "customer"),
    "short name": ({"customer": customer(name="Zé")}, "customer.name"),
    "long name": ({"customer": customer(name="x" * 101)}, "customer.name"),
    "no e-mail": ({"customer": customer(email="cliente")}, "customer.email"),
    "e-mail with a line break": ({"customer": customer(email="a@b.com\n")}, "customer.email"),
    "telephone": ({"customer": customer(phone="123")}, "customer.phone"),
    "telephone of nine digits": ({"customer": customer(phone="118765432")}, "customer.phone"),
    "telephone of 14 digits": ({"customer": customer(phone="55119876543210")}, "customer.phone"),
    "telephone with a word": ({"customer": customer(phone="1187654321 ramal")}, "customer.phone"),
    "document type": (document("rg", "52998224725"), "customer.document.type"),
    "document as number": (document("cpf", 52998224725), "customer.document.number"),
    "zip code": (
        {"customer": customer(address={**ADDRESS, "zipCode": "0131"})},
        "customer.address.zipCode",
    ),
    "zip code with a line break": (
        {"customer": customer(address={**ADDRESS, "zipCode": "01310200\n"})},
        "customer.address.zipCode",
    ),
    "state with a line break": (
        {"customer": customer(address={**ADDRESS, "state": "SP\n"})},
        "customer.address.state",
    ),
    "address without a city": (
        {"customer": customer(address={k: v for k, v in ADDRESS.items() if k != "city"})},
        "customer.address.city",
    ),
    "item without a price": ({"items": [{"title": "x", "quantity": 1}]}, "items[0].unitPrice"),
    "item with a price in reais": (
        {"items": [{"title": "x", "unitPrice": 99.9, "quantity": 1}]},
        "items[0].unitPrice",
    ),
    "no item of it": (
        {"items": [{"title": "x", "unitPrice": 1, "quantity": 0}]},
        "items[0].quantity",
    ),
    "101 items": ({"items": [{"title": "x", "unitPrice": 1, "quantity": 1}] * 101}, "items"),
    "shipping as text": ({"shipping": {"fee": "1"}}, "shipping.fee"),
    "metadata in metadata": ({"metadata": {"a": {"b": 1}}}, "metadata.a"),
    "51 keys": ({"metadata": {str(number): 1 for number in range(51)}}, "metadata"),
    "more than 4 KiB": ({"metadata": {"a": "x" * 4_090}}, "metadata"),
    "more than 4 KiB of other letters": ({"metadata": {"a": "é" * 2_045}}, "metadata"),
    "ip": ({"ip": "256.0.0.1"}, "ip"),
    "name as ip": ({"ip": "localhost"}, "ip"),
    "long reference": ({"externalRef": "x" * 121}, "externalRef"),
    "long description": ({"description": "x" * 256}, "description"),
    "NUL": ({"description": "a\u0000b"}, "description"),
}


@pytest.mark.parametrize("case", INVALID)
async def test_a_wrong_form_is_refused_by_the_name_of_its_field(shop: Shop, case: str) -> None:
    changed, field = INVALID[case]
    reply = await shop.order({**pix_order(), **changed})
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    assert field in [error["field"] for error in reply.json["error"]["details"]["errors"]]
    assert (await shop.list())["pagination"]["total"] == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": {str(number): 1 for number in range(50)}},
        {"metadata": {"a": "x" * (4_096 - len('{"a":""}'))}},
        {"pix": {"expiresInSeconds": 60}},
        {"externalRef": "x" * 120, "description": "é" * 255},
        {"customer": customer(name="Ana", phone="1132345678")},
        {"customer": customer(name="x" * 100, phone="+55 11 98765-4321")},
        {"items": [{"title": "x", "unitPrice": 100, "quantity": 1}] * 100},
        {"items": [{"title": "x", "unitPrice": 1, "quantity": 9_999}], "shipping": {"fee": 1}},
        {"items": [], "shipping": {"fee": 77}},
        {"ip": "127.0.0.1"},
    ],
)
async def test_what_just_fits_is_accepted(shop: Shop, changed: dict[str, Any]) -> None:
    data = await shop.create(**changed)
    assert await shop.read(data["id"]) == data


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("(11) 8765-4321", "1187654321"),
        ("0800 123 4567", "08001234567"),
        ("12125550100", "12125550100"),
        ("+1 (212) 555-0100", "+12125550100"),
        ("+351 912.345.678", "+351912345678"),
        ("011 98765-4321", "011987654321"),
        ("(11)  98765--4321", "+5511987654321"),
    ],
)
async def test_a_telephone_of_any_country_or_age_is_kept_by_its_digits(
    shop: Shop, sent: str, shown: str
) -> None:
    data = await shop.create(customer=customer(phone=sent))
    assert data["customer"]["phone"] == shown
    assert await shop.read(data["id"]) == data


@pytest.mark.parametrize(
    ("kind", "number", "whole", "masked"),
    [
        ("cpf", "529.982.247-25", "52998224725", "***.982.247-**"),
        ("cpf", "52998224725", "52998224725", "***.982.247-**"),
        ("cnpj", "11.444.777/0001-61", "11444777000161", "**.444.777/****-**"),
        ("cnpj", "12.ABC.345/01DE-35", "12ABC34501DE35", "**.ABC.345/****-**"),
    ],
)
async def test_a_document_is_whole_in_one_record_and_masked_in_lists(
    shop: Shop, kind: str, number: str, whole: str, masked: str
) -> None:
    data = await shop.create(**document(kind, number))
    assert data["customer"]["document"] == {"type": kind, "number": whole}
    assert await shop.read(data["id"]) == data
    listed = (await shop.list())["transactions"]
    assert listed == [
        {**data, "customer": {**data["customer"], "document": {"type": kind, "number": masked}}}
    ]
    found = await shop.list(f"?customerDocument={whole}")
    assert [each["id"] for each in found["transactions"]] == [data["id"]]


async def test_faults_are_named_in_the_order_that_integrators_rely_on(shop: Shop) -> None:
    """The form, the amount, the document, the items, the address, then whether it can be paid."""
    wrong = pix_order(
        50,
        **document("cpf", "52998224724"),
        items=[{"title": "x", "unitPrice": 1, "quantity": 1}],
        ip="nowhere",
        postbackUrl="https://127.0.0.1/",
    )
    live = shop.tenant.sk_live
    for changed, code, status in (
        ({}, ErrorCode.VALIDATION_ERROR, 400),
        ({"ip": "127.0.0.1"}, ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
        ({"amount": 500}, ErrorCode.INVALID_DOCUMENT, 422),
        (document("cpf", "52998224725"), ErrorCode.ITEMS_TOTAL_MISMATCH, 422),
        ({"items": []}, ErrorCode.INVALID_URL, 422),
        ({"postbackUrl": "https://loja.com.br/"}, ErrorCode.PROVIDER_NOT_CONFIGURED, 503),
    ):
        wrong.update(changed)
        reply = await shop.api.post("/v1/transactions", key=live, json=wrong)
        assert_refused(reply, code, status=status)


async def test_a_live_payment_needs_a_provider_and_leaves_nothing(shop: Shop) -> None:
    for _ in range(2):
        reply = await shop.api.post(
            "/v1/transactions",
            key=shop.tenant.sk_live,
            json=pix_order(),
            headers={"X-Idempotency-Key": "live-1"},
        )
        assert_refused(reply, ErrorCode.PROVIDER_NOT_CONFIGURED, status=503)
        assert "X-Idempotency-Replayed" not in reply.headers
    count = await shop.database.fetchval(
        "select count(*) from transaction where company_id = $1", shop.scope.company_id
    )
    assert count == 0


async def test_a_checkout_key_creates_and_reads_nothing(shop: Shop) -> None:
    made = await shop.create()
    ck = shop.tenant.ck_test
    for reply in (
        await shop.api.post("/v1/transactions", key=ck, json=pix_order()),
        await shop.api.get("/v1/transactions", key=ck),
        await shop.api.get(f"/v1/transactions/{made['id']}", key=ck),
        await shop.api.post(f"/v1/transactions/{made['id']}/refund", key=ck),
        await shop.api.post(f"/v1/transactions/{made['id']}/cancel", key=ck),
        await shop.api.get("/v1/balance", key=ck),
    ):
        assert_refused(reply, ErrorCode.KEY_TYPE_NOT_ALLOWED, status=403)


async def test_a_payment_is_unknown_to_others_and_in_the_other_environment(shop: Shop) -> None:
    other = await new_shop(shop.api, shop.database)
    made = await shop.create()
    for key in (shop.tenant.sk_live, other.tenant.sk_test, other.tenant.sk_live):
        for method, path in (("GET", ""), ("POST", "/refund"), ("POST", "/cancel")):
            reply = await shop.api.call(method, f"/v1/transactions/{made['id']}{path}", key=key)
            assert_refused(reply, ErrorCode.TRANSACTION_NOT_FOUND, status=404)
    listed = await shop.api.get("/v1/transactions", key=shop.tenant.sk_live)
    assert listed.data["transactions"] == []


@pytest.mark.parametrize(
    "transaction_id",
    [
        "tx_",
        "x",
        "tx_01k9zzzzzzzzzzzzzzzzzzzzzz",
        "tx_01K9ZZZZZZZZZZZZZZZZZZZZZZ",
        "wd_01k9zzzzzzzzzzzzzzzzzzzzzz",
        "tx_81k9zzzzzzzzzzzzzzzzzzzzzz",
        "tx_01k9zzzzzzzzzzzzzzzzzzzzzz%0A",
        "%C3%A9",
        "'%20or%201=1%20--",
        "tx_" + "0" * 300,
    ],
)
async def test_an_id_of_the_wrong_form_is_simply_unknown(shop: Shop, transaction_id: str) -> None:
    for method, path in (("GET", ""), ("POST", "/refund"), ("POST", "/cancel")):
        reply = await shop.api.call(
            method, f"/v1/transactions/{transaction_id}{path}", key=shop.key
        )
        assert_refused(reply, ErrorCode.TRANSACTION_NOT_FOUND, status=404)


@pytest.mark.usefixtures("audited")
async def test_the_fee_is_fixed_when_the_payment_is_made(api: Api, database: Database) -> None:
    shop = await new_shop(api, database)
    await shop.charge(fixed_cents=35, percent_basis_points=99)
    # 0.99 % of 50 cents over a hundred is half a cent: rounded up.
    data = await shop.create(5_050)
    assert (data["fee"], data["netAmount"]) == (35 + 50, 5_050 - 85)
    await database.execute(
        "update company_fee set fixed_cents = 4000 where company_id = $1", shop.scope.company_id
    )
    await shop.move(data["id"], "paid")
    assert await shop.balance() == {"available": 5_050 - 85}


@pytest.mark.usefixtures("audited")
async def test_a_fee_never_exceeds_the_amount(api: Api, database: Database) -> None:
    shop = await new_shop(api, database)
    await shop.charge(fixed_cents=500, percent_basis_points=10_000)
    data = await shop.create(100)
    assert (data["fee"], data["netAmount"]) == (100, 0)
    await shop.move(data["id"], "paid")
    assert await shop.balance() == {}
    assert (await shop.refund(data["id"])).status == 201
    assert await shop.balance() == {"debt": 100}
