"""The example shop: sells by the checkout, and believes only calls that are signed."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from standardwebhooks import Webhook

from support.api import Api
from support.boutique import BUYER, Boutique
from support.platform import clean_environment, free_port, kill, until
from support.shopper import Door
from vintem.hosted.words import money
from vintem.kit.clock import utc_now

PROGRAM = Path(__file__).parents[2] / "examples/loja/loja.py"


@pytest.fixture(scope="module")
async def secret(store: Boutique) -> str:
    return await store.postback_secret()


@pytest.fixture(scope="module")
async def shop(store: Boutique, secret: str) -> AsyncIterator[Api]:
    """The example, run as its README says."""
    environment = {
        "API_URL": store.base_url,
        "CHECKOUT_KEY": store.running.ready["testCheckoutKey"],
        "POSTBACK_SECRET": secret,
        "PRODUCT_ID": store.product.product_id,
    }
    async with running_shop(environment) as running:
        yield running


@asynccontextmanager
async def running_shop(environment: Mapping[str, str]) -> AsyncIterator[Api]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM), "--port", str(port)),
        env=clean_environment(environment),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert b"The shop is open" in await process.stdout.readline()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Api(f"http://127.0.0.1:{port}", session)
    await kill(process)


async def test_a_shop_whose_platform_is_away_says_so() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    environment = dict.fromkeys(("CHECKOUT_KEY", "POSTBACK_SECRET", "PRODUCT_ID"), "x")
    async with running_shop({"API_URL": nobody, **environment}) as shop:
        for reply in (await shop.get("/"), await shop.post("/comprar")):
            assert reply.status == 503
            assert "Nada foi cobrado" in reply.body.decode()


async def buy(shop: Api) -> str:
    """Press the one button of the shop, and give where it leads."""
    async with shop.session.post(f"{shop.base_url}/comprar", allow_redirects=False) as reply:
        assert reply.status == 303
        return reply.headers["location"]


async def test_an_order_is_paid_once_its_webhook_says_so(shop: Api, store: Boutique) -> None:
    front = (await shop.get("/")).body.decode()
    assert "Comprar" in front
    assert store.product.name in front
    assert money(store.product.unit_amount).replace("\xa0", " ") in front
    address = await buy(shop)
    assert address.startswith(f"{store.base_url}/s/")
    path = f"/v1/checkout/sessions/{address.rpartition('/')[2]}"
    order = (await store.api.get(path)).data["successUrl"].removeprefix(shop.base_url)
    assert "Aguardando o pagamento" in (await shop.get(order)).body.decode()
    paying = await store.api.post(f"{path}/pay", json={"paymentMethod": "pix", "customer": BUYER})
    await store.simulate(paying.data["transactionId"], "paid")

    async def is_paid() -> bool:
        return "pago" in (await shop.get(order)).body.decode()

    await until(is_paid, seconds=15)


async def test_calls_that_nobody_signed_are_not_believed(
    shop: Api, store: Boutique, secret: str
) -> None:
    address = await buy(shop)
    path = f"/v1/checkout/sessions/{address.rpartition('/')[2]}"
    order = (await store.api.get(path)).data["successUrl"].removeprefix(shop.base_url)
    event = {
        "event": "checkout.session.completed",
        "data": {"externalRef": order.rpartition("/")[2]},
    }
    body = json.dumps(event).encode()
    now = utc_now()

    def signed(secret: str, *, seconds_ago: int = 0) -> dict[str, str]:
        moment = now.fromtimestamp(now.timestamp() - seconds_ago, now.tzinfo)
        signature = Webhook(secret).sign("evt_1", moment, body.decode())
        return {"webhook-id": "evt_1", "webhook-timestamp": str(int(moment.timestamp())),
                "webhook-signature": signature}  # fmt: skip

    forged = "whsec_" + "A" * 43 + "="
    for headers in ({}, signed(forged), signed(secret, seconds_ago=600),
                    {**signed(secret), "webhook-id": "evt_2"},
                    {**signed(secret), "webhook-timestamp": "x"}):  # fmt: skip
        assert (await shop.post("/webhook", data=body, headers=headers)).status == 401
    assert (await shop.post("/webhook", data=body + b" ", headers=signed(secret))).status == 401
    assert "Aguardando" in (await shop.get(order)).body.decode()
    both = signed(secret)
    both["webhook-signature"] = f"v1,{'A' * 43}= {both['webhook-signature']}"
    assert (await shop.post("/webhook", data=body, headers=both)).status == 204
    assert "pago" in (await shop.get(order)).body.decode()


async def test_a_buyer_goes_to_the_checkout_and_comes_back_with_the_order_paid(
    shop: Api, store: Boutique, door: Door
) -> None:
    del store
    context, watch = await door.context(strangers=(shop.base_url,))
    watch.statuses.add(404)
    page = await context.new_page()
    await page.goto(shop.base_url)
    await page.get_by_role("button", name="Comprar").click()
    await page.get_by_role("button", name="Preencher com dados de teste").click()
    await page.locator("form[data-pay] button.primary").click()
    await page.get_by_role("button", name="Marcar como pago").click()
    await page.wait_for_url("**/pedidos/*")
    await page.get_by_text("Obrigado!").wait_for()
