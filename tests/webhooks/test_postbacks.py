"""The address of a withdrawal's own, and how long a secret that was replaced goes on signing."""

from datetime import datetime, timedelta

import pytest
from standardwebhooks import WebhookVerificationError

from support.api import Shop, complaints
from support.sink import Sink
from support.webhooks import post, register
from vintem.kit.clock import utc_now
from vintem.resources import Resources
from vintem.runtime.db import Database
from vintem.webhooks import service as webhooks
from vintem.webhooks.dispatch import Dispatcher
from vintem.webhooks.service import Place
from withdrawals.till import Till

A_DAY = timedelta(hours=24)


def place_of(shop: Shop) -> Place:
    return Place(shop.scope.company_id, "test")


async def postback_secret(resources: Resources, shop: Shop) -> str:
    kept = await webhooks.postback_secrets(resources.database, resources.sealer, place_of(shop))
    return webhooks.open_secret(resources.sealer, kept.sealed)


async def test_a_withdrawals_own_address_hears_of_it_alone(
    shop: Shop, sink: Sink, resources: Resources, worker: Dispatcher
) -> None:
    till = Till(shop)
    await till.fund(10_000)
    endpoint = await register(shop, sink.url("/endpoint"), ["withdrawal.completed"])
    made = await till.take(1_000, postbackUrl=sink.url("/saque?n=1"))
    assert made["postbackUrl"] == sink.url("/saque?n=1")
    other = await till.take(2_000)
    for withdrawal in (made, other):
        await till.simulate(withdrawal["id"], "processing")
        await till.simulate(withdrawal["id"], "completed")
    secret = await postback_secret(resources, shop)
    arrived = await sink.until(3, "/saque?n=1")
    assert [each.event_id for each in arrived] == [
        f"wd:{made['id']}:{status}" for status in ("PENDING", "PROCESSING", "COMPLETED")
    ]
    events = [each.verify(secret) for each in arrived]
    assert [each["data"]["status"] for each in events] == ["pending", "processing", "completed"]
    with pytest.raises(WebhookVerificationError):
        arrived[0].verify(endpoint["secret"])
    both = await sink.until(2, "/endpoint")
    assert {each.verify(endpoint["secret"])["data"]["id"] for each in both} == {
        made["id"],
        other["id"],
    }
    assert len(sink.at("/saque?n=1")) == 3
    assert await complaints(shop.database) == {}


async def old_until(database: Database, shop: Shop, table: str) -> datetime:
    until: datetime = await database.fetchval(
        f"select old_secret_until from {table} where company_id = $1",
        shop.scope.company_id,
    )
    return until


async def test_a_replaced_secret_of_an_endpoint_signs_for_a_day(
    shop: Shop, sink: Sink, database: Database
) -> None:
    made = await register(shop, sink.url())
    before = utc_now()
    rotated = await post(shop, f"/v1/webhooks/{made['id']}/rotate-secret")
    assert rotated.status == 200
    until = await old_until(database, shop, "webhook_endpoint")
    assert before + A_DAY <= until <= utc_now() + A_DAY


async def test_a_replaced_postback_secret_signs_for_a_day(
    shop: Shop, sink: Sink, database: Database, resources: Resources, worker: Dispatcher
) -> None:
    old = await postback_secret(resources, shop)
    before = utc_now()
    await webhooks.rotate_postback_secret(database, resources.sealer, place_of(shop), now=utc_now())
    new = await postback_secret(resources, shop)
    assert new != old
    until = await old_until(database, shop, "webhook_postback_secret")
    assert before + A_DAY <= until <= utc_now() + A_DAY
    await shop.create(postbackUrl=sink.url())
    [arrived] = await sink.until(1)
    for secret in (old, new):
        assert arrived.verify(secret)
    await database.execute(
        "update webhook_postback_secret set old_secret_until = now() where company_id = $1",
        shop.scope.company_id,
    )
    await shop.create(postbackUrl=sink.url())
    later = (await sink.until(2))[1]
    assert later.verify(new)
    with pytest.raises(WebhookVerificationError):
        later.verify(old)
