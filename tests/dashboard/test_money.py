"""Balance, statement, withdrawals and their approval, as the people of a company go about them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyotp
import pytest

from support.api import TEST_PEPPER, Api, HttpReply
from support.team import Browser, sign_in
from vintem.companies import service as companies
from vintem.companies.model import ImplicitProtection, WithdrawalRules
from vintem.kit.clock import business_day, utc_now
from vintem.members import second_factor
from vintem.members import service as members
from vintem.members.model import Role
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from withdrawals.test_copypaste import C4, S1
from withdrawals.till import WALLET, Till, crypto_body, new_till

WITHDRAWAL = re.compile(r"wd_[0-9a-z]{26}")
NOBODY = "wd_00000000000000000000000000"
PIX = {"method": "pix", "amount": "10,00", "key_type": "email", "key": "cliente@example.com"}
CRYPTO = {"method": "crypto", "amount": "100,00", "network": "USDT.ERC20", "address": WALLET}


@dataclass(frozen=True)
class Team:
    """A company with money, and the people who may be at its dashboard."""

    till: Till
    owner: Browser
    finance: Browser

    async def join(self, role: Role) -> Browser:
        return await sign_in(self.till.api, self.till.database, self.till.shop.tenant, role)


@pytest.fixture
async def team(api: Api, database: Database) -> Team:
    """A company with R$ 20.000,00, its owner and somebody of finance."""
    till = await new_till(api, database, funds=2_000_000)
    tenant = till.shop.tenant
    return Team(
        till,
        await sign_in(api, database, tenant, Role.OWNER),
        await sign_in(api, database, tenant, Role.FINANCE),
    )


def text_of(reply: HttpReply) -> str:
    return reply.body.decode().replace("\N{NO-BREAK SPACE}", " ")


def hidden_fields(reply: HttpReply) -> dict[str, str]:
    """What the confirm page would send."""
    form = text_of(reply).partition('action="/dashboard/test/withdrawals"')[2]
    fields = re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)"', form)
    return {name: value for name, value in fields if name != "csrf"}


async def confirm(browser: Browser, fields: Mapping[str, str]) -> HttpReply:
    return await browser.post("/dashboard/test/withdrawals/confirm", fields)


async def request(browser: Browser, **changed: str) -> str:
    """Ask for a withdrawal by the two forms; its id."""
    confirmed = await confirm(browser, {**PIX, **changed})
    assert confirmed.status == 200, text_of(confirmed)
    made = await browser.post("/dashboard/test/withdrawals", hidden_fields(confirmed))
    assert made.status == 303, text_of(made)
    found = WITHDRAWAL.search(made.headers["location"])
    assert found, made.headers
    return found[0]


async def test_the_balance_shows_every_part_to_the_cent(team: Team) -> None:
    await request(team.finance, amount="1.234,56")
    page = text_of(await team.finance.get("/dashboard/test/balance"))
    for words in ("R$ 18.765,44", "R$ 1.234,56", "A liberar", "Em disputa", "Nada a liberar"):
        assert words in page
    await team.till.check()


async def test_what_waits_is_shown_by_its_day(api: Api, database: Database) -> None:
    till = await new_till(api, database)
    await till.shop.agree(pix_release_days=3)
    await till.fund(12_345)
    owner = await sign_in(api, database, till.shop.tenant, Role.OWNER)
    page = text_of(await owner.get("/dashboard/test/balance"))
    assert page.count("R$ 123,45") == 2
    assert "Próximas liberações" in page


async def test_the_statement_is_what_the_api_lists(team: Team) -> None:
    withdrawal_id = await request(team.finance)
    page = text_of(await team.finance.get("/dashboard/test/statement"))
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)[1:]
    reply = await team.till.api.get("/v1/balance/entries", key=team.till.key)
    assert len(rows) == len(reply.data["entries"]) == 2
    assert "Saque" in rows[0]
    assert f"/dashboard/test/withdrawals/{withdrawal_id}" in rows[0]
    assert "R$ 10,00" in rows[0]
    assert "R$ 19.990,00" in rows[0]
    assert "Venda" in rows[1]
    assert "/dashboard/test/transactions/tx_" in rows[1]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("kind=withdrawal", ["Saque"]),
        ("kind=capture", ["Venda"]),
        ("kind=chargeback_fee", []),
        ("kind=nonsense", ["Saque", "Venda"]),
        ("since={today}&until={today}", ["Saque", "Venda"]),
        ("since={today}&kind=withdrawal", ["Saque"]),
        ("until=2020-01-01", []),
        ("since=9999-12-31&until=9999-12-31", []),
        ("cursor=2", ["Venda"]),
        ("cursor=nonsense", ["Saque", "Venda"]),
    ],
)
async def test_the_statement_is_filtered(team: Team, query: str, kinds: list[str]) -> None:
    await request(team.finance)
    asked = query.format(today=business_day(utc_now()))
    page = text_of(await team.finance.get(f"/dashboard/test/statement?{asked}"))
    assert re.findall(r"<td>(Saque|Venda)</td>", page) == kinds


async def test_lists_go_on_from_page_to_page(team: Team) -> None:
    made = [(await team.till.take(100 + number))["id"] for number in range(51)]
    for name in ("statement", "withdrawals"):
        first = text_of(await team.owner.get(f"/dashboard/test/{name}?since=2020-01-01"))
        assert made[0] not in first
        assert made[1] in first
        older = re.search(r'href="([^"]*)" rel="next"', first)
        assert older
        assert "since=2020-01-01" in older[1]
        second = text_of(await team.owner.get(older[1].replace("&amp;", "&")))
        assert made[0] in second
        assert made[1] not in second
        assert 'rel="next"' not in second
        assert 'rel="prev"' in second


async def test_the_confirm_page_shows_everything_before_anything_is_done(team: Team) -> None:
    await team.till.charge("pix_withdrawal", fixed=150)
    page = text_of(await confirm(team.finance, {**PIX, "description": "Fornecedor"}))
    for words in (
        *("cliente@example.com", "1º uso", "Fornecedor"),
        *("R$ 1,50", "R$ 8,50", "R$ 10,00", "R$ 20.000,00", "R$ 19.990,00"),
    ):
        assert words in page
    assert await team.till.balance() == {"available": 2_000_000}
    on_top = text_of(await confirm(team.finance, {**PIX, "whole": "1"}))
    assert "R$ 11,50" in on_top


async def test_a_wallet_is_shown_whole_with_its_ends_apart(team: Team) -> None:
    page = text_of(await confirm(team.finance, CRYPTO))
    assert f"<b>{WALLET[:6]}</b>{WALLET[6:-6]}<b>{WALLET[-6:]}</b>" in page
    assert "USDT na rede Ethereum" in page


async def test_a_copied_code_is_shown_with_the_key_inside(team: Team) -> None:
    fields = {**PIX, "key_type": "copypaste", "key": S1}
    page = text_of(await confirm(team.finance, fields))
    assert S1 in page
    assert "<b>123e4567-e12b-12d1-a456-426655440000</b>" in page


async def test_a_form_sent_twice_makes_one_withdrawal(team: Team) -> None:
    fields = hidden_fields(await confirm(team.finance, PIX))
    first = await team.finance.post("/dashboard/test/withdrawals", fields)
    again = await team.finance.post("/dashboard/test/withdrawals", fields)
    assert (first.status, again.status) == (303, 303)
    assert first.headers["location"] == again.headers["location"]
    assert await team.till.balance() == {"available": 1_999_000, "inTransit": 1_000}
    other = await team.finance.post("/dashboard/test/withdrawals", {**fields, "amount": "11,00"})
    assert other.status == 422
    assert "Esta confirmação já foi usada" in text_of(other)
    assert await acts(team) == ["withdrawal.requested"]
    await team.till.check()


async def test_an_unconfirmed_form_makes_nothing(team: Team) -> None:
    reply = await team.finance.post("/dashboard/test/withdrawals", {**PIX, "intent": "x"})
    assert reply.status == 400
    assert await team.till.balance() == {"available": 2_000_000}


REFUSALS = [
    pytest.param({"amount": "abc"}, 422, "amount", "Digite o valor em reais", id="no amount"),
    pytest.param({"amount": "0,99"}, 422, "amount", "mínimo é R$ 1,00", id="below"),
    pytest.param({"amount": "100.000.000,00"}, 422, "amount", "máximo é", id="above"),
    pytest.param({"amount": "20.000,01"}, 422, "amount", "disponível é R$ 20.000,00", id="balance"),
    pytest.param({"key": ""}, 422, "key", "Digite a chave", id="no key"),
    pytest.param({"key_type": "cpf"}, 422, "key", "do tipo CPF", id="key"),
    pytest.param({"key_type": ""}, 422, "key_type", "Escolha o tipo", id="no key type"),
    pytest.param({"key_type": "copypaste"}, 422, "key", "não pode ser pago", id="code"),
    pytest.param(
        {"key_type": "copypaste", "key": C4}, 422, "key", "O código é de R$ 50,00", id="code amount"
    ),
    pytest.param({"key": "x" * 601}, 422, "key", "longa demais", id="long key"),
    pytest.param({"description": "x" * 141}, 422, "description", "140", id="long description"),
    pytest.param({**CRYPTO, "network": "BTC.TRC20"}, 422, "network", "rede", id="network"),
    pytest.param({**CRYPTO, "network": ""}, 422, "network", "Escolha", id="no network"),
    pytest.param({**CRYPTO, "address": "0x" + "0" * 40}, 422, "address", "não é válido", id="zero"),
    pytest.param({**CRYPTO, "address": ""}, 422, "address", "Digite", id="no address"),
    pytest.param({**CRYPTO, "address": "x" * 121}, 422, "address", "longo demais", id="long"),
]


@pytest.mark.parametrize(("changed", "status", "field", "words"), REFUSALS)
async def test_what_is_refused_is_said_at_its_field(
    team: Team, changed: Mapping[str, str], status: int, field: str, words: str
) -> None:
    fields = {**PIX, **changed}
    reply = await confirm(team.finance, fields)
    assert reply.status == status
    error = re.search(rf'<p class="error" id="e-{field}">([^<]*)</p>', text_of(reply))
    assert error, text_of(reply)
    assert words in error[1]
    # What was typed stays.
    if fields["amount"] != "abc":
        assert f'value="{fields["amount"]}"' in text_of(reply)


async def test_rules_refuse_at_the_confirmation_and_again_at_the_end(team: Team) -> None:
    fields = hidden_fields(await confirm(team.finance, PIX))
    await team.till.rule(cents_max=500)
    for reply in (
        await confirm(team.finance, PIX),
        await team.finance.post("/dashboard/test/withdrawals", fields),
    ):
        assert reply.status == 422
        assert "O limite por saque da empresa é R$ 5,00" in text_of(reply)
    await team.till.rule(daily_cents_max=1_500)
    await request(team.finance)
    late = await team.finance.post("/dashboard/test/withdrawals", fields)
    assert late.status == 422
    assert "O limite por dia da empresa é R$ 15,00" in text_of(late)
    await team.till.check()


async def test_a_pause_and_a_repetition_are_said_in_words(team: Team) -> None:
    company = team.till.shop.tenant.company
    await companies.set_implicit_protection(
        team.till.database, company.public_id, ImplicitProtection.ENFORCE
    )
    made = await request(team.finance)
    fields = hidden_fields(await confirm(team.finance, PIX))
    again = await team.finance.post("/dashboard/test/withdrawals", fields)
    assert again.status == 409
    assert f"acabou de ser pedido: {made}" in text_of(again)
    await companies.pause_withdrawals(team.till.database, company.company_id, is_paused=True)
    paused = await confirm(team.finance, PIX)
    assert paused.status == 403
    assert "Os saques estão pausados" in text_of(paused)


async def test_live_without_a_connector_refuses_as_the_api_does(team: Team) -> None:
    form = await team.finance.get("/dashboard/live/withdrawals/new")
    assert "ainda não tem um provedor" in text_of(form)
    reply = await team.finance.post("/dashboard/live/withdrawals/confirm", PIX)
    assert reply.status == 503
    assert "ainda não tem um provedor" in text_of(reply)


async def test_the_whole_walk_from_the_request_to_the_receipt(team: Team) -> None:
    await team.till.charge("pix_withdrawal", fixed=100)
    admin = await team.join(Role.ADMIN)
    codes = await enrol(team, admin)
    await team.till.rule(automatic_cents_max=1_000_000)
    confirmed = await confirm(team.finance, {**PIX, "amount": "12.345,67"})
    assert "Acima do limite automático de R$ 10.000,00" in text_of(confirmed)
    withdrawal_id = await request(team.finance, amount="12.345,67")
    held = {"available": 765_433, "inTransit": 1_234_567}
    assert await team.till.balance() == held

    queue = text_of(await admin.get("/dashboard/test/approvals"))
    for words in (
        *("c***@example.com", "Chave nova, 1º uso", "Mais da metade do saldo", "Pessoa finance"),
        *("R$ 12.345,67", "R$ 20.000,00", "R$ 7.654,33", "Acima do limite automático"),
    ):
        assert words in queue
    assert "cliente@example.com" not in queue

    # Whoever asked sees it, and is offered nothing; what is tried all the same is refused.
    codes_of_finance = await enrol(team, team.finance)
    path = f"/dashboard/test/approvals/{withdrawal_id}"
    own = text_of(await team.finance.get(path))
    assert "Você pediu este saque" in own
    assert f"{path}/approve" not in own
    fields = {"amount": "12.345,67", "reason": "ok"}
    for verb in ("approve", "reject"):
        refused = await team.finance.post(
            f"{path}/{verb}", {**fields, "code": codes_of_finance.pop()}
        )
        assert refused.status == 403

    shown = text_of(await admin.get(path))
    assert "<b>cliente@example.com</b>" in shown
    for wrong, field in (
        ({"code": codes[0]}, "amount"),
        ({"amount": "12.345,66", "code": codes[0]}, "amount"),
        ({"amount": "12.345,67", "code": "000000"}, "code"),
        ({"amount": "12.345,67"}, "code"),
    ):
        reply = await admin.post(f"{path}/approve", wrong)
        assert reply.status == 422
        assert f'id="e-{field}"' in text_of(reply)
    approved = await admin.post(f"{path}/approve", {**fields, "code": codes[0]})
    assert approved.status == 303, text_of(approved)
    late = await admin.post(f"{path}/approve", {**fields, "code": codes[1]})
    assert late.status == 409

    await team.till.work()
    await team.till.work(after=3)
    receipt = text_of(await team.finance.get(f"/dashboard/test/withdrawals/{withdrawal_id}"))
    for words in (
        *("Concluído", "Comprovante", "EndToEndId", "Pessoa finance", "Pessoa admin"),
        *("R$ 1,00", "R$ 12.344,67", "Aprovação exigida", "Enviado ao provedor"),
    ):
        assert words in receipt
    assert "cliente@example.com" not in receipt
    listed = text_of(await team.finance.get("/dashboard/test/withdrawals?status=completed"))
    assert "Pessoa admin" in listed
    assert await team.till.balance() == {"available": 765_433}
    assert await acts(team) == [
        *("withdrawal.requested", "permission.denied", "permission.denied"),
        "withdrawal.approved",
    ]
    await team.till.check()


async def test_a_code_is_used_once_and_a_second_approval_needs_another(team: Team) -> None:
    await team.till.rule(automatic_cents_max=0)
    codes = await enrol(team, team.owner)
    first, second = await request(team.finance), await request(team.finance, amount="20,00")
    for withdrawal_id, code, status in (
        (first, codes[0], 303),
        (second, codes[0], 422),
        (second, codes[1], 303),
    ):
        path = f"/dashboard/test/approvals/{withdrawal_id}/approve"
        assert (await team.owner.post(path, {"code": code})).status == status
    await team.till.check()


async def test_a_rejection_has_a_reason_and_gives_the_money_back(team: Team) -> None:
    await team.till.rule(automatic_cents_max=0)
    codes = await enrol(team, team.owner)
    withdrawal_id = await request(team.finance)
    path = f"/dashboard/test/approvals/{withdrawal_id}/reject"
    assert "Rejeitar o saque" in text_of(await team.owner.get(path))
    silent = await team.owner.post(path, {"code": codes[0]})
    assert silent.status == 422
    assert 'id="e-reason"' in text_of(silent)
    rejected = await team.owner.post(path, {"code": codes[0], "reason": "não é nosso"})
    assert rejected.status == 303
    page = text_of(await team.finance.get(rejected.headers["location"]))
    assert "não é nosso" in page
    assert "Cancelado" in page
    assert await team.till.balance() == {"available": 2_000_000}
    assert await acts(team) == ["withdrawal.requested", "withdrawal.rejected"]
    await team.till.check()


async def test_without_an_authenticator_nobody_decides(team: Team) -> None:
    await team.till.rule(automatic_cents_max=0)
    withdrawal_id = await request(team.finance)
    path = f"/dashboard/test/approvals/{withdrawal_id}"
    page = text_of(await team.owner.get(path))
    assert 'href="/dashboard/test/security"' in page
    assert f"{path}/approve" not in page
    for verb in ("approve", "reject"):
        reply = await team.owner.post(f"{path}/{verb}", {"reason": "ok", "code": "123456"})
        assert reply.status == 422
    assert await team.till.status(withdrawal_id) == "pending_approval"


async def test_what_a_key_has_asked_for_is_decided_by_people(team: Team) -> None:
    await team.till.rule(approves_crypto=True)
    codes = await enrol(team, team.finance)
    withdrawal_id = (await team.till.ask(crypto_body())).data["id"]
    queue = text_of(await team.finance.get("/dashboard/test/approvals"))
    for words in ("Chave de API", "Pedido pela API", "Cripto não volta", "Sai em cripto"):
        assert words in queue
    path = f"/dashboard/test/approvals/{withdrawal_id}/approve"
    assert (await team.finance.post(path, {"code": codes[0]})).status == 303
    await team.till.work()
    await team.till.work(after=3)
    page = text_of(await team.finance.get(f"/dashboard/test/withdrawals/{withdrawal_id}"))
    assert "Transação na rede" in page
    await team.till.check()


async def test_who_is_alone_approves_their_own_and_it_waits_half_an_hour(
    api: Api, database: Database
) -> None:
    till = await new_till(api, database, funds=5_000)
    await till.rule(automatic_cents_max=0)
    owner = await sign_in(api, database, till.shop.tenant, Role.OWNER)
    team = Team(till, owner, owner)
    codes = await enrol(team, owner)
    withdrawal_id = await request(owner)
    path = f"/dashboard/test/approvals/{withdrawal_id}"
    assert "só é enviado após 30 minutos" in text_of(await owner.get(path))
    approved = await owner.post(f"{path}/approve", {"code": codes[0]})
    assert approved.status == 303
    assert "Até lá pode ser cancelado" in text_of(await owner.get(approved.headers["location"]))
    await till.work(after=29 * 60)
    assert await till.status(withdrawal_id) == "pending"
    await till.work(after=61)
    await till.work(after=3)
    assert await till.status(withdrawal_id) == "completed"
    assert await till.decisions(withdrawal_id) == [
        ("approval_required", "rules"),
        ("approved_alone", await person_of(team, owner)),
    ]
    assert await acts(team) == ["withdrawal.requested", "withdrawal.approved"]
    await till.check()


async def test_a_withdrawal_is_called_off_by_who_asked_or_by_a_chief(team: Team) -> None:
    other = await team.join(Role.FINANCE)
    mine, yours = await request(team.finance), await request(team.finance, amount="20,00")
    for withdrawal_id, browser, status in (
        (mine, other, 403),
        (mine, team.finance, 303),
        (yours, team.owner, 303),
    ):
        path = f"/dashboard/test/withdrawals/{withdrawal_id}/cancel"
        assert (await browser.get(path)).status == (200 if status == 303 else status)
        assert (await browser.post(path, {})).status == status
    page = text_of(await team.finance.get(f"/dashboard/test/withdrawals/{mine}"))
    assert "/cancel" not in page
    again = await team.finance.post(f"/dashboard/test/withdrawals/{mine}/cancel", {})
    assert again.status == 409
    assert await team.till.balance() == {"available": 2_000_000}
    await team.till.check()


async def test_the_rules_are_changed_after_a_confirmation_by_who_may(team: Team) -> None:
    path = "/dashboard/test/withdrawals/rules"
    rules = {"cents_max": "5.000,00", "automatic_cents_max": "0,00", "approves_crypto": "1"}
    confirmed = text_of(await team.owner.post(f"{path}/confirm", rules))
    for words in ("Limite por saque", "Sem limite", "R$ 5.000,00", "Aprovação para cripto"):
        assert words in confirmed
    assert "Limite por dia" not in confirmed
    assert (await team.finance.post(path, rules)).status == 403
    assert (await team.owner.post(path, {**rules, "cents_max": "muito"})).status == 422
    assert (await team.owner.post(path, rules)).status == 303
    shown = text_of(await team.finance.get(path))
    assert "R$ 5.000,00" in shown
    assert "rules/confirm" not in shown
    policy = await companies.withdrawal_policy(team.till.database, team.till.company_id)
    assert policy.rules == WithdrawalRules(
        cents_max=500_000, automatic_cents_max=0, approves_crypto=True
    )
    assert (await acts(team))[-1] == "withdrawal_rules.changed"
    unchanged = await team.owner.post(f"{path}/confirm", rules)
    assert "Nada mudaria" in text_of(unchanged)


PATHS = ["balance", "statement", "withdrawals", "withdrawals/new", "approvals"]


@pytest.mark.parametrize(
    ("role", "environment", "status"),
    [
        (Role.SUPPORT, "test", 403),
        (Role.SUPPORT, "live", 403),
        (Role.DEVELOPER, "test", 200),
        (Role.DEVELOPER, "live", 403),
        (Role.ADMIN, "live", 200),
    ],
)
async def test_each_role_sees_what_the_table_says(
    team: Team, role: Role, environment: str, status: int
) -> None:
    browser = await team.join(role)
    for path in PATHS:
        assert (await browser.get(f"/dashboard/{environment}/{path}")).status == status


async def test_an_id_of_another_company_or_environment_is_not_found(
    team: Team, api: Api, database: Database
) -> None:
    await team.till.rule(automatic_cents_max=0)
    withdrawal_id = await request(team.finance)
    stranger = await new_till(api, database)
    owner = await sign_in(api, database, stranger.shop.tenant, Role.OWNER)
    theirs = Team(stranger, owner, owner)
    codes = await enrol(theirs, owner)
    places = [(owner, "test", withdrawal_id), (team.owner, "live", withdrawal_id)]
    for browser, environment, wanted in [*places, (owner, "test", NOBODY), (owner, "test", "x")]:
        root = f"/dashboard/{environment}"
        for path in ("withdrawals/{}", "withdrawals/{}/cancel", "approvals/{}"):
            assert (await browser.get(f"{root}/{path.format(wanted)}")).status == 404
        for path in ("withdrawals/{}/cancel", "approvals/{}/approve", "approvals/{}/reject"):
            fields = {} if "cancel" in path else {"reason": "ok", "code": codes[0]}
            assert (await browser.post(f"{root}/{path.format(wanted)}", fields)).status == 404
    assert await team.till.status(withdrawal_id) == "pending_approval"


async def enrol(team: Team, browser: Browser) -> list[str]:
    """Give somebody an authenticator; codes that work, each of them once."""
    database, sealer = team.till.database, Sealer(TEST_PEPPER.encode())
    person_id, now = await person_of(team, browser), utc_now()
    secret = await second_factor.offer(database, sealer, person_id, now=now)
    code = pyotp.TOTP(secret).at(now)
    codes = await second_factor.enrol(database, sealer, person_id, code, now=now)
    assert codes is not None
    return list(codes)


async def person_of(team: Team, browser: Browser) -> str:
    member = await members.find_signed_in(team.till.database, browser.token, now=utc_now())
    assert member is not None
    return member.person_id


async def acts(team: Team) -> list[str]:
    rows = await team.till.database.fetch(
        "select action from act where company_id = $1 order by sequence", team.till.company_id
    )
    return [row["action"] for row in rows]
