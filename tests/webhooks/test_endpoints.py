"""The Webhooks group: what can be registered, changed and asked for, and what is refused."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from conftest import client, serving
from support.api import Api, Shop, assert_refused, new_shop
from support.sink import Sink
from support.webhooks import deliveries, get, patch, post, register, until_delivered
from vintem.kit.clock import parse_public_time, public_time
from vintem.kit.errors import ErrorCode
from vintem.kit.ids import Prefix, is_id, new_id
from vintem.resources import Resources
from vintem.runtime.db import Database
from vintem.runtime.outbound import Outbound
from vintem.webhooks import listing
from vintem.webhooks.dispatch import Dispatcher

SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{43}=")
NAMES: Mapping[str, Sequence[str]] = {
    "loja.com.br": ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"],
    "metade.com.br": ["93.184.216.34", "10.0.0.1"],
    "privado.com.br": ["192.168.0.1"],
    "pão.com.br".encode("idna").decode(): ["93.184.216.34"],
}


def resolve(host: str, port: int) -> Sequence[str]:
    del port
    return NAMES.get(host, [])


@pytest.fixture(scope="session")
async def strict_api(resources: Resources) -> AsyncIterator[Api]:
    """An operator that allows no loopback, with a name server of our own making."""
    strict = replace(resources, allows_loopback_webhooks=False, outbound=Outbound(ask=resolve))
    async with serving(strict) as base_url, client() as session:
        yield Api(base_url, session)
    await strict.outbound.close()


@pytest.fixture
async def strict_shop(strict_api: Api, database: Database) -> Shop:
    return await new_shop(strict_api, database)


async def test_an_endpoint_is_registered_with_its_secret_shown_once(strict_shop: Shop) -> None:
    shop = strict_shop
    body = {
        "url": "https://loja.com.br:8443/hook?x=1",
        "events": ["transaction.paid", "withdrawal.completed", "transaction.paid"],
        "description": "Loja",
    }
    reply = await post(shop, "/v1/webhooks", body)
    assert reply.status == 201
    made = reply.data
    assert is_id(made["id"], Prefix.WEBHOOK)
    assert SECRET.fullmatch(made.pop("secret"))
    assert made == {
        "id": made["id"],
        "url": body["url"],
        "events": ["transaction.paid", "withdrawal.completed"],
        "description": "Loja",
        "enabled": True,
        "disabledReason": None,
        "createdAt": made["createdAt"],
    }
    assert await get(shop, f"/v1/webhooks/{made['id']}") == made
    listed = await get(shop, "/v1/webhooks")
    assert listed["webhooks"] == [made]
    assert listed["pagination"]["total"] == 1


async def test_nothing_is_sent_at_registration_and_no_description_is_null(
    shop: Shop, sink: Sink, database: Database
) -> None:
    made = await register(shop, sink.url())
    assert made["description"] is None
    assert set(made) == {
        "id", "url", "events", "description", "enabled", "disabledReason", "secret", "createdAt",
    }  # fmt: skip
    waiting = await database.fetchval(
        "select count(*) from webhook_delivery where company_id = $1", shop.scope.company_id
    )
    assert waiting == 0
    assert (await patch(shop, made["id"], description="Loja")).data["description"] == "Loja"
    assert (await patch(shop, made["id"], description="")).data["description"] is None


@pytest.mark.parametrize("body", [None, {}])
async def test_calls_that_need_no_body_take_an_empty_one(
    shop: Shop, sink: Sink, body: object
) -> None:
    made = await register(shop, sink.url())
    tested = await post(shop, f"/v1/webhooks/{made['id']}/test", body)
    assert tested.status == 200
    rotated = await post(shop, f"/v1/webhooks/{made['id']}/rotate-secret", body)
    assert rotated.status == 200
    assert SECRET.fullmatch(rotated.data["secret"])
    assert set(rotated.data) == set(made)
    resent = await post(shop, f"/v1/webhooks/deliveries/{tested.data['id']}/resend", body)
    assert resent.status == 200


async def test_an_event_is_listed_for_ninety_days_exactly_as_it_is_kept(
    shop: Shop, database: Database
) -> None:
    await shop.paid()
    both = (await get(shop, "/v1/events"))["events"]
    assert [set(each) for each in both] == 2 * [
        {
            "eventId", "event", "version", "environment", "timestamp", "sequence",
            "previousStatus", "data", "metadata",
        }
    ]  # fmt: skip
    assert {(each["version"], each["environment"]) for each in both} == {("v1", "test")}
    await database.execute(
        """
        update webhook_event set created_at = now() - interval '90 days 1 second'
        where company_id = $1 and sequence = 1
        """,
        shop.scope.company_id,
    )
    listed = await get(shop, "/v1/events")
    assert listed["events"] == both[:1]
    assert listed["pagination"]["total"] == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://loja.com.br/",
        "https://loja.com.br:80/",
        "https://me@loja.com.br/",
        "https://10.0.0.1/",
        "https://2130706433/",
        "https://localhost/",
        "https://unbekannt.com.br/",
        "https://privado.com.br/",
        "https://metade.com.br/",
        "http://127.0.0.1:9000/",
    ],
)
async def test_an_address_that_is_not_called_is_refused(strict_shop: Shop, url: str) -> None:
    refused = await post(strict_shop, "/v1/webhooks", {"url": url, "events": ["*"]})
    assert_refused(refused, ErrorCode.INVALID_URL, status=422)
    assert refused.json["error"]["details"] == {"field": "url"}
    made = await register(strict_shop, "https://loja.com.br/")
    changed = await patch(strict_shop, made["id"], url=url)
    assert_refused(changed, ErrorCode.INVALID_URL, status=422)
    assert (await get(strict_shop, "/v1/webhooks"))["webhooks"][0]["url"] == "https://loja.com.br/"


async def test_a_name_of_other_letters_is_resolved_as_it_travels(strict_shop: Shop) -> None:
    made = await register(strict_shop, "https://pão.com.br/hook")
    assert made["url"] == "https://pão.com.br/hook"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "https://loja.com.br/"}, "events"),
        ({"events": ["*"]}, "url"),
        ({"url": "https://loja.com.br/", "events": []}, "events"),
        ({"url": "https://loja.com.br/", "events": ["*", "transaction.lost"]}, "events[1]"),
        ({"url": "https://loja.com.br/", "events": ["ping"]}, "events[0]"),
        ({"url": "https://loja.com.br/", "events": ["*"], "secret": "x"}, "secret"),
        ({"url": "https://loja.com.br/", "events": ["*"], "description": "x" * 256}, "description"),
        ({"url": "https://loja.com.br/" + "x" * 2_048, "events": ["*"]}, "url"),
    ],
)
async def test_a_body_of_the_wrong_form_is_refused(
    strict_shop: Shop, body: object, field: str
) -> None:
    refused = await post(strict_shop, "/v1/webhooks", body)
    assert_refused(refused, ErrorCode.VALIDATION_ERROR, status=400)
    assert field in {fault["field"] for fault in refused.json["error"]["details"]["errors"]}


async def test_sixteen_endpoints_and_no_more_even_at_once(strict_shop: Shop) -> None:
    shop = strict_shop
    body = {"url": "https://loja.com.br/", "events": ["*"]}
    replies = await asyncio.gather(*(post(shop, "/v1/webhooks", body) for _ in range(20)))
    assert sorted(reply.status for reply in replies) == [201] * 16 + [409] * 4
    refused = next(reply for reply in replies if reply.status == 409)
    assert_refused(refused, ErrorCode.WEBHOOK_LIMIT_REACHED, status=409)
    live = await shop.api.post("/v1/webhooks", key=shop.tenant.sk_live, json=body)
    assert live.status == 201
    first = (await get(shop, "/v1/webhooks"))["webhooks"][0]["id"]
    await shop.api.call("DELETE", f"/v1/webhooks/{first}", key=shop.key)
    assert (await post(shop, "/v1/webhooks", body)).status == 201


async def test_what_is_not_said_stays_as_it_is(strict_shop: Shop) -> None:
    shop = strict_shop
    made = await register(shop, "https://loja.com.br/")
    changed = (await patch(shop, made["id"], events=["transaction.paid"])).data
    assert (changed["events"], changed["url"]) == (["transaction.paid"], made["url"])
    off = (await patch(shop, made["id"], enabled=False)).data
    assert (off["enabled"], off["disabledReason"]) == (False, "merchant")
    on = (await patch(shop, made["id"], enabled=True, description="x")).data
    assert (on["enabled"], on["disabledReason"], on["description"]) == (True, None, "x")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/webhooks/{id}"),
        ("PATCH", "/v1/webhooks/{id}"),
        ("DELETE", "/v1/webhooks/{id}"),
        ("POST", "/v1/webhooks/{id}/rotate-secret"),
        ("POST", "/v1/webhooks/{id}/test"),
        ("GET", "/v1/webhooks/{id}/deliveries"),
        ("POST", "/v1/webhooks/{id}/replay"),
    ],
)
async def test_an_endpoint_of_nobody_or_of_another_is_not_found(
    strict_shop: Shop, strict_api: Api, database: Database, method: str, path: str
) -> None:
    made = await register(strict_shop, "https://loja.com.br/")
    stranger = await new_shop(strict_api, database)
    bodies = {"PATCH": {"enabled": False}, "replay": {"from": "2026-01-01", "to": "2026-01-02"}}
    body = bodies.get(method) or bodies.get(path.rpartition("/")[2])
    for key, webhook_id in (
        (stranger.key, made["id"]),
        (strict_shop.tenant.sk_live, made["id"]),
        (strict_shop.key, new_id(Prefix.WEBHOOK)),
        (strict_shop.key, "whk_junk"),
    ):
        reply = await strict_api.call(method, path.replace("{id}", webhook_id), key=key, json=body)
        assert_refused(reply, ErrorCode.WEBHOOK_NOT_FOUND, status=404)
    assert (await get(strict_shop, f"/v1/webhooks/{made['id']}"))["enabled"] is True


async def test_a_delivery_of_nobody_or_of_another_is_not_found(
    shop: Shop, lenient_api: Api, database: Database, sink: Sink
) -> None:
    made = await register(shop, sink.url())
    await shop.create()
    [delivery] = await deliveries(shop, made["id"])
    assert is_id(delivery["id"], Prefix.DELIVERY)
    stranger = await new_shop(lenient_api, database)
    for caller, delivery_id in (
        (stranger, delivery["id"]),
        (shop, new_id(Prefix.DELIVERY)),
        (shop, "junk"),
    ):
        reply = await post(caller, f"/v1/webhooks/deliveries/{delivery_id}/resend")
        assert_refused(reply, ErrorCode.DELIVERY_NOT_FOUND, status=404)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"from": "2026-01-01", "to": "2026-01-31"}, "to"),
        ({"from": "2026-01-02", "to": "2026-01-01T00:00:00.000Z"}, "to"),
        ({"from": "2026-01-02", "to": "2026-01-01"}, "to"),
        ({"from": "ontem", "to": "2026-01-01"}, "from"),
        ({"to": "2026-01-01"}, "from"),
    ],
)
async def test_a_time_that_cannot_be_replayed_is_refused(
    strict_shop: Shop, body: object, field: str
) -> None:
    made = await register(strict_shop, "https://loja.com.br/")
    refused = await post(strict_shop, f"/v1/webhooks/{made['id']}/replay", body)
    assert_refused(refused, ErrorCode.VALIDATION_ERROR, status=400)
    assert refused.json["error"]["details"]["errors"][0]["field"] == field


async def test_a_replay_says_that_it_needs_a_body(strict_shop: Shop) -> None:
    made = await register(strict_shop, "https://loja.com.br/")
    refused = await post(strict_shop, f"/v1/webhooks/{made['id']}/replay")
    assert_refused(refused, ErrorCode.INVALID_JSON, status=400)
    assert refused.json["error"]["message"] == "This call needs a body, in JSON; there is none."
    empty = await post(strict_shop, f"/v1/webhooks/{made['id']}/replay", {})
    assert_refused(empty, ErrorCode.VALIDATION_ERROR, status=400)
    faults = empty.json["error"]["details"]["errors"]
    assert {fault["field"] for fault in faults} == {"from", "to"}


async def test_a_disabled_endpoint_is_sent_nothing_again(shop: Shop, sink: Sink) -> None:
    made = await register(shop, sink.url())
    await shop.create()
    [delivery] = await deliveries(shop, made["id"])
    assert delivery["nextAttemptAt"] is not None
    await patch(shop, made["id"], enabled=False)
    today = delivery["createdAt"][:10]
    for path, body in (
        (f"/v1/webhooks/deliveries/{delivery['id']}/resend", None),
        (f"/v1/webhooks/{made['id']}/replay", {"from": today, "to": today}),
        (f"/v1/webhooks/{made['id']}/test", None),
    ):
        refused = await post(shop, path, body)
        assert_refused(refused, ErrorCode.INVALID_STATE, status=409)
        assert refused.json["error"]["message"] == "The webhook is disabled; enable it first."
    [waiting] = await deliveries(shop, made["id"])
    assert waiting == delivery | {"nextAttemptAt": None}
    await patch(shop, made["id"], enabled=True)
    assert await deliveries(shop, made["id"]) == [delivery]


async def test_deliveries_are_found_by_status_kind_and_event(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    made = await register(shop, sink.url())
    transaction_id = await shop.paid()
    await until_delivered(shop, made["id"], 2)
    await patch(shop, made["id"], enabled=False)
    await patch(shop, made["id"], enabled=True, url="http://127.0.0.1:1/")
    await shop.create()
    paid = f"tx:{transaction_id}:PAID"
    for query, count in (
        ("", 3),
        ("?status=delivered", 2),
        ("?status=pending", 1),
        ("?status=pending,delivered", 3),
        ("?status=failed,ended", 0),
        ("?event=transaction.pending", 2),
        ("?event=transaction.pending&status=delivered", 1),
        (f"?eventId={paid}", 1),
        ("?eventId=evt_none", 0),
        ("?status=delivered&pageSize=1", 1),
    ):
        page = await get(shop, f"/v1/webhooks/{made['id']}/deliveries{query}")
        assert len(page["deliveries"]) == count, query
        total = 2 if "pageSize" in query else count
        assert page["pagination"]["total"] == total, query
    for query, field in (("status=lost", "status"), ("event=lost", "event"), ("x=1", "x")):
        refused = await shop.api.get(f"/v1/webhooks/{made['id']}/deliveries?{query}", key=shop.key)
        assert_refused(refused, ErrorCode.VALIDATION_ERROR, status=400)
        assert refused.json["error"]["details"]["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("start", "end", "status"),
    [
        ("2026-01-01", "2026-01-30", 200),
        ("2026-01-01", "2026-01-31", 400),
        ("2026-01-01T08:30:00.000Z", "2026-01-31T08:30:00.000Z", 200),
        ("2026-01-01T08:30:00.000Z", "2026-01-31T08:30:00.001Z", 400),
        ("2026-01-01T08:30:00.000Z", "2026-01-01T08:30:00.000Z", 200),
        ("2026-01-01T08:30:00.000Z", "2026-01-01T08:29:59.999Z", 400),
    ],
)
async def test_thirty_days_can_be_replayed(
    strict_shop: Shop, start: str, end: str, status: int
) -> None:
    made = await register(strict_shop, "https://loja.com.br/")
    body = {"from": start, "to": end}
    assert (await post(strict_shop, f"/v1/webhooks/{made['id']}/replay", body)).status == status


@pytest.mark.parametrize("microseconds", [0, 999])
async def test_a_replay_takes_the_events_of_its_first_and_its_last_moment(
    shop: Shop, sink: Sink, database: Database, microseconds: int
) -> None:
    await shop.create()
    await database.execute(
        """
        update webhook_event set created_at =
            date_trunc('milliseconds', created_at) + $2 * interval '1 microsecond'
        where company_id = $1
        """,
        shop.scope.company_id,
        microseconds,
    )
    made = await register(shop, sink.url())
    [event] = (await get(shop, "/v1/events"))["events"]
    shown = event["timestamp"]
    moment = parse_public_time(shown)
    before = public_time(moment - timedelta(milliseconds=1))
    after = public_time(moment + timedelta(milliseconds=1))
    path = f"/v1/webhooks/{made['id']}/replay"
    for start, end, events in (
        (shown, shown, 1),
        (before, shown, 1),
        (shown, after, 1),
        (before, before, 0),
        (after, after, 0),
    ):
        replayed = await post(shop, path, {"from": start, "to": end})
        assert (replayed.status, replayed.data["events"]) == (200, events), (start, end)


async def test_lists_go_by_page_and_by_cursor(shop: Shop, sink: Sink) -> None:
    made = await register(shop, sink.url())
    for _ in range(3):
        await shop.paid()
    for number in range(5):
        await register(shop, sink.url(f"/{number}"))
    for path, name, key in (
        ("/v1/webhooks", "webhooks", "id"),
        ("/v1/events", "events", "eventId"),
        (f"/v1/webhooks/{made['id']}/deliveries", "deliveries", "id"),
    ):
        whole = await get(shop, path)
        ids = [each[key] for each in whole[name]]
        assert len(set(ids)) == 6
        assert whole["pagination"] == {
            "page": 1, "pageSize": 20, "total": 6, "totalPages": 1, "totalCapped": False,
            "nextCursor": None,
        }  # fmt: skip
        second = await get(shop, f"{path}?page=2&pageSize=2")
        assert [each[key] for each in second[name]] == ids[2:4]
        walked: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await get(shop, f"{path}?pageSize=2{cursor and '&cursor=' + cursor}")
            walked += [each[key] for each in page[name]]
            cursor = page["pagination"]["nextCursor"]
        assert walked == ids
        for query in ("cursor=x", "page=0", "pageSize=101", "lost=1"):
            junk = await shop.api.get(f"{path}?{query}", key=shop.key)
            assert_refused(junk, ErrorCode.VALIDATION_ERROR, status=400)
    paid = await get(shop, "/v1/events?event=transaction.paid")
    assert {each["event"] for each in paid["events"]} == {"transaction.paid"}
    assert paid["pagination"]["total"] == 3
    junk = await shop.api.get("/v1/events?event=x", key=shop.key)
    assert_refused(junk, ErrorCode.VALIDATION_ERROR, status=400)
    live = await shop.api.get("/v1/events", key=shop.tenant.sk_live)
    assert live.data["events"] == []


async def test_loopback_is_for_the_sandbox_alone(shop: Shop, sink: Sink) -> None:
    body = {"url": sink.url(), "events": ["*"]}
    reply = await shop.api.post("/v1/webhooks", key=shop.tenant.sk_live, json=body)
    assert_refused(reply, ErrorCode.INVALID_URL, status=422)


async def test_a_rare_filter_is_looked_for_in_parts(
    shop: Shop, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = await register(shop, sink.url())
    paid = await shop.paid()
    for _ in range(7):
        await shop.create()
    monkeypatch.setattr(listing, "LOOKED_AT_MAX", 3)
    for path, rows in (
        (f"/v1/webhooks/{webhook['id']}/deliveries?event=transaction.paid", "deliveries"),
        ("/v1/events?event=transaction.paid", "events"),
        (f"/v1/webhooks/{webhook['id']}/deliveries?status=pending", "deliveries"),
        (f"/v1/webhooks/{webhook['id']}/deliveries?status=failed,ended", "deliveries"),
    ):
        found, following, pages = list[str](), "", 0
        while not pages or following:
            data = await get(shop, f"{path}{following}")
            found += [each["eventId"] for each in data[rows]]
            where = data["pagination"]
            assert where["totalCapped"] is ("status=failed" not in path)
            following = where["nextCursor"] and f"&cursor={where['nextCursor']}"
            pages += 1
            assert pages < 10
        assert len(found) == len(set(found))
        if "paid" in path:
            assert found == [f"tx:{paid}:PAID"]
            assert pages > 1
        else:
            assert len(found) == (9 if "pending" in path else 0)
