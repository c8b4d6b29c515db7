"""What a developer has: events as they happen, forwarded, and a way to make them happen."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.platform import Running, client, command, demo, private_folder, promised, until, vintem
from support.sink import running_sink
from vintem.transactions.model import Status
from vintem.webhook_commands import moves_to

SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{43}=")


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Running]:
    with private_folder() as folder:
        async with demo(folder / "data") as started:
            yield started


async def test_events_are_printed_and_forwarded_with_nothing_registered(running: Running) -> None:
    async with running_sink() as sink:
        words = ["listen", "--forward-to", sink.url(), "--data", str(running.data)]
        async with command(words, data=running.data.with_name("listen"), address="") as listening:
            await until(lambda: SECRET.search(listening.out), seconds=promised(20))
            secret = SECRET.findall(listening.out)[0]
            triggered = await trigger(running, "transaction.refunded")
            transaction_id = triggered.split()[-1]
            arrived = await sink.until(4)
            assert {each.verify(secret)["event"] for each in arrived} == {
                "transaction.pending", "transaction.paid", "refund.completed",
                "transaction.refunded",
            }  # fmt: skip
            await until(lambda: listening.out.count("→ 200") == 4, seconds=promised(5))
            assert re.search(
                rf"^\d\d:\d\d:\d\d transaction\.paid {transaction_id} #2 → 200 \d+ ms$",
                listening.out,
                re.MULTILINE,
            )
            assert await listening.stop() == 0


async def trigger(running: Running, kind: str) -> str:
    # It knows by itself where the demo is, though that is another port than the settings name.
    said = await vintem("trigger", kind, "--data", str(running.data))
    assert said.status == 0, said.text
    assert len(said.out.splitlines()) == 1
    return said.out


async def test_the_demo_delivers_to_this_machine_and_says_so(running: Running) -> None:
    assert "they may also go to this machine" in running.out
    async with running_sink() as sink, client(running) as api:
        key = running.ready["testSecretKey"]
        body = {"url": sink.url(), "events": ["transaction.paid"]}
        made = (await api.post("/v1/webhooks", key=key, json=body)).data
        await trigger(running, "transaction.paid")
        [arrived] = await sink.until(1)
        assert arrived.verify(made["secret"])["event"] == "transaction.paid"


async def test_the_postback_secret_is_printed_and_rotated(running: Running) -> None:
    words = ["company", "postback-secret", running.ready["companyId"], "--environment", "test"]
    words += ["--data", str(running.data)]
    first, again = await vintem(*words), await vintem(*words)
    assert SECRET.fullmatch(first.out.strip())
    assert first.out == again.out
    rotated = await vintem(*words, "--rotate")
    assert SECRET.fullmatch(rotated.out.strip())
    assert rotated.out != first.out


async def test_mistakes_are_said_in_a_sentence(running: Running, tmp_path: Path) -> None:
    data = ["--data", str(running.data)]
    spoiled = tmp_path / "spoiled"
    spoiled.mkdir()
    (spoiled / "demo.json").write_text("{")
    paid = ["trigger", "transaction.paid"]
    async with running_sink() as other:
        for words, sentence in (
            (["trigger", "transaction.lost", *data], "cannot be triggered"),
            ([*paid, "--data", str(tmp_path)], "--key"),
            ([*paid, "--data", str(spoiled)], "demo.json cannot be read"),
            (
                [*paid, "--url", "http://127.0.0.1:1", *data],
                "Nobody answers at http://127.0.0.1:1:",
            ),
            ([*paid, "--url", other.url(""), *data], "is another program"),
            ([*paid, "--key", "sk_test_x", *data], "INVALID_API_KEY: "),
            (["listen", "--forward-to", "http://10.0.0.1/", *data], "--forward-to"),
        ):
            said = await vintem(*words)
            assert said.status == 2
            assert sentence in said.err
            assert len(said.err.splitlines()) == 1, said.err


@pytest.mark.parametrize("status", list(Status))
def test_every_status_can_be_triggered(status: Status) -> None:
    way = moves_to(f"transaction.{status}")
    assert way is not None
    assert (way or [Status.PENDING])[-1] is status
