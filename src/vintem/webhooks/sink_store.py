"""The SQL of the sandbox's own webhook addresses."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from vintem.runtime.db import Connection


class SinkCall(msgspec.Struct, frozen=True):
    """What arrived at the address of a company, and how it was answered."""

    call_id: str
    at: datetime
    headers: str
    body: str
    behaviour: str


async def find_behaviour(db: Connection, company_id: int) -> str | None:
    """How the address of a company answers, if anybody has said so."""
    behaviour: str | None = await db.fetchval(
        "select behaviour from webhook_sink where company_id = $1", company_id
    )
    return behaviour


async def upsert_behaviour(db: Connection, company_id: int, behaviour: str) -> None:
    """Let the address of a company answer so from now on."""
    await db.execute(
        """
        insert into webhook_sink (company_id, behaviour) values ($1, $2)
        on conflict (company_id) do update set behaviour = excluded.behaviour
        """,
        company_id,
        behaviour,
    )


async def insert_call(db: Connection, company_id: int, call: SinkCall, *, kept_max: int) -> None:
    """Keep what arrived, and of what came before only the last."""
    await db.execute(
        """
        with old as (
            delete from webhook_sink_call where company_id = $1 and call_id in (
                select call_id from webhook_sink_call where company_id = $1
                order by call_id desc offset $7 - 1
            )
        )
        insert into webhook_sink_call (company_id, call_id, at, headers, body, behaviour)
        values ($1, $2, $3, $4, $5, $6)
        """,
        company_id,
        call.call_id,
        call.at,
        call.headers,
        call.body,
        call.behaviour,
        kept_max,
    )


async def list_calls(db: Connection, company_id: int, *, rows_max: int) -> Sequence[SinkCall]:
    """What arrived, the newest first."""
    rows = await db.fetch(
        """
        select call_id, at, headers, body, behaviour from webhook_sink_call
        where company_id = $1 order by call_id desc limit $2
        """,
        company_id,
        rows_max,
    )
    return [
        SinkCall(row["call_id"], row["at"], row["headers"], row["body"], row["behaviour"])
        for row in rows
    ]


async def list_companies(db: Connection) -> Sequence[int]:
    """The companies whose address was ever used."""
    return [row["company_id"] for row in await db.fetch("select company_id from webhook_sink")]


async def delete_old(db: Connection, company_id: int, *, before: datetime) -> int:
    """Delete what arrived before a moment; says how much."""
    tag = await db.execute(
        "delete from webhook_sink_call where company_id = $1 and at < $2", company_id, before
    )
    return int(tag.rpartition(" ")[2])
