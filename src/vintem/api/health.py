"""Whether this process lives, is ready, and what it counts: for operators, outside /v1."""

from contextlib import suppress

import msgspec

from vintem.api.call import Access, Answer, Call, Content, Route
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime import metrics
from vintem.runtime.db import DatabaseUnavailableError
from vintem.runtime.migrations import is_current


async def report_alive(call: Call) -> Answer:
    """Say that the process answers; says nothing of the database."""
    del call
    return _status({"status": "ok"}, 200)


async def report_ready(call: Call) -> Answer:
    """Say whether calls should be sent here: not while stopping, nor without a place to write."""
    database, migrations = "unreachable", "unknown"
    with suppress(DatabaseUnavailableError):
        is_writable = await call.resources.database.is_writable()
        migrations = "current" if await is_current(call.resources.database) else "behind"
        database = "reachable" if is_writable else "read-only"
    is_draining = call.resources.life.is_draining
    is_ready = database == "reachable" and migrations == "current" and not is_draining
    return _status(
        {
            "status": "ready" if is_ready else "not ready",
            "database": database,
            "migrations": migrations,
            "draining": is_draining,
        },
        200 if is_ready else 503,
    )


async def report_metrics(call: Call) -> Answer:
    """Write the metrics, where the operator lets the public address show them."""
    if not call.resources.is_metrics_public:
        raise Refusal(ErrorCode.NOT_FOUND)
    return Content(metrics.render(), metrics.MEDIA_TYPE)


def _status(report: dict[str, object], status: int) -> Answer:
    return Content(
        msgspec.json.encode(report),
        "application/json",
        status,
        headers=((b"cache-control", b"no-store"),),
    )


ROUTES = (
    Route(
        method="GET",
        path="/healthz",
        handler=report_alive,
        summary="Is the process alive",
        group="Operations",
        access=Access.PUBLIC,
        is_described=False,
    ),
    Route(
        method="GET",
        path="/readyz",
        handler=report_ready,
        summary="Is the process ready for calls",
        group="Operations",
        access=Access.PUBLIC,
        is_described=False,
    ),
    Route(
        method="GET",
        path="/metrics",
        handler=report_metrics,
        summary="Metrics for Prometheus",
        group="Operations",
        access=Access.PUBLIC,
        is_described=False,
    ),
)
