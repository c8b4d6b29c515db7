"""Sessions: opened, read by their buyers, listed by their company, over by time."""

import asyncio
import hashlib
import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from support.api import HttpReply, assert_refused, complaints
from support.storefront import Basket, Storefront, new_storefront, raw_card
from vintem.checkout import catalogue
from vintem.checkout import service as checkout
from vintem.checkout.model import Appearance, Banner, Theme
from vintem.companies import service as companies
from vintem.companies.model import Environment
from vintem.kit.clock import parse_public_time, utc_now
from vintem.kit.errors import ErrorCode
from vintem.ledger.model import Scope

SESSION_KEYS = {
    *("sessionId", "status", "expiresAt", "lineItems", "subtotalAmount", "discountAmount"),
    *("shippingAmount", "additionalAmount", "totalAmount", "successUrl", "cancelUrl", "coupon"),
    *("appearance", "payment", "paymentMethods", "expiresInSeconds", "stateVersion", "pageState"),
}
LISTED_KEYS = {
    *("sessionId", "environment", "status", "lineItems", "subtotalAmount", "discountAmount"),
    *("shippingAmount", "additionalAmount", "totalAmount", "currency", "coupon", "successUrl"),
    *("cancelUrl", "externalRef", "metadata", "postbackUrl", "paymentLinkId", "transactionId"),
    *("extraPayments", "createdAt", "updatedAt", "expiresAt", "completedAt", "cancelledAt"),
}


async def test_a_session_is_opened_with_either_kind_of_key(store: Storefront) -> None:
    tenant = store.shop.tenant
    for key in (tenant.sk_test, tenant.ck_test):
        body = {"productId": store.product.product_id}
        reply = await store.api.post("/v1/checkout/sessions", key=key, json=body)
        assert reply.status == 201, reply.json
        assert set(reply.data) == {
            *("sessionId", "status", "checkoutUrl", "expiresAt", "totalAmount"),
        }
        assert reply.data["status"] == "OPEN"
        assert reply.data["totalAmount"] == 14_990
        assert reply.data["sessionId"].startswith("cs_")
        left = parse_public_time(reply.data["expiresAt"]) - utc_now()
        assert timedelta(hours=47, minutes=59) < left <= timedelta(hours=48)


async def test_its_buyer_reads_it_without_a_key(store: Storefront) -> None:
    basket = await store.open(successUrl="https://loja.example/ok", shippingAmount=1_000)
    reply = await basket.call("GET")
    assert reply.status == 200
    data = reply.data
    assert set(data) == SESSION_KEYS
    assert data["sessionId"] == basket.session_id
    assert data["lineItems"] == [
        {
            "snapshotProductName": "Curso de Violão",
            "snapshotImageUrl": None,
            "unitAmount": 14_990,
            "quantity": 1,
            "currency": "BRL",
            "sortOrder": 0,
            "productId": store.product.product_id,
        }
    ]
    assert (data["subtotalAmount"], data["shippingAmount"], data["totalAmount"]) == (
        *(14_990, 1_000, 15_990),
    )
    assert (data["successUrl"], data["cancelUrl"]) == ("https://loja.example/ok", None)
    assert (data["coupon"], data["payment"]) == (None, None)
    assert data["paymentMethods"] == ["pix", "credit_card", "boleto"]
    assert data["pageState"] == "open"
    assert 172_700 < data["expiresInSeconds"] <= 172_800
    assert data["appearance"]["displayName"] == "Tenant"
    assert data["appearance"]["appearanceVersion"] == 0
    assert reply.headers["cache-control"] == "no-store"


async def test_several_products_are_sorted_and_added_up(store: Storefront) -> None:
    other = await catalogue.create_product(
        store.database, store.shop.scope, name="Cordas", unit_amount=2_500, now=utc_now()
    )
    reply = await store.order(
        {
            "lineItems": [
                {"productId": store.product.product_id, "quantity": 2, "sortOrder": 5},
                {"productId": other.product_id, "quantity": 3, "sortOrder": 1},
            ],
            "additionalAmount": 7,
        }
    )
    assert reply.data["totalAmount"] == 2 * 14_990 + 3 * 2_500 + 7
    token = reply.data["checkoutUrl"].rpartition("/")[2]
    read = await Basket(store, reply.data["sessionId"], token).read()
    assert [item["snapshotProductName"] for item in read["lineItems"]] == [
        *("Cordas", "Curso de Violão"),
    ]


async def test_a_repeat_gives_the_session_without_its_address(store: Storefront) -> None:
    body = {"productId": store.product.product_id}
    first = await store.order(body, key="order-1")
    again = await store.order(body, key="order-1")
    assert (first.status, again.status) == (201, 200)
    assert again.data["sessionId"] == first.data["sessionId"]
    assert "checkoutUrl" not in again.data
    assert again.headers["X-Idempotency-Replayed"] == "true"
    other = await store.order({**body, "quantity": 2}, key="order-1")
    assert_refused(other, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)


async def test_a_recorded_key_replays_although_the_product_is_gone(store: Storefront) -> None:
    body = {"productId": store.product.product_id}
    first = await store.order(body, key="order-1")
    gone = replace(store.product, is_active=False)
    await catalogue.change_product(store.database, gone, now=utc_now())
    again = await store.order(body, key="order-1")
    assert (again.status, again.data["sessionId"]) == (200, first.data["sessionId"])
    assert_refused(await store.order(body), ErrorCode.PRODUCT_NOT_FOUND, status=404)


async def test_only_the_digest_of_a_token_is_kept(store: Storefront) -> None:
    basket = await store.open()
    assert len(basket.token) == 43
    kept = await store.database.fetchval(
        "select session_id from checkout_session_token where token_digest = $1",
        hashlib.sha256(basket.token.encode()).digest(),
    )
    assert kept == basket.session_id
    rows = await store.database.fetch(
        "select s::text as row from checkout_session s where company_id = $1", store.company_id
    )
    assert all(basket.token not in row["row"] for row in rows)


@pytest.mark.parametrize("token", ["x", "a" * 43, "a" * 44, "%2e%2e", "a%C3%A7%C3%A3o"])
async def test_an_unknown_token_is_not_found(store: Storefront, token: str) -> None:
    for suffix in ("", "?poll=1"):
        reply = await store.api.get(f"/v1/checkout/sessions/{token}{suffix}")
        assert_refused(reply, ErrorCode.SESSION_NOT_FOUND, status=404)
    reply = await store.api.post(f"/v1/checkout/sessions/{token}/pay", json={})
    assert_refused(reply, ErrorCode.SESSION_NOT_FOUND, status=404)


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        ({}, ErrorCode.VALIDATION_ERROR, 400),
        ({"productId": "prod_x", "lineItems": []}, ErrorCode.VALIDATION_ERROR, 400),
        ({"quantity": 0}, ErrorCode.VALIDATION_ERROR, 400),
        ({"expiresAt": 0}, ErrorCode.VALIDATION_ERROR, 400),
        ({"expiresAt": 10_081}, ErrorCode.VALIDATION_ERROR, 400),
        ({"expiresAt": "2026-12-01"}, ErrorCode.VALIDATION_ERROR, 400),
        ({"amount": 100}, ErrorCode.VALIDATION_ERROR, 400),
        ({"customer": {"phone": "12"}}, ErrorCode.VALIDATION_ERROR, 400),
        ({"metadata": {"a": {}}}, ErrorCode.VALIDATION_ERROR, 400),
        ({"productId": "prod_unknown"}, ErrorCode.PRODUCT_NOT_FOUND, 404),
        ({"successUrl": "http://loja.example/"}, ErrorCode.INVALID_URL, 422),
        ({"successUrl": "javascript:alert(1)"}, ErrorCode.INVALID_URL, 422),
        ({"cancelUrl": "https://user@loja.example/"}, ErrorCode.INVALID_URL, 422),
        ({"postbackUrl": "https://10.0.0.1/"}, ErrorCode.INVALID_URL, 422),
        ({"couponCode": "NOTHING"}, ErrorCode.COUPON_INVALID, 422),
        (
            {"customer": {"document": {"type": "cpf", "number": "11111111111"}}},
            *(ErrorCode.INVALID_DOCUMENT, 422),
        ),
        ({"additionalAmount": 9_999_999_999}, ErrorCode.AMOUNT_ABOVE_MAXIMUM, 422),
        ({"additionalAmount": 10_000_000_000}, ErrorCode.AMOUNT_ABOVE_MAXIMUM, 422),
        ({"shippingAmount": 10**30}, ErrorCode.AMOUNT_ABOVE_MAXIMUM, 422),
        ({"additionalAmount": -1}, ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
        ({"shippingAmount": -(10**30)}, ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
        ({"shippingAmount": -1, "quantity": 0}, ErrorCode.VALIDATION_ERROR, 400),
        ({"shippingAmount": -1, "metadata": {"a": {}}}, ErrorCode.VALIDATION_ERROR, 400),
        ({"shippingAmount": -1, "successUrl": "x"}, ErrorCode.AMOUNT_BELOW_MINIMUM, 422),
        ({"shippingAmount": 1.5}, ErrorCode.VALIDATION_ERROR, 400),
        ({"shippingAmount": "100"}, ErrorCode.VALIDATION_ERROR, 400),
        ({"additionalAmount": True}, ErrorCode.VALIDATION_ERROR, 400),
        ({"additionalAmount": None}, ErrorCode.VALIDATION_ERROR, 400),
    ],
)
async def test_an_order_that_cannot_be_paid_is_refused(
    store: Storefront, body: dict[str, Any], code: ErrorCode, status: int
) -> None:
    base = {"productId": store.product.product_id} if body else {}
    assert_refused(await store.order({**base, **body}), code, status=status)


@pytest.mark.parametrize("minutes", [1, 10_080])
async def test_a_session_lasts_as_long_as_was_asked_for(store: Storefront, minutes: int) -> None:
    asked_at = utc_now()
    reply = await store.order({"productId": store.product.product_id, "expiresAt": minutes})
    assert reply.status == 201
    lasts = parse_public_time(reply.data["expiresAt"]) - asked_at
    assert timedelta(seconds=-1) < lasts - timedelta(minutes=minutes) < timedelta(seconds=10)


async def test_an_added_amount_that_cannot_be_is_named(store: Storefront) -> None:
    base, most = {"productId": store.product.product_id}, 9_999_999_999
    for field in ("shippingAmount", "additionalAmount"):
        below = await store.order({**base, field: -1})
        assert below.json["error"]["details"] == {"field": field, "minimum": 0}
        above = await store.order({**base, field: most + 1})
        assert above.json["error"]["details"] == {"field": field, "maximum": most}
    assert (await store.order({**base, "additionalAmount": most - 14_990})).status == 201


async def test_a_recorded_key_replays_whatever_is_added(store: Storefront) -> None:
    base = {"productId": store.product.product_id}
    assert (await store.order(base, key="k-1")).status == 201
    reused = await store.order({**base, "shippingAmount": -1}, key="k-1")
    assert_refused(reused, ErrorCode.IDEMPOTENCY_KEY_REUSED, status=422)


async def test_a_total_below_the_minimum_is_refused(store: Storefront) -> None:
    cheap = await new_storefront(store.api, store.database, price=99)
    reply = await cheap.order({"productId": cheap.product.product_id})
    assert_refused(reply, ErrorCode.AMOUNT_BELOW_MINIMUM, status=422)


async def test_return_addresses_are_of_the_companys_domains(store: Storefront) -> None:
    await store.set_up(domains=["loja.example", "*.shop.example", "127.0.0.1:3000"])
    for address in (
        "https://loja.example/x",
        "https://a.b.shop.example/",
        "http://127.0.0.1:3000/",
    ):
        await store.open(successUrl=address)
    for address in (
        *("https://evil.example/", "https://shop.example/", "https://xloja.example/"),
        *("https://loja.example.evil.example/", "http://127.0.0.1:4000/"),
    ):
        reply = await store.order({"productId": store.product.product_id, "cancelUrl": address})
        assert_refused(reply, ErrorCode.INVALID_URL, status=422)


async def test_a_buyer_returns_to_any_port_and_any_part_of_a_page(store: Storefront) -> None:
    live = await catalogue.create_product(
        store.database,
        Scope(store.company_id, Environment.LIVE),
        name="Curso",
        unit_amount=9_990,
        now=utc_now(),
    )
    tenant = store.shop.tenant
    products = ((tenant.ck_test, store.product.product_id), (tenant.ck_live, live.product_id))
    for key, product_id in products:
        for address in ("https://loja.example/#/obrigado", "https://loja.example:8080/ok?a=1#b"):
            body = {"productId": product_id, "successUrl": address, "cancelUrl": address}
            made = await store.api.post("/v1/checkout/sessions", key=key, json=body)
            assert made.status == 201, made.json
            token = made.data["checkoutUrl"].rpartition("/s/")[2]
            read = (await store.api.get(f"/v1/checkout/sessions/{token}")).data
            assert (read["successUrl"], read["cancelUrl"]) == (address, address)
        for address in (
            *("https://me@loja.example/#x", "https://10.0.0.1:8080/", "https://loja.example:0/"),
            *("https://loja.example/#a b", "http://loja.example/#x", "https://loja.example/#é"),
        ):
            body = {"productId": product_id, "successUrl": address}
            reply = await store.api.post("/v1/checkout/sessions", key=key, json=body)
            assert_refused(reply, ErrorCode.INVALID_URL, status=422)


async def test_another_environments_product_is_not_found(store: Storefront) -> None:
    body = {"productId": store.product.product_id}
    reply = await store.api.post("/v1/checkout/sessions", key=store.shop.tenant.sk_live, json=body)
    assert_refused(reply, ErrorCode.PRODUCT_NOT_FOUND, status=404)


async def test_the_company_lists_its_sessions(store: Storefront) -> None:
    first = await store.open(externalRef="a", metadata={"n": 1})
    second = await store.open(externalRef="b", couponCode=(await store.coupon()).code)
    path, key = "/v1/checkout/sessions", store.shop.tenant.ck_test
    data = (await store.api.get(path, key=key)).data
    assert [each["sessionId"] for each in data["sessions"]] == [
        *(second.session_id, first.session_id),
    ]
    assert set(data["sessions"][0]) == LISTED_KEYS
    assert data["sessions"][0]["coupon"]["appliedAmount"] == 1_499
    assert data["sessions"][1]["metadata"] == {"n": 1}
    assert first.token not in str(data)
    assert data["pagination"]["total"] == 2

    page = (await store.api.get(f"{path}?pageSize=1", key=key)).data
    cursor = page["pagination"]["nextCursor"]
    rest = (await store.api.get(f"{path}?pageSize=1&cursor={cursor}", key=key)).data
    assert [each["sessionId"] for each in rest["sessions"]] == [first.session_id]

    found = (await store.api.get(f"{path}?externalRef=a&status=OPEN", key=key)).data
    assert [each["sessionId"] for each in found["sessions"]] == [first.session_id]
    assert (await store.api.get(f"{path}?status=COMPLETED", key=key)).data["sessions"] == []
    for query in ("?status=open", "?pageSize=101", "?startDate=x", "?colour=red"):
        reply = await store.api.get(path + query, key=key)
        assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    live = (await store.api.get(path, key=store.shop.tenant.sk_live)).data
    assert live["sessions"] == []


async def test_a_session_is_expired_from_its_moment_on(store: Storefront) -> None:
    basket = await store.open(expiresAt=1)
    before = (await basket.read())["stateVersion"]
    await basket.age(timedelta(minutes=1))
    # Nobody has written it yet.
    assert (await basket.found()).status == "OPEN"
    assert_refused(await basket.call("GET"), ErrorCode.SESSION_EXPIRED, status=410)
    assert_refused(await basket.pay(), ErrorCode.SESSION_EXPIRED, status=410)
    assert_refused(await basket.coupon("TEN"), ErrorCode.SESSION_EXPIRED, status=410)
    reply = await basket.call("DELETE", "/coupon")
    assert_refused(reply, ErrorCode.SESSION_EXPIRED, status=410)
    data = await basket.read()
    assert (data["status"], data["pageState"], data["expiresInSeconds"]) == (
        *("EXPIRED", "expired", 0),
    )
    key, path = store.shop.key, "/v1/checkout/sessions"
    listed = (await store.api.get(path, key=key)).data["sessions"]
    assert listed[0]["status"] == "EXPIRED"
    assert (await store.api.get(f"{path}?status=OPEN", key=key)).data["sessions"] == []
    await store.work()
    assert (await basket.found()).status == "EXPIRED"
    after = await basket.read()
    assert before < data["stateVersion"] < after["stateVersion"]
    assert await store.events(basket.session_id) == [
        *((1, "checkout.session.open"), (2, "checkout.session.expired")),
    ]
    await store.work()
    assert len(await store.events(basket.session_id)) == 2
    assert await complaints(store.database) == {}


async def test_a_status_lists_what_is_shown_with_it(store: Storefront) -> None:
    """Also where the worker has not written it yet."""
    basket, _ = await store.open(expiresAt=1), await store.open()
    await (await store.open()).paid_by()
    await basket.age(timedelta(minutes=2))
    counts = {}
    for status in ("OPEN", "AWAITING_PAYMENT", "EXPIRED", "COMPLETED"):
        query = f"/v1/checkout/sessions?status={status}"
        data = (await store.api.get(query, key=store.shop.tenant.sk_test)).data
        assert {one["status"] for one in data["sessions"]} <= {status}
        counts[status] = data["pagination"]["total"], len(data["sessions"])
    assert counts == {
        "OPEN": (1, 1),
        "AWAITING_PAYMENT": (1, 1),
        "EXPIRED": (1, 1),
        "COMPLETED": (0, 0),
    }


@pytest.mark.parametrize("poll", ["1", "true", "yes"])
async def test_who_polls_sees_a_session_that_is_over(store: Storefront, poll: str) -> None:
    basket = await store.open()
    await checkout.cancel_session(
        store.database, store.shop.scope, basket.session_id, now=utc_now()
    )
    reply = await basket.call("GET", f"?poll={poll}&utm=1&utm=2")
    assert (reply.status, reply.data["status"], reply.data["pageState"]) == (
        *(200, "CANCELLED", "cancelled"),
    )
    for other in ("", "?poll=", "?poll=0", "?poll=TRUE", "?poll=no"):
        reply = await basket.call("GET", other)
        assert_refused(reply, ErrorCode.SESSION_CANCELLED, status=410)
    assert_refused(await basket.pay(), ErrorCode.SESSION_CANCELLED, status=410)
    assert (await store.events(basket.session_id))[-1] == (2, "checkout.session.cancelled")


async def test_the_event_shows_the_session_as_lists_do(store: Storefront) -> None:
    basket = await store.open(externalRef="order-7", postbackUrl="http://127.0.0.1:9/x")
    body = json.loads(
        await store.database.fetchval(
            "select body from webhook_event where company_id = $1 and entity_id = $2",
            store.company_id,
            basket.session_id,
        )
    )
    listed = (await store.api.get("/v1/checkout/sessions", key=store.shop.key)).data["sessions"][0]
    assert body["event"] == "checkout.session.open"
    assert body["eventId"].startswith("evt_")
    assert (body["sequence"], body["previousStatus"]) == (1, None)
    assert body["data"] == listed
    assert basket.token not in json.dumps(body)
    postbacks = await store.database.fetchval(
        "select count(*) from webhook_delivery where company_id = $1 and entity_id = $2",
        store.company_id,
        basket.session_id,
    )
    assert postbacks == 1


async def test_a_session_keeps_the_looks_it_was_opened_with(store: Storefront) -> None:
    looks = Appearance(
        version=0,
        display_name="Loja do Violão",
        theme=Theme.DARK,
        primary_color="#AA0011",
        logo_url="https://loja.example/logo.png",
        banners=[Banner(1, "https://loja.example/b.png", "Promoção", "Um violão")],
    )
    scope = store.shop.scope
    await catalogue.publish_appearance(store.database, scope, looks, now=utc_now())
    basket = await store.open()
    newer = replace(looks, display_name="Outra", banners=[])
    assert (
        await catalogue.publish_appearance(store.database, scope, newer, now=utc_now())
    ).version == 2
    assert (await basket.read())["appearance"] == {
        "appearanceVersion": 1,
        "template": "STANDARD",
        "displayName": "Loja do Violão",
        "logoUrl": "https://loja.example/logo.png",
        "primaryColor": "#aa0011",
        "backgroundColor": "#f5f6f8",
        "theme": "DARK",
        "banners": [
            {
                "sortOrder": 1,
                "imageUrl": "https://loja.example/b.png",
                "href": None,
                "title": "Promoção",
                "altText": "Um violão",
            }
        ],
    }
    assert (await (await store.open()).read())["appearance"]["displayName"] == "Outra"


async def test_a_live_session_is_opened_but_cannot_be_paid_yet(store: Storefront) -> None:
    scope = Scope(store.company_id, "live")
    product = await catalogue.create_product(
        store.database, scope, name="Curso", unit_amount=5_000, now=utc_now()
    )
    reply: HttpReply = await store.api.post(
        "/v1/checkout/sessions",
        key=store.shop.tenant.ck_live,
        json={"productId": product.product_id},
    )
    assert reply.status == 201
    token = reply.data["checkoutUrl"].rpartition("/")[2]
    basket = Basket(store, reply.data["sessionId"], token)
    assert_refused(await basket.pay(), ErrorCode.PROVIDER_NOT_CONFIGURED, status=503)
    assert (await basket.read())["status"] == "OPEN"


async def test_a_suspended_company_opens_and_takes_nothing(store: Storefront) -> None:
    basket = await store.open()
    await companies.set_suspended(
        store.database, store.shop.tenant.company.public_id, is_suspended=True
    )
    assert_refused(await basket.pay(), ErrorCode.COMPANY_SUSPENDED, status=403)
    reply = await basket.call("POST", "/card-tokens", raw_card())
    assert_refused(reply, ErrorCode.COMPANY_SUSPENDED, status=403)
    assert (await basket.call("GET")).status == 200


async def test_the_same_key_at_the_same_time_opens_one_session(store: Storefront) -> None:
    body = {"productId": store.product.product_id}
    replies = await asyncio.gather(*(store.order(body, key="storm") for _ in range(12)))
    assert sorted(reply.status for reply in replies) == [200] * 11 + [201]
    assert len({reply.data["sessionId"] for reply in replies}) == 1
    assert sum("checkoutUrl" in reply.data for reply in replies) == 1
