"""A forgotten password: links that work once, for a while, and tell nobody who has an account."""

import asyncio
import io
import math
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import LOG_FOLDER, running_api
from support.api import Api, Tenant
from support.mailbox import Mailbox, receiving
from support.team import PASSWORD, Browser, new_email, new_person, sign_in
from vintem.kit.clock import utc_now
from vintem.kit.ids import new_token
from vintem.members import recovery, tries
from vintem.members import service as members
from vintem.members.model import Role
from vintem.runtime import log as logs
from vintem.runtime.db import Database
from vintem.settings import Settings, SettingsError, read_settings

LINK = re.compile(r"https://pay\.example/dashboard/reset/([\w-]{43})")
CHOSEN = "uma frase nova e comprida"


@pytest.fixture(scope="module")
async def mailbox() -> AsyncIterator[Mailbox]:
    async with receiving() as taking:
        yield taking


@pytest.fixture(scope="module")
async def mailing(settings: Settings, mailbox: Mailbox) -> AsyncIterator[Api]:
    """A server whose mail arrives, and whose address is public."""
    wired = replace(
        settings,
        public_url="https://pay.example",
        smtp_host="127.0.0.1",
        smtp_port=mailbox.port,
        smtp_from="painel@pay.example",
        smtp_tls="none",
    )
    async with running_api(wired) as running:
        yield running


async def link_of(database: Database, person_id: str) -> str:
    async with database.atomic() as block:
        return await recovery.make_link(
            block, person_id, lifetime=recovery.LINK_LIFETIME, now=utc_now()
        )


async def choose(api: Api, token: str, password: str = CHOSEN) -> int:
    fields = {"password": password, "again": password}
    return (await Browser(api).post_raw(f"/dashboard/reset/{token}", fields)).status


async def test_a_link_comes_by_mail_works_once_and_signs_everybody_out(
    mailing: Api, mailbox: Mailbox, database: Database, tenant: Tenant
) -> None:
    browser = await sign_in(mailing, database, tenant, Role.OWNER)
    member = await members.find_signed_in(database, browser.token, now=utc_now())
    assert member is not None
    at_work = {"cookie": f"__Secure-vintem_dashboard={browser.token}"}
    assert (await Browser(mailing).get("/dashboard/test", **at_work)).status == 200

    before = len(mailbox.mails)
    evil = {"host": "evil.example", "x-forwarded-host": "evil.example"}
    fields = {"email": member.email.upper()}
    asked = await Browser(mailing).post_raw("/dashboard/reset", fields, **evil)
    assert asked.status == 200
    mail = await mailbox.next_mail(before + 1)
    assert (mail["to"], mail["from"]) == (member.email, "painel@pay.example")
    text = mail.get_content()
    found = LINK.search(text)
    assert found, text
    assert "evil" not in text
    token = found[1]

    shown = await Browser(mailing).get(f"/dashboard/reset/{token}")
    assert (shown.status, shown.headers["cache-control"]) == (200, "no-store")
    assert shown.headers["referrer-policy"] == "same-origin"
    assert await choose(mailing, token, "curta") == 422
    assert await choose(mailing, token) == 303
    assert (await Browser(mailing).get("/dashboard/test", **at_work)).status == 303
    assert await choose(mailing, token) == 404, "a link works once"
    assert (await Browser(mailing).get(f"/dashboard/reset/{token}")).status == 404
    old = {"email": member.email, "password": PASSWORD}
    assert (await Browser(mailing).post_raw("/dashboard/sign-in", old)).status == 422
    new = {"email": member.email, "password": CHOSEN}
    assert (await Browser(mailing).post_raw("/dashboard/sign-in", new)).status == 303
    told = await mailbox.next_mail(before + 2)
    assert "foi alterada" in told["subject"]


async def test_nobody_learns_who_has_an_account(
    mailing: Api, mailbox: Mailbox, database: Database, tenant: Tenant
) -> None:
    email = new_email(Role.FINANCE)
    await new_person(database, tenant, Role.FINANCE, email=email)

    async def timed(address: str) -> tuple[float, int, bytes]:
        began = asyncio.get_running_loop().time()
        reply = await Browser(mailing).post_raw("/dashboard/reset", {"email": address})
        return asyncio.get_running_loop().time() - began, reply.status, reply.body

    before = len(mailbox.mails)
    known, unknown = math.inf, math.inf
    for _ in range(3):
        (seconds, *answer), (other_seconds, *other) = [
            await timed(address) for address in (email, "nobody@loja.example")
        ]
        assert answer == other
        known, unknown = min(known, seconds), min(unknown, other_seconds)
        assert min(known, unknown) >= 0.4
        if 0.5 < known / unknown < 2:
            break
    else:
        pytest.fail(f"{known:.2f} s for one who has an account, {unknown:.2f} s for nobody")
    for _ in range(tries.RESETS.per_address_max + 1):
        assert (await timed(email))[1] == 200
    await mailbox.next_mail(before + tries.RESETS.per_address_max)
    assert len(mailbox.mails) == before + tries.RESETS.per_address_max


async def test_links_end_with_time_with_the_next_one_and_cannot_be_guessed(
    api: Api, database: Database, tenant: Tenant
) -> None:
    person_id = await new_person(database, tenant, Role.ADMIN, email=new_email(Role.ADMIN))
    first = await link_of(database, person_id)
    second = await link_of(database, person_id)
    kept = await database.fetch(
        "select digest::text from password_link where person_id = $1", person_id
    )
    assert all(first not in row["digest"] for row in kept)
    for token in (first, new_token(), "x", second[:-1], f"{second}A"):
        assert (await Browser(api).get(f"/dashboard/reset/{token}")).status == 404
    await database.execute(
        "update password_link set expires_at = now() where person_id = $1", person_id
    )
    assert await choose(api, second) == 404
    third = await link_of(database, person_id)
    foreign = {"origin": "https://evil.example"}
    fields = {"password": CHOSEN, "again": CHOSEN}
    path = f"/dashboard/reset/{third}"
    assert (await Browser(api).post_raw(path, fields, **foreign)).status == 403
    statuses = await asyncio.gather(*(choose(api, third) for _ in range(3)))
    assert sorted(statuses) == [303, 404, 404], "of many at once one chooses"


async def test_a_link_does_not_go_around_the_second_step(
    api: Api, database: Database, tenant: Tenant
) -> None:
    email = new_email(Role.ADMIN)
    person_id = await new_person(database, tenant, Role.ADMIN, email=email)
    await database.execute(
        "update person set totp_sealed = '\\x00' where person_id = $1", person_id
    )
    reply_status = await choose(api, await link_of(database, person_id))
    assert reply_status == 303
    fields = {"email": email, "password": CHOSEN}
    step = await Browser(api).post_raw("/dashboard/sign-in", fields)
    assert (step.status, "set-cookie" in step.headers) == (200, False)
    assert 'name="code"' in step.body.decode()


async def test_without_a_server_for_mail_the_link_is_shown_in_development_only(
    settings: Settings, database: Database, tenant: Tenant
) -> None:
    email = new_email(Role.OWNER)
    await new_person(database, tenant, Role.OWNER, email=email)
    shown: dict[bool, str] = {}
    kept = logs.Output.stream
    for is_logged in (True, False):
        async with running_api(replace(settings, mail_to_log=is_logged)) as api:
            logs.configure(is_json=True, level="debug", stream=(stream := io.StringIO()))
            try:
                reply = await Browser(api).post_raw("/dashboard/reset", {"email": email})
                assert reply.status == 200
                logs.flush_access()
            finally:
                logs.configure(is_json=True, level="debug", stream=kept)
            shown[is_logged] = stream.getvalue()
    assert re.search(r"/dashboard/reset/[\w-]{43}", shown[True])
    assert not re.search(r"[\w-]{43}", shown[False])
    assert email not in shown[False]


def read_logs() -> str:
    folder = Path(os.environ[LOG_FOLDER])
    return "".join(file.read_text(errors="replace") for file in folder.glob("*.log"))


async def test_passwords_and_tokens_are_in_no_line_of_the_log(
    api: Api, database: Database, tenant: Tenant
) -> None:
    email, secret = new_email(Role.ADMIN), f"frase secreta {new_token()[:9]}"
    person_id = await new_person(database, tenant, Role.ADMIN, email=email)
    token = await link_of(database, person_id)
    assert await choose(api, token, secret) == 303
    fields = {"email": email, "password": secret}
    assert (await Browser(api).post_raw("/dashboard/sign-in", fields)).status == 303
    assert (await Browser(api).post_raw("/dashboard/sign-in", {"passwort": secret})).status == 400
    assert (await Browser(api).get(f"/dashboard/sign-in?password={token}")).status == 200
    logs.flush_access()
    written = read_logs()
    assert "/dashboard/reset/{token}" in written
    for hidden in (token, secret, email):
        assert hidden not in written


def test_a_server_for_mail_needs_a_sender() -> None:
    with pytest.raises(SettingsError, match="VINTEM_SMTP_FROM is missing"):
        read_settings({"VINTEM_SMTP_HOST": "mail.example"})
    with pytest.raises(SettingsError, match="VINTEM_SMTP_FROM"):
        read_settings({"VINTEM_SMTP_HOST": "mail.example", "VINTEM_SMTP_FROM": "a@b c"})
