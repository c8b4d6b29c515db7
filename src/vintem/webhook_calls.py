"""What the commands about webhooks send: events to whoever listens, and calls that cause them."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import aiohttp
from rich.markup import escape

from vintem.command_line import complaint, console
from vintem.kit.clock import public_time, utc_now
from vintem.runtime.db import Database
from vintem.runtime.outbound import CallFailedError, ForbiddenAddressError, Outbound
from vintem.runtime.processes import stop_signal
from vintem.transactions.model import Status
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Event
from vintem.webhooks.service import Place
from vintem.webhooks.signing import headers_of, new_secret, sign

POLL_SECONDS: Final = 0.25
# A commit may take so long: what was written before may be seen after what was written later.
LATE_COMMIT: Final = timedelta(seconds=10)
CALL_SECONDS_MAX: Final = 15.0

COLOURS: Final = {
    "paid": "green",
    "completed": "green",
    "failed": "red",
    "chargeback": "red",
    "pre_chargeback": "red",
    "blocked": "red",
    "cancelled": "yellow",
    "refunded": "yellow",
}


async def forward(database: Database, place: Place, url: str) -> None:
    """Forward events until told to stop."""
    stopping = stop_signal()
    outbound = Outbound()
    try:
        await outbound.check(url, allows_loopback=True)
    except ForbiddenAddressError as fault:
        raise complaint(f"--forward-to: {fault}") from None
    secret, began = new_secret(), utc_now()
    console.print(f"Forwarding to {escape(url)}; press Ctrl-C to stop. The secret of this run:")
    console.print(secret, soft_wrap=True, markup=False)
    seen: dict[str, datetime] = {}
    try:
        while not stopping.is_set():
            since = max(began, utc_now() - LATE_COMMIT)
            for event in await webhooks.events_since(database, place, since):
                if event.event_id not in seen:
                    seen[event.event_id] = event.created_at
                    await forward_one(outbound, event, url, secret)
            seen = {key: at for key, at in seen.items() if at >= since - LATE_COMMIT}
            await asyncio.sleep(POLL_SECONDS)
    finally:
        await outbound.close()


async def forward_one(outbound: Outbound, event: Event, url: str, secret: str) -> None:
    """Send one event, signed as a delivery is, and print its line."""
    timestamp = int(utc_now().timestamp())
    signature = sign([secret], message_id=event.event_id, timestamp=timestamp, body=event.body)
    headers = headers_of(message_id=event.event_id, timestamp=timestamp, signature=signature)
    try:
        answer = await outbound.post(
            url, event.body, headers, allows_loopback=True, seconds_max=CALL_SECONDS_MAX
        )
        colour = "green" if 200 <= answer.status < 300 else "red"
        came = f"[{colour}]{answer.status}[/] [dim]{answer.seconds * 1_000:.0f} ms[/]"
    except (CallFailedError, ForbiddenAddressError) as fault:
        came = f"[red]{escape(str(fault))}[/]"
    colour = COLOURS.get(event.kind.rpartition(".")[2], "cyan")
    time = public_time(event.created_at)[11:19]
    console.print(
        f"[dim]{time}[/] [{colour}]{event.kind}[/] {event.entity_id} #{event.sequence} → {came}",
        soft_wrap=True,
    )


async def go_through(
    address: str,
    key: str,
    kind: str,
    statuses: Sequence[Status],
    *,
    amount: int,
    is_refunded: bool,
) -> None:
    """Create a payment over the API and move it."""
    order = {
        "paymentMethod": "pix",
        "amount": amount,
        "customer": {
            "name": "Cliente de Teste",
            "email": "cliente@example.com",
            "document": {"type": "cpf", "number": "52998224725"},
        },
    }
    async with aiohttp.ClientSession(
        headers={"x-api-key": key}, timeout=aiohttp.ClientTimeout(total=CALL_SECONDS_MAX)
    ) as session:
        made = await call(session, f"{address}/v1/transactions", order)
        path = f"{address}/v1/sandbox/transactions/{made['id']}/simulate"
        for status in statuses:
            await call(session, path, {"status": status})
        if is_refunded:
            await call(session, f"{address}/v1/transactions/{made['id']}/refund", {})
    console.print(f"[green]{kind}[/] {made['id']}")


async def call(
    session: aiohttp.ClientSession, url: str, body: Mapping[str, object]
) -> Mapping[str, Any]:
    """Make one call, or say in a sentence what is wrong with it."""
    address = url.partition("/v1/")[0]
    try:
        async with session.post(url, json=body) as response:
            answer: object = await response.json()
    except (aiohttp.ContentTypeError, ValueError):
        answer = None
    except (aiohttp.ClientError, TimeoutError):
        raise complaint(
            f"Nobody answers at {address}: start the demo, or say where the API is with --url."
        ) from None
    if not isinstance(answer, dict) or "success" not in answer:
        raise complaint(f"What answers at {address} is another program: give the right --url.")
    if not answer["success"]:
        error = answer["error"]
        raise complaint(f"{error['code']}: {error['message']}")
    data: Mapping[str, Any] = answer["data"]
    return data
