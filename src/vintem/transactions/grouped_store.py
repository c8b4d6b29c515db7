"""The SQL of payments of many companies at once: each statement is a commit of its own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from vintem.ledger.captures import place
from vintem.ledger.model import Posting, ScheduledRelease
from vintem.ledger.statements import SCHEDULE_RELEASES, WRITE_CAPTURES
from vintem.runtime.db import Connection
from vintem.transactions.model import NewTransaction, Transaction
from vintem.webhooks.model import Event
from vintem.webhooks.statements import KEEP_EVENTS

CREATE: Final = f"""
with d as (
    select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[],
        $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::bytea[], $11::bytea[],
        $12::text[], $13::bytea[], $14::text[], $15::text[], $16::timestamptz[],
        $17::timestamptz[], $18::timestamptz[], $19::text[], $20::text[], $21::text[],
        $22::text[], $23::text[]) as d (
        company_id, transaction_id, environment, status, payment_method, amount, fee, installments,
        external_ref, document_digest, document_sealed, idempotency_key, fingerprint, details,
        terms, created_at, expires_at, due_at, event_id, kind, body, postback_url,
        checkout_session_id)
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
    select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[],
        $7::text[], $8::text[], $9::text[], $10::text[], $12::text[], $13::bigint[], $14::bigint[],
        $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[],
        $21::bigint[], $22::bigint[]) as d (
        company_id, environment, transaction_id, was, sequence, status_reason, end_to_end_id,
        event_id, body, postback_url, source, total, available, fee, release, reserve,
        available_at, available_after, release_at, reserve_at, gain)
),
paid as (
    update transaction t set status = 'paid', status_reason = d.status_reason,
        sequence = d.sequence + 1, end_to_end_id = d.end_to_end_id, paid_at = $11,
        updated_at = $11, due_at = null
    from asked d
    where t.company_id = d.company_id and t.transaction_id = d.transaction_id
        and t.status = d.was and t.sequence = d.sequence
    returning d.*
),
captured as (
    select company_id, environment, transaction_id as reference, source, total, available, fee,
        release, reserve, available_at, available_after, release_at, reserve_at, gain,
        $11::timestamptz as created_at
    from paid
),
gain as (
    select * from unnest($23::bigint[], $24::text[], $25::bigint[], $26::bigint[], $27::bigint[],
        $28::bigint[], $29::bigint[], $30::bigint[]) with ordinality as g (
        company_id, environment, available, available_legs, release, release_legs, reserve,
        reserve_legs, number)
),
{WRITE_CAPTURES},
waiting as (
    select * from unnest($31::bigint[], $32::text[], $33::text[], $34::text[], $35::bigint[],
        $36::date[], $37::bigint[]) as r (
        company_id, environment, transaction_id, account, part, due_on, amount)
    -- Days are added to under the lock of the accounts, as everywhere.
    where (select count(*) from locked) > 0
),
{SCHEDULE_RELEASES},
h as (
    insert into transaction_history (
        company_id, transaction_id, sequence, from_status, to_status, reason, created_at)
    select company_id, transaction_id, sequence + 1, was, 'paid', status_reason, $11 from paid
),
told as (
    select company_id, transaction_id as entity_id, sequence + 1 as sequence, event_id,
        'transaction.paid' as kind, environment, body, $11::timestamptz as created_at,
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
    made = [each.transaction for each in new]
    rows = await db.fetch(
        CREATE,
        [each.company_id for each in made],
        [each.transaction_id for each in made],
        [each.environment for each in made],
        [each.status for each in made],
        [each.payment_method for each in made],
        [each.amount for each in made],
        [each.fee for each in made],
        [each.installments for each in made],
        [each.external_ref for each in new],
        [each.document_digest for each in new],
        [each.document_sealed for each in made],
        [each.idempotency_key for each in made],
        [each.fingerprint for each in made],
        [each.details for each in made],
        [msgspec.json.encode(each.terms).decode() for each in made],
        [each.created_at for each in made],
        [each.expires_at for each in made],
        [each.due_at for each in made],
        [event.event_id for event in events],
        [event.kind for event in events],
        [event.body.decode() for event in events],
        [event.postback_url for event in events],
        [each.checkout_session_id for each in made],
    )
    return {row["transaction_id"] for row in rows}


async def confirm(db: Connection, confirmations: Sequence[Confirmation], *, now: datetime) -> None:
    """Write payments as paid, with history, event, posting, balances and releases: all, or none.

    It fails as busy when one has changed since it was read, or its company owes us by now.
    """
    paid = [each.paid for each in confirmations]
    places, gains = place([each.posting for each in confirmations])
    releases = [release for each in confirmations for release in each.releases]
    await db.fetch(
        CONFIRM,
        [each.company_id for each in paid],
        [each.environment for each in paid],
        [each.transaction_id for each in paid],
        [each.was.status for each in confirmations],
        [each.was.sequence for each in confirmations],
        [each.status_reason for each in paid],
        [each.end_to_end_id for each in paid],
        [each.event.event_id for each in confirmations],
        [each.event.body.decode() for each in confirmations],
        [each.event.postback_url for each in confirmations],
        now,
        [each.source for each in places],
        [each.total for each in places],
        [each.available for each in places],
        [each.fee for each in places],
        [each.release for each in places],
        [each.reserve for each in places],
        [each.available_at for each in places],
        [each.available_after for each in places],
        [each.release_at for each in places],
        [each.reserve_at for each in places],
        [each.gain for each in places],
        [scope.company_id for scope in gains],
        [scope.environment for scope in gains],
        [gain.available for gain in gains.values()],
        [gain.available_legs for gain in gains.values()],
        [gain.release for gain in gains.values()],
        [gain.release_legs for gain in gains.values()],
        [gain.reserve for gain in gains.values()],
        [gain.reserve_legs for gain in gains.values()],
        [release.scope.company_id for release in releases],
        [release.scope.environment for release in releases],
        [release.transaction_id for release in releases],
        [release.account for release in releases],
        [release.part for release in releases],
        [release.due_on for release in releases],
        [release.amount for release in releases],
    )
