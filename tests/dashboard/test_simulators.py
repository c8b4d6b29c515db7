"""Simulators: legal moves only, on the ways of real callbacks, and nowhere that money is real."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.api import Api, HttpReply, Shop, complaints
from support.cards import card_order
from support.sandbox_site import Site, running_site
from support.team import Browser, sign_in
from support.webhooks import delivering
from vintem.dashboard import sandbox, simulators
from vintem.members.model import Role
from vintem.settings import Settings
from vintem.transactions.model import MOVES, Status

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


@pytest.fixture(autouse=True)
async def _books_are_right(site: Site) -> AsyncIterator[None]:
    yield
    assert await complaints(site.database) == {}


async def offered(browser: Browser, path: str) -> list[str]:
    reply = await browser.get(path)
    assert reply.status == 200
    return re.findall(r'name="what" value="(\w+)"', reply.body.decode())


async def play(browser: Browser, path: str, what: str) -> str:
    """What the page says once it has happened."""
    reply: HttpReply = await browser.post(path, {"what": what})
    assert reply.status == 303, reply.body.decode()
    return (await browser.get(reply.headers["location"])).body.decode()


async def acts(shop: Shop) -> list[str]:
    rows = await shop.database.fetch(
        "select action, target_id from act where company_id = $1 order by sequence",
        shop.scope.company_id,
    )
    return [f"{row['action']} {row['target_id']}" for row in rows]


async def boleto(shop: Shop) -> str:
    address = {
        "street": "Rua A",
        "streetNumber": "1",
        "neighborhood": "Centro",
        "zipCode": "01001000",
        "city": "São Paulo",
        "state": "SP",
        "country": "BR",
    }
    body = {
        "paymentMethod": "boleto",
        "amount": 10_000,
        "customer": {
            "name": "Cliente de Teste",
            "email": "cliente@example.com",
            "document": {"type": "cpf", "number": "529.982.247-25"},
            "address": address,
        },
    }
    reply = await shop.order(body)
    assert reply.status == 201, reply.json
    transaction_id: str = reply.data["id"]
    return transaction_id


async def test_every_legal_move_is_offered_and_no_other(shop: Shop, developer: Browser) -> None:
    made = await shop.create()
    path = f"{TEST}/simulators/transactions/{made['id']}"
    assert made["id"] in (await developer.get(f"{TEST}/simulators")).body.decode()
    walk = ("paid", "pre_chargeback", "paid", "blocked", "paid", "chargeback", "paid", "refunded")
    status = Status.PENDING
    for following in walk:
        legal = {str(each) for each in MOVES[status]}
        if status is Status.BLOCKED:
            legal = {"paid", "refunded"}
        extra = {"late", "partial", "duplicate"} if status is Status.PENDING else set[str]()
        extra |= {"shuffled"} if status is Status.PAID else set()
        assert set(await offered(developer, path)) == legal | extra
        page = await play(developer, path, following)
        assert "Simulação feita" in page
        status = Status(following)
        assert (await shop.read(made["id"]))["status"] == following
    assert await offered(developer, path) == []
    refused = await developer.post(path, {"what": "paid"})
    assert refused.status == 409
    assert (await acts(shop)).count(f"simulator.used {made['id']}") == len(walk)


@pytest.mark.parametrize("status", ["failed", "cancelled", "blocked"])
async def test_a_pending_payment_ends_in_other_ways(
    shop: Shop, developer: Browser, status: str
) -> None:
    made = await shop.create()
    await play(developer, f"{TEST}/simulators/transactions/{made['id']}", status)
    assert (await shop.read(made["id"]))["status"] == status


async def test_a_boleto_is_paid_late_and_in_part(shop: Shop, developer: Browser) -> None:
    part = await boleto(shop)
    page = await play(developer, f"{TEST}/simulators/transactions/{part}", "partial")
    assert "ficou em conferência" in page
    assert (await shop.read(part))["status"] == "pending"
    late = await boleto(shop)
    await play(developer, f"{TEST}/simulators/transactions/{late}", "late")
    read = await shop.read(late)
    assert (read["status"], read["statusReason"]) == ("paid", "late_payment")
    assert (await shop.balance())["waitingFunds"] == 10_000


@pytest.mark.parametrize("method", ["pix", "credit_card"])
async def test_a_repeated_callback_pays_once(shop: Shop, developer: Browser, method: str) -> None:
    if method == "pix":
        made = await shop.create()
    else:
        made = (await shop.order(card_order("0119"))).data
        assert made["status"] == "processing"
    page = await play(developer, f"{TEST}/simulators/transactions/{made['id']}", "duplicate")
    assert "não mudou nada" in page
    read = await shop.read(made["id"])
    assert read["status"] == "paid"
    postings = await shop.database.fetchval(
        "select count(*) from posting where company_id = $1 and kind = 'capture'",
        shop.scope.company_id,
    )
    assert postings == 1


async def test_callbacks_out_of_order_are_done_in_order(shop: Shop, developer: Browser) -> None:
    transaction_id = await shop.paid()
    await play(developer, f"{TEST}/simulators/transactions/{transaction_id}", "shuffled")
    assert (await shop.read(transaction_id))["status"] == "chargeback"
    events = (await shop.api.get("/v1/events", key=shop.key)).data["events"]
    kinds = [each["event"] for each in events if each["data"]["id"] == transaction_id]
    assert kinds[:2] == ["transaction.chargeback", "transaction.pre_chargeback"]


async def withdraw(shop: Shop, amount: int = 1_000) -> Any:
    body = {
        "method": "pix",
        "amount": amount,
        "pixKey": "cliente@example.com",
        "pixKeyType": "email",
    }
    reply = await shop.api.post("/v1/withdrawals", key=shop.key, json=body)
    assert reply.status == 201, reply.json
    return reply.data


async def test_a_withdrawal_is_completed_or_comes_back(shop: Shop, developer: Browser) -> None:
    await shop.paid(10_000)
    done, lost = await withdraw(shop), await withdraw(shop, 2_000)
    path = f"{TEST}/simulators/withdrawals/{done['id']}"
    assert set(await offered(developer, path)) == {"processing", "failed", "cancelled"}
    await play(developer, path, "processing")
    assert set(await offered(developer, path)) == {"completed", "failed"}
    await play(developer, path, "completed")
    assert await offered(developer, path) == []
    assert (await developer.post(path, {"what": "failed"})).status == 409
    await play(developer, f"{TEST}/simulators/withdrawals/{lost['id']}", "failed")
    read = (await shop.api.get(f"/v1/withdrawals/{lost['id']}", key=shop.key)).data
    assert (read["status"], read["failureCode"]) == ("failed", "SIMULATED_FAILURE")
    assert await shop.balance() == {"available": 9_000}
    assert f"simulator.used {done['id']}" in await acts(shop)


async def test_what_is_scheduled_is_released_here_and_only_here(
    site: Site, shop: Shop, developer: Browser
) -> None:
    other = await site.shop()
    for each in (shop, other):
        await each.order(card_order(amount=30_000, installments=3))
        assert (await each.balance())["waitingFunds"] == 30_000
    assert "Liberar tudo agora" in (await developer.get(f"{TEST}/simulators")).body.decode()
    reply = await developer.post(f"{TEST}/simulators/release", {})
    page = (await developer.get(reply.headers["location"])).body.decode()
    assert "foi liberado" in page
    assert await shop.balance() == {"available": 30_000}
    assert (await other.balance())["waitingFunds"] == 30_000
    reply = await developer.post(f"{TEST}/simulators/release", {})
    assert "released-nothing" in reply.headers["location"]
    assert "simulator.released test" in await acts(shop)


async def test_a_burst_shows_the_headers_and_uses_up_nothing(
    shop: Shop, developer: Browser
) -> None:
    await shop.database.execute(
        "update company set transactions_per_second = 5 where company_id = $1",
        shop.scope.company_id,
    )
    path = f"{TEST}/simulators/burst"
    assert ">429<" not in (await developer.get(path)).body.decode()
    page = (await developer.get(f"{path}?group=transactions")).body.decode()
    assert [f"x-ratelimit-remaining: {left}" in page for left in range(6)] == [True] * 5 + [False]
    assert page.count("retry-after: 1") == 3
    assert page.count(">429<") == 3
    await shop.database.execute(
        "update company set requests_per_minute = 1000000 where company_id = $1",
        shop.scope.company_id,
    )
    page = (await developer.get(f"{path}?group=requests")).body.decode()
    assert "as 999933 primeiras, aceitas" in page
    assert page.count("x-ratelimit-limit: 1000000") == page.count("<tr>") - 1 == 70
    assert [f"x-ratelimit-remaining: {left}<" in page for left in (66, 67)] == [True, False]
    assert page.count(">429<") == 3


async def test_test_data_is_accepted_by_the_api(shop: Shop, developer: Browser) -> None:
    page = (await developer.get(f"{TEST}/simulators/data")).body.decode()
    cpf = re.search(r"\d{3}\.\d{3}\.\d{3}-\d{2}", page)
    cnpj = re.search(r"\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2}", page)
    assert cpf
    assert cnpj
    for kind, number in (("cpf", cpf[0]), ("cnpj", cnpj[0])):
        customer = {
            "name": "Cliente de Teste",
            "email": "cliente@example.com",
            "document": {"type": kind, "number": number},
        }
        assert (await shop.create(customer=customer))["status"] == "pending"
    outcomes = {}
    for number, _ in sandbox.CARDS:
        order = card_order()
        order["card"]["number"] = number.replace(" ", "")
        made = await shop.order(order)
        outcomes[number[-4:]] = made.data["status"]
    assert outcomes == {
        "4242": "paid",
        "0002": "failed",
        "9995": "failed",
        "0127": "failed",
        "0119": "processing",
        "0069": "blocked",
        "0259": "paid",
    }


async def test_the_sink_answers_as_wished_and_shows_what_arrived(
    site: Site, shop: Shop, developer: Browser
) -> None:
    path = f"{TEST}/simulators/sink"
    page = (await developer.get(path)).body.decode()
    found = re.search(r"http://127\.0\.0\.1:\d+(/sandbox/sinks/[^<\" ]+)", page)
    assert found
    await developer.post(f"{path}/register", {})
    await developer.post(f"{path}/register", {})
    hooks = (await shop.api.get("/v1/webhooks", key=shop.key)).data["webhooks"]
    assert [each["url"] for each in hooks] == [found[0]]
    async with delivering(site.resources):
        first = await shop.create()
        page = await until_shown(developer, path, f"tx:{first['id']}:PENDING")
        assert "webhook-signature" in page
        assert (await developer.post(path, {"behaviour": "nonsense"})).status >= 400
        assert (await developer.post(path, {"behaviour": "error"})).status == 303
        await shop.create()
        await until_shown(developer, f"{TEST}/deliveries?status=5xx", ">500<")
    wrong = found[1][:-1] + ("0" if found[1][-1] != "0" else "1")
    assert (await shop.api.post(wrong, json={})).status == 404
    other = await site.shop()
    stranger = found[1].replace(shop.tenant.company.public_id, other.tenant.company.public_id)
    assert (await shop.api.post(stranger, json={})).status == 404


async def until_shown(browser: Browser, path: str, text: str) -> str:
    for _ in range(200):
        page = (await browser.get(path)).body.decode()
        if text in page:
            return page
        await asyncio.sleep(0.05)
    pytest.fail(f"{text} is not shown")


async def test_no_sink_is_offered_where_this_machine_is_not_called(
    api: Api, site: Site, shop: Shop
) -> None:
    developer = await sign_in(api, site.database, shop.tenant, Role.DEVELOPER)
    assert (await developer.get(f"{TEST}/simulators/sink")).status == 404
    assert "/simulators/sink" not in (await developer.get(f"{TEST}/simulators")).body.decode()


async def test_simulators_are_not_for_real_money(site: Site, shop: Shop) -> None:
    owner = await site.browser(shop.tenant, Role.OWNER)
    for page in (*simulators.PAGES, *sandbox.PAGES):
        path = "/dashboard/live" + page.path.replace("{id}", f"tx_{'0' * 26}")
        called = owner.get(path) if page.method == "GET" else owner.post(path, {})
        assert (await called).status == 403, path


async def test_records_of_others_are_not_found(site: Site, shop: Shop, developer: Browser) -> None:
    other = await site.shop()
    foreign = await other.paid()
    withdrawal = (await withdraw(other))["id"]
    for path in (
        f"{TEST}/simulators/transactions/{foreign}",
        f"{TEST}/simulators/withdrawals/{withdrawal}",
        f"{TEST}/simulators/transactions/tx_nonsense",
    ):
        assert (await developer.get(path)).status == 404
        assert (await developer.post(path, {"what": "refunded"})).status == 404
    assert (await other.read(foreign))["status"] == "paid"
