"""The sandbox's acquirer in tests: its plans brought forward, its callbacks written by hand."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from support.api import TEST_PEPPER, Api, HttpReply, Shop
from vintem.kit.clock import epoch_seconds, utc_now
from vintem.providers.faults import Fault, Faults
from vintem.providers.signature import SIGNATURE_HEADER, TIMESTAMP_HEADER, sign
from vintem.providers.simulator import Simulator
from vintem.runtime import metrics
from vintem.runtime.crypto import derive
from vintem.runtime.db import Database

SECRET = derive(TEST_PEPPER.encode(), b"callbacks of simulator")
PATH = "/callbacks/simulator"


def simulator(database: Database, *faults: Fault) -> Simulator:
    """An acquirer with these faults; it shares its book with the one that the server holds."""
    return Simulator(
        database, secret=SECRET, faults=Faults(shares=[(fault, 100) for fault in faults])
    )


async def tell(api: Api, database: Database, *, now: datetime) -> int:
    """Let the acquirer tell the API all that is due by a moment, over HTTP."""
    return await simulator(database).tell_due(api.base_url, now=now)


def callback(account: str, kind: str, reference: str, **changed: object) -> dict[str, Any]:
    """What a provider tells, with what a test wants otherwise."""
    return {
        "callbackId": f"cb_{uuid4().hex}",
        "account": account,
        "kind": kind,
        "reference": reference,
        "amount": 10_000,
        **changed,
    }


def signed(body: bytes, *, secret: bytes = SECRET, at: datetime | None = None) -> dict[str, str]:
    """The headers of a callback."""
    timestamp = str(epoch_seconds(at or utc_now()))
    return {
        "Content-Type": "application/json",
        TIMESTAMP_HEADER: timestamp,
        SIGNATURE_HEADER: sign(secret, timestamp.encode(), body).decode(),
    }


async def send(api: Api, told: object) -> HttpReply:
    """Send a callback as its provider would."""
    body = json.dumps(told).encode()
    return await api.post(PATH, data=body, headers=signed(body))


async def send_all(api: Api, told: Sequence[object]) -> None:
    """Send callbacks one after the other; each must be heard."""
    for each in told:
        reply = await send(api, each)
        assert reply.status == 200, reply.json


def told(shop: Shop, kind: str, reference: str, **changed: object) -> dict[str, Any]:
    """What a company's provider tells."""
    return callback(shop.tenant.company.public_id, kind, reference, **changed)


def alarms(cause: str) -> float:
    """How often money was found that belongs to no payment, for a cause."""
    counted = metrics.REGISTRY.get_sample_value("vintem_unclaimed_money_total", {"cause": cause})
    return counted or 0.0


async def state_of(shop: Shop, callback_id: str) -> tuple[str, str | None]:
    """What became of a callback, and why."""
    row = await shop.database.fetchrow(
        "select state, cause from provider_callback where company_id = $1 and callback_id = $2",
        shop.scope.company_id,
        callback_id,
    )
    assert row is not None
    return row["state"], row["cause"]
