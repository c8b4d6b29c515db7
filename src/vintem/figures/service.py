"""Counting what companies sell, and telling it."""

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from vintem.figures import customer_store, store
from vintem.figures.model import (
    EVENTS_AT_ONCE_MAX,
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    Customer,
    DayFigures,
    Stretch,
    difference,
)
from vintem.kit.paging import Cursor
from vintem.ledger.model import Scope
from vintem.runtime.crypto import Sealer
from vintem.runtime.db import Connection, Database, DatabaseUnavailableError

log = structlog.get_logger()

SCOPES_AT_ONCE_MAX: Final = 100
STRETCHES_IN_A_ROW_MAX: Final = 20
"""After so many stretches of one company the others have their turn."""
CHECKS_AT_ONCE_MAX: Final = 200
EVENTS_OF_A_VISIT_MAX: Final = 500
CUSTOMERS_OF_EMAIL_MAX: Final = 20
EMAIL_PURPOSE: Final = b"e-mail of a customer"
_DIGEST: Final = re.compile(r"(?:[0-9a-f]{2}){1,32}")
_TICK: Final = timedelta(microseconds=1)


class _Buyer(msgspec.Struct, frozen=True):
    email: str = ""


class _Record(msgspec.Struct, frozen=True):
    customer: _Buyer


async def begin_new(db: Connection, *, now: datetime) -> int:
    """Begin to count for companies that are new."""
    return await store.insert_cursors(db, now=now)


async def count_due(database: Database, sealer: Sealer, *, now: datetime) -> int:
    """Count what happened to the payments of companies that are due; says how many events."""
    events = 0
    for scope in await store.list_due(database, now=now, rows_max=SCOPES_AT_ONCE_MAX):
        try:
            for _ in range(STRETCHES_IN_A_ROW_MAX):
                counted, is_done = await count(database, sealer, scope, now=now)
                events += counted
                if is_done:
                    break
        except DatabaseUnavailableError:
            raise
        except Exception:
            # One company's trouble must not keep the others waiting.
            log.exception("figures could not be counted", company_id=scope.company_id)
    return events


async def refresh(database: Database, sealer: Sealer, scope: Scope, *, now: datetime) -> bool:
    """Count what is new for somebody who looks; false when the worker has more to count."""
    until = await store.find_counted_until(database, scope)
    if until is None:
        await store.insert_cursor(database, scope, now=now)
    elif await store.find_last_moment(database, scope, since=until, events_max=1) is None:
        return True
    _, is_done = await count(
        database, sealer, scope, now=now, events_max=EVENTS_OF_A_VISIT_MAX, is_checking=False
    )
    return is_done


async def count(
    database: Database,
    sealer: Sealer,
    scope: Scope,
    *,
    now: datetime,
    events_max: int = EVENTS_AT_ONCE_MAX,
    is_checking: bool = True,
) -> tuple[int, bool]:
    """Count a stretch of what is new; says how many events that was, and whether that was all."""

    async def work(block: Connection) -> tuple[int, bool]:
        cursor = await store.lock_cursor(block, scope)
        if cursor is None:
            return 0, True
        counted_until, pause_seconds = cursor
        last = await store.find_last_moment(
            block, scope, since=counted_until, events_max=events_max
        )
        events, is_done = 0, True
        if last is None:
            pause_seconds = min(2 * pause_seconds, PAUSE_SECONDS_MAX)
        else:
            is_done, pause_seconds = not last[1], PAUSE_SECONDS_MIN
            until_at = last[0] + _TICK
            stretch = await _count_stretch(block, sealer, scope, counted_until, until_at, now=now)
            events, counted_until = stretch.events, until_at
        if is_checking:
            await _check_stretches(block, sealer, scope, now=now)
        await store.update_cursor(
            block,
            scope,
            counted_until=counted_until,
            look_at=now + timedelta(seconds=pause_seconds) if is_done else now,
            pause_seconds=pause_seconds,
        )
        return events, is_done

    return await database.atomically(work)


async def list_days(
    db: Connection, scope: Scope, *, first: date, last: date
) -> Sequence[DayFigures]:
    """The figures of a company's days, the oldest first."""
    return await store.list_days(db, scope, first=first, last=last)


async def list_customers(
    db: Connection,
    scope: Scope,
    *,
    rows_max: int,
    before: Cursor | None = None,
    after: Cursor | None = None,
) -> Sequence[Customer]:
    """A page of a company's buyers, those who bought last first."""
    before, after = _known(before), _known(after)
    if after is None:
        return await customer_store.list_customers(db, scope, before=before, rows_max=rows_max)
    found = await customer_store.list_customers_after(db, scope, after=after, rows_max=rows_max)
    return found[::-1]


async def find_customer(db: Connection, scope: Scope, customer_id: str) -> Customer | None:
    """Find a buyer by how addresses of pages name them."""
    try:
        digest = bytes.fromhex(customer_id)
    except ValueError:
        return None
    found = await customer_store.find_customers(db, scope, [digest])
    return found[0] if found and found[0].customer_id == customer_id else None


async def find_by_document(db: Connection, scope: Scope, digest: bytes) -> Sequence[Customer]:
    """The buyer of a document."""
    return await customer_store.find_customers(db, scope, [digest])


async def find_by_email(
    db: Connection, sealer: Sealer, scope: Scope, email: str
) -> Sequence[Customer]:
    """The buyers who have given an e-mail address."""
    digests = await customer_store.list_documents_of_email(
        db, scope, _email_digest(sealer, scope, email), rows_max=CUSTOMERS_OF_EMAIL_MAX
    )
    return await customer_store.find_customers(db, scope, digests) if digests else ()


async def _count_stretch(
    block: Connection,
    sealer: Sealer,
    scope: Scope,
    from_at: datetime,
    until_at: datetime,
    *,
    now: datetime,
) -> Stretch:
    # Counted before they are added up: one that comes in between is found by the next check.
    events = await store.count_events(block, scope, from_at=from_at, until_at=until_at)
    parts, digests = await store.sum_events(block, scope, from_at=from_at, until_at=until_at)
    stretch = Stretch(from_at, until_at, events, parts, now)
    if parts:
        await store.add_to_days(block, scope, parts)
        await _count_customers(block, sealer, scope, digests)
    await store.insert_stretch(block, scope, stretch)
    return stretch


async def _check_stretches(
    block: Connection, sealer: Sealer, scope: Scope, *, now: datetime
) -> None:
    """Look again at what was counted, and count anew where something came late."""
    due = await store.list_stretches_due(block, scope, now=now, rows_max=CHECKS_AT_ONCE_MAX)
    for stretch in due:
        from_at, until_at = stretch.from_at, stretch.until_at
        checked = replace(stretch, checks=stretch.checks + 1)
        events = await store.count_events(block, scope, from_at=from_at, until_at=until_at)
        if events != stretch.events:
            parts, digests = await store.sum_events(
                block, scope, from_at=from_at, until_at=until_at
            )
            changes = difference(parts, stretch.counted)
            if changes:
                await store.add_to_days(block, scope, changes)
            await _count_customers(block, sealer, scope, digests)
            checked = replace(checked, events=events, counted=parts)
        await store.update_stretch(block, scope, checked)


async def _count_customers(
    block: Connection, sealer: Sealer, scope: Scope, digests: set[bytes]
) -> None:
    if not digests:
        return
    found = await customer_store.sum_customers(block, scope, sorted(digests))
    await customer_store.upsert_customers(block, scope, [customer for customer, _ in found])
    await customer_store.insert_emails(
        block,
        scope,
        [
            (_email_digest(sealer, scope, email), customer.document_digest)
            for customer, details in found
            if (email := _email_in(details))
        ],
    )


def _known(cursor: Cursor | None) -> Cursor | None:
    """Take a cursor that a page of buyers has made; any other asks for the first page."""
    return cursor if cursor is not None and _DIGEST.fullmatch(cursor.id) else None


def _email_in(details: str) -> str:
    return msgspec.json.decode(details, type=_Record).customer.email


def _email_digest(sealer: Sealer, scope: Scope, email: str) -> bytes:
    purpose = b"%b %d" % (EMAIL_PURPOSE, scope.company_id)
    return sealer.digest(email.strip().lower().encode(), purpose=purpose)
