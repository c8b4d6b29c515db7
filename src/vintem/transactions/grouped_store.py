"""The SQL of payments of many companies at once: each statement is a commit of its own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from vintem.ledger.captures import Gain, Place, place
from vintem.ledger.model import Posting, ScheduledRelease, Scope
from vintem.ledger.statements import SCHEDULE_RELEASES, WRITE_CAPTURES
from vintem.runtime.db import Connection
from vintem.transactions.model import NewTransaction, Transaction
from vintem.webhooks.model import Event
from vintem.webhooks.statements import KEEP_EVENTS

CREATE: Final = f"""
with d as (
    select * from unnest($1::new_payment[])
),
t as (
    insert into transaction (
        company_id, transaction_id, environment, status, payment_method, amount, fee, installments,
        external_ref, document_digest, document_sealed, idempotency_key, fingerprint, details,
        terms, created_at, updated_at, expires_at, due_at, sequence, checkout_session_id)
    select company_id, transaction_id, environment, status, payment_method, amount, fee,
        installments, external_ref, document_digest, document_sealed, idempotency_key, fingerprint,
        details, terms, created_at, created_at, expires_at, due_at, 1, checkout_session_id
    from d
    on conflict do nothing
    returning company_id, transaction_id, status, created_at
),
h as (
    insert into transaction_history (
        company_id, transaction_id, sequence, to_status, created_at)
    select company_id, transaction_id, 1, status, created_at from t
),
told as (
    select d.company_id, d.transaction_id as entity_id, 1 as sequence, d.event_id, d.kind,
        d.environment, d.body, d.created_at, d.postback_url
    from d join t on t.company_id = d.company_id and t.transaction_id = d.transaction_id
),
{KEEP_EVENTS}
select transaction_id from t
"""  # noqa: S608 - put together from constants

# PostgreSQL writes in the reverse order: the balances come last, and are locked for a short time.
CONFIRM: Final = f"""
with asked as (
    select * from unnest($1::paid_payment[])
),
paid as (
    update transaction t set status = 'paid', status_reason = d.status_reason,
        sequence = d.sequence + 1, end_to_end_id = d.end_to_end_id, paid_at = $2,
        updated_at = $2, due_at = null
    from asked d
    where t.company_id = d.company_id and t.transaction_id = d.transaction_id
        and t.status = d.was and t.sequence = d.sequence
    returning d.*, t.environment
),
captured as (
    select company_id, environment, transaction_id as reference, source, total, available, fee,
        release, reserve, available_at, available_after, release_at, reserve_at, gain,
        $2::timestamptz as created_at
    from paid
),
gain as (
    select * from unnest($3::ledger_gain[])
),
{WRITE_CAPTURES},
waiting as (
    select * from unnest($4::new_release[])
    -- Days are added to under the lock of the accounts, as everywhere.
    where (select count(*) from locked) > 0
),
{SCHEDULE_RELEASES},
h as (
    insert into transaction_history (
        company_id, transaction_id, sequence, from_status, to_status, reason, created_at)
    select company_id, transaction_id, sequence + 1, was, 'paid', status_reason, $2 from paid
),
told as (
    select company_id, transaction_id as entity_id, sequence + 1 as sequence, event_id,
        'transaction.paid' as kind, environment, body, $2::timestamptz as created_at,
        postback_url
    from paid
),
{KEEP_EVENTS}
select count(*) from paid
"""  # noqa: S608 - put together from constants


class Confirmation(msgspec.Struct, frozen=True):
    """A payment as it was read, as it is once paid, and what is written with it."""

    was: Transaction
    paid: Transaction
    record: bytes
    event: Event
    posting: Posting
    releases: Sequence[ScheduledRelease]


async def create(
    db: Connection, new: Sequence[NewTransaction], events: Sequence[Event]
) -> set[str]:
    """Add payments, their history and their events; give the ids of those whose key was free."""
    rows = await db.fetch(
        CREATE,
        [_new_payment(each, event) for each, event in zip(new, events, strict=True)],
    )
    return {row["transaction_id"] for row in rows}


async def confirm(db: Connection, confirmations: Sequence[Confirmation], *, now: datetime) -> None:
    """Write payments as paid, with history, event, posting, balances and releases: all, or none.

    It fails as busy when one has changed since it was read, or its company owes us by now.
    """
    places, gains = place([each.posting for each in confirmations])
    await db.fetch(
        CONFIRM,
        [_paid_payment(each, at) for each, at in zip(confirmations, places, strict=True)],
        now,
        [_ledger_gain(scope, gain) for scope, gain in gains.items()],
        [_new_release(release) for each in confirmations for release in each.releases],
    )


# Each of these is a row of the type of its name, in the order of the type.


def _new_payment(new: NewTransaction, event: Event) -> tuple[object, ...]:
    made = new.transaction
    return (
        made.company_id,
        made.transaction_id,
        made.environment,
        made.status,
        made.payment_method,
        made.amount,
        made.fee,
        made.installments,
        new.external_ref,
        new.document_digest,
        made.document_sealed,
        made.idempotency_key,
        made.fingerprint,
        made.details,
        msgspec.json.encode(made.terms).decode(),
        made.created_at,
        made.expires_at,
        made.due_at,
        event.event_id,
        event.kind,
        event.body.decode(),
        event.postback_url,
        made.checkout_session_id,
    )


def _paid_payment(confirmation: Confirmation, at: Place) -> tuple[object, ...]:
    was, paid, event = confirmation.was, confirmation.paid, confirmation.event
    return (
        paid.company_id,
        paid.transaction_id,
        was.status,
        was.sequence,
        paid.status_reason,
        paid.end_to_end_id,
        event.event_id,
        event.body.decode(),
        event.postback_url,
        at.source,
        at.total,
        at.available,
        at.fee,
        at.release,
        at.reserve,
        at.available_at,
        at.available_after,
        at.release_at,
        at.reserve_at,
        at.gain,
    )


def _ledger_gain(scope: Scope, gain: Gain) -> tuple[object, ...]:
    return (
        gain.number,
        scope.company_id,
        scope.environment,
        gain.available,
        gain.available_legs,
        gain.release,
        gain.release_legs,
        gain.reserve,
        gain.reserve_legs,
    )


def _new_release(release: ScheduledRelease) -> tuple[object, ...]:
    return (
        release.scope.company_id,
        release.scope.environment,
        release.transaction_id,
        release.account,
        release.part,
        release.due_on,
        release.amount,
    )
