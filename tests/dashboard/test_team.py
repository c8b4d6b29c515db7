"""Equipe: invitations, roles, leaving, and the one owner."""

import re
from collections.abc import Sequence

import pytest

from support.api import Api, Tenant, new_tenant
from support.team import PASSWORD, Browser, new_email, new_person, sign_in
from vintem.kit.clock import utc_now
from vintem.members import service as members
from vintem.members.model import Role, SignedIn
from vintem.runtime.db import Database

TEAM = "/dashboard/live/team"
LINK = re.compile(r'data-copy="http://[^"]+/dashboard/invitation/([\w-]{43})"')
CHOSEN = "uma frase nova e comprida"


async def member_of(database: Database, browser: Browser) -> SignedIn:
    member = await members.find_signed_in(database, browser.token, now=utc_now())
    assert member is not None
    return member


async def id_of(database: Database, browser: Browser) -> str:
    return (await member_of(database, browser)).person_id


async def roles(database: Database, tenant: Tenant) -> dict[str, Role]:
    listed = await members.list_members(database, tenant.company.company_id)
    return {one.person_id: one.role for one in listed}


async def invite(browser: Browser, email: str, role: str = "finance") -> str:
    """Invite by the page; the secret part of the link, shown once."""
    sent = await browser.post(f"{TEAM}/invitations", {"email": email, "role": role})
    assert sent.status == 303, sent.body
    found = LINK.search((await browser.get(sent.headers["location"])).body.decode())
    assert found
    assert LINK.search((await browser.get(TEAM)).body.decode()) is None, "shown once"
    return found[1]


async def accept(api: Api, token: str, name: str = "Nova Pessoa") -> tuple[int, Browser]:
    fields = {"name": name, "password": CHOSEN, "again": CHOSEN}
    reply = await Browser(api).post_raw(f"/dashboard/invitation/{token}", fields)
    cookie = reply.headers.get("set-cookie", "=;").partition("=")[2].partition(";")[0]
    return reply.status, Browser(api, cookie)


@pytest.fixture
async def owner(api: Api, database: Database, tenant: Tenant) -> Browser:
    return await sign_in(api, database, tenant, Role.OWNER)


async def test_a_newcomer_joins_by_the_link_with_the_role_of_the_invitation(
    api: Api, database: Database, tenant: Tenant, owner: Browser
) -> None:
    email = new_email(Role.FINANCE)
    token = await invite(owner, f" {email.upper()} ")
    stored = await database.fetch(
        "select digest::text, email from invitation where company_id = $1",
        tenant.company.company_id,
    )
    assert [row["email"] for row in stored] == [email]
    assert token not in stored[0]["digest"]
    page = await Browser(api).get(f"/dashboard/invitation/{token}")
    assert (page.status, page.headers["cache-control"]) == (200, "no-store")
    weak = {"name": "Nova", "password": "senha1234567", "again": "senha1234567"}
    refused = await Browser(api).post_raw(f"/dashboard/invitation/{token}", weak)
    assert refused.status == 422
    status, newcomer = await accept(api, token)
    assert status == 303
    member = await member_of(database, newcomer)
    assert (member.email, member.role, member.company_id) == (
        email,
        Role.FINANCE,
        tenant.company.company_id,
    )
    assert (await accept(api, token))[0] == 404, "an invitation works once"
    team = (await owner.get(TEAM)).body.decode()
    assert email in team
    assert "Nenhum convite pendente" in team


async def test_whoever_signs_in_already_joins_as_themselves_and_nobody_else_can(
    api: Api, database: Database, owner: Browser
) -> None:
    elsewhere = await new_tenant(database)
    known = await sign_in(api, database, elsewhere, Role.DEVELOPER)
    other = await sign_in(api, database, elsewhere, Role.SUPPORT)
    email = (await member_of(database, known)).email
    token = await invite(owner, email, "developer")
    path = f"/dashboard/invitation/{token}"

    assert (await accept(api, token))[0] == 403, "no password is chosen for somebody who has one"
    sent_on = await Browser(api).get(path)
    assert f"next=%2Fdashboard%2Finvitation%2F{token}" in sent_on.body.decode()
    assert (await other.post(path, {})).status == 403
    assert "Você entrou como" in (await other.get(path)).body.decode()
    assert (await known.post_raw(path, {})).status == 403, "without the token of the page"
    page = (await known.get(path)).body.decode()
    csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert csrf
    joined = await known.post_raw(path, {"csrf": csrf[1]})
    assert joined.status == 303
    member = await member_of(database, known)
    assert member.company_id == (await member_of(database, owner)).company_id
    assert (member.role, len(member.companies)) == (Role.DEVELOPER, 2)
    assert (await known.get(path)).status == 404


async def test_invitations_are_sent_again_revoked_and_end_with_time(
    api: Api, database: Database, tenant: Tenant, owner: Browser
) -> None:
    email = new_email(Role.SUPPORT)
    first = await invite(owner, email)
    second = await invite(owner, email, "support")
    assert (await accept(api, first))[0] == 404, "the next one ends it"

    async def open_id() -> str:
        found: str = await database.fetchval(
            """
            select invitation_id from invitation
            where company_id = $1 and revoked_at is null and accepted_at is null
            """,
            tenant.company.company_id,
        )
        return found

    resent = await owner.post(f"{TEAM}/invitations/{await open_id()}/resend", {})
    found = LINK.search((await owner.get(resent.headers["location"])).body.decode())
    assert found
    assert (await accept(api, second))[0] == 404
    page = f"/dashboard/invitation/{found[1]}"
    await database.execute(
        "update invitation set expires_at = now() where company_id = $1",
        tenant.company.company_id,
    )
    assert (await Browser(api).get(page)).status == 404
    await database.execute(
        "update invitation set expires_at = now() + interval '1 day' where company_id = $1",
        tenant.company.company_id,
    )
    assert (await Browser(api).get(page)).status == 200
    invitation_id = await open_id()
    stranger = await sign_in(api, database, await new_tenant(database), Role.OWNER)
    for act in ("revoke", "resend"):
        foreign = await stranger.post(f"{TEAM}/invitations/{invitation_id}/{act}", {})
        assert foreign.status == 404, "another company's"
    assert (await owner.post(f"{TEAM}/invitations/{invitation_id}/revoke", {})).status == 303
    assert (await accept(api, found[1]))[0] == 404
    for fields, why in (
        ({"email": "nada", "role": "admin"}, "e-mail válido"),
        ({"email": email, "role": "owner"}, "Escolha uma função"),
        ({"email": email, "role": "king"}, "Escolha uma função"),
        ({"email": (await member_of(database, owner)).email, "role": "admin"}, "já faz parte"),
    ):
        reply = await owner.post(f"{TEAM}/invitations", fields)
        assert reply.status == 422
        assert why in reply.body.decode()


async def test_the_owner_stays_and_nobody_changes_what_they_are_themselves(
    api: Api, database: Database, tenant: Tenant, owner: Browser
) -> None:
    admin = await sign_in(api, database, tenant, Role.ADMIN)
    support = await sign_in(api, database, tenant, Role.SUPPORT)
    owner_id, admin_id = await id_of(database, owner), await id_of(database, admin)
    support_id = await id_of(database, support)
    before = await roles(database, tenant)
    tried: Sequence[tuple[Browser, str, dict[str, str]]] = (
        (admin, f"members/{owner_id}/role", {"role": "support"}),
        (admin, f"members/{owner_id}/remove", {}),
        (admin, f"members/{admin_id}/role", {"role": "finance"}),
        (admin, f"members/{admin_id}/role", {"role": "owner"}),
        (admin, f"members/{admin_id}/remove", {}),
        (admin, f"members/{support_id}/role", {"role": "owner"}),
        (admin, "transfer", {"person": admin_id, "current": PASSWORD}),
        (owner, f"members/{owner_id}/role", {"role": "admin"}),
        (owner, f"members/{owner_id}/remove", {}),
        (owner, f"members/{support_id}/role", {"role": "owner"}),
        (support, f"members/{support_id}/role", {"role": "admin"}),
        (support, f"members/{admin_id}/remove", {}),
        (support, "invitations", {"email": "x@loja.example", "role": "admin"}),
    )
    for browser, path, fields in tried:
        assert (await browser.post(f"{TEAM}/{path}", fields)).status == 403, (path, fields)
    assert await roles(database, tenant) == before
    denied = await database.fetchval(
        "select count(*) from act where company_id = $1 and action = 'permission.denied'",
        tenant.company.company_id,
    )
    assert denied == len(tried)
    page = (await admin.get(TEAM)).body.decode()
    assert f"members/{owner_id}/" not in page
    assert f"members/{admin_id}/" not in page
    assert f"members/{support_id}/" in page
    unknown = await admin.post(f"{TEAM}/members/usr_none/role", {"role": "admin"})
    assert unknown.status == 404


async def test_a_removed_member_is_out_at_once_and_so_is_whom_they_invited(
    api: Api, database: Database, tenant: Tenant, owner: Browser
) -> None:
    admin = await sign_in(api, database, tenant, Role.ADMIN)
    admin_id = await id_of(database, admin)
    token = await invite(admin, new_email(Role.ADMIN), "admin")
    confirm = await owner.get(f"{TEAM}/members/{admin_id}/remove")
    assert confirm.status == 200
    assert (await owner.post(f"{TEAM}/members/{admin_id}/remove", {})).status == 303
    assert (await admin.get("/dashboard/test")).status == 303
    assert (await accept(api, token))[0] == 404
    assert admin_id not in await roles(database, tenant)
    stranger = await sign_in(api, database, await new_tenant(database), Role.OWNER)
    owner_id = await id_of(database, owner)
    assert (await stranger.post(f"{TEAM}/members/{owner_id}/remove", {})).status == 404


async def test_a_changed_role_counts_from_the_next_page_on(
    api: Api, database: Database, tenant: Tenant, owner: Browser
) -> None:
    finance = await sign_in(api, database, tenant, Role.FINANCE)
    assert (await finance.get(TEAM)).status == 403
    path = f"{TEAM}/members/{await id_of(database, finance)}/role"
    assert (await owner.post(path, {"role": "admin"})).status == 303
    assert (await finance.get(TEAM)).status == 200
    token = await invite(finance, new_email(Role.SUPPORT))
    assert (await owner.post(path, {"role": "support"})).status == 303
    assert (await finance.get(TEAM)).status == 403
    assert (await accept(api, token))[0] == 404, "who may invite no more has invited nobody"


async def test_the_company_is_given_away_by_its_owner_with_the_password(
    api: Api, database: Database, tenant: Tenant, owner: Browser
) -> None:
    developer = await sign_in(api, database, tenant, Role.DEVELOPER)
    developer_id, owner_id = await id_of(database, developer), await id_of(database, owner)
    path = f"{TEAM}/transfer"
    assert (await owner.get(path)).status == 200
    assert (await owner.post(path, {"current": PASSWORD})).status == 422
    wrong = {"person": developer_id, "current": "errada"}
    assert (await owner.post(path, wrong)).status == 422
    self_given = {"person": owner_id, "current": PASSWORD}
    assert (await owner.post(path, self_given)).status == 403
    strange = await new_person(
        database, await new_tenant(database), Role.ADMIN, email=new_email(Role.ADMIN)
    )
    assert (await owner.post(path, {"person": strange, "current": PASSWORD})).status == 404
    assert (await roles(database, tenant))[owner_id] is Role.OWNER
    done = await owner.post(path, {"person": developer_id, "current": PASSWORD})
    assert done.status == 303
    assert await roles(database, tenant) == {owner_id: Role.ADMIN, developer_id: Role.OWNER}
    assert (await owner.get(path)).status == 403


async def test_what_happens_to_people_is_in_the_trail(
    api: Api, database: Database, tenant: Tenant, owner: Browser
) -> None:
    token = await invite(owner, new_email(Role.SUPPORT), "support")
    _, newcomer = await accept(api, token)
    path = f"{TEAM}/members/{await id_of(database, newcomer)}"
    await owner.post(f"{path}/role", {"role": "finance"})
    await owner.post(f"{path}/remove", {})
    rows = await database.fetch(
        """
        select action, before || after as told from act where company_id = $1 order by sequence
        """,
        tenant.company.company_id,
    )
    actions = [row["action"] for row in rows]
    assert actions == [
        "invitation.sent",
        "invitation.accepted",
        "sign-in.done",
        "member.role-changed",
        "member.removed",
    ]
    assert not [row for row in rows if token in row["told"]]
