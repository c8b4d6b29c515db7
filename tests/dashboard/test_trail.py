"""Auditoria: what each role sees of what was done, found by filters, with what has changed."""

import ast
import re
from pathlib import Path

import pytest

from support.api import Api, Tenant, new_tenant
from support.team import Browser, sign_in
from vintem.dashboard.subjects import SUBJECTS, subjects_of
from vintem.kit.clock import utc_now
from vintem.members.model import Role
from vintem.runtime.db import Database
from vintem.trail import service as trail
from vintem.trail.model import Act, ActorKind

SOURCES = Path(__file__).parents[2] / "src/vintem"
TRAIL = "/dashboard/test/trail"
ACTION = re.compile(r"[a-z_-]+\.[a-z_-]+")


async def write(database: Database, tenant: Tenant, *actions: str, **fields: object) -> None:
    for action in actions:
        kept: dict[str, object] = {
            "environment": "test",
            "target_type": "thing",
            "target_id": "thing_1",
            "actor_id": "usr_1",
            "actor_name": "Ana",
            "role": "owner",
        }
        act = Act(
            company_id=tenant.company.company_id,
            at=utc_now(),
            actor_kind=ActorKind.PERSON,
            ip="203.0.113.9",
            user_agent="Mozilla",
            action=action,
            **{**kept, **fields},  # type: ignore[arg-type]
        )
        async with database.atomic() as block:
            await trail.record(block, act)


def numbers(body: bytes) -> list[int]:
    """The acts of a page, in its order."""
    return [int(found) for found in re.findall(r'/trail/(\d+)"', body.decode())]


async def test_each_role_sees_the_acts_of_its_area(
    api: Api, database: Database, tenant: Tenant
) -> None:
    await write(database, tenant, "withdrawal.approved", "key.created", "member.invited")
    listed, opened = {}, {}
    for role in Role:
        browser = await sign_in(api, database, tenant, role)
        listed[role] = numbers((await browser.get(TRAIL)).body)
        opened[role] = [(await browser.get(f"{TRAIL}/{number}")).status for number in (1, 2, 3)]
    assert listed == {
        Role.OWNER: [3, 2, 1],
        Role.ADMIN: [3, 2, 1],
        Role.FINANCE: [1],
        Role.DEVELOPER: [2],
        Role.SUPPORT: [],
    }
    assert opened == {
        Role.OWNER: [200, 200, 200],
        Role.ADMIN: [200, 200, 200],
        Role.FINANCE: [200, 404, 404],
        Role.DEVELOPER: [404, 200, 404],
        Role.SUPPORT: [403, 403, 403],
    }


async def test_acts_of_another_company_or_environment_are_not_there(
    api: Api, database: Database, tenant: Tenant
) -> None:
    other = await new_tenant(database)
    await write(database, other, "key.created", "key.created")
    await write(database, tenant, "key.created", environment="live")
    owner = await sign_in(api, database, tenant, Role.OWNER)
    assert numbers((await owner.get(TRAIL)).body) == []
    assert numbers((await owner.get("/dashboard/live/trail")).body) == [1]
    assert (await owner.get(f"{TRAIL}/1")).status == 404
    assert (await owner.get(f"{TRAIL}/2")).status == 404
    for wrong in ("x", "-1", "0", "9" * 30):
        assert (await owner.get(f"{TRAIL}/{wrong}")).status == 404


async def test_filters_stay_in_the_address_and_narrow_the_list(
    api: Api, database: Database, tenant: Tenant
) -> None:
    await write(database, tenant, "key.created", "key.revoked")
    await write(database, tenant, "key.created", actor_id="usr_2", actor_name="Bia")
    await write(database, tenant, "webhook.created", target_id="whk_1")
    owner = await sign_in(api, database, tenant, Role.OWNER)

    async def found(query: str) -> list[int]:
        return numbers((await owner.get(f"{TRAIL}?{query}")).body)

    assert await found("actor=usr_2") == [3]
    assert await found("action=key.created") == [3, 1]
    assert await found("target=whk_1") == [4]
    assert await found("action=key.created&actor=usr_1") == [1]
    assert await found("since=2020-01-01&until=2020-01-02") == []
    assert await found("since=2020-01-01") == [4, 3, 2, 1]
    assert await found("since=nonsense&before=nonsense&after=nonsense") == [4, 3, 2, 1]
    page = (await owner.get(f"{TRAIL}?actor=usr_2&since=2020-01-01")).body.decode()
    assert '<option value="usr_2" selected>Bia</option>' in page
    assert "/trail.csv?actor=usr_2&amp;since=2020-01-01" in page


async def test_pages_go_back_and_forth_without_a_gap(
    api: Api, database: Database, tenant: Tenant
) -> None:
    await write(database, tenant, *["key.created"] * 120)
    owner = await sign_in(api, database, tenant, Role.OWNER)
    first = await owner.get(TRAIL)
    assert numbers(first.body) == list(range(120, 70, -1))
    second = await owner.get(f"{TRAIL}?before=71")
    assert numbers(second.body) == list(range(70, 20, -1))
    assert b"?after=70" in second.body
    third = await owner.get(f"{TRAIL}?before=21")
    assert numbers(third.body) == list(range(20, 0, -1))
    assert b"?before=" not in third.body
    assert numbers((await owner.get(f"{TRAIL}?after=20")).body) == numbers(second.body)
    back = await owner.get(f"{TRAIL}?after=70")
    assert numbers(back.body) == numbers(first.body)
    assert b"?after=" not in back.body


async def test_an_act_shows_what_was_before_and_after(
    api: Api, database: Database, tenant: Tenant
) -> None:
    await write(
        database,
        tenant,
        "product.changed",
        before={"name": "<b>Café</b>", "price": 100, "sku": "A"},
        after={"name": "Chá", "price": 100, "secret": "abc"},
    )
    owner = await sign_in(api, database, tenant, Role.OWNER)
    page = (await owner.get(f"{TRAIL}/1")).body.decode()
    assert "<del>&lt;b&gt;Café&lt;/b&gt;</del>" in page
    assert "<ins>Chá</ins>" in page
    assert "<td>100</td>" in page
    assert "<del>A</del>" in page
    assert "[redacted]" in page
    assert ">abc<" not in page
    assert page.count("mudou</span>") == 3


async def test_whoever_sees_all_can_check_the_chain(
    api: Api, database: Database, tenant: Tenant
) -> None:
    await write(database, tenant, "key.created", "key.created")
    owner = await sign_in(api, database, tenant, Role.OWNER)
    finance = await sign_in(api, database, tenant, Role.FINANCE)
    assert "A cadeia está íntegra" in (await owner.get(f"{TRAIL}?verify=1")).body.decode()
    assert "cadeia está" not in (await finance.get(f"{TRAIL}?verify=1")).body.decode()


def actions_in(source: str) -> set[str]:
    """The actions that a file names where it writes acts."""
    found = set()
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in {"act", "act_of", "key_act", "operator_act", "noting"}:
            given = [*call.args, *(one.value for one in call.keywords if one.arg == "action")]
            found |= {one.value for one in given if isinstance(one, ast.Constant)}
    return {text for text in found if isinstance(text, str) and ACTION.fullmatch(text)}


async def test_every_act_that_is_written_is_about_a_known_subject() -> None:
    written = set[str]().union(*(actions_in(path.read_text()) for path in SOURCES.rglob("*.py")))
    assert {"company.changed", "limits.changed", "sign-in.ended"} <= written
    assert {action.partition(".")[0] for action in written} <= SUBJECTS.keys()


@pytest.mark.parametrize("role", [Role.FINANCE, Role.DEVELOPER])
def test_people_and_personal_data_are_for_those_who_see_all(role: Role) -> None:
    seen = subjects_of(role, may_see_all=False)
    assert seen
    assert {"member", "invitation", "sign-in", "personal", "customer"}.isdisjoint(seen)


async def test_signed_out_nothing_of_it_is_shown(api: Api) -> None:
    for path in (TRAIL, f"{TRAIL}/1", f"{TRAIL}.csv", "/dashboard/test/exports"):
        assert (await Browser(api).get(path)).status == 303
