"""What was sold: every page for a company with sales and for one without, and what may be done."""

import html
import re
from dataclasses import dataclass
from datetime import timedelta

import pytest

from support.api import Api, HttpReply, Shop, complaints, new_shop, pix_order
from support.cards import card_order
from support.holdings import add_endpoint
from support.storefront import Storefront, buyer, new_storefront
from support.team import Browser, sign_in
from vintem.figures import service as figures
from vintem.kit.clock import utc_now
from vintem.kit.ids import Prefix, new_id
from vintem.members.model import Role
from vintem.runtime.db import Database

TEST = "/dashboard/test"
LIVE = "/dashboard/live"
NOBODY = "0" * 64
OTHER_CPF = "111.444.777-35"


@dataclass(frozen=True)
class Scene:
    """A company that has sold something in each way, and its people."""

    store: Storefront
    owner: Browser
    finance: Browser
    developer: Browser
    support: Browser
    paid: str
    pending: str
    card: str
    refused: str
    boleto: str
    session_id: str
    open_session_id: str

    @property
    def shop(self) -> Shop:
        return self.store.shop


@pytest.fixture(scope="module")
async def scene(api: Api, database: Database) -> Scene:
    store = await new_storefront(api, database)
    shop = store.shop
    await shop.agree(card_release_days=30)
    await add_endpoint(database, shop.scope.company_id)
    owner, finance, developer, support = [
        await sign_in(api, database, shop.tenant, role)
        for role in (Role.OWNER, Role.FINANCE, Role.DEVELOPER, Role.SUPPORT)
    ]
    paid = await shop.paid(10_000, externalRef="pedido 1", description="=cmd|' /C calc'!A0")
    pending = (await shop.create(2_000))["id"]
    other = buyer(name="João de Souza", email="joao@example.com")
    other["document"] = {"type": "cpf", "number": OTHER_CPF}
    card = await shop.order(card_order(amount=30_000, installments=3, customer=other))
    refused = await shop.order(card_order("0002", customer=other))
    basket = await store.open(externalRef="pedido 2")
    boleto = await basket.pay_by_boleto()
    opened = await store.open()
    return Scene(
        store=store,
        owner=owner,
        finance=finance,
        developer=developer,
        support=support,
        paid=paid,
        pending=pending,
        card=card.data["id"],
        refused=refused.data["id"],
        boleto=boleto.data["transactionId"],
        session_id=basket.session_id,
        open_session_id=opened.session_id,
    )


def text_of(reply: HttpReply) -> str:
    """What a page says, without its marks."""
    assert reply.status in {200, 422}, (reply.status, reply.body)
    main = reply.body.decode().partition("<main")[2]
    words = html.unescape(re.sub(r"<[^>]+>", " ", main)).replace("\N{NO-BREAK SPACE}", " ")
    return re.sub(r"\s+", " ", words)


def html_of(reply: HttpReply) -> str:
    assert reply.status == 200, (reply.status, reply.body)
    return reply.body.decode()


def link_to(reply: HttpReply, label: str) -> str:
    found = re.search(rf'<a [^>]*href="([^"]+)"[^>]*>\s*{label}', reply.body.decode())
    assert found, label
    return html.unescape(found[1])


PAGES = ("", "/transactions", "/sessions", "/customers", "/search", "/search?q=nada")


@pytest.mark.parametrize("role", Role)
async def test_a_company_without_sales_sees_what_comes_next(
    api: Api, database: Database, role: Role
) -> None:
    shop = await new_shop(api, database)
    browser = await sign_in(api, database, shop.tenant, role)
    for place in (TEST, LIVE):
        for path in PAGES:
            said = text_of(await browser.get(place + path))
            assert "Ainda não há" in said or "Nada foi encontrado" in said, path
    tasks = html_of(await browser.get(TEST)).partition('class="tasks"')[2].partition("</ol>")[0]
    assert tasks.count("<li>") == 4
    for link in re.findall(r'href="([^"]+)"', tasks):
        assert (await browser.get(link)).status == 200, link


async def test_the_first_page_adds_up_what_was_sold(scene: Scene) -> None:
    reply = await scene.owner.get(TEST)
    said = text_of(reply)
    assert "Volume em 30 dias R$ 400,00" in said
    assert "Hoje: R$ 400,00" in said
    assert "Aprovação 40,00%" in said
    assert "2 de 5 transações pagas" in said
    assert "Ticket médio R$ 200,00" in said
    assert "Saldo disponível R$ 100,00" in said
    assert 'role="img" aria-label="Valor pago por dia' in reply.body.decode()
    assert "João de Souza" in said
    week = text_of(await scene.owner.get(f"{TEST}?days=7"))
    assert "Volume em 7 dias R$ 400,00" in week
    assert "Volume em 30 dias" in text_of(await scene.owner.get(f"{TEST}?days=1e9"))
    assert "Saldo disponível" not in text_of(await scene.support.get(TEST))
    assert "Volume em 30 dias R$ 0,00" in text_of(await scene.owner.get(LIVE))


async def test_a_page_says_when_there_is_more_to_count(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await new_shop(api, database)
    owner = await sign_in(api, database, shop.tenant, Role.OWNER)
    for _ in range(3):
        await shop.create()
    monkeypatch.setattr(figures, "EVENTS_OF_A_VISIT_MAX", 2)
    for path in ("", "/customers"):
        for table in ("figures_cursor", "figures_stretch", "figures_day"):
            await database.execute(
                f"delete from {table} where company_id = $1", shop.scope.company_id
            )
        assert "sendo atualizad" in text_of(await owner.get(TEST + path))
        assert "sendo atualizad" not in text_of(await owner.get(TEST + path))


async def test_the_first_page_tells_what_needs_attention(api: Api, database: Database) -> None:
    shop = await new_shop(api, database)
    owner = await sign_in(api, database, shop.tenant, Role.OWNER)
    said = text_of(await owner.get(TEST))
    for step in ("primeira chamada", "Cadastre um produto", "Registre um webhook"):
        assert step in said
    endpoint_id, company_id = new_id(Prefix.WEBHOOK), shop.scope.company_id
    await database.execute(
        """
        insert into webhook_endpoint (company_id, endpoint_id, environment, url, events,
            description, is_enabled, disabled_reason, secret_sealed, created_at, subscribed_at)
        values ($1, $2, 'test', 'https://loja.example/hooks', '{*}', '', false, 'unreachable',
            'x', now(), now())
        """,
        company_id,
        endpoint_id,
    )
    await database.execute(
        "update api_key set expires_at = $2 where company_id = $1",
        company_id,
        utc_now() + timedelta(days=3),
    )
    said = text_of(await owner.get(TEST))
    assert "O webhook https://loja.example/hooks foi desativado." in said
    assert "expira em menos de 7 dias" in said
    await database.execute(
        """
        update webhook_endpoint set is_enabled = true, disabled_reason = null
        where company_id = $1
        """,
        company_id,
    )
    await database.execute(
        """
        insert into webhook_lane (company_id, lane, environment, failing_since)
        values ($1, $2, 'test', now())
        """,
        company_id,
        endpoint_id,
    )
    assert "está falhando" in text_of(await owner.get(TEST))
    assert "está falhando" not in text_of(await owner.get(LIVE))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"paid", "pending", "card", "refused", "boleto"}),
        ("status=paid", {"paid", "card"}),
        ("status=failed", {"refused"}),
        ("status=nonsense", {"paid", "pending", "card", "refused", "boleto"}),
        ("method=boleto", {"boleto"}),
        ("method=credit_card&status=paid", {"card"}),
        ("amount_from=100,00&amount_to=149,90", {"paid", "refused", "boleto"}),
        ("amount_from=300", {"card"}),
        ("who=joao@example.com", {"card", "refused"}),
        ("who=JOAO%40EXAMPLE.COM&status=paid", {"card"}),
        (f"who={OTHER_CPF}&method=credit_card", {"card", "refused"}),
        ("who=ninguem@example.com", set()),
        ("days=1", {"paid", "pending", "card", "refused", "boleto"}),
        ("until=2020-01-01", set()),
    ],
)
async def test_a_filter_finds_what_it_says(scene: Scene, query: str, found: set[str]) -> None:
    await scene.owner.get(f"{TEST}/customers")
    reply = await scene.owner.get(f"{TEST}/transactions?{query}")
    shown = set(re.findall(r"/transactions/(tx_[0-9a-z]{26})", reply.body.decode()))
    assert shown == {getattr(scene, name) for name in found}
    if found:
        words = "transação" if len(found) == 1 else "transações"
        assert f"{len(found)} {words}" in text_of(reply)
    again = await scene.owner.get(f"{LIVE}/transactions?{query}")
    assert "/transactions/tx_" not in html_of(again)


async def test_a_file_holds_exactly_what_the_filter_finds(scene: Scene) -> None:
    for query, names in (("status=paid&days=1", {"paid", "card"}), ("method=boleto", {"boleto"})):
        reply = await scene.finance.get(f"{TEST}/transactions.csv?{query}")
        assert reply.status == 200
        lines = reply.body.decode("utf-8-sig").split("\r\n")
        assert {line.split(";")[1] for line in lines[1:-1]} >= {
            getattr(scene, name) for name in names
        }
        listed = text_of(await scene.finance.get(f"{TEST}/transactions?{query}"))
        words = "transação" if len(lines) == 3 else "transações"
        assert f"{len(lines) - 2} {words}" in listed
    assert (await scene.support.get(f"{TEST}/transactions.csv")).status == 403
    assert (await scene.developer.get(f"{LIVE}/transactions.csv")).status == 403
    assert "Exportar CSV" not in text_of(await scene.support.get(f"{TEST}/transactions"))


async def test_what_makes_no_sense_is_said(scene: Scene) -> None:
    said = text_of(await scene.owner.get(f"{TEST}/transactions?amount_from=abc&since=32/13/2026"))
    assert "Escreva o valor assim" in said
    assert "Escreva o dia assim" in said


async def test_pages_lead_in_both_directions(api: Api, database: Database) -> None:
    shop = await new_shop(api, database)
    owner = await sign_in(api, database, shop.tenant, Role.OWNER)
    for number in range(53):
        await shop.order(pix_order(1_000 + number))
    for query in ("", "?method=pix"):
        first = await owner.get(f"{TEST}/transactions{query}")
        assert "53 transações" in text_of(first)
        second = await owner.get(link_to(first, "Mais antigas"))
        back = await owner.get(link_to(second, "← Mais recentes"))
        ids = [
            re.findall(r'href="[^"]+/transactions/(tx_[0-9a-z]{26})"', each.body.decode())
            for each in (first, second, back)
        ]
        assert [len(each) for each in ids] == [50, 3, 50]
        assert ids[0] == ids[2]
        assert not set(ids[0]) & set(ids[1])
        assert "← Mais recentes" not in text_of(first)
        assert "Mais antigas" not in text_of(second)


async def test_a_payment_is_shown_with_all_that_happened(scene: Scene) -> None:
    shown = await scene.owner.get(f"{TEST}/transactions/{scene.paid}")
    assert link_to(shown, "Simular") == f"{TEST}/simulators/transactions/{scene.paid}"
    said = text_of(shown)
    for words in (
        "R$ 100,00 Paga",
        "Cliente de Teste",
        "529.982.247-25",
        "Ponta a ponta",
        "API ou checkout",
        "transaction.paid",
        "Aguardando",
        '"status": "paid"',
        "pedido 1",
    ):
        assert words in said, words
    card = text_of(await scene.owner.get(f"{TEST}/transactions/{scene.card}"))
    assert "Cartão em 3x" in card
    assert card.count("A liberar") >= 3
    refused = text_of(await scene.owner.get(f"{TEST}/transactions/{scene.refused}"))
    assert "Recusa" in refused
    boleto = text_of(await scene.owner.get(f"{TEST}/transactions/{scene.boleto}"))
    assert "Linha digitável" in boleto
    assert "Abrir o PDF" in boleto
    assert scene.session_id in boleto


async def test_support_sees_masks_and_looking_behind_one_is_written_down(
    scene: Scene, database: Database
) -> None:
    path = f"{TEST}/transactions/{scene.paid}"
    for place in (TEST, f"{TEST}/transactions", path, f"{TEST}/customers"):
        shown = (await scene.support.get(place)).body.decode()
        assert "cliente@example.com" not in shown
        assert "529.982.247-25" not in shown
        assert "52998224725" not in shown
    assert "c***@e***.com" in text_of(await scene.support.get(path))
    revealed = text_of(await scene.support.post(f"{path}/reveal", {}))
    assert "cliente@example.com" in revealed
    assert "529.982.247-25" in revealed
    written = await database.fetchrow(
        """
        select action, role, before, after from act
        where company_id = $1 and target_id = $2 order by sequence desc limit 1
        """,
        scene.shop.scope.company_id,
        scene.paid,
    )
    assert written is not None
    assert (written["action"], written["role"]) == ("personal.revealed", "support")
    assert "529" not in written["before"] + written["after"]


async def test_a_refund_moves_money_once_a_form(scene: Scene, database: Database) -> None:
    shop = scene.shop
    transaction_id = await shop.paid(5_000)
    path = f"{TEST}/transactions/{transaction_id}/refund"
    asked = await scene.finance.get(path)
    assert "Resta reembolsar R$ 50,00" in text_of(asked)
    key = re.search(r'name="key" value="([^"]+)"', asked.body.decode())
    assert key
    fields = {"amount": "12,50", "reason": "troca", "key": key[1]}
    before = (await shop.balance())["available"]
    for _ in range(2):
        reply = await scene.finance.post(path, fields)
        assert (reply.status, reply.headers["location"].partition("?")[2]) == (
            303,
            "said=transaction-refunded",
        )
    assert (await shop.balance())["available"] == before - 1_250
    assert (await shop.read(transaction_id))["refundedAmount"] == 1_250
    said = text_of(await scene.finance.get(f"{TEST}/transactions/{transaction_id}"))
    assert "Reembolsado R$ 12,50" in said
    assert "troca" in said
    acts = await database.fetchval(
        "select count(*) from act where company_id = $1 and target_id = $2 and action = $3",
        shop.scope.company_id,
        transaction_id,
        "transaction.refunded",
    )
    assert acts == 1
    other = await scene.finance.post(path, {**fields, "amount": "12,51"})
    assert other.status == 422
    for amount, why in (("100", "maior do que"), ("abc", "Escreva o valor"), ("0", "Escreva")):
        wrong = await scene.finance.post(path, {**fields, "amount": amount, "key": "k-9"})
        assert wrong.status == 422
        assert why in text_of(wrong)
    whole = await scene.finance.post(path, {"amount": "37,50", "key": "k-10"})
    assert whole.status == 303
    assert (await shop.read(transaction_id))["status"] == "refunded"
    assert (await scene.finance.get(path)).status == 409
    said = text_of(await scene.finance.get(f"{TEST}/transactions/{transaction_id}"))
    assert "Pessoa finance" in said
    assert await complaints(database) == {}


async def test_a_pending_payment_is_cancelled_from_its_page(
    scene: Scene, database: Database
) -> None:
    transaction_id = (await scene.shop.create())["id"]
    path = f"{TEST}/transactions/{transaction_id}/cancel"
    assert "ainda não foi paga" in text_of(await scene.support.get(path))
    assert (await scene.support.post(path, {})).status == 303
    said = text_of(await scene.support.get(f"{TEST}/transactions/{transaction_id}"))
    assert "Cancelada" in said
    assert "Pessoa support · a pedido da empresa" in said
    assert (await scene.support.post(path, {})).status == 409
    assert (await scene.support.get(path)).status == 409
    assert (await scene.finance.post(path, {})).status == 403
    assert await complaints(database) == {}


async def test_notes_are_kept_and_webhooks_are_sent_again(scene: Scene) -> None:
    path = f"{TEST}/transactions/{scene.paid}"
    assert (await scene.support.post(f"{path}/notes", {"text": "Ligou <b>hoje</b>"})).status == 303
    reply = await scene.support.get(path)
    assert "Ligou &lt;b&gt;hoje&lt;/b&gt;" in reply.body.decode()
    for text in ("", "x" * 1_001):
        assert (await scene.support.post(f"{path}/notes", {"text": text})).status == 400
    delivery = re.search(r'value="(dlv_[^"]+)"', reply.body.decode())
    assert delivery
    assert (await scene.support.post(f"{path}/resend", {"delivery": delivery[1]})).status == 303
    wrong = f"{TEST}/transactions/{scene.pending}/resend"
    assert (await scene.support.post(wrong, {"delivery": delivery[1]})).status == 404
    assert (await scene.support.post(f"{path}/resend", {"delivery": "dlv_x"})).status == 404


async def test_sessions_are_shown_and_ended(scene: Scene, database: Database) -> None:
    listed = text_of(await scene.owner.get(f"{TEST}/sessions"))
    assert "Curso de Violão" in listed
    assert "Aguardando pagamento" in listed
    waiting = html_of(await scene.owner.get(f"{TEST}/sessions?status=AWAITING_PAYMENT"))
    assert scene.session_id in waiting
    assert scene.open_session_id not in waiting
    one = html_of(await scene.owner.get(f"{TEST}/sessions/{scene.session_id}"))
    assert scene.boleto in one
    assert "pedido 2" in one
    basket = await scene.store.open()
    path = f"{TEST}/sessions/{basket.session_id}"
    assert "deixa de aceitar" in text_of(await scene.support.get(f"{path}/end"))
    assert (await scene.support.post(f"{path}/end", {})).status == 303
    assert "Cancelada" in text_of(await scene.support.get(path))
    assert (await scene.support.post(f"{path}/end", {})).status == 410
    assert (await scene.finance.get(f"{path}/end")).status == 403
    assert await complaints(database) == {}


async def test_customers_are_shown_with_what_they_bought(scene: Scene) -> None:
    listed = await scene.owner.get(f"{TEST}/customers")
    said = text_of(listed)
    assert "João de Souza joao@example.com ***.444.777-** 1 R$ 300,00" in said
    found = await scene.owner.get(f"{TEST}/customers?who=joao@example.com")
    path = link_to(found, "João de Souza")
    assert "Cliente de Teste" not in text_of(found)
    assert "Total pago R$ 300,00" in text_of(await scene.owner.get(path))
    one = html_of(await scene.owner.get(path))
    assert "111.444.777-35" in one
    assert scene.card in one
    assert scene.paid not in one
    given = await scene.owner.post(f"{path}/export", {})
    assert given.status == 200
    assert b'"document": "11144477735"' in given.body
    assert scene.card.encode() in given.body
    assert "attachment" in given.headers["content-disposition"]
    for browser in (scene.finance, scene.developer, scene.support):
        assert (await browser.post(f"{path}/export", {})).status == 403
    assert "111.444.777-35" not in text_of(await scene.support.get(path))
    assert "111.444.777-35" in text_of(await scene.support.post(f"{path}/reveal", {}))


@pytest.mark.parametrize("which", ["paid", "session_id"])
async def test_an_id_leads_to_its_page(scene: Scene, which: str) -> None:
    wanted = getattr(scene, which)
    reply = await scene.owner.get(f"{TEST}/search?q={wanted}")
    assert reply.status == 303
    assert reply.headers["location"].endswith(wanted)
    assert "Nada foi encontrado" in text_of(await scene.owner.get(f"{LIVE}/search?q={wanted}"))


async def test_a_search_finds_people_and_orders(scene: Scene) -> None:
    await scene.owner.get(f"{TEST}/customers")
    people = html_of(await scene.owner.get(f"{TEST}/search?q=joao%40example.com"))
    assert scene.card in people
    assert scene.refused in people
    order = await scene.owner.get(f"{TEST}/search?q=pedido+1")
    assert order.headers["location"].endswith(scene.paid)
    for text in ("%3Cscript%3E", "tx_" + "0" * 26, "%00", "wd_" + "0" * 26, "rf_" + "0" * 26):
        assert "Nada foi encontrado" in text_of(await scene.owner.get(f"{TEST}/search?q={text}"))
    request = await scene.owner.get(f"{TEST}/search?q=req_1763205600000_abcdefghi")
    assert request.headers["location"].endswith("/requests/req_1763205600000_abcdefghi")


async def test_nothing_of_another_company_or_environment_is_found(
    scene: Scene, api: Api, database: Database
) -> None:
    stranger_shop = await new_shop(api, database)
    stranger = await sign_in(api, database, stranger_shop.tenant, Role.OWNER)
    listed = await scene.owner.get(f"{TEST}/customers?who=joao@example.com")
    customer = link_to(listed, "João de Souza").rpartition("/")[2]
    places = [
        f"/transactions/{scene.paid}",
        f"/transactions/{scene.paid}/refund",
        f"/transactions/{scene.pending}/cancel",
        f"/sessions/{scene.session_id}",
        f"/sessions/{scene.session_id}/end",
        f"/customers/{customer}",
        f"/customers/{NOBODY}",
        "/transactions/tx_1",
        "/sessions/cs_1",
        "/customers/zz",
    ]
    forms = {
        f"/transactions/{scene.paid}/refund": {"amount": "1", "key": "k"},
        f"/transactions/{scene.pending}/cancel": {},
        f"/transactions/{scene.paid}/notes": {"text": "x"},
        f"/transactions/{scene.paid}/reveal": {},
        f"/transactions/{scene.paid}/resend": {"delivery": "dlv_x"},
        f"/sessions/{scene.session_id}/end": {},
        f"/customers/{customer}/reveal": {},
        f"/customers/{customer}/export": {},
    }
    for browser, environment in ((stranger, TEST), (stranger, LIVE), (scene.owner, LIVE)):
        for place in places:
            assert (await browser.get(environment + place)).status == 404, place
        for place, fields in forms.items():
            assert (await browser.post(environment + place, fields)).status == 404, place
    assert (await scene.shop.read(scene.pending))["status"] == "pending"


async def test_a_form_without_its_token_does_nothing(scene: Scene) -> None:
    for place in (
        f"/transactions/{scene.pending}/cancel",
        f"/transactions/{scene.paid}/refund",
        f"/transactions/{scene.paid}/notes",
        f"/sessions/{scene.session_id}/end",
    ):
        assert (await scene.owner.post_raw(TEST + place, {})).status == 403
    assert (await scene.shop.read(scene.pending))["status"] == "pending"
