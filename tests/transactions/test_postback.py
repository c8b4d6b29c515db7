"""The address that hears of one payment: what is taken, and what is refused before it is kept."""

from dataclasses import replace

import pytest

from conftest import running_api
from support.api import Api, Shop, assert_refused, new_shop, pix_order
from support.platform import client, demo, private_folder
from vintem.kit.errors import ErrorCode
from vintem.kit.urls import UrlFault
from vintem.runtime.db import Database
from vintem.settings import Settings

LOOPBACK = ("http://127.0.0.1:9000/hook", "http://[::1]:9000/", "http://localhost/")


@pytest.fixture
async def shop(api: Api, database: Database) -> Shop:
    return await new_shop(api, database)


@pytest.mark.parametrize(
    "url", ["https://loja.com.br/hook?x=1", "https://LOJA.com.br:8443", "https://pão.com.br/"]
)
async def test_an_address_that_can_be_called_is_kept_as_it_was_sent(shop: Shop, url: str) -> None:
    made = await shop.create(postbackUrl=url)
    assert made["postbackUrl"] == url
    assert (await shop.read(made["id"]))["postbackUrl"] == url


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("", UrlFault.SCHEME),
        ("loja.com.br/hook", UrlFault.SCHEME),
        ("http://loja.com.br/hook", UrlFault.SCHEME),
        ("https://me:x@loja.com.br/", UrlFault.USERINFO),
        ("https://loja.com.br:80/", UrlFault.PORT),
        ("https://loja.com.br/#x", UrlFault.FRAGMENT),
        ("https://loja.com.br/a b", UrlFault.CHARACTERS),
        ("https://169.254.169.254/latest/meta-data", UrlFault.IP_LITERAL),
        ("https://2130706433/", UrlFault.IP_LITERAL),
        ("https://[::ffff:127.0.0.1]/", UrlFault.IP_LITERAL),
        ("https://localhost/", UrlFault.HOST),
        ("https://db.internal/", UrlFault.HOST),
        *((url, UrlFault.SCHEME) for url in LOOPBACK),
    ],
)
async def test_an_address_that_is_not_called_is_refused(
    shop: Shop, url: str, fault: UrlFault
) -> None:
    reply = await shop.order(pix_order(postbackUrl=url))
    assert_refused(reply, ErrorCode.INVALID_URL, status=422)
    assert reply.json["error"]["message"] == fault
    assert reply.json["error"]["details"] == {"field": "postbackUrl"}
    assert (await shop.list())["pagination"]["total"] == 0


async def test_an_address_beyond_the_limit_has_the_wrong_form(shop: Shop) -> None:
    reply = await shop.order(pix_order(postbackUrl=f"https://loja.com.br/{'x' * 2_048}"))
    assert_refused(reply, ErrorCode.VALIDATION_ERROR, status=400)


async def test_where_the_operator_allows_it_the_sandbox_calls_its_own_machine(
    settings: Settings, database: Database
) -> None:
    async with running_api(replace(settings, allow_loopback_webhooks=True)) as lenient:
        shop = await new_shop(lenient, database)
        for url in LOOPBACK:
            assert (await shop.create(postbackUrl=url))["postbackUrl"] == url
            live = await lenient.post(
                "/v1/transactions", key=shop.tenant.sk_live, json=pix_order(postbackUrl=url)
            )
            assert_refused(live, ErrorCode.INVALID_URL, status=422)
        reply = await shop.order(pix_order(postbackUrl="http://10.0.0.1/"))
        assert_refused(reply, ErrorCode.INVALID_URL, status=422)


async def test_the_demo_allows_it() -> None:
    with private_folder() as folder:
        async with demo(folder / "data") as running, client(running) as api:
            reply = await api.post(
                "/v1/transactions",
                key=running.ready["testSecretKey"],
                json=pix_order(postbackUrl=LOOPBACK[0]),
            )
            assert (reply.status, reply.data["postbackUrl"]) == (201, LOOPBACK[0])
