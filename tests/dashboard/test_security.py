"""Segurança: passwords, the second step, and where one is signed in."""

import re
from datetime import datetime, timedelta

import pyotp
import pytest

from support.api import TEST_PEPPER, Api, Tenant
from support.team import PASSWORD, Browser, new_email, new_person, sign_in
from vintem.kit.clock import utc_now
from vintem.members import second_factor, tries
from vintem.members import service as members
from vintem.members.model import Role, SignedIn, Verdict
from vintem.members.passwords import PasswordFault, fault_of
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database

SEALER = Sealer(TEST_PEPPER.encode())
SECURITY = "/dashboard/test/security"
NEW_PASSWORD = "outra frase bem comprida"


async def member_of(database: Database, browser: Browser) -> SignedIn:
    member = await members.find_signed_in(database, browser.token, now=utc_now())
    assert member is not None
    return member


def code_of(secret: str, at: datetime | None = None) -> str:
    return pyotp.TOTP(secret).at(at or utc_now())


async def enrol(database: Database, browser: Browser) -> tuple[str, list[str]]:
    """Enrol by the pages; the secret and the backup codes that were shown."""
    begun = await browser.post(f"{SECURITY}/totp", {"current": PASSWORD})
    assert begun.headers["location"] == f"{SECURITY}/totp"
    page = (await browser.get(f"{SECURITY}/totp")).body.decode()
    assert "<svg" in page
    found = re.search(r'<code class="secret">([A-Z2-7 ]+)</code>', page)
    assert found
    secret = found[1].replace(" ", "")
    wrong = await browser.post(f"{SECURITY}/totp/confirm", {"code": "000000"})
    assert wrong.status == 422
    # The code of the last half minute, so that the present one is still to be used.
    code = code_of(secret, utc_now() - timedelta(seconds=30))
    done = await browser.post_raw(
        f"{SECURITY}/totp/confirm", {"csrf": await browser.csrf(), "code": code}
    )
    assert done.status == 303
    shown = (await browser.get(SECURITY)).body.decode()
    codes = re.findall(r"<code>([a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4})</code>", shown)
    assert len(set(codes)) == 10
    return secret, codes


@pytest.fixture
async def owner(api: Api, database: Database, tenant: Tenant) -> Browser:
    return await sign_in(api, database, tenant, Role.OWNER)


async def test_the_second_step_is_enrolled_asked_for_and_each_code_works_once(
    api: Api, database: Database, owner: Browser
) -> None:
    member = await member_of(database, owner)
    assert not member.has_totp
    assert not await members.prove(database, SEALER, member, "123456", now=utc_now())
    secret, codes = await enrol(database, owner)
    again = (await owner.get(SECURITY)).body.decode()
    assert codes[0] not in again, "backup codes are shown once"
    assert "Ativa" in again
    row = await database.fetchrow(
        "select totp_sealed from person where person_id = $1", member.person_id
    )
    assert row is not None
    assert secret.encode() not in row["totp_sealed"]

    fields = {"email": member.email, "password": PASSWORD, "next": "/dashboard/live"}
    step = await Browser(api).post_raw("/dashboard/sign-in", fields)
    assert (step.status, "set-cookie" in step.headers) == (200, False)
    promise = re.search(r'name="promise" value="([0-9a-f]+)"', step.body.decode())
    assert promise
    code = code_of(secret)

    async def give(code: str, kept: str = promise[1]) -> int:
        form = {"promise": kept, "code": code, "next": "/dashboard/live"}
        reply = await Browser(api).post_raw("/dashboard/sign-in/code", form)
        assert ("set-cookie" in reply.headers) == (reply.status == 303)
        return reply.status

    assert await give("000000") == 422
    assert await give(code, kept="00" * 40) == 422
    assert await give(code, kept="") == 422
    assert await give(code) == 303
    assert await give(code) == 422, "a code is used once"
    assert await give(codes[0].upper()) == 303
    assert await give(codes[0]) == 422, "a backup code is used once"
    later = utc_now() + timedelta(seconds=30)
    assert await members.prove(database, SEALER, member, code_of(secret, later), now=later)
    assert not await members.prove(database, SEALER, member, code_of(secret, later), now=later)


async def test_codes_can_be_tried_a_few_times_only(database: Database, owner: Browser) -> None:
    secret, _ = await enrol(database, owner)
    member = await member_of(database, owner)
    now = utc_now() + timedelta(seconds=30)
    person = await members.find_person_by_id(database, member.person_id)
    assert person is not None

    async def check(code: str, address: str) -> Verdict:
        return await second_factor.check_code(
            database, SEALER, person, code, address=address, now=now
        )

    for number in range(tries.CODES.per_address_max):
        assert await check(f"00000{number}", "192.0.2.1") is Verdict.WRONG
    right = code_of(secret, now)
    assert await check(right, "192.0.2.1") is Verdict.TOO_MANY
    assert await check(right, "192.0.2.2") is Verdict.RIGHT


async def test_the_second_step_ends_by_password_and_code_together(
    database: Database, owner: Browser
) -> None:
    secret, codes = await enrol(database, owner)
    path = f"{SECURITY}/totp/end"
    assert (await owner.post(path, {"current": "errada", "code": code_of(secret)})).status == 422
    assert (await owner.post(path, {"current": PASSWORD, "code": "000000"})).status == 422
    assert (await member_of(database, owner)).has_totp
    second = await owner.post(f"{SECURITY}/totp", {"current": PASSWORD, "code": codes[0]})
    assert second.status == 409
    done = await owner.post(path, {"current": PASSWORD, "code": code_of(secret)})
    assert done.status == 303
    member = await member_of(database, owner)
    assert not member.has_totp
    assert not await members.prove(database, SEALER, member, codes[1], now=utc_now())


async def test_new_backup_codes_end_the_old_ones(database: Database, owner: Browser) -> None:
    secret, old = await enrol(database, owner)
    path = f"{SECURITY}/totp/backup-codes"
    assert (await owner.post(path, {"code": "000000"})).status == 422
    assert (await owner.post(path, {"code": code_of(secret)})).status == 303
    shown = (await owner.get(SECURITY)).body.decode()
    fresh = re.findall(r"<code>([a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4})</code>", shown)
    assert not set(fresh) & set(old)
    member = await member_of(database, owner)
    assert not await members.prove(database, SEALER, member, old[0], now=utc_now())
    assert await members.prove(database, SEALER, member, fresh[0], now=utc_now())


async def test_a_changed_password_signs_the_other_browsers_out(
    api: Api, database: Database, owner: Browser
) -> None:
    member = await member_of(database, owner)
    token = await members.begin(
        database,
        person_id=member.person_id,
        company_id=member.company_id,
        ip="203.0.113.9",
        user_agent="Mozilla/5.0 (Windows NT 10.0) Firefox/140.0",
        now=utc_now(),
    )
    other = Browser(api, token)
    page = (await owner.get(SECURITY)).body.decode()
    assert "Firefox em Windows" in page
    assert "Este aparelho" in page
    path = f"{SECURITY}/password"
    fields = {"current": PASSWORD, "password": NEW_PASSWORD, "again": NEW_PASSWORD}
    for wrong, why in (
        ({"current": "errada"}, "A senha não confere."),
        ({"again": "diferente"}, "As duas senhas são diferentes."),
        ({"password": "curta"}, "pelo menos 12"),
        ({"password": "x" * 129}, "no máximo 128"),
        ({"password": "senha1234567"}, "comum demais"),
        ({"password": member.email}, "seu e-mail"),
    ):
        refused = await owner.post(path, {**fields, **wrong})
        assert refused.status == 422
        assert why in refused.body.decode()
        assert NEW_PASSWORD not in refused.body.decode()
    assert (await other.get("/dashboard/test")).status == 200
    assert (await owner.post(path, fields)).status == 303
    assert (await owner.get("/dashboard/test")).status == 200
    assert (await other.get("/dashboard/test")).status == 303
    old = {"email": member.email, "password": PASSWORD}
    assert (await Browser(api).post_raw("/dashboard/sign-in", old)).status == 422
    new = {"email": member.email, "password": NEW_PASSWORD}
    assert (await Browser(api).post_raw("/dashboard/sign-in", new)).status == 303


async def test_only_ones_own_browsers_can_be_signed_out(
    api: Api, database: Database, tenant: Tenant, owner: Browser
) -> None:
    stranger = await sign_in(api, database, tenant, Role.ADMIN)
    theirs = (await member_of(database, stranger)).session_id
    refused = await owner.post(f"{SECURITY}/browsers/{theirs}/end", {})
    assert refused.status == 404
    assert (await stranger.get(SECURITY)).status == 200
    member = await member_of(database, owner)
    tokens = [
        await members.begin(
            database,
            person_id=member.person_id,
            company_id=member.company_id,
            ip="203.0.113.9",
            user_agent="",
            now=utc_now(),
        )
        for _ in range(3)
    ]
    one = await member_of(database, Browser(api, tokens[0]))
    assert (await owner.post(f"{SECURITY}/browsers/{one.session_id}/end", {})).status == 303
    assert (await Browser(api, tokens[0]).get(SECURITY)).status == 303
    assert (await Browser(api, tokens[1]).get(SECURITY)).status == 200
    assert (await owner.post(f"{SECURITY}/browsers/end-others", {})).status == 303
    assert (await Browser(api, tokens[1]).get(SECURITY)).status == 303
    assert (await owner.get(SECURITY)).status == 200
    assert (await stranger.get(SECURITY)).status == 200


async def test_a_form_needs_the_token_of_its_own_visit(
    api: Api, database: Database, tenant: Tenant, owner: Browser
) -> None:
    other = await sign_in(api, database, tenant, Role.ADMIN)
    path, foreign = f"{SECURITY}/browsers/end-others", await other.csrf()
    for csrf in ("", "0" * 64, foreign):
        assert (await owner.post_raw(path, {"csrf": csrf})).status == 403
    assert (await owner.post_raw(path, {})).status == 403
    assert (await owner.post_raw(path, {"csrf": await owner.csrf()})).status == 303
    assert (await owner.get(path)).status == 405


async def test_an_old_hash_is_made_anew_when_its_password_is_right(
    api: Api, database: Database, tenant: Tenant
) -> None:
    import argon2

    email = new_email(Role.ADMIN)
    person_id = await new_person(database, tenant, Role.ADMIN, email=email)
    cheap = argon2.PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash(PASSWORD)
    await database.execute(
        "update person set password_hash = $2 where person_id = $1", person_id, cheap
    )
    fields = {"email": email, "password": PASSWORD}
    assert (await Browser(api).post_raw("/dashboard/sign-in", fields)).status == 303
    person = await members.find_person_by_id(database, person_id)
    assert person is not None
    assert person.password_hash is not None
    assert person.password_hash.startswith("$argon2id$")
    assert not argon2.PasswordHasher().check_needs_rehash(person.password_hash)


@pytest.mark.parametrize(
    ("password", "fault"),
    [
        ("onze letras", PasswordFault.TOO_SHORT),
        ("doze letras!", None),
        ("uma frase longa e fácil de lembrar", None),
        ("ã" * 129, PasswordFault.TOO_LONG),
        ("Senha1234567", PasswordFault.COMMON),
        ("aaaaaaaaaaaaaaaa", PasswordFault.COMMON),
        ("121212121212", PasswordFault.COMMON),
        ("Padaria Estrela", PasswordFault.NAMES),
        ("padariaestrela2026", PasswordFault.NAMES),
        ("maria.silva@loja.example", PasswordFault.NAMES),
        ("Maria Silva 123", PasswordFault.NAMES),
        ("a padaria abre às seis da manhã", None),
    ],
)
def test_a_password_is_long_rare_and_not_a_name(password: str, fault: PasswordFault | None) -> None:
    names = ("maria.silva@loja.example", "Maria Silva", "Padaria Estrela")
    assert fault_of(password, names=names) is fault
