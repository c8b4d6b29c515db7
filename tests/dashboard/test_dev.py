"""Keys and webhooks as a developer sees them: secrets once, nothing of others, all in the trail."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

import pyotp
import pytest

from support.api import HttpReply, Shop
from support.sandbox_site import Site, running_site
from support.sink import Sink, running_sink
from support.team import Browser
from support.webhooks import delivering, until_delivered
from vintem.kit.clock import utc_now
from vintem.members import second_factor
from vintem.members.model import Role
from vintem.settings import Settings
from vintem.webhooks import search

KEY = re.compile(r"[sc]k_(?:live|test)_[0-9A-Za-z]{38}")
SECRET = re.compile(r"whsec_[0-9A-Za-z+/]{43}=")
TEST = "/dashboard/test"


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


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with running_sink() as running:
        yield running


async def trail_of(shop: Shop) -> str:
    rows = await shop.database.fetch(
        "select action, target_id, before, after from act where company_id = $1",
        shop.scope.company_id,
    )
    return "\n".join(
        f"{row['action']} {row['target_id']} {row['before']} {row['after']}" for row in rows
    )


async def follow(browser: Browser, reply: HttpReply) -> str:
    """The page that a form leads to."""
    assert reply.status == 303, (reply.status, reply.body.decode())
    shown = await browser.get(reply.headers["location"])
    assert shown.status == 200, shown.body.decode()
    return shown.body.decode()


async def create_key(browser: Browser, kind: str, environment: str = "test", **fields: str) -> str:
    path = f"/dashboard/{environment}/keys/{kind}/new"
    page = await follow(browser, await browser.post(path, {"label": "Loja", **fields}))
    found = KEY.search(page)
    assert found, page
    return found[0]


async def until_refused(shop: Shop, key: str, code: str) -> float:
    """How long a key goes on to work."""
    began = time.monotonic()
    while time.monotonic() < began + 8:
        reply = await shop.api.get("/v1/transactions", key=key)
        if reply.status >= 400:
            assert reply.json["error"]["code"] == code
            return time.monotonic() - began
        await asyncio.sleep(0.2)
    pytest.fail("the key goes on to work")


async def test_headers_alone_use_up_no_key_that_is_shown_once(developer: Browser) -> None:
    made = await developer.post(f"{TEST}/keys/secret/new", {"label": "Loja"})
    assert made.status == 303
    assert (await developer.head(f"{TEST}/keys")).status == 200
    assert KEY.search((await developer.get(f"{TEST}/keys")).body.decode())


@pytest.mark.parametrize(("kind", "status"), [("secret", 200), ("checkout", 403)])
async def test_a_key_is_shown_once_and_works(
    shop: Shop, developer: Browser, kind: str, status: int
) -> None:
    key = await create_key(developer, kind)
    assert (await shop.api.get("/v1/transactions", key=key)).status == status
    again = (await developer.get(f"{TEST}/keys")).body.decode()
    assert KEY.search(again) is None
    assert f"{key[:8]}…{key[-4:]}" in again
    assert "Pessoa developer" in again
    live = (await developer.get("/dashboard/live/keys")).body.decode()
    assert key[-4:] not in live
    told = await trail_of(shop)
    assert "key.created" in told
    assert KEY.search(told) is None


async def test_a_form_with_faults_says_which_and_keeps_what_was_typed(developer: Browser) -> None:
    reply = await developer.post(
        f"{TEST}/keys/secret/new", {"label": "", "networks": "203.0.113.7 perto"}
    )
    page = reply.body.decode()
    assert reply.status == 422
    assert "Dê um nome à chave" in page
    assert "“perto” não é um endereço IP" in page
    assert "203.0.113.7 perto" in page


async def key_id_of(shop: Shop, key: str) -> str:
    key_id: str = await shop.database.fetchval(
        "select key_id from api_key where company_id = $1 and last_four = $2",
        shop.scope.company_id,
        key[-4:],
    )
    return key_id


async def test_a_rotated_key_works_beside_its_successor(shop: Shop, developer: Browser) -> None:
    old = await create_key(developer, "secret", networks="127.0.0.0/8")
    path = f"{TEST}/keys/secret/{await key_id_of(shop, old)}/rotate"
    assert (await developer.post(path, {"overlap": "1y"})).status == 422
    page = await follow(developer, await developer.post(path, {"overlap": "1h"}))
    found = KEY.search(page)
    assert found
    new = found[0]
    assert new != old
    assert "Em troca" in page
    for key in (old, new):
        assert (await shop.api.get("/v1/transactions", key=key)).status == 200
    assert (await developer.post(path, {"overlap": "1h"})).status == 422
    told = await trail_of(shop)
    assert "key.rotated" in told
    assert KEY.search(told) is None


@pytest.mark.parametrize(
    ("form", "hours"), [({}, 24), ({"overlap": "1h"}, 1), ({"overlap": "7d"}, 168)]
)
async def test_a_rotated_key_ends_a_day_later_unless_otherwise_asked(
    shop: Shop, developer: Browser, form: dict[str, str], hours: int
) -> None:
    old = await key_id_of(shop, await create_key(developer, "secret"))
    assert (await developer.post(f"{TEST}/keys/secret/{old}/rotate", form)).status == 303
    row = await shop.database.fetchrow(
        """
        select old.expires_at, new.created_at from api_key old
        join api_key new on new.company_id = old.company_id and new.key_id = old.replaced_by
        where old.company_id = $1 and old.key_id = $2
        """,
        shop.scope.company_id,
        old,
    )
    assert row is not None
    assert row["expires_at"] - row["created_at"] == timedelta(hours=hours)


async def test_a_revoked_key_is_refused_within_five_seconds(shop: Shop, developer: Browser) -> None:
    key = await create_key(developer, "secret")
    path = f"{TEST}/keys/secret/{await key_id_of(shop, key)}/revoke"
    assert (await shop.api.get("/v1/transactions", key=key)).status == 200
    assert (await developer.post(path, {"last_four": "nope"})).status == 422
    assert (await shop.api.get("/v1/transactions", key=key)).status == 200
    page = await follow(developer, await developer.post(path, {"last_four": key[-4:]}))
    assert "Revogada" in page
    assert await until_refused(shop, key, "INVALID_API_KEY") < 5
    assert "key.revoked" in await trail_of(shop)


async def test_a_list_of_addresses_binds_a_key_that_is_in_use(
    shop: Shop, developer: Browser
) -> None:
    key = await create_key(developer, "secret")
    path = f"{TEST}/keys/secret/{await key_id_of(shop, key)}/edit"
    assert (await shop.api.get("/v1/transactions", key=key)).status == 200
    fields = {"label": "Nova loja", "networks": "203.0.113.0/24\n2001:db8::/32"}
    page = await follow(developer, await developer.post(path, fields))
    assert "Nova loja" in page
    assert "2001:db8::/32" in page
    assert await until_refused(shop, key, "IP_NOT_ALLOWED") < 5


async def test_live_secret_keys_are_for_owner_and_admin_with_a_second_step(
    site: Site, shop: Shop, developer: Browser
) -> None:
    owner = await site.browser(shop.tenant, Role.OWNER)
    reply = await owner.post("/dashboard/live/keys/secret/new", {"label": "Produção"})
    assert reply.status == 422
    assert "verificação em duas etapas" in reply.body.decode()
    assert (await owner.get("/dashboard/live/keys/secret/new")).status == 200
    assert (await developer.get("/dashboard/live/keys/secret/new")).status == 403
    assert (
        await developer.post("/dashboard/live/keys/secret/new", {"label": "Produção"})
    ).status == 403
    await create_key(developer, "checkout", "live")
    person_id = await shop.database.fetchval(
        "select person_id from member where company_id = $1 and role = 'owner'",
        shop.scope.company_id,
    )
    sealer = site.resources.sealer
    secret = await second_factor.offer(shop.database, sealer, person_id, now=utc_now())
    codes = await second_factor.enrol(
        shop.database, sealer, person_id, pyotp.TOTP(secret).now(), now=utc_now()
    )
    assert codes
    path, fields = "/dashboard/live/keys/secret/new", {"label": "Produção"}
    refused = await owner.post(path, {**fields, "code": "000000"})
    assert (refused.status, "O código não confere" in refused.body.decode()) == (422, True)
    key = await create_key(owner, "secret", "live", code=codes[0])
    assert (await shop.api.get("/v1/transactions", key=key)).status == 200
    assert (await owner.post(path, {**fields, "code": codes[0]})).status == 422


async def test_a_developer_sees_the_last_four_of_a_live_secret_key_and_no_more(
    shop: Shop, developer: Browser
) -> None:
    await shop.database.execute(
        "update api_key set label = 'Nome interno', allowed_networks = '{198.51.100.7/32}'"
        " where company_id = $1 and type = 'sk'",
        shop.scope.company_id,
    )
    live = (await developer.get("/dashboard/live/keys")).body.decode()
    assert f"sk_live_…{shop.tenant.sk_live[-4:]}" in live
    assert "Nome interno" not in live
    assert "198.51.100.7" not in live
    assert "/keys/secret/" not in live
    assert "Nome interno" in (await developer.get("/dashboard/test/keys")).body.decode()


@pytest.mark.parametrize("action", ["edit", "rotate", "revoke"])
async def test_a_key_of_others_is_not_found(
    site: Site, shop: Shop, developer: Browser, action: str
) -> None:
    other = await site.shop()
    foreign = await key_id_of(other, other.tenant.sk_test)
    live = await key_id_of(shop, shop.tenant.sk_live)
    checkout = await key_id_of(shop, shop.tenant.ck_test)
    for key_id in (foreign, live, checkout, "key_x"):
        path = f"{TEST}/keys/secret/{key_id}/{action}"
        assert (await developer.get(path)).status == 404
        fields = {"label": "x"} if action == "edit" else {}
        assert (await developer.post(path, fields)).status == 404
    for key in (other.tenant.sk_test, shop.tenant.sk_live):
        assert (await shop.api.get("/v1/balance", key=key)).status == 200


async def new_webhook(browser: Browser, url: str, **fields: str) -> tuple[str, str]:
    """The id and the secret of a webhook made by the form."""
    reply = await browser.post(f"{TEST}/webhooks/new", {"url": url, "every": "1", **fields})
    page = await follow(browser, reply)
    found = SECRET.search(page)
    assert found, page
    return reply.headers["location"].partition("?")[0].rpartition("/")[2], found[0]


async def test_a_webhook_is_made_signed_tested_changed_and_deleted(
    site: Site, shop: Shop, developer: Browser, sink: Sink
) -> None:
    webhook_id, secret = await new_webhook(developer, sink.url(), description="Minha loja")
    path = f"{TEST}/webhooks/{webhook_id}"
    shown = (await developer.get(path)).body.decode()
    assert SECRET.search(shown) is None
    assert f"whsec_…{secret.rstrip('=')[-4:]}" in shown
    async with delivering(site.resources):
        tested = await developer.post(f"{path}/test", {})
        [arrived] = await sink.until(1)
        arrived.verify(secret)
        assert arrived.event["event"] == "ping"
        page = await follow(developer, tested)
        assert arrived.event_id in page
        rotated = await follow(developer, await developer.post(f"{path}/rotate", {}))
        found = SECRET.search(rotated)
        assert found
        assert found[0] != secret
        assert "também assina até" in rotated
        await shop.create()
        arrived = (await sink.until(2))[1]
        arrived.verify(secret)
        arrived.verify(found[0])
    listed = (await developer.get(f"{TEST}/webhooks")).body.decode()
    assert "100 %" in listed
    assert "Minha loja" in listed
    assert "Desativado" in await follow(developer, await developer.post(f"{path}/disable", {}))
    assert "Ativo" in await follow(developer, await developer.post(f"{path}/enable", {}))
    fields = {"url": sink.url("/other"), "events": "transaction.paid"}
    page = await follow(developer, await developer.post(f"{path}/edit", fields))
    assert "/other" in page
    assert "transaction.paid" in page
    assert (await developer.get(f"{path}/delete")).status == 200
    page = await follow(developer, await developer.post(f"{path}/delete", {}))
    assert "Nenhum webhook" in page
    told = await trail_of(shop)
    assert SECRET.search(told) is None
    words = ("created", "tested", "rotated", "disabled", "enabled", "changed", "deleted")
    assert all(f"webhook.{word}" in told for word in words)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "https://10.0.0.7/x", "every": "1"}, "não pode ser chamado"),
        ({"url": "ftp://loja.example/x", "every": "1"}, "não pode ser chamado"),
        ({"url": "", "every": "1"}, "Informe o endereço"),
        ({"url": "https://10.0.0.7/x"}, "Escolha ao menos um evento"),
        ({"url": "https://10.0.0.7/x", "events": "transaction.lost"}, "eventos da lista"),
    ],
)
async def test_what_the_api_refuses_is_a_fault_of_a_field(
    developer: Browser, fields: Mapping[str, str], said: str
) -> None:
    reply = await developer.post(f"{TEST}/webhooks/new", fields)
    assert reply.status == 422
    assert said in reply.body.decode()
    assert fields["url"] in reply.body.decode()


async def test_the_seventeenth_webhook_is_refused_in_words(
    site: Site, shop: Shop, developer: Browser, sink: Sink
) -> None:
    for number in range(16):
        reply = await shop.api.post(
            "/v1/webhooks", key=shop.key, json={"url": sink.url(f"/{number}"), "events": ["*"]}
        )
        assert reply.status == 201
    reply = await developer.post(f"{TEST}/webhooks/new", {"url": sink.url(), "every": "1"})
    assert reply.status == 422
    assert "16 endereços" in reply.body.decode()


async def test_what_failed_is_found_and_sent_again(
    site: Site, shop: Shop, developer: Browser, sink: Sink
) -> None:
    sink.answer("/hook", 503, body="em manutenção")
    webhook_id, _ = await new_webhook(developer, sink.url())
    async with delivering(site.resources):
        made = [await shop.create() for _ in range(3)]
        await until_delivered(shop, webhook_id, 3, status="failed")
        listed = (await developer.get(f"{TEST}/deliveries?status=failed")).body.decode()
        ids = list(dict.fromkeys(re.findall(r"/deliveries/(dlv_\w+)", listed)))
        assert len(ids) == 3
        assert "503" in listed
        detail = (await developer.get(f"{TEST}/deliveries/{ids[0]}")).body.decode()
        assert "em manutenção" in detail
        assert "10ª" in detail
        assert made[2]["id"] in detail
        sink.answer("/hook", 200)
        page = await follow(
            developer, await developer.post(f"{TEST}/deliveries/{ids[0]}/resend", {})
        )
        assert "será tentada de novo" in page
        await until_delivered(shop, webhook_id, 1)
        support = await site.browser(shop.tenant, Role.SUPPORT)
        fields = {"endpoint": webhook_id, "kind": "", "since": "", "until": ""}
        page = await follow(support, await support.post(f"{TEST}/deliveries/resend", fields))
        assert "serão tentadas de novo" in page
        await until_delivered(shop, webhook_id, 3)
    page = await follow(developer, await developer.post(f"{TEST}/deliveries/resend", fields))
    assert "Nada a reenviar" in page
    told = await trail_of(shop)
    assert "delivery.resent" in told
    assert '"deliveries":2' in told


async def test_an_address_that_was_given_up_is_enabled_and_told_again(
    site: Site, shop: Shop, developer: Browser, sink: Sink
) -> None:
    sink.answer("/hook", 410)
    webhook_id, _ = await new_webhook(developer, sink.url())
    async with delivering(site.resources):
        await shop.create()
        await until_delivered(shop, webhook_id, 1, status="ended")
        path = f"{TEST}/webhooks/{webhook_id}"
        assert "respondeu 410" in (await developer.get(f"{TEST}/webhooks")).body.decode()
        refused = await developer.post(f"{path}/replay", {"since": "2026-01-01", "until": "x"})
        assert refused.status == 422
        sink.answer("/hook", 200)
        await developer.post(f"{path}/enable", {})
        form = (await developer.get(f"{path}/replay")).body.decode()
        days = re.findall(r'type="date" value="([0-9-]{10})"', form)
        reply = await developer.post(f"{path}/replay", {"since": days[0], "until": days[1]})
        page = await follow(developer, reply)
        assert "serão enviados de novo" in page
        await until_delivered(shop, webhook_id, 1)
    assert "webhook.replayed" in await trail_of(shop)


async def test_events_carry_their_id_and_the_correlation_of_the_call(
    site: Site, shop: Shop, developer: Browser, sink: Sink
) -> None:
    webhook_id, _ = await new_webhook(developer, sink.url())
    async with delivering(site.resources):
        body = {
            "paymentMethod": "pix",
            "amount": 5_000,
            "customer": {
                "name": "Cliente de Teste",
                "email": "cliente@example.com",
                "document": {"type": "cpf", "number": "529.982.247-25"},
            },
        }
        headers = {"X-Correlation-Id": "pedido-77"}
        await shop.api.post("/v1/transactions", key=shop.key, json=body, headers=headers)
        [arrived] = await sink.until(1)
        assert arrived.headers["x-event-id"] == arrived.event_id
        assert arrived.headers["x-correlation-id"] == "pedido-77"
        await until_delivered(shop, webhook_id, 1)
    found = await developer.get(f"{TEST}/deliveries?id={arrived.event_id}")
    detail = await follow(developer, found)
    assert "pedido-77" in detail
    assert "cliente@example.com" in detail
    support = await site.browser(shop.tenant, Role.SUPPORT)
    hidden = (await support.get(found.headers["location"])).body.decode()
    assert "cliente@example.com" not in hidden
    assert "Cliente de Teste" not in hidden
    assert arrived.event["data"]["id"] in hidden


async def test_deliveries_are_found_by_filters_page_by_page(
    shop: Shop, developer: Browser, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await new_webhook(developer, sink.url("/a"))
    second, _ = await new_webhook(developer, sink.url("/b"))
    paid = await shop.paid(postbackUrl=sink.url("/postback"))
    for _ in range(4):
        await shop.create()

    async def found(query: str) -> list[str]:
        page = (await developer.get(f"{TEST}/deliveries?{query}")).body.decode()
        return list(dict.fromkeys(re.findall(r"/deliveries/(dlv_\w+)", page)))

    assert len(await found("")) == 2 * 6 + 2
    assert len(await found(f"endpoint={first}")) == 6
    assert len(await found("kind=transaction.paid")) == 3
    assert len(await found("status=pending")) == 14
    assert await found("status=delivered") == []
    assert await found("status=4xx") == []
    assert await found("since=2031-01-01") == []
    assert await found("until=2020-01-01") == []
    assert await found("after=nonsense&status=nonsense&kind=nonsense&since=nonsense") != []
    # Looked through a bounded number at a time, nothing is left out and nothing comes twice.
    monkeypatch.setattr(search, "WALKED_ROWS_MAX", 3)
    path, pages, seen = f"{TEST}/deliveries?kind=transaction.paid", 0, list[str]()
    while path:
        page = (await developer.get(path)).body.decode()
        seen += dict.fromkeys(re.findall(r"/deliveries/(dlv_\w+)", page))
        older = re.search(r'href="([^"]+)" rel="next"', page)
        path, pages = older[1].replace("&amp;", "&") if older else "", pages + 1
        assert pages < 20
    assert pages > 2
    assert len(seen) == len(set(seen)) == 3
    assert paid.startswith("tx_")
    assert second


async def test_webhooks_and_deliveries_of_others_are_not_found(
    site: Site, shop: Shop, developer: Browser, sink: Sink
) -> None:
    other = await site.shop()
    owner = await site.browser(other.tenant, Role.OWNER)
    foreign, _ = await new_webhook(owner, sink.url())
    await other.create()
    listed = (await owner.get(f"{TEST}/deliveries")).body.decode()
    [delivery_id] = set(re.findall(r"/deliveries/(dlv_\w+)", listed))
    for browser, environment in ((developer, "test"), (owner, "live")):
        root = f"/dashboard/{environment}"
        assert (await browser.get(f"{root}/webhooks/{foreign}")).status == 404
        for action in ("edit", "delete", "rotate", "replay"):
            assert (await browser.get(f"{root}/webhooks/{foreign}/{action}")).status == 404
            assert (await browser.post(f"{root}/webhooks/{foreign}/{action}", {})).status == 404
        for action in ("enable", "disable", "test"):
            assert (await browser.post(f"{root}/webhooks/{foreign}/{action}", {})).status == 404
        assert (await browser.get(f"{root}/deliveries/{delivery_id}")).status == 404
        resend = f"{root}/deliveries/{delivery_id}/resend"
        assert (await browser.post(resend, {})).status == 404
        listed = (await browser.get(f"{root}/deliveries?endpoint={foreign}")).body.decode()
        assert delivery_id not in listed
        page = await browser.get(f"{root}/deliveries?id={delivery_id}")
        assert "Nenhuma entrega com esse id" in page.body.decode()
    assert shop.tenant.company.company_id != other.tenant.company.company_id
