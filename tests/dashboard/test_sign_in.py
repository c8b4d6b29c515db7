"""The sign-in form, and what is tried against it."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from ipaddress import ip_network
from urllib.parse import urlencode

import pytest

from conftest import running_api
from support.api import TEST_PEPPER, Api, HttpReply, Tenant, new_tenant
from support.team import COOKIE, PASSWORD, Browser, new_email, new_person, sign_in
from vintem.kit.clock import utc_now
from vintem.members import service as members
from vintem.members import tries
from vintem.members.model import Role
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Database
from vintem.settings import Settings

SET_COOKIE = re.compile(r"(?P<name>[\w-]+)=(?P<token>[\w-]*)(?P<flags>.*)")


@dataclass(frozen=True)
class Someone:
    email: str
    person_id: str


@pytest.fixture
async def someone(database: Database, tenant: Tenant) -> Someone:
    """The owner of a company, who has not signed in yet."""
    email = new_email(Role.OWNER)
    return Someone(email, await new_person(database, tenant, Role.OWNER, email=email))


async def give(api: Api, email: str, password: str = PASSWORD, **more: str) -> HttpReply:
    fields = {"email": email, "password": password}
    headers = {name: value for name, value in more.items() if name != "next"}
    if "next" in more:
        fields["next"] = more["next"]
    return await Browser(api).post_raw("/dashboard/sign-in", fields, **headers)


def cookie_of(reply: HttpReply) -> re.Match[str]:
    found = SET_COOKIE.fullmatch(reply.headers["set-cookie"])
    assert found, reply.headers["set-cookie"]
    return found


async def test_the_form_signs_in_and_the_cookie_opens_the_pages(api: Api, someone: Someone) -> None:
    shown = await Browser(api).get("/dashboard/sign-in")
    assert (shown.status, shown.headers["cache-control"]) == (200, "no-store")
    reply = await give(api, f" {someone.email.upper()} ")
    assert (reply.status, reply.headers["location"]) == (303, "/dashboard/test")
    cookie = cookie_of(reply)
    assert cookie["name"] == COOKIE
    assert cookie["flags"] == "; Path=/dashboard; HttpOnly; SameSite=Lax"
    browser = Browser(api, cookie["token"])
    page = await browser.get("/dashboard/test")
    assert page.status == 200
    assert page.headers["cache-control"] == "no-store"
    assert someone.email in page.body.decode()
    again = await browser.get("/dashboard/sign-in")
    assert (again.status, again.headers["location"]) == (303, "/dashboard/test")


async def test_over_https_the_cookie_is_secure_by_flag_and_by_name(
    settings: Settings, someone: Someone
) -> None:
    public = replace(settings, public_url="https://pay.example")
    async with running_api(public) as api:
        cookie = cookie_of(await give(api, someone.email))
        assert cookie["name"] == f"__Secure-{COOKIE}"
        assert cookie["flags"] == "; Path=/dashboard; HttpOnly; SameSite=Lax; Secure"
        plain = await Browser(api, cookie["token"]).get("/dashboard/test")
        assert plain.status == 303
        named = {"cookie": f"a=1; __Secure-{COOKIE}={cookie['token']}; b=2"}
        assert (await Browser(api).get("/dashboard/test", **named)).status == 200


async def test_a_cookie_that_came_with_the_form_is_never_adopted_and_is_signed_out(
    api: Api, database: Database, tenant: Tenant, someone: Someone
) -> None:
    planted = "A" * 43
    fields = {"email": someone.email, "password": PASSWORD}
    reply = await Browser(api, planted).post_raw("/dashboard/sign-in", fields)
    assert cookie_of(reply)["token"] != planted
    assert (await Browser(api, planted).get("/dashboard/test")).status == 303

    attacker = await sign_in(api, database, tenant, Role.SUPPORT)
    reply = await attacker.post_raw("/dashboard/sign-in", fields)
    assert cookie_of(reply)["token"] != attacker.token
    assert (await attacker.get("/dashboard/test")).status == 303


@pytest.mark.parametrize(
    ("wanted", "location"),
    [
        ("/dashboard/live/transactions", "/dashboard/live/transactions"),
        ("/dashboard/live", "/dashboard/live"),
        ("https://evil.example/dashboard/live", "/dashboard/test"),
        ("//evil.example", "/dashboard/test"),
        ("/\\evil.example", "/dashboard/test"),
        ("/dashboard/live/../../evil", "/dashboard/test"),
        ("/dashboard/live//evil.example", "/dashboard/test"),
        ("/dashboard/live\r\nset-cookie: a=b", "/dashboard/test"),
        ("/dashboard/sign-in", "/dashboard/test"),
        ("/dashboard.evil.example", "/dashboard/test"),
        ("javascript:alert(1)", "/dashboard/test"),
        ("/dashboard/live?next=//evil.example", "/dashboard/test"),
        ("/v1/balance", "/dashboard/test"),
    ],
)
async def test_after_the_sign_in_only_our_own_pages_come(
    api: Api, database: Database, tenant: Tenant, wanted: str, location: str
) -> None:
    browser = await sign_in(api, database, tenant, Role.SUPPORT)
    reply = await browser.get("/dashboard/sign-in?" + urlencode({"next": wanted}))
    assert (reply.status, reply.headers["location"]) == (303, location)
    shown = await Browser(api).get("/dashboard/sign-in?" + urlencode({"next": wanted}))
    assert ("evil" in shown.body.decode()) is False


async def test_the_page_that_was_wanted_comes_after_the_sign_in(api: Api, someone: Someone) -> None:
    led = await Browser(api).get("/dashboard/live/security")
    assert led.headers["location"] == "/dashboard/sign-in?next=%2Fdashboard%2Flive%2Fsecurity"
    reply = await give(api, someone.email, next="/dashboard/live/security")
    assert reply.headers["location"] == "/dashboard/live/security"
    evil = await give(api, someone.email, next="https://evil.example/dashboard/live")
    assert evil.headers["location"] == "/dashboard/test"


async def test_a_wrong_password_and_an_unknown_e_mail_look_and_last_alike(
    api: Api, someone: Someone
) -> None:
    async def timed(email: str) -> tuple[float, HttpReply]:
        began = asyncio.get_running_loop().time()
        reply = await give(api, email, "nenhuma das senhas")
        return asyncio.get_running_loop().time() - began, reply

    known = min([await timed(someone.email) for _ in range(2)], key=lambda one: one[0])
    unknown = min([await timed("nobody@loja.example") for _ in range(2)], key=lambda one: one[0])
    assert known[1].status == unknown[1].status == 422
    same = known[1].body.decode().replace(someone.email, "nobody@loja.example")
    assert same == unknown[1].body.decode()
    assert "set-cookie" not in known[1].headers
    assert min(known[0], unknown[0]) >= 0.4
    assert 0.5 < known[0] / unknown[0] < 2


async def test_after_ten_wrong_passwords_even_the_right_one_waits_and_nobody_slips_through(
    api: Api, someone: Someone, database: Database
) -> None:
    await try_passwords(someone.email, database, ["127.0.0.1"] * 7)
    replies = await asyncio.gather(
        *(give(api, someone.email, f"senha errada {number}") for number in range(8))
    )
    assert sorted(reply.status for reply in replies) == [422] * 3 + [429] * 5
    assert (await give(api, someone.email)).status == 429
    await try_passwords("ghost@loja.example", database, ["127.0.0.1"] * 9)
    unknown = [await give(api, "ghost@loja.example") for _ in range(2)]
    assert [reply.status for reply in unknown] == [422, 429]
    assert "Espere 15 minutos" in unknown[1].body.decode()
    await database.execute(
        """
        update sign_in_tries set tried_at =
            array(select one - interval '16 minutes' from unnest(tried_at) as one)
        """
    )
    assert (await give(api, someone.email)).status == 303


async def try_passwords(email: str, database: Database, addresses: Sequence[str]) -> None:
    """Try as many wrong passwords, without the time that it takes to hash them."""
    sealer = Sealer(TEST_PEPPER.encode())
    account = tries.account_of(sealer, tries.PASSWORDS, email)
    for address in addresses:
        assert await tries.admit(
            database,
            account,
            tries.PASSWORDS,
            address=address,
            is_known_address=False,
            now=utc_now(),
        )


async def test_an_attack_from_everywhere_does_not_lock_out_a_known_address(
    settings: Settings, someone: Someone, database: Database
) -> None:
    trusted = (ip_network("127.0.0.1/32"),)
    async with running_api(replace(settings, trusted_proxies=trusted)) as api:
        home = {"x-forwarded-for": "198.51.100.7"}
        assert (await give(api, someone.email, **home)).status == 303
        everywhere = [f"203.0.113.{number}" for number in range(50)]
        await try_passwords(someone.email, database, everywhere)
        stranger = {"x-forwarded-for": "192.0.2.1"}
        assert (await give(api, someone.email, **stranger)).status == 429
        assert (await give(api, someone.email, **home)).status == 303


async def test_one_address_has_few_forms_a_minute(settings: Settings, database: Database) -> None:
    async with running_api(replace(settings, public_sign_ins_per_minute=3)) as api:
        replies = await asyncio.gather(
            *(give(api, f"n{number}@loja.example") for number in range(5))
        )
        assert sorted(reply.status for reply in replies) == [422] * 3 + [429] * 2
        refused = next(reply for reply in replies if reply.status == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert "tentativas demais" in refused.body.decode()


async def test_a_form_of_another_site_is_refused(api: Api, someone: Someone) -> None:
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert (await give(api, someone.email, **headers)).status == 403
    same = {"origin": api.base_url, "sec-fetch-site": "same-origin"}
    assert (await give(api, someone.email, **same)).status == 303


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE"])
async def test_another_method_opens_nothing(api: Api, method: str) -> None:
    for path in ("/dashboard/sign-in", "/dashboard/test/sign-out", "/dashboard/test/security"):
        assert (await api.call(method, path)).status == 405
    override = {"x-http-method-override": "POST"}
    assert (await Browser(api).get("/dashboard/sign-in", **override)).status == 200


async def test_after_signing_out_the_cookie_opens_nothing(
    api: Api, database: Database, tenant: Tenant
) -> None:
    browser = await sign_in(api, database, tenant, Role.FINANCE)
    assert (await browser.get("/dashboard/test/sign-out")).status == 405
    assert (await browser.post_raw("/dashboard/test/sign-out", {})).status == 403
    reply = await browser.post("/dashboard/live/sign-out", {})
    assert reply.headers["location"] == "/dashboard/sign-in?said=signed-out"
    assert cookie_of(reply)["flags"].endswith("; Max-Age=0")
    assert (await browser.get("/dashboard/test")).status == 303
    shown = await Browser(api).get(reply.headers["location"])
    assert "Você saiu." in shown.body.decode()


@pytest.mark.parametrize(
    ("column", "age", "is_over"),
    [
        ("last_seen_at", timedelta(minutes=29), False),
        ("last_seen_at", timedelta(minutes=31), True),
        ("created_at", timedelta(hours=11, minutes=59), False),
        ("created_at", timedelta(hours=12, minutes=1), True),
    ],
)
async def test_a_visit_ends_when_left_alone_and_after_half_a_day(
    api: Api, database: Database, tenant: Tenant, column: str, age: timedelta, *, is_over: bool
) -> None:
    browser = await sign_in(api, database, tenant, Role.ADMIN)
    await database.execute(
        f"update sign_in set {column} = $2 where company_id = $1",
        tenant.company.company_id,
        utc_now() - age,
    )
    reply = await browser.get("/dashboard/test/stay")
    assert reply.status == (303 if is_over else 200)
    if not is_over:
        left = 1800 if column == "last_seen_at" else 60
        assert left - 5 <= int(reply.body) <= left


async def test_a_person_of_two_companies_changes_between_them_and_to_no_other(
    api: Api, database: Database, tenant: Tenant
) -> None:
    other, strange = await new_tenant(database), await new_tenant(database)
    browser = await sign_in(api, database, tenant, Role.OWNER)
    member = await members.find_signed_in(database, browser.token, now=utc_now())
    assert member is not None
    await members.add_member(
        database, other.company.company_id, member.person_id, Role.SUPPORT, now=utc_now()
    )
    before = await browser.csrf()
    path = "/dashboard/test/change-company"
    refused = await browser.post(path, {"company": strange.company.public_id})
    assert refused.status == 404
    changed = await browser.post(path, {"company": other.company.public_id})
    assert changed.status == 303
    now = await members.find_signed_in(database, browser.token, now=utc_now())
    assert now is not None
    assert (now.company_id, now.role) == (other.company.company_id, Role.SUPPORT)
    stale = {"csrf": before, "company": tenant.company.public_id}
    assert (await browser.post_raw(path, stale)).status == 403
