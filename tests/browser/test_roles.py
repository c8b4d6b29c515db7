"""Five roles at five browsers: what each may do, may not do, and leaves in the trail."""

import asyncio
import csv
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from support import first_steps
from support.api import TEST_PEPPER, assert_refused, pix_order
from support.boutique import BUYER, CPF, Boutique, running_boutique
from support.first_steps import Member
from support.platform import private_folder, vintem
from support.shopper import Door
from vintem.companies.model import Environment
from vintem.dashboard.menu import MENU
from vintem.dashboard.page import Page as Offered
from vintem.dashboard.pages import PAGES
from vintem.kit.errors import ErrorCode
from vintem.members.model import Role, may

NAMES = {
    Role.ADMIN: "Bia Reis",
    Role.FINANCE: "Caio Lima",
    Role.DEVELOPER: "Davi Melo",
    Role.SUPPORT: "Eva Nunes",
}
FORMULA = "=cmd|' /C calc'!A0"
FORBIDDEN = 403


@dataclass(frozen=True)
class Office:
    """A company that sells, and its people, each at a browser of their own."""

    store: Boutique
    door: Door
    people: Mapping[Role, Member]

    @property
    def owner(self) -> Member:
        return self.people[Role.OWNER]

    async def sell(self, *, is_paid: bool = True, **changed: object) -> str:
        """Take an order by the API; its id."""
        key = self.store.running.ready["testSecretKey"]
        order = pix_order(10_000, **{"customer": BUYER, **changed})
        reply = await self.store.api.post("/v1/transactions", key=key, json=order)
        assert reply.status == 201, reply.json
        if is_paid:
            await self.store.simulate(reply.data["id"], "paid")
        return str(reply.data["id"])

    async def assert_written(self, action: str, role: Role, *, target: str = "") -> None:
        """Find in Auditoria what somebody did."""
        await self.owner.go(f"/trail?action={action}&target={target}")
        acts = rows_of(self.owner).filter(has_text=self.people[role].name)
        await expect(acts.first).to_contain_text(action)


@pytest.fixture(scope="module")
async def office(browser: Browser) -> AsyncIterator[Office]:
    """A demo of one's own whose owner has invited one person for each other role."""
    with private_folder() as folder:
        async with running_boutique(folder) as store:
            door = Door(browser, store.base_url)
            owner = await first_steps.sign_in(door, store.running.ready["dashboard"])
            links = [
                await first_steps.invite(owner, f"{role}@loja.example", role) for role in NAMES
            ]
            joining = [
                first_steps.join(door, link, name)
                for link, name in zip(links, NAMES.values(), strict=True)
            ]
            joined = zip(NAMES, await asyncio.gather(*joining), strict=True)
            people = {Role.OWNER: owner, **dict(joined)}
            for member in people.values():
                member.watch.statuses.add(FORBIDDEN)
            yield Office(store, door, people)
            await door.close()
            await store.assert_books_balance()


async def test_those_invited_have_joined_with_their_roles(office: Office) -> None:
    await office.owner.go("/team")
    for role, name in NAMES.items():
        line = rows_of(office.owner).filter(has_text=f"{role}@loja.example")
        await expect(line).to_contain_text(name)
        await expect(line.locator("select")).to_have_value(role)
    for role in NAMES:
        await office.assert_written("invitation.accepted", role)
    await office.assert_written("invitation.sent", Role.OWNER)


async def test_a_webhook_that_failed_is_sent_again_by_support(office: Office) -> None:
    developer, support = office.people[Role.DEVELOPER], office.people[Role.SUPPORT]
    await first_steps.register_sink(developer)
    await answer_with(developer, "error")
    transaction_id = await office.sell(is_paid=False)
    # The second try comes by itself soon, the third much later: what comes then was asked for.
    await first_steps.until_says(support, "/deliveries?status=5xx", "Nova tentativa")
    await rows_of(support).first.locator("a").click()
    await support.reads(transaction_id)
    delivery_id = found_in(r"dlv_[0-9a-z]{26}", support.page.url)
    await first_steps.until_says(support, f"/deliveries/{delivery_id}", "2ª")
    await support.reads("Nova tentativa")

    await answer_with(developer, "ok")
    await support.go(f"/deliveries/{delivery_id}")
    await support.press("Reenviar")
    await support.reads("A entrega será tentada de novo em instantes.")
    await first_steps.until_says(support, f"/deliveries/{delivery_id}", "Entregue")
    await office.assert_written("webhook.created", Role.DEVELOPER)
    await office.assert_written("simulator.sink", Role.DEVELOPER)
    await office.assert_written("delivery.resent", Role.SUPPORT, target=delivery_id)


async def test_keys_are_shown_once_and_do_what_their_kind_may(office: Office) -> None:
    developer, api = office.people[Role.DEVELOPER], office.store.api
    checkout = await create_key(developer, "checkout", "Loja virtual")
    secret = await create_key(developer, "secret", "Servidor")
    assert checkout.startswith("ck_test_")
    assert secret.startswith("sk_test_")

    refused = await api.post("/v1/transactions", key=checkout, json=pix_order())
    assert_refused(refused, ErrorCode.KEY_TYPE_NOT_ALLOWED, status=403)
    opened = await api.post(
        "/v1/checkout/sessions",
        key=checkout,
        json={"productId": office.store.product.product_id},
    )
    assert opened.status == 201, opened.json
    taken = await api.post("/v1/transactions", key=secret, json=pix_order())
    assert taken.status == 201, taken.json
    await office.assert_written("key.created", Role.DEVELOPER)
    acts = rows_of(office.owner).filter(has_text=developer.name)
    await expect(acts).to_have_count(2)


async def test_a_developer_makes_a_link_and_a_buyer_pays_it(office: Office) -> None:
    developer = office.people[Role.DEVELOPER]
    await first_steps.create_product(developer, "Aula de cavaquinho", "200,00")
    await create_coupon(developer, "CORDAS10", "10")
    link = await first_steps.create_link(
        developer, "Aula com desconto", "Aula de cavaquinho", coupon="CORDAS10"
    )
    link_id = found_in(r"pl_[0-9a-z]{26}", developer.page.url)

    before = await count_sessions(developer)
    # A messenger that draws a preview runs no script.
    preview = await office.door.enter(link, java_script_enabled=False)
    await preview.reads("Aula de cavaquinho")
    assert await count_sessions(developer) == before
    await first_steps.buy(office.door, link)
    assert await count_sessions(developer) == before + 1

    await developer.go("/transactions")
    sale = rows_of(developer).filter(has_text="Aula de cavaquinho")
    for words in ("180,00", "Paga", "Maria da Silva", "Link"):
        await expect(sale).to_contain_text(words)
    for action in ("product.created", "coupon.created"):
        await office.assert_written(action, Role.DEVELOPER)
    await office.assert_written("link.created", Role.DEVELOPER, target=link_id)


async def test_finance_asks_for_money_and_an_admin_lets_it_go(office: Office) -> None:
    finance, admin = office.people[Role.FINANCE], office.people[Role.ADMIN]
    await office.sell()
    await first_steps.require_approval(office.owner, above="50,00")
    withdrawal_id = await first_steps.request_withdrawal(finance, "60,00")
    approval = f"/approvals/{withdrawal_id}"

    await finance.go("/approvals")
    await finance.reads("Ver, é seu")
    await finance.go(approval)
    await finance.reads("Você pediu este saque")
    await expect(finance.page.locator("main form")).to_have_count(0)
    for verb in ("approve", "reject"):
        assert await send(finance, f"{approval}/{verb}", reason="meu", code="000000") == FORBIDDEN

    await admin.set_up_second_step()
    await admin.go(approval)
    await admin.reads("Acima do limite automático de R$ 50,00")
    assert await send(admin, f"{approval}/approve", code="") == 422
    await first_steps.approve(admin, withdrawal_id, admin.code(steps_later=1))
    await first_steps.until_says(finance, f"/withdrawals/{withdrawal_id}", "Concluído")
    await finance.reads(admin.name)

    await office.assert_written("withdrawal_rules.changed", Role.OWNER)
    await office.assert_written("withdrawal.requested", Role.FINANCE, target=withdrawal_id)
    await office.assert_written("permission.denied", Role.FINANCE, target=approval)
    await office.assert_written("second-step.begun", Role.ADMIN)
    await office.assert_written("withdrawal.approved", Role.ADMIN, target=withdrawal_id)


async def test_support_sees_buyers_behind_a_mask_and_takes_no_list_away(office: Office) -> None:
    support = office.people[Role.SUPPORT]
    transaction_id = await office.sell()
    places = ("", "/transactions", f"/transactions/{transaction_id}", "/customers", "/sessions")
    for place in places:
        await support.go(place)
        await support.reads("Maria d. S." if place != "/sessions" else "Sessões")
        assert personal_in(await support.page.content()) == [], place
        await expect(support.page.get_by_text("Exportar")).to_have_count(0)
    for place in ("/transactions.csv", "/trail.csv", "/statement.csv"):
        await assert_refuses(support, place)

    await support.go(f"/transactions/{transaction_id}")
    await support.press("Revelar")
    await support.reads("maria@example.com")
    await support.reads("529.982.247-25")
    await support.go(f"/transactions/{transaction_id}")
    assert personal_in(await support.page.content()) == []
    await office.assert_written("permission.denied", Role.SUPPORT, target="/transactions.csv")
    await office.assert_written("personal.revealed", Role.SUPPORT, target=transaction_id)


async def test_the_file_of_a_filter_holds_the_rows_of_the_screen(office: Office) -> None:
    finance = office.people[Role.FINANCE]
    await office.sell()
    danger = [await office.sell(is_paid=False, description=FORMULA) for _ in range(2)]
    await finance.go("/transactions")
    everything = await rows_of(finance).count()
    await finance.fill({"status": "pending"})
    await finance.press("Filtrar")
    await expect(finance.page.locator("main a", has_text="Limpar")).to_be_visible()
    ids = [
        await each.get_attribute("title")
        for each in await rows_of(finance).locator("td.id a").all()
    ]
    assert set(danger) <= set(ids)
    assert len(ids) < everything

    content = await download(finance.page, "Exportar CSV")
    assert content.startswith(b"\xef\xbb\xbf")
    lines = list(csv.DictReader(StringIO(content.decode("utf-8-sig"), newline=""), delimiter=";"))
    assert [line["id"] for line in lines] == ids
    assert {line["status"] for line in lines} == {"Pendente"}
    orders = {line["id"]: line["pedido"] for line in lines}
    assert [orders[each] for each in danger] == [f"'{FORMULA}"] * 2
    await office.assert_written("export.made", Role.FINANCE)


async def test_nobody_simulates_where_money_is_real(office: Office) -> None:
    for member in office.people.values():
        await assert_refuses(member, "/simulators", Environment.LIVE)
    assert await send(office.owner, "/simulators/release", Environment.LIVE) == FORBIDDEN
    await office.owner.page.goto(f"{office.owner.base_url}/dashboard/live/trail")
    denied = rows_of(office.owner).filter(has_text="/simulators")
    assert await denied.count() >= len(office.people)


async def test_what_is_offered_opens_and_what_is_not_is_refused(office: Office) -> None:
    """The menu is the table, and no page leads its reader to a closed door."""
    await office.sell()
    await asyncio.gather(*(look_around(member, role) for role, member in office.people.items()))


async def test_the_chain_of_the_trail_is_whole_and_the_books_balance(office: Office) -> None:
    await office.owner.go("/trail")
    await office.owner.page.locator("main a", has_text="Conferir a cadeia").click()
    await office.owner.reads("A cadeia está íntegra: todos os atos são como foram escritos.")
    settings = {"DATABASE_URL": office.store.database.url, "VINTEM_PEPPER": TEST_PEPPER}
    said = await vintem("audit", settings=settings)
    assert said.status == 0, said.text


def rows_of(member: Member) -> Locator:
    return member.page.locator("main tbody tr")


def found_in(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found, text
    return found[0]


def personal_in(html: str) -> list[str]:
    """What a page gives away of the buyer."""
    known = ("maria@example.com", "Maria da Silva", CPF, "529.982.247-25")
    return [each for each in known if each in html]


async def assert_refuses(
    member: Member, path: str, environment: Environment = Environment.TEST
) -> None:
    """Hold a page against being closed to somebody."""
    answer = await member.page.goto(f"{member.base_url}/dashboard/{environment}{path}")
    assert answer is not None
    assert answer.status == FORBIDDEN, path
    await expect(member.page.locator("h1")).to_have_text("Sem permissão")


async def send(
    member: Member, path: str, environment: Environment = Environment.TEST, **fields: str
) -> int:
    """Send a form that no page has offered; the status of the answer."""
    csrf = await member.page.locator("input[name=csrf]").first.input_value()
    answer = await member.page.request.post(
        f"{member.base_url}/dashboard/{environment}{path}",
        form={"csrf": csrf, **fields},
        max_redirects=0,
    )
    return answer.status


async def answer_with(developer: Member, behaviour: str) -> None:
    await developer.go("/simulators/sink")
    await developer.fill({"behaviour": behaviour})
    await developer.press("Mudar")
    await developer.reads("O endereço de teste responde assim a partir de agora.")


async def create_key(developer: Member, kind: str, label: str) -> str:
    """Make a key, which the page shows once."""
    await developer.go(f"/keys/{kind}/new")
    await developer.fill({"label": label})
    await developer.press("Criar chave")
    await developer.reads("Copie a chave agora.")
    key = await developer.page.locator("main .note .copy code").inner_text()
    await developer.page.reload()
    await developer.reads(label)
    content = await developer.page.content()
    assert key not in content
    assert key[-4:] in content
    return key


async def create_coupon(developer: Member, code: str, percent: str) -> None:
    await developer.go("/coupons/new")
    await developer.fill({"code": code, "discount": percent})
    await developer.press("Criar cupom")
    await developer.reads("Cupom criado")


async def count_sessions(member: Member) -> int:
    await member.go("/sessions")
    return await rows_of(member).count()


async def download(page: Page, label: str) -> bytes:
    async with page.expect_download() as begun:
        await page.locator("main a", has_text=label).click()
    file = await begun.value
    return await asyncio.to_thread(Path(await file.path()).read_bytes)


# What a page offers, read by the browser without showing it.
LOOK = """async path => {
    const answer = await fetch(path);
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const all = (selector, name) => [...page.querySelectorAll(selector)].map(
        one => (one.getAttribute(name) || path).replace(/#.*/, ''));
    return {
        status: answer.status,
        path: new URL(answer.url).pathname,
        links: [...all('main a[href]', 'href'), ...all('main form:not([method=post])', 'action')],
        forms: [...all('main form[method=post]:has(button)', 'action'),
            ...all('[formaction]', 'formaction')],
    };
}"""
# Addresses that give a file instead of a page.
FILES = (".csv", ".svg", ".png", "/file")


async def look_around(member: Member, role: Role) -> None:
    """Compare the menu of a role with the table, try what it hides, and open what it offers."""
    page = member.page
    items = [item for section in MENU for item in section.items]
    for environment in Environment:
        root = f"/dashboard/{environment}"
        await page.goto(member.base_url + root)
        links = await page.locator("nav.menu a").all()
        menu = [await link.get_attribute("href") or "" for link in links]
        assert menu == [root + i.path for i in items if may(role, environment, i.permission)]
        for item in items:
            if root + item.path not in menu:
                seen = await page.evaluate(LOOK, root + item.path)
                assert seen["status"] == FORBIDDEN, (role, item)
        await walk(page, role, environment, menu)


async def walk(page: Page, role: Role, environment: Environment, menu: Sequence[str]) -> None:
    """Open one page of each kind that can be reached, and hold what it offers against the table."""
    root = f"/dashboard/{environment}"
    waiting, opened = list(menu), {path.removeprefix(root) for path in menu}
    while waiting:
        address = waiting.pop(0)
        seen: Any = await page.evaluate(LOOK, address)
        assert (seen["status"], seen["path"]) == (200, address.partition("?")[0]), (role, address)
        for link in seen["links"]:
            path = link.partition("?")[0]
            if path != root and not path.startswith(f"{root}/"):
                continue
            kind = kind_of("GET", path.removeprefix(root))
            assert may(role, environment, kind.permission), f"{role}: {address} offers {link}"
            if kind.path not in opened and not path.endswith(FILES):
                opened.add(kind.path)
                waiting.append(link)
        for form in seen["forms"]:
            kind = kind_of("POST", form.partition("?")[0].removeprefix(root))
            assert may(role, environment, kind.permission), f"{role}: {address} offers {form}"


# A page that is named comes before one with a parameter.
KINDS = [
    (page, re.compile(re.sub(r"\{\w+\}", "[^/]+", page.path)))
    for page in sorted(PAGES, key=lambda page: page.path.count("{"))
]


def kind_of(method: str, path: str) -> Offered:
    """Find the line of the table that an address belongs to."""
    for page, pattern in KINDS:
        if page.method == method and pattern.fullmatch(path):
            return page
    raise AssertionError(f"no page {method} {path}")
