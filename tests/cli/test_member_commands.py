"""The commands about people: owners, invitations, links."""

import re

import pytest

from support.api import TEST_PEPPER, Api, Tenant
from support.platform import vintem
from support.team import Browser, new_email, new_person, password_hash
from vintem.companies import service as companies
from vintem.kit.clock import utc_now
from vintem.members import service as members
from vintem.members.model import Role
from vintem.runtime.db import Database

LINK = re.compile(r"https://pay\.example(/dashboard/(?:reset|invitation)/[\w-]{43})")
CHOSEN = "uma frase nova e comprida"


@pytest.fixture
def settings_of_commands(database_url: str, database: Database) -> dict[str, str]:
    del database
    return {
        "DATABASE_URL": database_url,
        "VINTEM_PEPPER": TEST_PEPPER,
        "VINTEM_PUBLIC_URL": "https://pay.example/",
    }


async def test_a_company_is_made_with_an_owner_who_chooses_the_password(
    api: Api, database: Database, settings_of_commands: dict[str, str]
) -> None:
    email = new_email(Role.OWNER)
    words = ["--owner-email", email.upper(), "--owner-name", "Ana Souza"]
    said = await vintem(
        "company", "create", "Padaria Estrela", *words, settings=settings_of_commands
    )
    company_id, link = said.out.split()
    found = LINK.fullmatch(link)
    assert found, said.out
    fields = {"email": email, "password": CHOSEN}
    assert (await Browser(api).post_raw("/dashboard/sign-in", fields)).status == 422
    chosen = {"password": CHOSEN, "again": CHOSEN}
    assert (await Browser(api).post_raw(found[1], chosen)).status == 303
    assert (await Browser(api).post_raw("/dashboard/sign-in", fields)).status == 303
    company = await companies.get_company(database, company_id)
    (owner,) = await members.list_members(database, company.company_id)
    assert (owner.email, owner.name, owner.role) == (email, "Ana Souza", Role.OWNER)

    again = await vintem(
        "company", "create", "Outra", "--owner-email", email, settings=settings_of_commands
    )
    assert re.fullmatch(r"cmp_\w+", again.out.strip()), "no link: the password is known"
    assert "owns this company too" in again.err
    wrong = await vintem(
        "company", "create", "X", "--owner-email", "ana", settings=settings_of_commands
    )
    assert (wrong.status, "is no e-mail" in wrong.err) == (2, True)


async def test_people_are_listed_invited_and_let_in_again(
    api: Api, database: Database, tenant: Tenant, settings_of_commands: dict[str, str]
) -> None:
    email = new_email(Role.ADMIN)
    person_id = await new_person(database, tenant, Role.ADMIN, email=email)
    company_id = tenant.company.public_id

    async def run(*words: str, status: int = 0) -> str:
        said = await vintem("member", *words, settings=settings_of_commands)
        assert said.status == status, said.text
        return said.text

    listed = await run("list", company_id)
    assert re.search(rf"{person_id}\s.*{email}\s.*admin\s.*no\s.*never", listed)

    newcomer = new_email(Role.FINANCE)
    invited = LINK.search(await run("invite", company_id, newcomer, "--role", "finance"))
    assert invited
    fields = {"name": "Bia", "password": CHOSEN, "again": CHOSEN}
    assert (await Browser(api).post_raw(invited[1], fields)).status == 303
    assert "already" in await run("invite", company_id, newcomer, "--role", "admin", status=2)
    assert "one owner" in await run(
        "invite", company_id, "c@d.example", "--role", "owner", status=2
    )

    await database.execute(
        "update person set totp_sealed = '\\x00', password_hash = $2 where person_id = $1",
        person_id,
        password_hash("senha que ninguém lembra"),
    )
    link = LINK.search(await run("reset-link", email, "--hours", "2"))
    assert link
    lives = await database.fetchval(
        "select expires_at - $2 from password_link where person_id = $1", person_id, utc_now()
    )
    assert 7_100 < lives.total_seconds() <= 7_200
    chosen = {"password": CHOSEN, "again": CHOSEN}
    assert (await Browser(api).post_raw(link[1], chosen)).status == 303
    signing_in = {"email": email, "password": CHOSEN}
    assert (await Browser(api).post_raw("/dashboard/sign-in", signing_in)).status == 200
    await run("end-second-step", email)
    assert (await Browser(api).post_raw("/dashboard/sign-in", signing_in)).status == 303
    assert "does not exist" in await run("reset-link", "nobody@loja.example", status=2)
    operators = await database.fetch(
        """
        select action from act where company_id = $1 and actor_kind = 'operator' order by sequence
        """,
        tenant.company.company_id,
    )
    assert [row["action"] for row in operators] == [
        "invitation.sent",
        "password.link-made",
        "second-step.ended",
    ]
