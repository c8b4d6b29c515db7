"""The SQL of calls that are kept."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import astuple

from vintem.requests.model import CallFilter, LoggedCall, request_id_at
from vintem.runtime.db import Connection, Row

LAST_ID: Final = "req_~"
REFUSED: Final = "and status >= 400"
"""In these words the index of refused calls is found."""


async def insert_calls(db: Connection, calls: Sequence[LoggedCall]) -> None:
    """Keep calls of any number of companies."""
    await db.execute(
        """
        insert into request_log (
            company_id, environment, request_id, at, method, route, record_id, status, code,
            key_id, client_ip, correlation_id, microseconds, remaining, body
        )
        select * from unnest($1::new_call[])
        on conflict do nothing
        """,
        # In the order of the type, which knows nothing of the bytes that came.
        [astuple(each)[:-1] for each in calls],
    )


async def count_unlogged(
    db: Connection, counts: Mapping[tuple[int, str], int], *, hour: datetime
) -> None:
    """Add to how many calls of an hour were counted only."""
    keys = sorted(counts)
    await db.execute(
        """
        insert into request_unlogged as u (company_id, environment, hour, calls)
        select company_id, environment, $4, calls
        from unnest($1::bigint[], $2::text[], $3::bigint[]) as n (company_id, environment, calls)
        on conflict (company_id, environment, hour) do update set calls = u.calls + excluded.calls
        """,
        [company_id for company_id, _ in keys],
        [environment for _, environment in keys],
        [counts[key] for key in keys],
        hour,
    )


async def sum_unlogged(
    db: Connection, company_id: int, environment: str, *, since: datetime
) -> int:
    """How many calls since an hour were counted only."""
    return int(
        await db.fetchval(
            """
            select coalesce(sum(calls), 0) from request_unlogged
            where company_id = $1 and environment = $2 and hour >= $3
            """,
            company_id,
            environment,
            since,
        )
    )


async def find_horizon(
    db: Connection,
    company_id: int,
    environment: str,
    *,
    is_refused: bool,
    before: str,
    since: str,
    rows: int,
) -> str | None:
    """The call that comes so many calls before one; nothing when there are not so many."""
    found: str | None = await db.fetchval(
        f"""
        select request_id from request_log
        where company_id = $1 and environment = $2 and request_id < $3 and request_id >= $4
            {REFUSED if is_refused else ""}
        order by request_id desc offset $5 limit 1
        """,  # noqa: S608 - of fixed parts; every value is bound
        company_id,
        environment,
        before,
        since,
        rows - 1,
    )
    return found


async def list_calls(
    db: Connection,
    company_id: int,
    environment: str,
    wanted: CallFilter,
    *,
    before: str,
    since: str,
    rows_max: int,
) -> Sequence[LoggedCall]:
    """The calls between two that a filter asks for, the newest first."""
    rows = await db.fetch(
        f"""
        select * from request_log
        where company_id = $1 and environment = $2 and request_id < $3 and request_id >= $4
            {REFUSED if wanted.is_refused else ""}
            and ($5::bigint is null or status / 100 = $5) and ($6::text = '' or method = $6)
            and ($7::text = '' or position($7 in route) > 0) and ($8::text = '' or key_id = $8)
        order by request_id desc limit $9
        """,  # noqa: S608 - of fixed parts; every value is bound
        company_id,
        environment,
        before,
        since,
        wanted.status_class,
        wanted.method,
        wanted.route,
        wanted.key_id,
        rows_max,
    )
    return [_call(row) for row in rows]


async def find_call(
    db: Connection, company_id: int, environment: str, request_id: str
) -> LoggedCall | None:
    """Find a call by the id that it was answered with."""
    row = await db.fetchrow(
        """
        select * from request_log
        where company_id = $1 and environment = $2 and request_id = $3
        """,
        company_id,
        environment,
        request_id,
    )
    return None if row is None else _call(row)


async def list_companies(db: Connection) -> Sequence[int]:
    """All companies, whether any of their calls is kept or not."""
    return [row["company_id"] for row in await db.fetch("select company_id from company")]


async def delete_old(db: Connection, company_id: int, *, before: datetime, rows_max: int) -> int:
    """Delete calls from before a moment, some of them at once; says how many."""
    tag = await db.execute(
        """
        delete from request_log where company_id = $1 and (environment, request_id) in (
            select environment, request_id from request_log
            where company_id = $1 and environment = 'live' and request_id < $2
            union all
            select environment, request_id from request_log
            where company_id = $1 and environment = 'test' and request_id < $2
            limit $3
        )
        """,
        company_id,
        request_id_at(before),
        rows_max,
    )
    return int(tag.rpartition(" ")[2])


async def delete_old_counts(db: Connection, company_id: int, *, before: datetime) -> None:
    """Delete the counts of hours before a moment."""
    await db.execute(
        "delete from request_unlogged where company_id = $1 and hour < $2", company_id, before
    )


def _call(row: Row) -> LoggedCall:
    return LoggedCall(
        company_id=row["company_id"],
        environment=row["environment"],
        request_id=row["request_id"],
        at=row["at"],
        method=row["method"],
        route=row["route"],
        record_id=row["record_id"],
        status=row["status"],
        code=row["code"],
        key_id=row["key_id"],
        client_ip=row["client_ip"],
        correlation_id=row["correlation_id"],
        microseconds=row["microseconds"],
        remaining=row["remaining"],
        body=row["body"],
    )
