"""Every status change reaches whoever asked for it: signed, in order, exactly as it was kept."""

import asyncio
import base64
import json
import time

import pytest
from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from support.api import Shop, complaints
from support.platform import promised, until
from support.sink import Sink
from support.webhooks import deliveries, get, patch, post, register, until_delivered
from vintem.kit.clock import utc_now
from vintem.resources import Resources
from vintem.runtime.db import Database
from vintem.webhooks import service as webhooks
from vintem.webhooks.dispatch import Dispatcher
from vintem.webhooks.service import Place


async def test_every_status_arrives_in_order_and_is_signed(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    made = await register(shop, sink.url())
    transaction_id = await shop.paid(5_000)
    await shop.move(transaction_id, "pre_chargeback", "paid", "chargeback", "paid", "refunded")
    arrived = [each for each in await sink.until(8) if each.event["event"] != "refund.completed"]
    assert [each.event["event"] for each in arrived] == [
        f"transaction.{status}"
        for status in (
            "pending", "paid", "pre_chargeback", "paid", "chargeback", "paid", "refunded",
        )
    ]  # fmt: skip
    assert [each.event["sequence"] for each in arrived] == list(range(1, 8))
    assert [each.event["previousStatus"] for each in arrived][:3] == [None, "pending", "paid"]
    ids = [each.event_id for each in sink.at()]
    assert len(set(ids)) == 8
    assert arrived[0].event_id == f"tx:{transaction_id}:PENDING"
    assert arrived[1].event_id == f"tx:{transaction_id}:PAID"
    # Entered again: another id, so that nobody takes it for a repeat.
    assert arrived[3].event_id.startswith("evt_")
    for each in sink.at():
        assert each.verify(made["secret"])["eventId"] == each.event_id
        assert each.headers["content-type"] == "application/json"
    assert not await complaints(shop.database)


async def test_an_altered_delivery_is_refused_by_the_verifier(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    made = await register(shop, sink.url())
    await shop.create()
    [arrived] = await sink.until(1)
    verifier = Webhook(made["secret"])
    assert verifier.verify(arrived.body, arrived.headers)
    altered = [
        (arrived.body.replace(b"10000", b"10001"), {}),
        (arrived.body + b" ", {}),
        (arrived.body, {"webhook-id": "tx:other:PAID"}),
        (arrived.body, {"webhook-timestamp": str(int(arrived.headers["webhook-timestamp"]) - 1)}),
        (arrived.body, {"webhook-signature": "v1," + base64.b64encode(bytes(32)).decode()}),
    ]
    for body, changed in altered:
        with pytest.raises(WebhookVerificationError):
            verifier.verify(body, {**arrived.headers, **changed})
    other = "whsec_" + base64.b64encode(bytes(32)).decode()
    with pytest.raises(WebhookVerificationError):
        Webhook(other).verify(arrived.body, arrived.headers)


async def test_the_exact_kept_bytes_are_sent(
    shop: Shop, sink: Sink, database: Database, worker: Dispatcher
) -> None:
    await register(shop, sink.url())
    await shop.create(description='maçã ☕ <&> \\ "', metadata={"b": 1.50, "a": None})
    [arrived] = await sink.until(1)
    kept = await database.fetchval(
        "select body from webhook_event where company_id = $1", shop.scope.company_id
    )
    assert arrived.body == kept.encode()
    assert arrived.event["data"]["customer"]["document"]["number"] == "***.982.247-**"


async def test_a_delivery_leaves_within_a_second(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    await register(shop, sink.url())
    for number in range(1, 4):
        began = time.monotonic()
        await shop.create()
        arrived = await sink.until(number)
        assert arrived[-1].at - began < promised(1.0)


async def test_only_the_wanted_kinds_are_sent(shop: Shop, sink: Sink, worker: Dispatcher) -> None:
    await register(shop, sink.url("/paid"), ["transaction.paid", "refund.completed"])
    await register(shop, sink.url("/all"))
    transaction_id = await shop.paid()
    await shop.refund(transaction_id, 100)
    await sink.until(3, "/all")
    kinds = [each.event["event"] for each in await sink.until(2, "/paid")]
    assert kinds == ["transaction.paid", "refund.completed"]


async def test_the_other_environment_hears_nothing(
    shop: Shop, sink: Sink, database: Database, worker: Dispatcher
) -> None:
    made = await register(shop, sink.url())
    await database.execute(
        "update webhook_endpoint set environment = 'live' where endpoint_id = $1", made["id"]
    )
    await shop.create()
    rows = await database.fetch(
        "select from webhook_delivery where company_id = $1", shop.scope.company_id
    )
    assert rows == []


async def test_the_past_is_not_told_to_a_new_endpoint_but_by_replay(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    transaction_id = await shop.paid()
    made = await register(shop, sink.url())
    await asyncio.sleep(0.3)
    assert sink.at() == []
    today = utc_now().date()
    path = f"/v1/webhooks/{made['id']}/replay"
    body = {"from": str(today.replace(day=1)), "to": "2999-01-01"}
    assert (await post(shop, path, body)).status == 400
    events = (await get(shop, "/v1/events"))["events"]
    body = {"from": events[-1]["timestamp"], "to": events[0]["timestamp"][:10]}
    replayed = await post(shop, path, body)
    assert (replayed.status, replayed.data) == (200, {"webhookId": made["id"], "events": 2})
    arrived = await sink.until(2)
    assert [each.event_id for each in arrived] == [
        f"tx:{transaction_id}:PENDING", f"tx:{transaction_id}:PAID",
    ]  # fmt: skip
    again = await post(shop, path, body)
    assert again.data["events"] == 2
    repeated = await sink.until(4)
    assert {each.event_id for each in repeated[2:]} == {each.event_id for each in arrived}


async def test_failures_are_tried_again_until_the_schedule_ends(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    sink.answer("/hook", 500, body="falhou")
    made = await register(shop, sink.url())
    await shop.create()
    [delivery] = await until_delivered(shop, made["id"], 1, status="failed", seconds=30)
    assert [each["status"] for each in delivery["attempts"]] == [500] * 10
    assert delivery["response"] == {"status": 500, "body": "falhou"}
    assert delivery["nextAttemptAt"] is None
    assert len({each.event_id for each in sink.at()}) == 1
    sink.answer("/hook", 200)
    resent = await post(shop, f"/v1/webhooks/deliveries/{delivery['id']}/resend")
    assert (resent.status, resent.data["status"]) == (200, "pending")
    [delivery] = await until_delivered(shop, made["id"], 1)
    assert [each["attempt"] for each in delivery["attempts"]] == list(range(1, 12))
    assert sink.at()[-1].event_id == sink.at()[0].event_id


async def test_redirects_are_not_followed(shop: Shop, sink: Sink, worker: Dispatcher) -> None:
    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=307, headers={"location": sink.url("/elsewhere")})

    sink.behaviours["/hook"] = redirect
    made = await register(shop, sink.url())
    await shop.create()
    await sink.until(2)
    assert sink.at("/elsewhere") == []
    [delivery] = await deliveries(shop, made["id"])
    assert delivery["attempts"][0]["status"] == 307


async def test_an_endless_answer_is_cut(shop: Shop, sink: Sink, worker: Dispatcher) -> None:
    sink.answer("/hook", 200, body="á" * 200_000)
    made = await register(shop, sink.url())
    await shop.create()
    [delivery] = await until_delivered(shop, made["id"], 1)
    assert 9_000 < len(delivery["response"]["body"].encode()) <= 20_003


async def test_a_silent_endpoint_is_given_up_in_time(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    sink.answer("/hook", 200, seconds=60)
    made = await register(shop, sink.url())
    await shop.create()
    await sink.until(2)
    [delivery] = await deliveries(shop, made["id"])
    first = delivery["attempts"][0]
    assert (first["status"], first["error"]) == (None, "no answer within 1 s")
    assert 900 <= first["milliseconds"] <= 2_000


async def test_an_earlier_event_holds_back_later_ones_of_the_same_record_alone(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    stuck = asyncio.Event()

    async def refuse_first(request: web.Request) -> web.Response:
        event = json.loads(await request.read())
        is_stuck = event["data"].get("externalRef") == "stuck" and not stuck.is_set()
        return web.Response(status=503 if is_stuck else 200)

    sink.behaviours["/hook"] = refuse_first
    await register(shop, sink.url())
    held = await shop.paid(externalRef="stuck")
    free = await shop.paid(externalRef="free")

    def told(transaction_id: str) -> list[int]:
        events = [each.event for each in sink.at()]
        return [e["sequence"] for e in events if e["data"]["id"] == transaction_id]

    await until(lambda: told(held) and len(told(free)) == 2, seconds=15)
    await asyncio.sleep(0.5)
    assert set(told(held)) == {1}
    stuck.set()
    await until(lambda: 2 in told(held), seconds=15)
    assert told(held)[-1] == 2
    assert told(free) == [1, 2]


async def test_gone_disables_at_once_and_tells_the_others(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    sink.answer("/gone", 410)
    gone = await register(shop, sink.url("/gone"))
    other = await register(shop, sink.url("/other"), ["webhook.disabled"])
    await shop.create()
    [notice] = await sink.until(1, "/other")
    assert notice.verify(other["secret"])["event"] == "webhook.disabled"
    assert notice.event["data"]["id"] == gone["id"]
    shown = await get(shop, f"/v1/webhooks/{gone['id']}")
    assert (shown["enabled"], shown["disabledReason"]) == (False, "gone")
    await shop.create()
    await asyncio.sleep(0.4)
    assert len(sink.at("/gone")) == 1
    refused = await post(shop, f"/v1/webhooks/{gone['id']}/test")
    assert (refused.status, refused.json["error"]["code"]) == (409, "INVALID_STATE")
    # What it did not take has ended, for everybody to see.
    [ended] = await until_delivered(shop, gone["id"], 1, status="ended")
    assert ended["nextAttemptAt"] is None
    assert ended["finishedAt"] is not None
    assert [each["status"] for each in ended["attempts"]] == [410]
    # Enabled again, it is told of what comes, and of the past when that is asked for.
    sink.answer("/gone", 200)
    assert (await patch(shop, gone["id"], enabled=True)).data["enabled"] is True
    day = ended["createdAt"][:10]
    replayed = await post(shop, f"/v1/webhooks/{gone['id']}/replay", {"from": day, "to": utc_day()})
    assert replayed.data["events"] == 3
    await sink.until(4, "/gone")
    assert not await complaints(shop.database)


def utc_day() -> str:
    """Today, by the calendar that is never behind that of business."""
    return str(utc_now().date())


async def test_what_is_written_while_an_endpoint_goes_ends_too(
    shop: Shop, sink: Sink, database: Database
) -> None:
    """As an event that was being written when the endpoint was disabled or deleted."""
    gone, deleted, kept = [await register(shop, sink.url(f"/{name}")) for name in "abc"]
    await shop.create()
    await database.execute(
        """
        update webhook_endpoint set is_enabled = false, disabled_reason = 'gone'
        where company_id = $1 and endpoint_id = $2
        """,
        shop.scope.company_id,
        gone["id"],
    )
    await shop.api.call("DELETE", f"/v1/webhooks/{deleted['id']}", key=shop.key)
    assert await webhooks.end_all_refused(database, now=utc_now()) >= 2
    rows = await database.fetch(
        "select lane, state from webhook_delivery where company_id = $1", shop.scope.company_id
    )
    assert {row["lane"]: row["state"] for row in rows} == {
        gone["id"]: "ended", deleted["id"]: "ended", kept["id"]: "pending",
    }  # fmt: skip


async def test_days_without_success_disable_with_a_notice(
    shop: Shop, sink: Sink, database: Database, worker: Dispatcher
) -> None:
    sink.answer("/dead", 500)
    dead = await register(shop, sink.url("/dead"))
    await register(shop, sink.url("/other"), ["webhook.disabled"])
    await shop.create()
    await sink.until(1, "/dead")
    now, since = utc_now(), None
    while since is None:
        await asyncio.sleep(0.05)
        since = await database.fetchval(
            "select failing_since from webhook_lane where company_id = $1 and lane = $2",
            shop.scope.company_id,
            dead["id"],
        )
    assert abs((since - now).total_seconds()) < 5
    await webhooks.disable_unreachable(database, failing_before=since, now=now)
    [notice] = await sink.until(1, "/other")
    assert notice.event["data"] | {"createdAt": None, "url": None} == {
        "id": dead["id"], "url": None, "enabled": False, "disabledReason": "unreachable",
        "createdAt": None,
    }  # fmt: skip


async def test_a_ping_goes_to_the_tested_endpoint_alone(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    tested = await register(shop, sink.url("/tested"), ["transaction.paid"])
    await register(shop, sink.url("/other"))
    reply = await post(shop, f"/v1/webhooks/{tested['id']}/test")
    assert (reply.status, reply.data["event"], reply.data["status"]) == (200, "ping", "pending")
    [ping] = await sink.until(1, "/tested")
    assert ping.verify(tested["secret"])["event"] == "ping"
    await post(shop, f"/v1/webhooks/{tested['id']}/test")
    assert [each.event["sequence"] for each in await sink.until(2, "/tested")] == [1, 2]
    assert sink.at("/other") == []
    assert not await complaints(shop.database)


async def test_while_a_secret_is_rotated_both_sign(
    shop: Shop, sink: Sink, database: Database, worker: Dispatcher
) -> None:
    made = await register(shop, sink.url())
    rotated = await post(shop, f"/v1/webhooks/{made['id']}/rotate-secret")
    assert rotated.status == 200
    assert rotated.data["secret"] != made["secret"]
    await shop.create()
    [arrived] = await sink.until(1)
    for secret in (made["secret"], rotated.data["secret"]):
        assert arrived.verify(secret)
    await database.execute(
        "update webhook_endpoint set old_secret_until = now() where endpoint_id = $1", made["id"]
    )
    await shop.create()
    later = (await sink.until(2))[1]
    assert later.verify(rotated.data["secret"])
    with pytest.raises(WebhookVerificationError):
        later.verify(made["secret"])


async def postback_secret(resources: Resources, shop: Shop) -> str:
    place = Place(shop.scope.company_id, "test")
    kept = await webhooks.postback_secrets(resources.database, resources.sealer, place)
    return webhooks.open_secret(resources.sealer, kept.sealed)


async def test_the_address_of_a_record_is_one_more_endpoint(
    shop: Shop, sink: Sink, resources: Resources, worker: Dispatcher
) -> None:
    endpoint = await register(shop, sink.url("/endpoint"))
    transaction_id = await shop.paid(postbackUrl=sink.url("/pedido/1?x=1"))
    await shop.refund(transaction_id, 100)
    arrived = await sink.until(3, "/pedido/1?x=1")
    secret = await postback_secret(resources, shop)
    told = [each.verify(secret)["event"] for each in arrived]
    told.remove("refund.completed")
    assert told == ["transaction.pending", "transaction.paid"]
    for each in await sink.until(3, "/endpoint"):
        assert each.verify(endpoint["secret"])


async def test_gone_at_the_address_of_a_record_ends_that_record_alone(
    shop: Shop, sink: Sink, database: Database, worker: Dispatcher
) -> None:
    sink.answer("/gone", 410)
    first = (await shop.create(postbackUrl=sink.url("/gone")))["id"]

    async def has_ended(count: int) -> bool:
        rows = await database.fetch(
            "select state from webhook_delivery where company_id = $1 and entity_id = $2",
            shop.scope.company_id,
            first,
        )
        return [row["state"] for row in rows] == ["ended"] * count

    await until(lambda: has_ended(1), seconds=15)
    await shop.move(first, "paid")
    await shop.paid(postbackUrl=sink.url("/there"))
    await sink.until(2, "/there")
    await until(lambda: has_ended(2), seconds=15)
    assert len(sink.at("/gone")) == 1


async def test_a_deleted_endpoint_is_told_nothing_more(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    sink.answer("/hook", 500)
    made = await register(shop, sink.url())
    await shop.create()
    await sink.until(1)
    path = f"/v1/webhooks/{made['id']}"
    reply = await shop.api.call("DELETE", path, key=shop.key)
    assert (reply.status, reply.data) == (200, {"id": made["id"], "deleted": True})
    await asyncio.sleep(0.3)
    count = len(sink.at())
    await shop.create()
    await asyncio.sleep(0.5)
    assert len(sink.at()) == count
    assert (await shop.api.get(path, key=shop.key)).status == 404
    assert (await shop.api.call("DELETE", path, key=shop.key)).status == 404


async def test_no_more_than_four_are_in_flight_to_one_endpoint(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    await register(shop, sink.url())
    sink.answer("/hook", 200, seconds=0.05)
    await asyncio.gather(*(shop.create() for _ in range(60)))
    await sink.until(60)
    assert sink.in_flight_max["/hook"] == 4


async def test_no_more_than_sixteen_are_in_flight_for_one_company(
    shop: Shop, sink: Sink, worker: Dispatcher
) -> None:
    peak = 0

    async def answer_slowly(_: web.Request) -> web.Response:
        nonlocal peak
        peak = max(peak, sum(sink.in_flight.values()))
        await asyncio.sleep(0.2)
        return web.Response()

    for number in range(8):
        await register(shop, sink.url(f"/{number}"))
        sink.behaviours[f"/{number}"] = answer_slowly
    await asyncio.gather(*(shop.create() for _ in range(12)))
    for number in range(8):
        await sink.until(12, f"/{number}")
    assert 12 <= peak <= 16


async def test_secrets_are_sealed_at_rest(shop: Shop, sink: Sink, database: Database) -> None:
    made = await register(shop, sink.url())
    row = await database.fetchrow(
        "select * from webhook_endpoint where endpoint_id = $1", made["id"]
    )
    assert row is not None
    raw = base64.b64decode(made["secret"].removeprefix("whsec_"))
    assert len(raw) == 32
    assert raw not in row["secret_sealed"]
    assert made["secret"].encode() not in row["secret_sealed"]
