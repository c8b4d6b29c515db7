"""Short calls of the Webhooks group, and a worker that delivers in this process."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from support.api import HttpReply, Shop
from vintem.resources import Resources
from vintem.webhooks.dispatch import Dispatcher
from vintem.webhooks.model import Pace

QUICK = Pace(
    call_seconds_max=1.0,
    retry_seconds=(0.1,) * 9,
    breaker_seconds=0.3,
    breaker_seconds_max=0.3,
    lease_seconds=3.0,
)


async def register(shop: Shop, url: str, events: Sequence[str] = ("*",)) -> Any:
    """A registered webhook, as it was answered."""
    reply = await post(shop, "/v1/webhooks", {"url": url, "events": list(events)})
    assert reply.status == 201, reply.json
    return reply.data


async def post(shop: Shop, path: str, body: object = None) -> HttpReply:
    return await shop.api.post(path, key=shop.key, json=body)


async def get(shop: Shop, path: str) -> Any:
    return (await shop.api.get(path, key=shop.key)).data


async def patch(shop: Shop, webhook_id: str, **changed: object) -> HttpReply:
    return await shop.api.call("PATCH", f"/v1/webhooks/{webhook_id}", key=shop.key, json=changed)


async def deliveries(shop: Shop, webhook_id: str, query: str = "") -> Any:
    return (await get(shop, f"/v1/webhooks/{webhook_id}/deliveries{query}"))["deliveries"]


async def until_delivered(
    shop: Shop, webhook_id: str, count: int, *, status: str = "delivered", seconds: float = 15.0
) -> Any:
    """The deliveries of a webhook, once so many of them have a status."""
    give_up_at = time.monotonic() + seconds
    while True:
        found = await deliveries(shop, webhook_id, "?pageSize=100")
        if sum(each["status"] == status for each in found) >= count:
            return found
        assert time.monotonic() < give_up_at, found
        await asyncio.sleep(0.05)


@asynccontextmanager
async def delivering(resources: Resources, pace: Pace = QUICK) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(
        resources.database,
        resources.sealer,
        resources.outbound,
        allows_loopback=True,
        pace=pace,
    )

    async def tick_for_ever() -> None:
        while True:
            await dispatcher.tick()
            await asyncio.sleep(0.05)

    ticking = asyncio.create_task(tick_for_ever())
    yield dispatcher
    ticking.cancel()
    await asyncio.wait({ticking})
    assert ticking.cancelled(), ticking.exception()
    await dispatcher.close()
