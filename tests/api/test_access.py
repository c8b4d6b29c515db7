"""Who gets in: keys, environments, addresses, and what every route declares."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest

from conftest import running_api
from support.api import TEST_PEPPER, Api, HttpReply, Tenant, assert_refused, new_key, new_tenant
from support.routes import TEST_ROUTES, Order, echo_order
from vintem.api import reference
from vintem.api.access import address_block
from vintem.api.call import Access, Route
from vintem.api.router import Router, RouteTableError
from vintem.api.routes import TABLE
from vintem.companies import keys
from vintem.companies import service as companies
from vintem.companies.model import Environment, KeyType, LimitGroup
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.settings import Settings

PEPPER = TEST_PEPPER.encode()
LIVE_HOST, SANDBOX_HOST = "pay.example", "sandbox.pay.example"
FOLLOWED_WITHIN_SECONDS = 5.0


@dataclass(frozen=True)
class Ended:
    """Well-formed keys that open nothing, each for another reason."""

    unknown: str
    revoked: str
    expired: str

    @property
    def all(self) -> Sequence[str]:
        return (self.unknown, self.revoked, self.expired)


@pytest.fixture(scope="module")
async def door(settings: Settings) -> AsyncIterator[Api]:
    """A server of this module: wrong keys are plentiful here, and not counted."""
    async with running_api(replace(settings, public_wrong_keys_per_minute=1_000_000)) as running:
        yield running


@pytest.fixture(scope="module")
async def proxied(settings: Settings) -> AsyncIterator[Api]:
    """A server that believes proxies on this machine and in 10.0.0.0/8, with few wrong keys."""
    trusted = (ip_network("127.0.0.0/8"), ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    few = replace(settings, trusted_proxies=trusted, public_wrong_keys_per_minute=2)
    async with running_api(few) as running:
        yield running


@pytest.fixture(scope="module")
async def divided(settings: Settings) -> AsyncIterator[Api]:
    """A server that knows the live and the sandbox address."""
    hosts = replace(settings, live_host=LIVE_HOST, sandbox_host=SANDBOX_HOST)
    async with running_api(hosts) as running:
        yield running


@pytest.fixture
async def ended(database: Database, tenant: Tenant) -> Ended:
    company_id = tenant.company.company_id
    revoked = await new_key(database, company_id)
    await companies.revoke_key(database, revoked.record.key_id, now=utc_now())
    expired = await new_key(database, company_id)
    async with database.atomic() as block:
        await companies.rotate_key(
            block, expired.record.key_id, overlap=timedelta(), pepper=PEPPER, now=utc_now()
        )
    return Ended(keys.new_key(KeyType.SECRET, Environment.TEST), revoked.key, expired.key)


def junk_keys(right: str) -> Sequence[str]:
    """Keys of the wrong form, and one whose checksum is wrong."""
    other_last = "a" if right[-1] != "a" else "b"
    return (
        "x",
        "sk_test_",
        right[:-1],
        right + "0",
        right[:-1] + other_last,
        right.upper(),
        right.replace("sk_test_", "sk_prod_"),
        right.replace("sk_test_", "pk_test_"),
        f"Bearer {right}",
        f'"{right}"',
        "' or '1'='1",
        "sk_test_" + "é" * 38,
        "a" * 8_000,
    )


def shape(reply: HttpReply) -> object:
    """Everything of an answer that does not differ from one call to the next."""
    varying = {"x-request-id", "date"}
    headers = sorted(
        (name.lower(), value)
        for name, value in reply.headers.items()
        if name.lower() not in varying
    )
    length = len(reply.body)
    return reply.status, headers, length, reply.json["error"], sorted(reply.json["meta"])


async def test_a_call_without_a_key_is_told_that_the_key_is_missing(door: Api) -> None:
    assert_refused(await door.get("/v1/balance"), ErrorCode.MISSING_API_KEY, status=401)
    assert_refused(await door.get("/v1/balance", key=""), ErrorCode.MISSING_API_KEY, status=401)
    assert_refused(await door.get("/v1/balance", key="  "), ErrorCode.MISSING_API_KEY, status=401)


async def test_every_wrong_key_gets_the_very_same_answer(
    door: Api, tenant: Tenant, ended: Ended
) -> None:
    answers = [
        await door.get("/v1/balance", key=key) for key in (*junk_keys(tenant.sk_test), *ended.all)
    ]
    for answer in answers:
        assert_refused(answer, ErrorCode.INVALID_API_KEY, status=401)
        assert answer.json["error"]["details"] == {}
    assert all(shape(answer) == shape(answers[0]) for answer in answers)


async def test_a_missing_key_differs_from_a_wrong_one_in_code_and_message_only(door: Api) -> None:
    missing, wrong = await door.get("/v1/balance"), await door.get("/v1/balance", key="x")
    assert set(missing.headers) == set(wrong.headers)
    assert missing.status == wrong.status
    assert missing.json["error"].keys() == wrong.json["error"].keys()
    assert missing.json["error"]["details"] == wrong.json["error"]["details"]


async def test_junk_never_waits_for_the_database_but_every_well_formed_key_does(
    settings: Settings, database: Database, tenant: Tenant, ended: Ended
) -> None:
    quick = replace(settings, lock_timeout_ms=100, public_wrong_keys_per_minute=1_000)
    async with running_api(quick) as api, database.atomic() as block:
        await block.execute("lock table api_key in access exclusive mode")
        for key in junk_keys(tenant.sk_test):
            reply = await api.get("/v1/balance", key=key)
            assert_refused(reply, ErrorCode.INVALID_API_KEY, status=401)
        for key in (*ended.all, tenant.sk_test):
            reply = await api.get("/v1/balance", key=key)
            assert_refused(reply, ErrorCode.SERVICE_UNAVAILABLE, status=503)


async def test_without_a_database_the_answer_is_503_with_retry_after(
    settings: Settings, tenant: Tenant
) -> None:
    away = replace(settings, database_url="postgresql://nobody@127.0.0.1:1/nothing")
    async with running_api(away) as api:
        reply = await api.get("/v1/balance", key=tenant.sk_test)
        assert_refused(reply, ErrorCode.SERVICE_UNAVAILABLE, status=503)
        assert reply.headers["Retry-After"] == "1"
        assert "127.0.0.1" not in reply.body.decode()
        assert_refused(await api.get("/v1/balance", key="x"), ErrorCode.INVALID_API_KEY, status=401)
        assert_refused(await api.get("/v1/balance"), ErrorCode.MISSING_API_KEY, status=401)


async def test_of_two_key_headers_none_is_chosen(door: Api, tenant: Tenant) -> None:
    for pair in ((tenant.sk_test, "junk"), ("junk", tenant.sk_test), (tenant.sk_test,) * 2):
        headers = [("x-api-key", key) for key in pair]
        reply = await door.get("/v1/balance", headers=headers)
        assert_refused(reply, ErrorCode.INVALID_API_KEY, status=401)


async def test_a_checkout_key_opens_only_what_is_meant_for_it(door: Api, tenant: Tenant) -> None:
    for key in (tenant.ck_test, tenant.ck_live):
        refused = await door.get("/v1/balance", key=key)
        assert_refused(refused, ErrorCode.KEY_TYPE_NOT_ALLOWED, status=403)
        assert (await door.get("/v1/test/checkout", key=key)).status == 200
    assert (await door.get("/v1/test/checkout", key=tenant.sk_test)).status == 200


async def test_a_suspended_company_is_refused_until_it_is_not(
    settings: Settings, database: Database, tenant: Tenant
) -> None:
    public_id = tenant.company.public_id
    await companies.set_suspended(database, public_id, is_suspended=True)
    async with running_api(settings) as api:
        for key in (tenant.sk_test, tenant.sk_live, tenant.ck_test):
            reply = await api.get("/v1/test/checkout", key=key)
            assert_refused(reply, ErrorCode.COMPANY_SUSPENDED, status=403)
        await companies.set_suspended(database, public_id, is_suspended=False)
        assert await follows(api, tenant.sk_test, status=200)


async def test_a_key_with_an_address_list_works_from_there_only(
    proxied: Api, database: Database, tenant: Tenant
) -> None:
    networks = (ip_network("203.0.113.0/24"), ip_network("2001:db8:7::/48"))
    listed = await new_key(database, tenant.company.company_id, networks=networks)

    async def status_from(address: str) -> HttpReply:
        return await proxied.get(
            "/v1/balance", key=listed.key, headers={"X-Forwarded-For": address}
        )

    for inside in ("203.0.113.9", "::ffff:203.0.113.9", "2001:db8:7:1::1"):
        assert (await status_from(inside)).status == 200, inside
    for outside in ("203.0.112.9", "2001:db8:8::1", "not an address", "127.0.0.1"):
        assert_refused(await status_from(outside), ErrorCode.IP_NOT_ALLOWED, status=403)


async def test_an_address_list_holds_for_the_socket_peer_and_not_for_what_it_claims(
    door: Api, database: Database, tenant: Tenant
) -> None:
    company_id = tenant.company.company_id
    here = await new_key(database, company_id, networks=(ip_network("127.0.0.1/32"),))
    elsewhere = await new_key(database, company_id, networks=(ip_network("203.0.113.0/24"),))
    assert (await door.get("/v1/balance", key=here.key)).status == 200
    claim = {"X-Forwarded-For": "203.0.113.9"}
    reply = await door.get("/v1/balance", key=elsewhere.key, headers=claim)
    assert_refused(reply, ErrorCode.IP_NOT_ALLOWED, status=403)


@pytest.mark.parametrize("suffix", ["", ":443", ":8080"])
@pytest.mark.parametrize("change", [str.lower, str.upper, str.title])
async def test_a_key_of_the_other_environment_is_refused_at_a_known_address(
    divided: Api, tenant: Tenant, suffix: str, change: Any
) -> None:
    async def call(host: str, key: str) -> HttpReply:
        return await divided.get("/v1/balance", key=key, headers={"Host": change(host) + suffix})

    assert (await call(LIVE_HOST, tenant.sk_live)).status == 200
    assert (await call(SANDBOX_HOST, tenant.sk_test)).status == 200
    for host, key in ((LIVE_HOST, tenant.sk_test), (SANDBOX_HOST, tenant.sk_live)):
        assert_refused(await call(host, key), ErrorCode.WRONG_ENVIRONMENT, status=401)


async def test_both_environments_answer_at_an_address_that_is_neither(
    divided: Api, door: Api, tenant: Tenant
) -> None:
    for key in (tenant.sk_test, tenant.sk_live):
        assert (await divided.get("/v1/balance", key=key)).status == 200
        unset = await door.get("/v1/balance", key=key, headers={"Host": LIVE_HOST})
        assert unset.status == 200


async def test_an_address_with_its_port_goes_before_the_same_name_without_it(
    settings: Settings, tenant: Tenant
) -> None:
    hosts = replace(settings, live_host="pay.example:8443", sandbox_host="pay.example")
    async with running_api(hosts) as api:
        for host, right, wrong in (
            ("pay.example:8443", tenant.sk_live, tenant.sk_test),
            ("pay.example", tenant.sk_test, tenant.sk_live),
            ("pay.example:80", tenant.sk_test, tenant.sk_live),
        ):
            sent = {"Host": host}
            assert (await api.get("/v1/balance", key=right, headers=sent)).status == 200
            reply = await api.get("/v1/balance", key=wrong, headers=sent)
            assert_refused(reply, ErrorCode.WRONG_ENVIRONMENT, status=401)


async def test_too_many_wrong_keys_get_429_while_a_right_one_still_passes(
    settings: Settings, tenant: Tenant
) -> None:
    async with running_api(replace(settings, public_wrong_keys_per_minute=3)) as api:
        for key in ("junk", keys.new_key(KeyType.SECRET, Environment.TEST), "junk"):
            reply = await api.get("/v1/balance", key=key)
            assert_refused(reply, ErrorCode.INVALID_API_KEY, status=401)
            assert not [name for name in reply.headers if name.lower().startswith("x-ratelimit")]
        asked_at = time.time()
        for key in ("junk", keys.new_key(KeyType.SECRET, Environment.TEST)):
            reply = await api.get("/v1/balance", key=key)
            assert_refused(reply, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)
            assert reply.headers["X-RateLimit-Limit"] == "3"
            assert reply.headers["X-RateLimit-Remaining"] == "0"
            wait = int(reply.headers["Retry-After"])
            assert 50 < wait <= 60
            assert abs(int(reply.headers["X-RateLimit-Reset"]) - asked_at - wait) <= 2
        assert (await api.get("/v1/balance", key=tenant.sk_test)).status == 200
        assert (await api.get("/v1/test/checkout", key=tenant.ck_test)).status == 200
        assert_refused(await api.get("/v1/balance"), ErrorCode.MISSING_API_KEY, status=401)


async def test_twenty_wrong_keys_a_minute_are_the_default(settings: Settings) -> None:
    async with running_api(settings) as api:
        statuses = [(await api.get("/v1/balance", key="junk")).status for _ in range(21)]
    assert statuses == [401] * 20 + [429]


async def test_wrong_keys_are_counted_for_each_address_and_for_each_ipv6_64(proxied: Api) -> None:
    async def status_from(address: str) -> int:
        claim = {"X-Forwarded-For": address}
        return (await proxied.get("/v1/balance", key="junk", headers=claim)).status

    assert [await status_from("198.51.100.1") for _ in range(3)] == [401, 401, 429]
    assert await status_from("::ffff:198.51.100.1") == 429
    assert await status_from("198.51.100.2") == 401
    same_64 = ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:DB8:1:2:0:0:0:3")
    assert [await status_from(address) for address in same_64] == [401, 401, 429]
    assert await status_from("2001:db8:1:3::1") == 401
    assert await status_from("2001:db8:2:2::1") == 401


def test_an_address_block_is_one_ipv4_address_or_one_ipv6_64() -> None:
    assert address_block("198.51.100.1") == "198.51.100.1"
    assert address_block("::ffff:198.51.100.1") == "198.51.100.1"
    assert address_block("2001:db8::1") == address_block("2001:db8::ffff:ffff:ffff:ffff")
    assert address_block("2001:db8::1") != address_block("2001:db8:0:1::1")
    assert address_block("::1") != address_block("0.0.0.1")


PEER = "127.0.0.1"
CLIENT = "198.51.100.7"


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        ([], PEER),
        ([CLIENT], CLIENT),
        ([f"1.1.1.1, {CLIENT}"], CLIENT),
        ([f"1.1.1.1, 2.2.2.2, 3.3.3.3,{CLIENT}"], CLIENT),
        ([f"{CLIENT}, 10.1.2.3"], CLIENT),
        ([f"1.1.1.1, {CLIENT}, 10.1.2.3, 10.9.9.9, 127.0.0.1"], CLIENT),
        ([f"10.0.0.1, {CLIENT}, 10.1.2.3"], CLIENT),
        (["1.1.1.1", CLIENT], CLIENT),
        (["1.1.1.1", f"{CLIENT}", "10.1.2.3, 10.2.2.2"], CLIENT),
        ([f"1.1.1.1, {CLIENT}:4711"], CLIENT),
        ([f"{CLIENT}:4711, 10.1.2.3:80"], CLIENT),
        (["[2001:db8::7]:4711"], "2001:db8::7"),
        (["[2001:db8::7]"], "2001:db8::7"),
        (["2001:db8::7, fd00::1"], "2001:db8::7"),
        (["2001:DB8:0:0:0:0:0:7"], "2001:db8::7"),
        ([f"::ffff:{CLIENT}"], CLIENT),
        ([f"{CLIENT}, ::ffff:10.1.2.3"], CLIENT),
        (["10.1.2.3"], "10.1.2.3"),
        (["10.1.2.3, 10.1.2.4"], "10.1.2.3"),
        ([f"{CLIENT}, garbage"], PEER),
        ([f"{CLIENT}, garbage, 10.1.2.3"], "10.1.2.3"),
        ([f"{CLIENT}, "], PEER),
        ([f"{CLIENT}, , 10.1.2.3"], "10.1.2.3"),
        ([f"{CLIENT}, unknown"], PEER),
        ([f"{CLIENT}, 999.1.1.1"], PEER),
        ([f"{CLIENT}, 1.2.3"], PEER),
        ([f"{CLIENT}, 0x7f000001"], PEER),
        ([f"{CLIENT}, é"], PEER),
        ([","], PEER),
        ([f"garbage, {CLIENT}"], CLIENT),
    ],
)
async def test_the_client_is_the_right_most_hop_that_is_no_trusted_proxy(
    proxied: Api, tenant: Tenant, forwarded: Sequence[str], expected: str
) -> None:
    headers = [("X-Forwarded-For", value) for value in forwarded]
    reply = await proxied.get("/v1/test/orders/x", key=tenant.sk_test, headers=headers)
    assert reply.data["clientIp"] == expected


async def test_other_forwarding_headers_change_nothing(proxied: Api, tenant: Tenant) -> None:
    for name in ("Forwarded", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP"):
        value = "for=1.1.1.1" if name == "Forwarded" else "1.1.1.1"
        reply = await proxied.get("/v1/test/orders/x", key=tenant.sk_test, headers={name: value})
        assert reply.data["clientIp"] == PEER, name


async def test_a_peer_that_is_no_trusted_proxy_cannot_say_who_the_client_is(
    settings: Settings, door: Api, tenant: Tenant
) -> None:
    claim = {"X-Forwarded-For": CLIENT}
    reply = await door.get("/v1/test/orders/x", key=tenant.sk_test, headers=claim)
    assert reply.data["clientIp"] == PEER
    others = replace(settings, trusted_proxies=(ip_network("10.0.0.0/8"),))
    async with running_api(others) as api:
        reply = await api.get("/v1/test/orders/x", key=tenant.sk_test, headers=claim)
        assert reply.data["clientIp"] == PEER


async def follows(api: Api, key: str, *, status: int) -> bool:
    """Call until an answer has that status; false when that takes longer than it may."""
    started_at = time.monotonic()
    while (await api.get("/v1/balance", key=key)).status != status:
        if time.monotonic() - started_at > FOLLOWED_WITHIN_SECONDS:
            return False
        await asyncio.sleep(0.05)
    return True


async def test_a_running_server_refuses_a_revoked_key_within_five_seconds(
    door: Api, database: Database, tenant: Tenant
) -> None:
    key = await new_key(database, tenant.company.company_id)
    assert (await door.get("/v1/balance", key=key.key)).status == 200
    await companies.revoke_key(database, key.record.key_id, now=utc_now())
    assert await follows(door, key.key, status=401)
    reply = await door.get("/v1/balance", key=key.key)
    assert_refused(reply, ErrorCode.INVALID_API_KEY, status=401)
    assert (await door.get("/v1/balance", key=tenant.sk_test)).status == 200


async def test_a_running_server_refuses_a_key_that_ends_within_five_seconds(
    door: Api, database: Database, tenant: Tenant
) -> None:
    key = await new_key(database, tenant.company.company_id)
    assert (await door.get("/v1/balance", key=key.key)).status == 200
    async with database.atomic() as block:
        successor = await companies.rotate_key(
            block, key.record.key_id, overlap=timedelta(seconds=1), pepper=PEPPER, now=utc_now()
        )
    assert await follows(door, key.key, status=401)
    assert (await door.get("/v1/balance", key=successor.key)).status == 200


async def test_a_running_server_follows_a_new_limit_within_five_seconds(
    door: Api, database: Database
) -> None:
    tenant = await new_tenant(database, requests_per_minute=1_000)
    reply = await door.get("/v1/balance", key=tenant.sk_test)
    assert reply.headers["X-RateLimit-Limit"] == "1000"
    await companies.set_limits(database, tenant.company.public_id, requests_per_minute=1_234)
    started_at = time.monotonic()
    while reply.headers["X-RateLimit-Limit"] != "1234":
        assert time.monotonic() - started_at < FOLLOWED_WITHIN_SECONDS
        await asyncio.sleep(0.05)
        reply = await door.get("/v1/balance", key=tenant.sk_test)


REAL_ROUTES = (*TABLE, *reference.routes(TABLE))


def spoken(route: Route) -> str:
    return f"{route.method} {route.path}"


def expected_refusals(access: Access | None) -> dict[str, tuple[ErrorCode, int]]:
    """What each kind of caller is told at a route that declares this access."""
    if access is Access.PUBLIC:
        return {}
    expected = {
        "none": (ErrorCode.MISSING_API_KEY, 401),
        "junk": (ErrorCode.INVALID_API_KEY, 401),
        "unknown": (ErrorCode.INVALID_API_KEY, 401),
        "revoked": (ErrorCode.INVALID_API_KEY, 401),
        "expired": (ErrorCode.INVALID_API_KEY, 401),
        "suspended": (ErrorCode.COMPANY_SUSPENDED, 403),
        "checkout": (ErrorCode.KEY_TYPE_NOT_ALLOWED, 403),
    }
    if access is Access.ANY_KEY:
        del expected["checkout"]
    return expected


@pytest.mark.parametrize("route", [*REAL_ROUTES, *TEST_ROUTES], ids=spoken)
async def test_every_route_refuses_every_caller_that_it_does_not_declare(
    door: Api, database: Database, tenant: Tenant, ended: Ended, route: Route
) -> None:
    suspended = await new_tenant(database)
    await companies.set_suspended(database, suspended.company.public_id, is_suspended=True)
    callers = {
        "none": None,
        "junk": "junk",
        "unknown": ended.unknown,
        "revoked": ended.revoked,
        "expired": ended.expired,
        "suspended": suspended.sk_test,
        "checkout": tenant.ck_test,
        "secret": tenant.sk_test,
    }
    expected = expected_refusals(route.access)
    path = re.sub(r"\{\w+\}", "x", route.path)
    for name, key in callers.items():
        reply = await door.call(route.method, path, key=key)
        if name in expected:
            code, status = expected[name]
            assert_refused(reply, code, status=status)
        else:
            assert reply.status not in {401, 403}, name


def declared(**changes: Any) -> Route:
    fields: dict[str, Any] = {
        "method": "GET",
        "path": "/v1/x",
        "handler": echo_order,
        "summary": "x",
        "group": "x",
        "access": Access.SECRET_KEY,
        "limit": LimitGroup.REQUESTS,
    }
    return Route(**{**fields, **changes})


@pytest.mark.parametrize(
    ("routes", "complaint"),
    [
        ([declared(access=None)], "who may call"),
        ([declared(limit=None)], "no rate limit"),
        ([declared(limit=None, access=Access.ANY_KEY)], "no rate limit"),
        ([declared(), declared()], "declared twice"),
        ([declared(path="/v1/{a}"), declared(path="/v1/{a}")], "declared twice"),
        ([declared(body=Order)], "body"),
        ([declared(is_body_raw=True)], "raw body"),
        ([declared(method="POST", body=Order, is_body_raw=True)], "raw body"),
        ([declared(is_idempotent=True)], "idempotency"),
        ([declared(method="DELETE", is_idempotent=True)], "idempotency"),
    ],
)
def test_a_table_that_leaves_something_open_cannot_be_built(
    routes: Sequence[Route], complaint: str
) -> None:
    with pytest.raises(RouteTableError, match=complaint):
        Router(routes)


def test_the_least_that_a_route_may_declare_is_enough() -> None:
    Router([declared(), declared(method="POST", body=Order, is_idempotent=True)])
    Router([declared(access=Access.PUBLIC, limit=None)])
