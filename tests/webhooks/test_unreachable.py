"""An address that has taken nothing for five days is disabled by the worker, and not before."""

from datetime import timedelta

from support.api import Shop
from support.sink import Sink
from support.webhooks import get, register
from vintem.kit.clock import utc_now
from vintem.resources import Resources
from vintem.runtime.db import Database
from vintem.worker import DUTIES, disable_unreachable_webhooks


async def test_the_worker_disables_after_120_hours_without_a_success(
    shop: Shop, sink: Sink, database: Database, resources: Resources
) -> None:
    [duty] = [each for each in DUTIES if each.run is disable_unreachable_webhooks]
    assert duty.every_seconds <= 60
    expected = {119: (True, None), 121: (False, "unreachable"), None: (True, None)}
    made = {hours: (await register(shop, sink.url(f"/{hours}")))["id"] for hours in expected}
    await shop.create()
    for hours, webhook_id in made.items():
        await database.execute(
            "update webhook_lane set failing_since = $3 where company_id = $1 and lane = $2",
            shop.scope.company_id,
            webhook_id,
            None if hours is None else utc_now() - timedelta(hours=hours),
        )
    assert await duty.run(resources) >= 1
    for hours, webhook_id in made.items():
        found = await get(shop, f"/v1/webhooks/{webhook_id}")
        assert (found["enabled"], found["disabledReason"]) == expected[hours], hours
