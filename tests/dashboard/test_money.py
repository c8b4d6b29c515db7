"""Balance, statement and withdrawals, as the people of a company see and ask for them."""

import re
from collections.abc import Mapping

import pytest

from support.api import Api
from support.team import sign_in
from support.treasury import (
    PIX,
    Team,
    acts,
    confirm,
    hidden_fields,
    new_team,
    request,
    text_of,
)
from vintem.companies import service as companies
from vintem.companies.model import ImplicitProtection
from vintem.kit.clock import business_day, utc_now
from vintem.members.model import Role
from vintem.runtime.db import Database
from withdrawals.test_copypaste import C4, S1
from withdrawals.till import WALLET, new_till

CRYPTO = {"method": "crypto", "amount": "100,00", "network": "USDT.ERC20", "address": WALLET}


@pytest.fixture
async def team(api: Api, database: Database) -> Team:
    """A company with R$ 20.000,00, its owner and somebody of finance."""
    return await new_team(api, database, funds=2_000_000)


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


async def test_the_files_hold_what_the_lists_show_and_no_more(team: Team) -> None:
    withdrawal_id = await request(team.finance, amount="1.234,56")
    await team.till.take(2_000)
    today = business_day(utc_now())
    statement = await team.finance.get("/dashboard/test/statement.csv?kind=withdrawal")
    assert f"extrato_inicio_{today}_test.csv" in statement.headers["content-disposition"]
    lines = statement.body.decode("utf-8-sig").splitlines()
    assert [line.split(";")[5:] for line in lines[1:]] == [
        ["2000", "20,00", "", "", "1874544", "18745,44"],
        ["123456", "1234,56", "", "", "1876544", "18765,44"],
    ]
    listed = await team.finance.get("/dashboard/test/withdrawals.csv?status=pending")
    rows = listed.body.decode("utf-8-sig").splitlines()
    assert len(rows) == 3
    assert withdrawal_id in rows[2]
    assert "c***@example.com" in rows[2]
    assert "cliente@example.com" not in listed.body.decode()
    assert await acts(team) == ["withdrawal.requested", "export.made", "export.made"]


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
