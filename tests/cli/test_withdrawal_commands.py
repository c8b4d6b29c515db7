"""The operator's commands about money going out, on a running demo."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from support.api import Api, assert_refused, pix_order
from support.platform import Running, client, demo, private_folder, promised, until, vintem
from vintem.companies import service as companies
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.runtime.embedded import EmbeddedPostgres
from vintem.trail import service as trail
from vintem.trail.model import ActFilter, Link
from withdrawals.till import pix_body

MASKED_KEY = "email c***@example.com"


@pytest.fixture(scope="module")
async def bank() -> AsyncIterator[Running]:
    with private_folder() as folder:
        async with demo(folder / "data") as running:
            async with client(running) as api:
                key = running.ready["testSecretKey"]
                made = await api.post("/v1/transactions", key=key, json=pix_order(100_000))
                path = f"/v1/sandbox/transactions/{made.data['id']}/simulate"
                await api.post(path, key=key, json={"status": "paid"})
            yield running


async def say(bank: Running, *words: str) -> str:
    said = await vintem(*words, "--data", str(bank.data))
    assert said.status == 0, said.text
    return said.out


async def complain(bank: Running, *words: str) -> str:
    said = await vintem(*words, "--data", str(bank.data))
    assert said.status == 2, said.text
    return said.err


async def status_of(bank: Running, api: Api, withdrawal_id: str) -> str:
    path = f"/v1/withdrawals/{withdrawal_id}"
    return str((await api.get(path, key=bank.ready["testSecretKey"])).data["status"])


async def take(bank: Running, api: Api, amount: int, **more: object) -> Any:
    key = bank.ready["testSecretKey"]
    reply = await api.post("/v1/withdrawals", key=key, json={**pix_body(amount), **more})
    assert reply.status == 201, reply.json
    return reply.data


def brasilia(made: Any) -> str:
    """When a withdrawal was made, as the commands write it."""
    return str(made["createdAt"])[:19].replace("T", " ")


async def acts_of(bank: Running) -> Sequence[Link]:
    """What the trail of the demo's company tells of its test environment."""
    database = Database(EmbeddedPostgres(bank.data).url)
    await database.open()
    try:
        company = await companies.get_company(database, bank.ready["companyId"])
        wanted = ActFilter(environment="test")
        return await trail.list_older(database, company.company_id, wanted, rows_max=50)
    finally:
        await database.close()


async def test_a_second_person_decides_by_command(bank: Running) -> None:
    company = bank.ready["companyId"]
    rules = ["company", "set-withdrawal-rules", company]
    said = await say(bank, *rules, "--automatic-cents", "500", "--maximum-cents", "5000")
    assert said == (
        f"{company}: at most 5000 cents a withdrawal, any amount a day; a second person above"
        " 500 cents, for new destinations: no, for crypto: no\n"
    )
    assert await say(bank, "withdrawal", "list") == "No withdrawal is pending_approval.\n"
    async with client(bank) as api:
        good = await take(bank, api, 1_000, externalRef="pedido [7]")
        bad = await take(bank, api, 1_100)
        assert good["status"] == bad["status"] == "pending_approval"
        listed = await say(bank, "withdrawal", "list")
        for text in (good["id"], bad["id"], company, "pedido [7]", "Since (Brasília)"):
            assert text in listed
        assert "1000 cents are above the automatic limit of 500" in listed
        assert brasilia(good) in listed
        assert MASKED_KEY in listed
        assert good["pixKey"] not in listed
        words = ["--reason", "known supplier", "--by", "ana"]
        said = await say(bank, "withdrawal", "approve", good["id"], *words)
        assert said == f"{good['id']} is approved\n"
        said = await say(bank, "withdrawal", "reject", bad["id"], "--reason", "not ours")
        assert said == f"{bad['id']} is rejected\n"
        assert await status_of(bank, api, bad["id"]) == "cancelled"

        async def is_done() -> bool:
            return await status_of(bank, api, good["id"]) == "completed"

        await until(is_done, seconds=promised(10))
    assert good["id"] not in await say(bank, "withdrawal", "list")
    assert good["id"] in await say(bank, "withdrawal", "list", "--status", "completed")
    shown = await say(bank, "withdrawal", "show", good["id"])
    assert good["pixKey"] not in shown
    for text in (company, MASKED_KEY, "pedido [7]", "When (Brasília)", brasilia(good)):
        assert text in shown
    happened = re.findall(
        r"pending_approval|approval_required|approved|pending|processing|completed",
        shown[shown.index("When (Brasília)") :],
    )
    assert happened == [
        "pending_approval",
        "approval_required",
        "pending",
        "approved",
        "processing",
        "completed",
    ]
    assert "operator:ana" in shown
    assert "known supplier" in shown
    acts = [(act.action, act.target_id, act.reason) for act in await acts_of(bank)]
    assert ("withdrawal.approved", good["id"], "known supplier") in acts
    assert ("withdrawal.rejected", bad["id"], "not ours") in acts
    complaint = await complain(bank, "withdrawal", "approve", good["id"], "--reason", "again")
    assert f"{good['id']} is completed: nobody has to decide." in complaint
    unknown = "wd_00000000000000000000000000"
    for words in (["reject", unknown, "--reason", "x"], ["show", unknown]):
        complaint = await complain(bank, "withdrawal", *words)
        assert f"{unknown} does not exist." in complaint
    said = await say(bank, "withdrawal", "rules")
    assert re.search(rf"{company}\W+5000\W+any\W+500\W+no\W+no\W+no\W", said)
    said = await say(bank, *rules, "--automatic-cents", "-1", "--maximum-cents", "-1")
    assert "at most any amount a withdrawal" in said


async def test_the_kill_switch_works_at_once(bank: Running) -> None:
    company, key = bank.ready["companyId"], bank.ready["testSecretKey"]
    switches = (
        (["company", "pause-withdrawals", company], ["company", "resume-withdrawals", company]),
        (["withdrawal", "pause"], ["withdrawal", "resume"]),
    )
    async with client(bank) as api:
        for pause, resume in switches:
            await say(bank, *pause, "--reason", "alarm", "--by", "ana")
            said = await say(bank, "withdrawal", "rules")
            assert "Brasília, operator:ana: alarm" in said
            assert ("with every company's" in said) == (pause[0] == "withdrawal")
            reply = await api.post("/v1/withdrawals", key=key, json=pix_body(300))
            assert_refused(reply, ErrorCode.WITHDRAWALS_PAUSED, status=403)
            await say(bank, *resume, "--reason", "false alarm", "--by", "ana")
            await take(bank, api, 300)
            assert "alarm" not in await say(bank, "withdrawal", "rules")


async def test_an_unknown_company_is_named(bank: Running) -> None:
    for words in (
        ["pause-withdrawals", "cmp_x", "--reason", "x"],
        ["set-withdrawal-rules", "cmp_x"],
    ):
        assert "cmp_x does not exist." in await complain(bank, "company", *words)


async def test_a_reason_is_needed(bank: Running) -> None:
    for words in (["withdrawal", "approve", "wd_x"], ["withdrawal", "pause"]):
        said = await vintem(*words, "--data", str(bank.data))
        assert said.status == 2
        assert "--reason" in said.text


async def test_failpoints_need_the_test_mode() -> None:
    said = await vintem("audit", settings={"VINTEM_FAILPOINTS": "/nowhere"})
    assert said.status == 2
    assert "VINTEM_FAILPOINTS lets processes die on purpose" in said.err
