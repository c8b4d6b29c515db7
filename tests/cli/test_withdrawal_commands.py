"""The operator's commands about money going out, on a running demo."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.api import Api, assert_refused, pix_order
from support.platform import Running, client, demo, private_folder, promised, until, vintem
from vintem.kit.errors import ErrorCode
from withdrawals.till import pix_body


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


async def take(bank: Running, api: Api, amount: int) -> Any:
    key = bank.ready["testSecretKey"]
    reply = await api.post("/v1/withdrawals", key=key, json=pix_body(amount))
    assert reply.status == 201, reply.json
    return reply.data


async def test_a_second_person_decides_by_command(bank: Running) -> None:
    company = bank.ready["companyId"]
    rules = ["company", "set-withdrawal-rules", company]
    said = await say(bank, *rules, "--automatic-cents", "500", "--maximum-cents", "5000")
    assert said == (
        f"{company}: at most 5000 cents a withdrawal, any amount a day; a second person above"
        " 500 cents, for new destinations: no, for crypto: no\n"
    )
    async with client(bank) as api:
        good, bad = await take(bank, api, 1_000), await take(bank, api, 1_100)
        assert good["status"] == bad["status"] == "pending_approval"
        listed = await say(bank, "withdrawal", "list")
        assert good["id"] in listed
        assert bad["id"] in listed
        assert company in listed
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
    complaint = await complain(bank, "withdrawal", "approve", good["id"], "--reason", "again")
    assert f"{good['id']} is completed: nobody has to decide." in complaint
    unknown = "wd_00000000000000000000000000"
    complaint = await complain(bank, "withdrawal", "reject", unknown, "--reason", "x")
    assert f"{unknown} does not exist." in complaint
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
            await say(bank, *pause, "--reason", "alarm")
            reply = await api.post("/v1/withdrawals", key=key, json=pix_body(300))
            assert_refused(reply, ErrorCode.WITHDRAWALS_PAUSED, status=403)
            await say(bank, *resume, "--reason", "false alarm", "--by", "ana")
            await take(bank, api, 300)


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
