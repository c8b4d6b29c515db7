"""The log of requests: what integrators called, and what they were answered."""

from datetime import timedelta
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.companies import service as companies
from vintem.companies.model import ApiKey
from vintem.dashboard.answers import go, page
from vintem.dashboard.asked import period_of
from vintem.dashboard.page import Page, shown
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members.model import Permission
from vintem.requests import service as requests
from vintem.requests.model import (
    ACCEPTED_PER_SECOND_MAX,
    REFUSED_PER_SECOND_MAX,
    REQUESTS_KEPT,
    CallFilter,
)

ROWS_MAX: Final = 50
COUNTED: Final = timedelta(hours=24)
CLASSES: Final = (
    ("", "Todas"),
    ("2", "2xx: aceitas"),
    ("4", "4xx: recusadas"),
    ("5", "5xx: falhas nossas"),
)
METHODS: Final = (
    ("", "Todos"),
    *((method, method) for method in ("GET", "POST", "PATCH", "PUT", "DELETE")),
)


class Asked(msgspec.Struct, frozen=True):
    """Which calls the address asks for."""

    status: str = ""
    method: str = ""
    route: str = ""
    key: str = ""
    since: str = ""
    until: str = ""
    id: str = ""
    after: str = ""


async def show_requests(visit: Visit) -> Answer:
    """List calls, the newest first."""
    asked = visit.asked(Asked)
    scope, database = visit.scope, visit.resources.database
    if asked.id:
        call = await requests.find_call(database, scope.company_id, scope.environment, asked.id)
        if call is not None:
            return go(visit.href(f"/requests/{call.request_id}"))
    found = await requests.list_calls(
        database,
        scope.company_id,
        scope.environment,
        _filter(asked),
        before=asked.after,
        rows_max=ROWS_MAX,
        now=visit.call.now,
    )
    filters = {
        name: text
        for name, text in msgspec.structs.asdict(asked).items()
        if name not in {"id", "after"}
    }
    keys = await _keys(visit)
    return page(
        visit,
        "requests.html",
        title="Logs de requisição",
        asked=asked,
        found=found,
        keys=keys,
        older=visit.href("/requests", **filters, after=found.next_id) if found.next_id else "",
        newest=visit.href("/requests", **filters) if asked.after else "",
        classes=CLASSES,
        methods=METHODS,
        key_options=[("", "Todas"), *((each.key_id, _key_name(each)) for each in keys.values())],
        is_unknown_id=bool(asked.id),
        days_kept=REQUESTS_KEPT.days,
        refused_max=REFUSED_PER_SECOND_MAX,
        accepted_max=ACCEPTED_PER_SECOND_MAX,
        unlogged=await requests.unlogged(
            database, scope.company_id, scope.environment, since=visit.call.now - COUNTED
        ),
    )


async def show_request(visit: Visit) -> Answer:
    """Show all that is kept of a call."""
    scope = visit.scope
    call = await requests.find_call(
        visit.resources.database, scope.company_id, scope.environment, visit.call.params["id"]
    )
    if call is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    key = await companies.find_key(
        visit.resources.database, scope.company_id, visit.environment, call.key_id
    )
    return page(
        visit,
        "request.html",
        title="Requisição",
        logged=call,
        key_name="" if key is None else _key_name(key),
        record_path=_record_path(call.record_id),
    )


def _filter(asked: Asked) -> CallFilter:
    """Read a filter; what makes no sense asks for nothing."""
    since, until = period_of(asked.since, asked.until)
    return CallFilter(
        status_class=int(asked.status) if asked.status in {"2", "4", "5"} else None,
        method=asked.method if (asked.method, asked.method) in METHODS else "",
        route=asked.route,
        key_id=asked.key,
        since=since,
        until=until,
    )


async def _keys(visit: Visit) -> dict[str, ApiKey]:
    listed = await companies.list_keys_of(
        visit.resources.database, visit.member.company_id, visit.environment
    )
    return {key.key_id: key for key in listed}


def _key_name(key: ApiKey) -> str:
    return f"{key.type}_…{key.last_four}"


def _record_path(record_id: str) -> str:
    """Where the dashboard shows the record that a call was about."""
    paths = {"tx": "/transactions/", "wd": "/withdrawals/", "whk": "/webhooks/"}
    prefix = record_id.partition("_")[0]
    return paths[prefix] + record_id if prefix in paths else ""


PAGES: Final[tuple[Page, ...]] = (
    shown("/requests", show_requests, Permission.LOGS, "Logs de requisição"),
    shown("/requests/{id}", show_request, Permission.LOGS, "Requisição"),
)
