"""Payment links: any number of buyers come by one, each with a session of their own."""

from dataclasses import replace as changed
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from checkout.conftest import WIDE
from conftest import running_api
from support.api import Api, HttpReply, assert_refused
from support.storefront import Storefront, new_storefront
from vintem.checkout import catalogue
from vintem.checkout.link import PaymentLink
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.settings import Settings


async def new_link(store: Storefront) -> PaymentLink:
    return await catalogue.create_link(
        store.database,
        store.shop.scope,
        name="Curso de Violão",
        product_id=store.product.product_id,
        quantity=2,
        success_url="https://loja.example/ok",
        now=utc_now(),
    )


async def follow(api: Api, token: str, **options: Any) -> HttpReply:
    path = f"/v1/checkout/payment-links/{token}/sessions"
    return await api.post(path, **options)


async def test_each_buyer_gets_a_session_of_their_own(store: Storefront) -> None:
    link = await new_link(store)
    first = await follow(store.api, link.public_token)
    second = await follow(store.api, link.public_token, json={})
    assert (first.status, second.status) == (201, 201)
    assert set(first.data) == {"sessionId", "checkoutUrl", "expiresAt"}
    assert first.data["checkoutUrl"] != second.data["checkoutUrl"]
    token = first.data["checkoutUrl"].rpartition("/s/")[2]
    read = (await store.api.get(f"/v1/checkout/sessions/{token}")).data
    assert (read["totalAmount"], read["successUrl"]) == (29_980, "https://loja.example/ok")
    listed = (await store.api.get("/v1/checkout/sessions", key=store.shop.key)).data
    assert listed["sessions"][0]["paymentLinkId"] == link.link_id


async def test_a_link_that_is_not_there_or_over_opens_nothing(store: Storefront) -> None:
    for token in ("x", "y" * 43):
        reply = await follow(store.api, token)
        assert_refused(reply, ErrorCode.PAYMENT_LINK_NOT_FOUND, status=404)
    link = await new_link(store)
    now = utc_now()
    for over in (
        replace(link, is_active=False),
        replace(link, ends_at=now - timedelta(seconds=1)),
        replace(link, product_id="prod_gone"),
    ):
        await catalogue.change_link(store.database, over, now=now)
        reply = await follow(store.api, link.public_token)
        assert_refused(reply, ErrorCode.PAYMENT_LINK_INACTIVE, status=410)
    await catalogue.change_link(store.database, link, now=now)
    reply = await follow(store.api, link.public_token, json={"amount": 1})
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)
    reply = await follow(store.api, link.public_token, headers={"Origin": "https://evil.example"})
    assert_refused(reply, ErrorCode.ORIGIN_NOT_ALLOWED, status=403)
    company = store.shop.tenant.company
    await companies.set_suspended(store.database, company.public_id, is_suspended=True)
    reply = await follow(store.api, link.public_token)
    assert_refused(reply, ErrorCode.COMPANY_SUSPENDED, status=403)


async def test_one_address_opens_only_so_many(settings: Settings, database: Database) -> None:
    narrow = changed(settings, **{**WIDE, "public_link_sessions_per_minute": 1})  # type: ignore[arg-type]
    async with running_api(narrow) as api:
        store = await new_storefront(api, database)
        link = await new_link(store)
        assert (await follow(api, link.public_token)).status == 201
        reply = await follow(api, "unknown")
        assert_refused(reply, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)
