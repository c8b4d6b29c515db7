"""Decisions about withdrawals: who makes them, what proves it, what they do to the money."""

from dataclasses import replace

import pytest

from conftest import running_api
from support.api import Api
from support.mailbox import receiving
from support.team import sign_in
from support.treasury import (
    PIX,
    Team,
    acts,
    confirm,
    enrol,
    new_team,
    request,
    text_of,
)
from vintem.companies import service as companies
from vintem.companies.model import WithdrawalRules
from vintem.members.model import Role
from vintem.runtime.db import Database
from vintem.settings import Settings
from withdrawals.till import crypto_body, new_till

NOBODY = "wd_00000000000000000000000000"


@pytest.fixture
async def team(api: Api, database: Database) -> Team:
    """A company with R$ 20.000,00, its owner and somebody of finance."""
    return await new_team(api, database, funds=2_000_000)


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


async def test_who_is_alone_does_not_decide_about_their_own_either(
    api: Api, database: Database
) -> None:
    till = await new_till(api, database, funds=5_000)
    await till.rule(automatic_cents_max=0)
    owner = await sign_in(api, database, till.shop.tenant, Role.OWNER)
    team = Team(till, owner, owner)
    codes = await enrol(team, owner)
    withdrawal_id = await request(owner)
    path = f"/dashboard/test/approvals/{withdrawal_id}"
    assert "outra pessoa da equipe decide" in text_of(await owner.get(path))
    assert (await owner.post(f"{path}/approve", {"code": codes[0]})).status == 403
    assert await till.status(withdrawal_id) == "pending_approval"
    assert await acts(team) == ["withdrawal.requested", "permission.denied"]
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


async def test_whoever_has_an_authenticator_shows_it_before_changing_rules(team: Team) -> None:
    codes = await enrol(team, team.owner)
    path = "/dashboard/test/withdrawals/rules"
    confirmed = text_of(await team.owner.post(f"{path}/confirm", {"cents_max": "9,00"}))
    assert 'name="code"' in confirmed
    wrong = await team.owner.post(path, {"cents_max": "9,00", "code": "000000"})
    assert wrong.status == 422
    assert 'id="e-code"' in text_of(wrong)
    assert 'name="cents_max" value="9,00"' in text_of(wrong)
    right = await team.owner.post(path, {"cents_max": "9,00", "code": codes[0]})
    assert right.status == 303


async def test_the_owner_is_told_of_every_step(settings: Settings, database: Database) -> None:
    async with receiving() as mailbox:
        wired = replace(
            settings,
            public_url="http://pay.example",
            smtp_host="127.0.0.1",
            smtp_port=mailbox.port,
            smtp_from="painel@pay.example",
            smtp_tls="none",
        )
        async with running_api(wired) as api:
            team = await new_team(api, database, funds=5_000)
            await team.till.rule(automatic_cents_max=0)
            codes = await enrol(team, team.owner)
            kept, thrown = await request(team.finance), await request(team.finance, amount="9,00")
            path = f"/dashboard/test/approvals/{kept}/approve"
            await team.owner.post(path, {"code": codes[0]})
            await team.finance.post(f"/dashboard/test/withdrawals/{thrown}/cancel", {})
            await mailbox.next_mail(4)
    subjects = sorted(
        str(mail["subject"]).replace("\N{NO-BREAK SPACE}", " ") for mail in mailbox.mails
    )
    assert subjects == [
        "TESTE: Saque de R$ 10,00 aprovado",
        "TESTE: Saque de R$ 10,00 pedido",
        "TESTE: Saque de R$ 9,00 cancelado",
        "TESTE: Saque de R$ 9,00 pedido",
    ]
    texts = "".join(mail.get_content() for mail in mailbox.mails)
    assert f"http://pay.example/dashboard/test/withdrawals/{kept}" in texts
    assert "Pessoa finance pediu um saque" in texts
    assert "cliente@example.com" not in texts
    await team.till.check()


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
