"""The demo as a newcomer and a script see it: what it says, writes, and leaves behind."""

import asyncio
import io
import json
import re
import shlex
import shutil
import socket
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from support.api import assert_refused
from support.platform import (
    Running,
    client,
    demo,
    fresh_database,
    get_once,
    leftovers,
    ready_file,
    starting_demo,
    until,
    vintem,
)
from support.team import Browser
from vintem.companies import service as companies
from vintem.demo import DemoCompany, DemoOwner, read_demo, seed, seed_owner
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.members.passwords import hashing
from vintem.runtime.db import Database

KEY_NAMES = ("testSecretKey", "testCheckoutKey", "liveSecretKey", "liveCheckoutKey")


@pytest.fixture(scope="module")
async def shop(module_path: Path) -> AsyncIterator[Running]:
    """A demo that these tests share and leave as it is."""
    async with demo(module_path / "data") as running:
        yield running


async def test_ready_file_names_the_given_address_the_company_and_four_keys(shop: Running) -> None:
    assert shop.ready["baseUrl"] == f"http://{shop.address}"
    assert re.fullmatch(r"cmp_[0-9a-z]{26}", shop.ready["companyId"])
    for name in KEY_NAMES:
        kind = ("ck" if "Checkout" in name else "sk") + ("_live_" if "live" in name else "_test_")
        assert shop.ready[name].startswith(kind)
    assert len({shop.ready[name] for name in KEY_NAMES}) == 4


async def test_live_and_test_keys_work_on_one_address(shop: Running) -> None:
    async with client(shop) as api:
        for name in ("testSecretKey", "liveSecretKey"):
            assert (await api.get("/v1/balance", key=shop.ready[name])).status == 200
        for name in ("testCheckoutKey", "liveCheckoutKey"):
            reply = await api.get("/v1/balance", key=shop.ready[name])
            assert_refused(reply, ErrorCode.KEY_TYPE_NOT_ALLOWED, status=403)


async def test_keys_are_kept_in_a_file_that_only_its_owner_may_read(shop: Running) -> None:
    kept = shop.data / "demo.json"
    assert {name: json.loads(kept.read_text())[name] for name in KEY_NAMES} == {
        name: shop.ready[name] for name in KEY_NAMES
    }
    for file in (kept, shop.data / "secrets.json", ready_file(shop.data)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_one_api_process_and_one_worker_run(shop: Running) -> None:
    assert len(shop.children("api")) == 1
    assert len(shop.children("worker")) == 1


async def test_output_shows_the_address_and_the_test_keys_whole(shop: Running) -> None:
    for wanted in (shop.base_url, shop.ready["testSecretKey"], shop.ready["testCheckoutKey"]):
        assert wanted in shop.out


async def test_curl_line_works_when_pasted(shop: Running) -> None:
    lines = [line for line in shop.out.splitlines() if line.startswith("curl ")]
    assert len(lines) == 1
    line = lines[0]
    if shutil.which("curl") is None:
        words = shlex.split(line)
        header = words[words.index("-H") + 1]
        address = next(word for word in words if word.startswith("http"))
        ask = "import sys, urllib.request as r; q = r.Request(sys.argv[1]);"
        ask += "q.add_header(*sys.argv[2].split(': ')); print(r.urlopen(q).read().decode())"
        line = shlex.join([sys.executable, "-c", ask, address, header])
    process = await asyncio.create_subprocess_shell(line, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    assert json.loads(said)["data"]["currency"] == "BRL"


async def test_no_secret_reaches_the_log_or_a_command_line(shop: Running) -> None:
    secrets = [shop.ready[name] for name in KEY_NAMES]
    secrets.append(json.loads((shop.data / "secrets.json").read_text())["pepper"])
    parent = psutil.Process(shop.pid)
    commands = [" ".join(p.cmdline()) for p in (parent, *parent.children(recursive=True))]
    for secret in secrets:
        assert not [text for text in (shop.log, *commands) if secret in text]
    assert secrets[-1] not in shop.out


async def test_demo_company_has_a_document_that_its_boletos_show(shop: Running) -> None:
    listed = await vintem("company", "list", "--data", str(shop.data))
    (line,) = [line for line in listed.out.splitlines() if shop.ready["companyId"] in line]
    assert "11.222.333/0001-81" in line


async def test_owner_signs_in_with_what_the_ready_file_and_the_box_say(shop: Running) -> None:
    door: Any = shop.ready["dashboard"]
    assert door["url"] == f"{shop.base_url}/dashboard"
    assert json.loads((shop.data / "demo.json").read_text())["dashboard"] == door
    for said in door.values():
        assert said in shop.out
        assert said not in shop.log or said == door["url"]
    fields = {"email": door["email"], "password": door["password"]}
    async with client(shop) as api:
        browser = Browser(api)
        reply = await browser.post_raw("/dashboard/sign-in", fields)
        assert (reply.status, reply.headers["location"]) == (303, "/dashboard/test")
        cookie = reply.headers["set-cookie"]
        assert "Secure" not in cookie
        signed_in = Browser(api, cookie.partition("=")[2].partition(";")[0])
        assert (await signed_in.get("/dashboard/live/team")).status == 200


async def test_owner_stays_and_a_password_of_their_own_is_not_known(
    database: Database, tmp_path: Path
) -> None:
    console = Console(file=io.StringIO())

    async def seeded() -> DemoCompany:
        demo_company = await seed(database, tmp_path, pepper=b"p" * 32, console=console)
        return await seed_owner(database, tmp_path, demo_company)

    first = await seeded()
    assert first.owner is not None
    assert first.owner.password is not None
    assert await seeded() == first
    other = await hashing.hash("outra frase bem comprida")
    await database.execute(
        "update person set password_hash = $2 where email = $1", first.owner.email, other
    )
    second = await seeded()
    assert second.owner == DemoOwner(first.owner.email, None)
    (tmp_path / "demo.json").unlink()
    stranger = await seeded()
    assert stranger.owner is not None
    assert stranger.owner.email != first.owner.email, "another demo of the same database"


async def test_metrics_are_hidden_on_the_public_address_by_default(shop: Running) -> None:
    assert (await get_once(shop, "/metrics")).status == 404


async def test_taken_port_is_said_in_a_sentence_and_nothing_stays(
    shop: Running, tmp_path: Path
) -> None:
    port = int(shop.address.rpartition(":")[2])
    async with starting_demo(tmp_path / "data", port=port) as second:
        assert await second.ended() == 2
        assert f"Cannot listen on 127.0.0.1 port {port}: Address already in use." in second.log
        assert "VINTEM_PORT" in second.log
        assert "Traceback" not in second.log
        assert not ready_file(second.data).exists()
        assert not leftovers(second)
    assert (await get_once(shop, "/readyz")).status == 200


async def test_host_that_is_not_ours_is_said_in_a_sentence(tmp_path: Path) -> None:
    said = await vintem(
        "demo", "--host", "192.0.2.1", "--port", "0", "--data", str(tmp_path / "data")
    )
    assert said.status == 2
    assert "Cannot listen on 192.0.2.1" in said.err
    assert "VINTEM_HOST" in said.err


async def test_ready_file_appears_whole_and_only_when_calls_are_answered(tmp_path: Path) -> None:
    data = tmp_path / "data"
    file = ready_file(data)
    # One of an earlier run must not tell a watcher that this one is ready.
    file.write_text('{"baseUrl": "http://127.0.0.1:1"}')
    async with starting_demo(data) as running:
        await until(lambda: not file.exists(), seconds=30)
        while not file.exists():
            await asyncio.sleep(0)
        first = file.read_text()
        reply = await get_once(running, "/v1/balance", key=json.loads(first)["testSecretKey"])
        assert reply.status == 200
        assert file.read_text() == first
        assert [path.name for path in file.parent.glob(f"*{file.name}*")] == [file.name]


@pytest.mark.parametrize("option", ["--data", "--ready-file"])
async def test_place_that_cannot_be_written_is_said_in_a_sentence(
    option: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    places = {"--data": str(tmp_path / "data"), option: str(tmp_path / "file" / "below")}
    words = [word for pair in places.items() for word in pair]
    said = await vintem("demo", "--port", "0", *words)
    assert said.status == 2
    assert f"{tmp_path}/file/below cannot be" in said.err


async def test_host_and_port_of_the_settings_are_used_without_options(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        settings = {"VINTEM_PORT": port, "VINTEM_DATA": str(tmp_path / "data")}
        said = await vintem("demo", settings=settings)
    assert said.status == 2
    assert f"port {port}" in said.err
    assert (tmp_path / "data/demo.json").exists()


async def test_keys_stay_as_long_as_they_work_and_only_the_others_are_made_anew(
    database: Database, tmp_path: Path
) -> None:
    said = io.StringIO()
    console = Console(file=said)
    pepper, other = b"p" * 32, b"q" * 32

    async def seeded(*, pepper: bytes) -> DemoCompany:
        return await seed(database, tmp_path, pepper=pepper, console=console)

    first = await seeded(pepper=pepper)
    assert await seeded(pepper=pepper) == first
    assert said.getvalue() == ""
    second = await seeded(pepper=other)
    assert second.company_id == first.company_id
    assert not set(second.keys.values()) & set(first.keys.values())
    assert said.getvalue() == "Keys in demo.json do not work here: new ones were made.\n"
    assert read_demo(tmp_path / "demo.json") == second
    listed = await companies.list_keys(database, second.company_id)
    revoked = next(key for key in listed if key.last_four == second.keys["testSecretKey"][-4:])
    await companies.revoke_key(database, revoked.key_id, now=utc_now())
    third = await seeded(pepper=other)
    changed = {name for name in KEY_NAMES if third.keys[name] != second.keys[name]}
    assert changed == {"testSecretKey"}
    for key in third.keys.values():
        assert await companies.is_working_key(database, key, pepper=other, now=utc_now())


async def test_database_of_ones_own_is_warned_about_before_the_demo_fills_it(
    tmp_path: Path,
) -> None:
    settings = {"DATABASE_URL": await fresh_database()}
    async with demo(tmp_path / "data", settings=settings) as running:
        (line,) = [line for line in running.out.splitlines() if "DATABASE_URL" in line]
        assert line == "DATABASE_URL is set: the demo company is made in that database."
        key = running.ready["testSecretKey"]
        assert (await get_once(running, "/v1/balance", key=key)).status == 200


async def test_ready_file_names_what_can_be_bought_and_a_session_of_it(shop: Running) -> None:
    ready = shop.ready
    async with client(shop) as api:
        token = ready["checkoutUrl"].removeprefix(f"{shop.base_url}/s/")
        path = f"/v1/checkout/sessions/{token}"
        read = (await api.get(path)).data
        assert read["lineItems"][0]["productId"] == ready["productId"]
        assert (read["status"], read["appearance"]["appearanceVersion"]) == ("OPEN", 1)
        priced = await api.post(f"{path}/coupon", json={"code": ready["couponCode"]})
        assert priced.data["discountAmount"] > 0
        body = {"productId": ready["productId"]}
        made = await api.post("/v1/checkout/sessions", key=ready["testCheckoutKey"], json=body)
        assert made.status == 201
        link = f"/v1/checkout/payment-links/{ready['paymentLinkToken']}/sessions"
        assert (await api.post(link)).status == 201
    assert ready["productId"] in shop.out
