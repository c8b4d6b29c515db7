"""The sandbox's own webhook address of each company: answers as wished, and shows what arrived."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from vintem.kit.ids import Prefix, new_id
from vintem.runtime.crypto import derive
from vintem.runtime.db import Connection
from vintem.webhooks import sink_store as store
from vintem.webhooks.sink_store import SinkCall

CALLS_KEPT_MAX: Final = 50
CALLS_KEPT: Final = timedelta(hours=24)
BODY_CHARACTERS_MAX: Final = 20_000
SHOWN_HEADERS: Final = ("content-type", "user-agent")
SHOWN_PREFIXES: Final = ("webhook-", "x-")


class Behaviour(StrEnum):
    """How the address answers."""

    OK = "ok"
    ERROR = "error"
    SLOW = "slow"
    TIMEOUT = "timeout"


ANSWERS: Final[Mapping[Behaviour, tuple[int, float]]] = {
    Behaviour.OK: (200, 0.0),
    Behaviour.ERROR: (500, 0.0),
    Behaviour.SLOW: (200, 5.0),
    Behaviour.TIMEOUT: (200, 16.0),
}
"""Which status, and after how many seconds; a caller gives up after fifteen."""


def path_of(company_public_id: str, *, pepper: bytes) -> str:
    """Where the address of a company is; nobody else can guess it."""
    return f"/sandbox/sinks/{company_public_id}/{_token(company_public_id, pepper)}"


def is_token(company_public_id: str, token: str, *, pepper: bytes) -> bool:
    """Say whether whoever calls was told the address."""
    return hmac.compare_digest(token.encode(), _token(company_public_id, pepper).encode())


async def behaviour_of(db: Connection, company_id: int) -> Behaviour:
    """How the address of a company answers."""
    return Behaviour(await store.find_behaviour(db, company_id) or Behaviour.OK)


async def behave(db: Connection, company_id: int, behaviour: Behaviour) -> None:
    """Let the address of a company answer so from now on."""
    await store.upsert_behaviour(db, company_id, behaviour)


async def take(
    db: Connection, company_id: int, headers: Mapping[bytes, bytes], body: bytes, *, now: datetime
) -> tuple[int, float]:
    """Keep what arrived; says with which status to answer, and after how many seconds."""
    behaviour = await behaviour_of(db, company_id)
    shown = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in headers.items()
        if name.decode("latin-1").startswith(SHOWN_PREFIXES)
        or name.decode("latin-1") in SHOWN_HEADERS
    }
    text = body.decode(errors="replace").replace("\x00", "\ufffd")[:BODY_CHARACTERS_MAX]
    call = SinkCall(
        new_id(Prefix.DELIVERY), now, msgspec.json.encode(shown).decode(), text, behaviour
    )
    await store.insert_call(db, company_id, call, kept_max=CALLS_KEPT_MAX)
    return ANSWERS[behaviour]


async def list_calls(db: Connection, company_id: int) -> Sequence[SinkCall]:
    """What arrived of late, the newest first."""
    return await store.list_calls(db, company_id, rows_max=CALLS_KEPT_MAX)


async def forget_old(db: Connection, *, now: datetime) -> int:
    """Delete what arrived a day ago; says how much."""
    return sum(
        [
            await store.delete_old(db, company_id, before=now - CALLS_KEPT)
            for company_id in await store.list_companies(db)
        ]
    )


def _token(company_public_id: str, pepper: bytes) -> str:
    key = derive(pepper, b"sinks of webhooks")
    return hmac.digest(key, company_public_id.encode(), hashlib.sha256).hex()
