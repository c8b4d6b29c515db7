"""What happens when a record changes, and what a company can have done about being told."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from vintem.kit.clock import public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.kit.paging import PageRequest
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection, Database
from vintem.webhooks import delivery_store, lane_store, listing, store
from vintem.webhooks.model import (
    ENDPOINTS_MAX,
    EVENTS_KEPT,
    OLD_SECRET_KEPT,
    Change,
    Delivery,
    DisabledReason,
    Endpoint,
    Event,
    Secrets,
    event_of,
)
from vintem.webhooks.search import (
    Found,
    Health,
    Search,
    Sought,
    find_healths,
    find_newest_of,
    search,
)
from vintem.webhooks.signing import new_secret
from vintem.webhooks.statements import postback_lane

log = structlog.get_logger()

REPLAYED_AT_ONCE_MAX: Final = 2_000
DELETED_AT_ONCE_MAX: Final = 1_000
RESENT_AT_ONCE_MAX: Final = 200
HEALTH_TIME: Final = timedelta(hours=24)
LANES_KEPT: Final = timedelta(hours=1)
NOT_ENABLED: Final = "The webhook is disabled; enable it first."
PING: Final = ("ping", "")
DISABLED: Final = ("webhook", "disabled")


class Place(msgspec.Struct, frozen=True):
    """Whose endpoints are meant."""

    company_id: int
    environment: str


class Wishes(msgspec.Struct, frozen=True):
    """What an endpoint shall be; nothing where it stays as it is."""

    url: str | None = None
    events: Sequence[str] | None = None
    description: str | None = None
    is_enabled: bool | None = None


async def record(block: Connection, changes: Sequence[Change]) -> None:
    """Keep the events of changes, and who is to be told, inside the caller's atomic block."""
    await store.insert_events(block, [event_of(change) for change in changes])


async def is_told(
    db: Connection, company_id: int, environment: str, entity_ids: Sequence[str]
) -> bool:
    """Say whether all who want to know of records have been told, as far as they can be."""
    return not await lane_store.has_untold(db, company_id, environment, entity_ids)


async def register(
    database: Database, sealer: Sealer, place: Place, wishes: Wishes, *, now: datetime
) -> tuple[Endpoint, str]:
    """Add an endpoint; its secret is shown this once."""
    return await database.atomically(
        lambda block: register_within(block, sealer, place, wishes, now=now)
    )


async def register_within(
    block: Connection, sealer: Sealer, place: Place, wishes: Wishes, *, now: datetime
) -> tuple[Endpoint, str]:
    """Add an endpoint, in the caller's atomic block."""
    assert wishes.url is not None
    assert wishes.events is not None
    secret = new_secret()
    endpoint_id = new_id(Prefix.WEBHOOK)
    endpoint = Endpoint(
        company_id=place.company_id,
        endpoint_id=endpoint_id,
        environment=place.environment,
        url=wishes.url,
        events=wishes.events,
        description=wishes.description or "",
        is_enabled=True,
        disabled_reason=None,
        secrets=Secrets(seal_secret(sealer, secret)),
        sequence=0,
        created_at=now,
    )
    await store.lock_company(block, place.company_id)
    count = await store.count_endpoints(block, place.company_id, place.environment)
    if count >= ENDPOINTS_MAX:
        raise Refusal(ErrorCode.WEBHOOK_LIMIT_REACHED, details={"maximum": ENDPOINTS_MAX})
    await store.insert_endpoint(block, endpoint)
    return endpoint, secret


async def list_endpoints(
    db: Connection, place: Place, request: PageRequest
) -> listing.EndpointPage:
    """Show a page of the endpoints of a company."""
    # They are few: all are read, whichever are shown.
    return listing.page_of(
        await store.list_endpoints(db, place.company_id, place.environment), request
    )


async def get(db: Connection, place: Place, endpoint_id: str) -> Endpoint:
    """Find an endpoint, or refuse."""
    found = await store.find_endpoint(db, place.company_id, place.environment, endpoint_id)
    if found is None:
        raise Refusal(ErrorCode.WEBHOOK_NOT_FOUND)
    return found


async def change(
    database: Database, place: Place, endpoint_id: str, wishes: Wishes, *, now: datetime
) -> Endpoint:
    """Change an endpoint; one that is enabled again is sent what it still waits for."""
    _, changed = await database.atomically(
        lambda block: change_within(block, place, endpoint_id, wishes, now=now)
    )
    return changed


async def change_within(
    block: Connection, place: Place, endpoint_id: str, wishes: Wishes, *, now: datetime
) -> tuple[Endpoint, Endpoint]:
    """Change an endpoint, in the caller's atomic block: as it was, and as it is."""
    was = await _lock(block, place, endpoint_id)
    is_enabled = was.is_enabled if wishes.is_enabled is None else wishes.is_enabled
    reason = None if is_enabled else was.disabled_reason or DisabledReason.MERCHANT
    changed = replace(
        was,
        url=was.url if wishes.url is None else wishes.url,
        events=was.events if wishes.events is None else wishes.events,
        description=was.description if wishes.description is None else wishes.description,
        is_enabled=is_enabled,
        disabled_reason=reason,
    )
    await store.update_endpoint(block, changed, now=now)
    return was, changed


async def delete(db: Connection, place: Place, endpoint_id: str, *, now: datetime) -> None:
    """Let an endpoint be forgotten, or refuse."""
    if not await store.delete_endpoint(
        db, place.company_id, place.environment, endpoint_id, now=now
    ):
        raise Refusal(ErrorCode.WEBHOOK_NOT_FOUND)


async def rotate_secret(
    database: Database, sealer: Sealer, place: Place, endpoint_id: str, *, now: datetime
) -> tuple[Endpoint, str]:
    """Give an endpoint another secret; for a day the one before signs as well."""
    return await database.atomically(
        lambda block: rotate_secret_within(block, sealer, place, endpoint_id, now=now)
    )


async def rotate_secret_within(
    block: Connection, sealer: Sealer, place: Place, endpoint_id: str, *, now: datetime
) -> tuple[Endpoint, str]:
    """Give an endpoint another secret, in the caller's atomic block."""
    secret = new_secret()
    was = await _lock(block, place, endpoint_id)
    until = now + OLD_SECRET_KEPT
    changed = replace(was, secrets=Secrets(seal_secret(sealer, secret), was.secrets.sealed, until))
    await store.update_secrets(block, changed)
    return changed, secret


async def ping(database: Database, place: Place, endpoint_id: str, *, now: datetime) -> Delivery:
    """Send an endpoint an event that says nothing but that it is reached."""
    delivery_id = await database.atomically(
        lambda block: ping_within(block, place, endpoint_id, now=now)
    )
    return await get_delivery(database, place, delivery_id)


async def ping_within(block: Connection, place: Place, endpoint_id: str, *, now: datetime) -> str:
    """Send an endpoint a ping, in the caller's atomic block; gives the id of the delivery."""
    endpoint = await _lock(block, place, endpoint_id)
    if not endpoint.is_enabled:
        raise Refusal(ErrorCode.INVALID_STATE, NOT_ENABLED)
    sequence = await store.count_event(block, endpoint)
    event = event_of(_own_change(endpoint, PING, sequence, now=now))
    return await store.insert_event_for(block, event, endpoint_id)


async def disable(
    database: Database, place: Place, endpoint_id: str, reason: DisabledReason, *, now: datetime
) -> None:
    """Stop telling an endpoint, and tell the company's others of it; silence if it is so."""

    async def write(block: Connection) -> None:
        endpoint = await store.lock_endpoint(
            block, place.company_id, place.environment, endpoint_id
        )
        if endpoint is None or not endpoint.is_enabled:
            return
        changed = replace(
            endpoint,
            is_enabled=False,
            disabled_reason=reason,
            sequence=endpoint.sequence + 1,
        )
        await store.update_endpoint(block, changed, now=now)
        await record(block, [_own_change(changed, DISABLED, changed.sequence, now=now)])
        log.warning(
            "webhook disabled",
            company_id=place.company_id,
            endpoint_id=endpoint_id,
            reason=reason,
        )

    await database.atomically(write)


async def disable_unreachable(
    database: Database, *, failing_before: datetime, now: datetime
) -> int:
    """Disable the endpoints that took nothing since a moment, though they were tried."""
    found = await lane_store.list_unreachable(database, failing_before=failing_before)
    for company_id, environment, endpoint_id in found:
        place = Place(company_id, environment)
        await disable(database, place, endpoint_id, DisabledReason.UNREACHABLE, now=now)
    return len(found)


async def end_refused(db: Connection, company_id: int, endpoint_id: str, *, now: datetime) -> int:
    """End what waits for an endpoint that wants no more; says how many deliveries that was."""
    total = 0
    while count := await delivery_store.end_refused(
        db, company_id, endpoint_id, rows_max=DELETED_AT_ONCE_MAX, now=now
    ):
        total += count
    return total


async def end_all_refused(db: Connection, *, now: datetime) -> int:
    """End what waits for any endpoint that wants no more, or is there no more."""
    return sum(
        [
            await end_refused(db, company_id, endpoint_id, now=now)
            for company_id, endpoint_id in await lane_store.list_refused(db)
        ]
    )


async def retire_lanes(db: Connection, *, now: datetime) -> int:
    """Delete the lanes that lead nowhere any more; says how many."""
    await lane_store.restore_lanes(db)
    return await lane_store.delete_quiet_lanes(db, quiet_since=now - LANES_KEPT)


async def forget_old(database: Database, *, now: datetime) -> int:
    """Delete deliveries that are older than what can be listed; says how many."""
    before, total = now - EVENTS_KEPT, 0
    for company_id, lane in await lane_store.list_old_lanes(database, before=before):
        while count := await delivery_store.delete_old(
            database, company_id, lane, before=before, rows_max=DELETED_AT_ONCE_MAX
        ):
            total += count
    return total


async def list_deliveries(
    db: Connection,
    place: Place,
    endpoint_id: str,
    request: PageRequest,
    wanted: listing.DeliveryFilter,
) -> listing.DeliveryPage:
    """Show a page of the deliveries to an endpoint."""
    endpoint = await get(db, place, endpoint_id)
    page = await listing.list_deliveries(db, place.company_id, endpoint_id, request, wanted)
    if endpoint.is_enabled:
        return page
    # Nothing is planned until it is enabled again.
    waiting = [replace(delivery, due_at=None) for delivery in page.deliveries]
    return dataclasses.replace(page, deliveries=waiting)


async def search_deliveries(
    db: Connection, place: Place, wanted: Search, *, rows_max: int
) -> Found:
    """Show a page of the deliveries to all addresses of a company."""
    return await search(db, place.company_id, place.environment, wanted, rows_max=rows_max)


async def find_by_event(db: Connection, place: Place, event_id: str) -> str | None:
    """Find the newest delivery of an event."""
    return await find_newest_of(db, place.company_id, place.environment, event_id)


async def healths(
    db: Connection, place: Place, endpoint_ids: Sequence[str], *, now: datetime
) -> Mapping[str, Health]:
    """How addresses did in the last day."""
    return await find_healths(db, place.company_id, endpoint_ids, since=now - HEALTH_TIME)


async def get_delivery(db: Connection, place: Place, delivery_id: str) -> Delivery:
    """Find a delivery, or refuse."""
    found = await listing.find_delivery(db, place.company_id, place.environment, delivery_id)
    if found is None:
        raise Refusal(ErrorCode.DELIVERY_NOT_FOUND)
    return found


async def resend(db: Connection, place: Place, delivery_id: str, *, now: datetime) -> Delivery:
    """Try a delivery again from the start, with the same event under the same id."""
    is_renewed = await delivery_store.renew_delivery(
        db, place.company_id, place.environment, delivery_id, now=now
    )
    if is_renewed is None:
        raise Refusal(ErrorCode.DELIVERY_NOT_FOUND)
    if not is_renewed:
        raise Refusal(ErrorCode.INVALID_STATE, NOT_ENABLED)
    return await get_delivery(db, place, delivery_id)


async def resend_failed(db: Connection, place: Place, wanted: Search, *, now: datetime) -> int:
    """Try again what has failed and a search finds, the newest first, a bounded number of it."""
    failed = replace(wanted, sought=Sought.FAILED, cursor=None)
    found = await search_deliveries(db, place, failed, rows_max=RESENT_AT_ONCE_MAX)
    return await delivery_store.renew_deliveries(
        db,
        place.company_id,
        place.environment,
        [each.delivery.delivery_id for each in found.sightings],
        now=now,
    )


async def list_health(db: Connection, place: Place) -> Sequence[tuple[Endpoint, datetime | None]]:
    """A company's endpoints, each with since when it has been failing, if it is."""
    endpoints = await store.list_endpoints(db, place.company_id, place.environment)
    names = [each.endpoint_id for each in endpoints]
    failing = await lane_store.list_failing(db, place.company_id, names) if names else {}
    return [(each, failing.get(each.endpoint_id)) for each in endpoints]


async def deliveries_of(
    db: Connection, place: Place, entity_ids: Sequence[str], *, postback_url: str | None
) -> Sequence[Delivery]:
    """What was told of records, to the endpoints that are registered and to their postbackUrl."""
    endpoints = await store.list_endpoints(db, place.company_id, place.environment)
    lanes = [each.endpoint_id for each in endpoints]
    if postback_url is not None:
        lanes.append(postback_lane(place.environment, postback_url))
    return await listing.list_deliveries_of(db, place.company_id, entity_ids, lanes)


async def replay(
    db: Connection,
    place: Place,
    endpoint_id: str,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    events_max: int | None = None,
) -> int:
    """Tell an endpoint once more all that it wants to hear of a time; says how many events."""
    endpoint = await get(db, place, endpoint_id)
    if not endpoint.is_enabled:
        raise Refusal(ErrorCode.INVALID_STATE, NOT_ENABLED)
    total, last = 0, delivery_store.EventKey(start)
    # In parts: a month of events is more than one statement should hold.
    while True:
        count, last = await delivery_store.replay_events(
            db,
            place.company_id,
            place.environment,
            endpoint_id,
            endpoint.events,
            start=start,
            end=end,
            after=last,
            rows_max=REPLAYED_AT_ONCE_MAX,
            now=now,
        )
        total += count
        if count < REPLAYED_AT_ONCE_MAX or (events_max is not None and total >= events_max):
            return total


async def list_events(
    db: Connection, place: Place, request: PageRequest, *, kind: str | None, now: datetime
) -> listing.EventPage:
    """Show a page of what happened."""
    return await listing.list_events(
        db, place.company_id, place.environment, request, kind=kind, since=now - EVENTS_KEPT
    )


async def events_since(db: Connection, place: Place, since: datetime) -> Sequence[Event]:
    """What happened since a moment, the oldest first."""
    return await listing.list_since(
        db, place.company_id, place.environment, since=since, rows_max=REPLAYED_AT_ONCE_MAX
    )


async def postback_secrets(db: Connection, sealer: Sealer, place: Place) -> Secrets:
    """What a company's postbacks are signed with, made when it is first needed."""
    found = await store.find_postback_secrets(db, place.company_id, place.environment)
    if found is not None:
        return found
    sealed = seal_secret(sealer, new_secret())
    await store.insert_postback_secret(db, place.company_id, place.environment, sealed)
    made = await store.find_postback_secrets(db, place.company_id, place.environment)
    assert made is not None
    return made


async def rotate_postback_secret(
    db: Connection, sealer: Sealer, place: Place, *, now: datetime
) -> None:
    """Give a company another secret for its postbacks; for a day the old one signs as well."""
    await postback_secrets(db, sealer, place)
    await store.replace_postback_secret(
        db,
        place.company_id,
        place.environment,
        seal_secret(sealer, new_secret()),
        old_until=now + OLD_SECRET_KEPT,
    )


def seal_secret(sealer: Sealer, secret: str) -> bytes:
    """Make a secret unreadable at rest."""
    return sealer.seal(secret.encode(), purpose=SECRET_PURPOSE)


def open_secret(sealer: Sealer, sealed: bytes) -> str:
    """Read a secret that was kept."""
    plain = sealer.open(sealed, purpose=SECRET_PURPOSE)
    assert plain is not None, "a secret of webhooks was sealed with another pepper"
    return plain.decode()


SECRET_PURPOSE: Final = b"webhook secret"


def _own_change(
    endpoint: Endpoint, kind: tuple[str, str], sequence: int, *, now: datetime
) -> Change:
    group, status = kind
    shown = {
        "id": endpoint.endpoint_id,
        "url": endpoint.url,
        "enabled": endpoint.is_enabled,
        "disabledReason": endpoint.disabled_reason,
        "createdAt": public_time(endpoint.created_at),
    }
    return Change(
        company_id=endpoint.company_id,
        environment=endpoint.environment,
        entity_id=endpoint.endpoint_id,
        sequence=sequence,
        group=group,
        status=status,
        previous_status=None,
        is_first_time=False,
        data=msgspec.json.encode(shown),
        at=now,
    )


async def _lock(block: Connection, place: Place, endpoint_id: str) -> Endpoint:
    endpoint = await store.lock_endpoint(block, place.company_id, place.environment, endpoint_id)
    if endpoint is None:
        raise Refusal(ErrorCode.WEBHOOK_NOT_FOUND)
    return endpoint
