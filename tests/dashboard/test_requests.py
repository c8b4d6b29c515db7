"""The log of requests: what is kept of calls, what is not, and who may read it."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from support.api import HttpReply, Shop, pix_order
from support.cards import VISA
from support.sandbox_site import Site, running_site
from support.team import Browser
from vintem.kit.clock import utc_now
from vintem.members.model import Role
from vintem.requests import service as requests
from vintem.requests.model import readable
from vintem.settings import Settings

TEST = "/dashboard/test"
LISTED = re.compile(r"/requests/(req_\d{13}_[0-9a-z]{9})")


@pytest.fixture(scope="module")
async def site(settings: Settings) -> AsyncIterator[Site]:
    async with running_site(settings) as running:
        yield running


@pytest.fixture
async def shop(site: Site) -> Shop:
    return await site.shop()


@pytest.fixture
async def developer(site: Site, shop: Shop) -> Browser:
    return await site.browser(shop.tenant)


async def listed(site: Site, browser: Browser, query: str = "", environment: str = "test") -> str:
    await site.resources.requests.write()
    reply = await browser.get(f"/dashboard/{environment}/requests{query}")
    assert reply.status == 200
    return reply.body.decode()


async def detail(site: Site, browser: Browser, called: HttpReply) -> str:
    await site.resources.requests.write()
    reply = await browser.get(f"{TEST}/requests/{called.headers['x-request-id']}")
    assert reply.status == 200
    return reply.body.decode()


async def test_calls_of_a_key_are_kept_with_what_they_were_answered(
    site: Site, shop: Shop, developer: Browser
) -> None:
    headers = {"X-Correlation-Id": "pedido-42"}
    good = await shop.api.post("/v1/transactions", key=shop.key, json=pix_order(), headers=headers)
    bad = await shop.api.post("/v1/transactions", key=shop.key, json=pix_order(50))
    missing = await shop.api.get(f"/v1/transactions/tx_{'0' * 26}", key=shop.key)
    page = await listed(site, developer)
    made = [each.headers["x-request-id"] for each in (good, bad, missing)]
    # Their names begin with the millisecond; calls of the same one have no order.
    assert LISTED.findall(page) == sorted(made, reverse=True)
    assert "AMOUNT_BELOW_MINIMUM" in page
    assert "pedido-42" in page
    assert f"sk_…{shop.key[-4:]}" in page
    shown = await detail(site, developer, missing)
    assert "/v1/transactions/{id}" in shown
    assert f"tx_{'0' * 26}" in shown
    assert "127.0.0.1" in shown
    assert "TRANSACTION_NOT_FOUND" in shown


async def test_what_a_refused_call_said_is_kept_without_anything_of_anybody(
    site: Site, shop: Shop, developer: Browser
) -> None:
    order = pix_order(
        50,
        description="ligar para 11 98765-4321",
        metadata={"529.982.247-25": "segredo", "chave": shop.key},
        card={"number": VISA, "cvv": "987", "holderName": "MARIA"},
    )
    refused = await shop.api.post("/v1/transactions", key=shop.key, json=order)
    assert refused.status >= 400
    shown = await detail(site, developer, refused)
    assert "&#34;amount&#34;: 50" in shown
    assert "&#34;paymentMethod&#34;: &#34;pix&#34;" in shown
    kept = await shop.database.fetchval(
        "select body from request_log where company_id = $1", shop.scope.company_id
    )
    for secret in ("529", "982", "247", VISA, "987", "MARIA", "cliente", "Teste", "98765"):
        assert secret not in kept
    assert shop.key not in kept
    assert shop.key not in shown


async def test_writing_ends_when_what_another_writes_is_written_too(site: Site, shop: Shop) -> None:
    called = await shop.api.get("/v1/balance", key=shop.key)
    async with shop.database.atomic() as block:
        await block.execute("lock table request_log in share mode")
        first = asyncio.create_task(site.resources.requests.write())
        while not await block.fetchval(
            "select exists (select from pg_locks where not granted"
            " and relation = 'request_log'::regclass)"
        ):
            await asyncio.sleep(0.01)
        second = asyncio.create_task(site.resources.requests.write())
        await asyncio.wait([second], timeout=0.2)
        assert not second.done()
    await second
    assert await shop.database.fetchval(
        "select exists (select from request_log where request_id = $1)",
        called.headers["x-request-id"],
    )
    await first


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        (b"", ""),
        (b'{"amount": 100, "number": 4111111111111111}', '"<number>"'),
        (b'{"amount": 4111111111111111}', '"<number>"'),
        (b'{"type": "529.982.247-25"}', '"<text: 14>"'),
        (b'{"type": "cpf"}', '"cpf"'),
        (b'{"status": "4111111111111111"}', '"<text: 16>"'),
        (b'{"productId": "prod_01hzx3v9q8d6f4b2n7m5k1j0ce"}', "prod_01hzx3v9q8d6f4b2n7m5k1j0ce"),
        (b'{"type": "card_01hzx3v9q8d6f4b2n7m5k1j0ce"}', '"<text: 31>"'),
        (b'{"a@b.example": 1}', '"<name: 11>"'),
        (b"sk_live_abc", "<not JSON: 11 bytes>"),
        (b"\xff\xfe", "<not JSON: 2 bytes>"),
        (b"[" * 2_000 + b"]" * 2_000, ""),
    ],
)
def test_a_body_is_told_by_names_and_types(raw: bytes, written: str) -> None:
    assert written in readable(raw)
    assert "4111" not in readable(raw)


async def test_beyond_a_number_a_second_calls_are_only_counted(
    site: Site, shop: Shop, developer: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "REFUSED_PER_SECOND_MAX", 1)
    monkeypatch.setattr(requests, "ACCEPTED_PER_SECOND_MAX", 0)
    for _ in range(20):
        await shop.api.get(f"/v1/transactions/tx_{'0' * 26}", key=shop.key)
    await shop.api.get("/v1/balance", key=shop.key)
    page = await listed(site, developer)
    kept = LISTED.findall(page)
    counted = re.search(r"<strong>(\d+) chamadas</strong>", page)
    assert counted
    assert len(kept) + int(counted[1]) == 21
    assert 1 <= len(kept) < 20
    assert "/v1/balance" not in page


async def test_calls_are_found_by_filters_page_by_page(
    site: Site, shop: Shop, developer: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        await shop.api.get(f"/v1/transactions/tx_{number:026}", key=shop.key)
    for _ in range(3):
        await shop.api.get("/v1/balance", key=shop.key)
    refused = await shop.api.get("/v1/balance", key=shop.tenant.ck_test)
    assert refused.status == 403
    key_id = await shop.database.fetchval(
        "select key_id from api_key where company_id = $1 and type = 'ck' and environment = 'test'",
        shop.scope.company_id,
    )

    async def found(query: str) -> int:
        return len(LISTED.findall(await listed(site, developer, query)))

    assert await found("?status=2") == 3
    assert await found("?status=4") == 7
    assert await found("?status=5") == 0
    assert await found("?method=GET") == 10
    assert await found("?method=POST") == 0
    assert await found("?route=balance") == 4
    assert await found(f"?key={key_id}") == 1
    assert await found("?since=2031-01-01") == 0
    assert await found("?until=2020-01-01") == 0
    assert await found("?status=nonsense&since=nonsense&after=x") == 10
    reply = await developer.get(f"{TEST}/requests?id={refused.headers['x-request-id']}")
    assert reply.headers["location"].endswith(refused.headers["x-request-id"])
    assert "Nenhuma requisição guardada" in await listed(site, developer, "?id=req_0")
    monkeypatch.setattr(requests, "WALKED_ROWS_MAX", 2)
    path, seen = f"{TEST}/requests?route=balance&status=2", list[str]()
    for _ in range(20):
        page = (await developer.get(path)).body.decode()
        seen += LISTED.findall(page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        if older is None:
            break
        path = older[1].replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 3


async def test_nobody_reads_calls_of_others(site: Site, shop: Shop, developer: Browser) -> None:
    other = await site.shop()
    foreign = await other.api.get("/v1/balance", key=other.key)
    live = await shop.api.get("/v1/balance", key=shop.tenant.sk_live)
    page = await listed(site, developer)
    for call in (foreign, live):
        request_id = call.headers["x-request-id"]
        assert request_id not in page
        assert (await developer.get(f"{TEST}/requests/{request_id}")).status == 404
        reply = await developer.get(f"{TEST}/requests?id={request_id}")
        assert "Nenhuma requisição guardada" in reply.body.decode()
    assert live.headers["x-request-id"] in await listed(site, developer, environment="live")
    finance = await site.browser(shop.tenant, Role.FINANCE)
    assert (await finance.get(f"{TEST}/requests")).status == 403


async def test_old_calls_are_forgotten(site: Site, shop: Shop, developer: Browser) -> None:
    await shop.api.get("/v1/balance", key=shop.key)
    assert LISTED.findall(await listed(site, developer))
    await requests.forget_old(shop.database, now=utc_now() + timedelta(days=6))
    assert LISTED.findall(await listed(site, developer))
    assert await requests.forget_old(shop.database, now=utc_now() + timedelta(days=8)) >= 1
    assert not LISTED.findall(await listed(site, developer))
