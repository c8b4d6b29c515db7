"""Rate limits as an integrator meets them, counted in memory and in PostgreSQL."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from conftest import running_api
from support.api import Api, HttpReply, assert_refused, new_key, new_tenant
from vintem.api.call import Access, Route
from vintem.api.routes import TABLE
from vintem.companies import service as companies
from vintem.companies.model import LimitGroup
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode
from vintem.runtime.db import Database
from vintem.settings import Settings

BY_KEY = (Access.SECRET_KEY, Access.ANY_KEY)
REQUESTS, FAST, WITHDRAWALS = "/v1/balance", "/v1/test/fast", "/v1/test/withdrawals"


@pytest.fixture(scope="module", params=["memory", "shared"])
async def counted(request: pytest.FixtureRequest, settings: Settings) -> AsyncIterator[Api]:
    async with running_api(settings, shared_limits=request.param == "shared") as running:
        yield running


def limit_of(reply: HttpReply) -> tuple[int, int]:
    """The limit and what remains of it."""
    return int(reply.headers["X-RateLimit-Limit"]), int(reply.headers["X-RateLimit-Remaining"])


def assert_over_limit(reply: HttpReply) -> int:
    """Hold a refusal against the limit's promises and give its Retry-After."""
    assert_refused(reply, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)
    assert reply.headers["X-RateLimit-Remaining"] == "0"
    return int(reply.headers["Retry-After"])


async def three_fast_calls(api: Api, key: str) -> tuple[list[HttpReply], float]:
    """Three calls whose window is a second, and how long all of them took."""
    began = time.monotonic()
    replies = [await api.get(FAST, key=key) for _ in range(3)]
    return replies, time.monotonic() - began


def group_of(route: Route) -> LimitGroup:
    """The limit that the interface names for a call with a key."""
    if (route.method, route.path) == ("POST", "/v1/withdrawals"):
        return LimitGroup.WITHDRAWALS
    first_parts = route.path.split("/")[:3]
    if first_parts in (["", "v1", "transactions"], ["", "v1", "card-tokens"]):
        return LimitGroup.TRANSACTIONS
    return LimitGroup.REQUESTS


KEYED = {f"{route.method} {route.path}": route for route in TABLE if route.access in BY_KEY}


@pytest.mark.parametrize("name", KEYED)
def test_a_call_is_counted_in_the_group_that_the_interface_names(name: str) -> None:
    assert KEYED[name].limit is group_of(KEYED[name])
    assert KEYED[name].public_limits == ()


def test_every_group_counts_some_calls_and_no_public_call_is_among_them() -> None:
    counted = Counter(route.limit for route in KEYED.values())
    assert counted[LimitGroup.TRANSACTIONS] == 6
    assert counted[LimitGroup.WITHDRAWALS] == 1
    assert counted[LimitGroup.REQUESTS] > 15
    public = [route for route in TABLE if route.access is Access.PUBLIC]
    assert len(KEYED) + len(public) == len(TABLE)
    assert {route.limit for route in public} == {None}


async def test_a_new_company_has_the_limits_of_the_interface(
    counted: Api, database: Database
) -> None:
    company = await companies.create_company(database, "Default", now=utc_now())
    key = (await new_key(database, company.company_id)).key
    for path, limit in ((REQUESTS, 60), (FAST, 5), (WITHDRAWALS, 10)):
        reply = await counted.get(path, key=key)
        assert reply.status == 200
        assert limit_of(reply) == (limit, limit - 1)


async def test_the_sixty_first_request_in_a_minute_is_refused(
    counted: Api, database: Database
) -> None:
    company = await companies.create_company(database, "Default", now=utc_now())
    key = (await new_key(database, company.company_id)).key
    replies = [await counted.get(REQUESTS, key=key) for _ in range(61)]
    assert [reply.status for reply in replies] == [200] * 60 + [429]
    assert [limit_of(reply) for reply in replies[:60]] == [
        (60, remaining) for remaining in range(59, -1, -1)
    ]


async def test_remaining_counts_down_and_reset_tells_when_one_more_call_is_allowed(
    counted: Api, database: Database
) -> None:
    tenant = await new_tenant(database, requests_per_minute=3)
    before = time.time()
    replies = [await counted.get(REQUESTS, key=tenant.sk_test) for _ in range(3)]
    after = time.time()
    assert [limit_of(reply) for reply in replies] == [(3, 2), (3, 1), (3, 0)]
    for reply in replies[:2]:
        # One more call is allowed at once.
        assert before <= int(reply.headers["X-RateLimit-Reset"]) <= math.ceil(after)
    # The next is allowed when the first has left the window.
    full = int(replies[2].headers["X-RateLimit-Reset"])
    assert math.ceil(before + 60) <= full <= math.ceil(after + 60)


async def test_a_call_over_the_limit_is_told_when_to_come_back_and_uses_no_slot(
    counted: Api, database: Database
) -> None:
    tenant = await new_tenant(database, requests_per_minute=2)
    first = await counted.get(REQUESTS, key=tenant.sk_test)
    second = await counted.get(REQUESTS, key=tenant.sk_test)
    assert (first.status, second.status) == (200, 200)
    resets = set()
    for _ in range(5):
        reply = await counted.get(REQUESTS, key=tenant.sk_test)
        assert 55 <= assert_over_limit(reply) <= 60
        assert limit_of(reply) == (2, 0)
        assert "data" not in reply.json
        resets.add(reply.headers["X-RateLimit-Reset"])
    # Had a refused call been counted, the end of the wait would have moved.
    assert resets == {second.headers["X-RateLimit-Reset"]}


async def test_the_groups_are_counted_apart(counted: Api, database: Database) -> None:
    for _ in range(3):
        tenant = await new_tenant(database, requests_per_minute=1, transactions_per_second=2)
        key = tenant.sk_test
        assert (await counted.get(REQUESTS, key=key)).status == 200
        assert assert_over_limit(await counted.get(REQUESTS, key=key)) > 1
        replies, seconds = await three_fast_calls(counted, key)
        if seconds < 1:
            break
    else:
        pytest.fail("three calls took longer than a second")
    assert [reply.status for reply in replies] == [200, 200, 429]
    assert [limit_of(reply) for reply in replies] == [(2, 1), (2, 0), (2, 0)]
    assert assert_over_limit(replies[2]) == 1
    assert limit_of(await counted.get(WITHDRAWALS, key=key)) == (10, 9)


async def test_all_routes_of_a_group_share_its_window(counted: Api, database: Database) -> None:
    tenant = await new_tenant(database, requests_per_minute=2)
    key = tenant.sk_test
    assert (await counted.get(REQUESTS, key=key)).status == 200
    assert (await counted.get("/v1/test/orders/x", key=key)).status == 200
    assert_over_limit(await counted.get("/v1/test/orders", key=key))


async def test_each_key_of_a_company_has_a_window_of_its_own(
    counted: Api, database: Database
) -> None:
    tenant = await new_tenant(database, requests_per_minute=1)
    other = (await new_key(database, tenant.company.company_id)).key
    for key in (tenant.sk_test, other, tenant.sk_live):
        assert (await counted.get(REQUESTS, key=key)).status == 200
        assert_over_limit(await counted.get(REQUESTS, key=key))


async def test_after_retry_after_seconds_the_next_call_passes(
    counted: Api, database: Database
) -> None:
    for _ in range(3):
        tenant = await new_tenant(database, transactions_per_second=2)
        for _ in range(2):
            replies, seconds = await three_fast_calls(counted, tenant.sk_test)
            if seconds >= 1:
                break
            assert [reply.status for reply in replies] == [200, 200, 429]
            wait = assert_over_limit(replies[2])
            assert wait == 1
            await asyncio.sleep(wait)
        else:
            assert (await counted.get(FAST, key=tenant.sk_test)).status == 200
            return
    pytest.fail("three calls took longer than a second")


async def test_calls_at_the_same_moment_never_pass_the_limit(
    counted: Api, database: Database
) -> None:
    tenant = await new_tenant(database, requests_per_minute=7)
    replies = await asyncio.gather(*(counted.get(REQUESTS, key=tenant.sk_test) for _ in range(30)))
    assert sorted(reply.status for reply in replies) == [200] * 7 + [429] * 23
    remaining = sorted(limit_of(reply)[1] for reply in replies if reply.status == 200)
    assert remaining == list(range(7))


async def test_refusals_after_the_limit_carry_its_headers_and_those_before_do_not(
    counted: Api, database: Database
) -> None:
    tenant = await new_tenant(database, requests_per_minute=5)
    bad_query = await counted.get("/v1/test/orders?page=0", key=tenant.sk_test)
    assert limit_of(bad_query) == (5, 4)
    fault = await counted.get("/v1/test/fails", key=tenant.sk_test)
    assert limit_of(fault) == (5, 3)
    for path, key in (("/v1/balance", tenant.ck_test), ("/v1/balance", None), ("/v1/x", None)):
        reply = await counted.get(path, key=key)
        assert not [name for name in reply.headers if name.lower().startswith("x-ratelimit")]
    assert limit_of(await counted.get(REQUESTS, key=tenant.sk_test)) == (5, 2)


async def test_public_routes_are_outside_the_limits_of_keys(
    counted: Api, database: Database
) -> None:
    tenant = await new_tenant(database, requests_per_minute=1)
    for _ in range(3):
        reply = await counted.get("/v1/test/x.svg", key=tenant.sk_test)
        assert reply.status == 200
        assert "X-RateLimit-Limit" not in reply.headers
    assert (await counted.get(REQUESTS, key=tenant.sk_test)).status == 200


async def test_two_servers_that_share_their_limits_count_together(
    settings: Settings, database: Database
) -> None:
    tenant = await new_tenant(database, requests_per_minute=4)
    async with (
        running_api(settings, shared_limits=True) as one,
        running_api(settings, shared_limits=True) as other,
    ):
        replies = [
            await server.get(REQUESTS, key=tenant.sk_test)
            for server in (one, other, one, other, one, other)
        ]
    assert [reply.status for reply in replies] == [200] * 4 + [429] * 2
    assert [limit_of(reply)[1] for reply in replies] == [3, 2, 1, 0, 0, 0]
