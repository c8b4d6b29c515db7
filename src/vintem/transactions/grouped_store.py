"""The SQL of payments of many companies at once: each statement is a commit of its own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from vintem.ledger.model import Posting, ScheduledRelease
from vintem.ledger.statements import (
    FIND_READY,
    LOCK_READY,
    SCHEDULE_RELEASES,
    WRITE_POSTINGS,
)
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
with d as (
    select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[],
        $7::text[], $8::text[], $9::text[], $20::text[]) with ordinality as d (
        company_id, environment, transaction_id, was, sequence, status_reason, end_to_end_id,
        event_id, body, postback_url, number)
),
unchanged as materialized (
    select d.* from d join transaction t on t.company_id = d.company_id
        and t.transaction_id = d.transaction_id
    where t.status = d.was and t.sequence = d.sequence
    order by t.company_id, t.transaction_id
    for update of t
),
asked as (
    select * from unnest($11::bigint[], $12::bigint[], $13::text[], $14::bigint[]) as l (
        number, line, code, amount)
),
credited as (select company_id, environment from unchanged),
{FIND_READY},
paid as materialized (
    select u.* from unchanged u
    join ready r on r.company_id = u.company_id and r.environment = u.environment
),
head as (
    select number, 'capture' as kind, transaction_id as reference, $10::timestamptz as created_at
    from paid
),
leg as (
    select l.number, l.line, p.company_id, p.environment, l.code, l.amount
    from asked l join paid p on p.number = l.number
),
{LOCK_READY},
{WRITE_POSTINGS},
waiting as (
    select p.company_id, p.environment, p.transaction_id, r.account, r.part, r.due_on, r.amount
    from unnest($15::bigint[], $16::text[], $17::bigint[], $18::date[], $19::bigint[]) as r (
        number, account, part, due_on, amount)
    join paid p on p.number = r.number
    -- Days are added to under the lock of the accounts, as everywhere.
    where (select count(*) from locked) > 0
),
{SCHEDULE_RELEASES},
t as (
    update transaction t set status = 'paid', status_reason = p.status_reason,
        sequence = p.sequence + 1, end_to_end_id = p.end_to_end_id, paid_at = $10,
        updated_at = $10, due_at = null
    from paid p
    where t.company_id = p.company_id and t.transaction_id = p.transaction_id
),
h as (
    insert into transaction_history (
        company_id, transaction_id, sequence, from_status, to_status, reason, created_at)
    select company_id, transaction_id, sequence + 1, was, 'paid', status_reason, $10 from paid
),
told as (
    select company_id, transaction_id as entity_id, sequence + 1 as sequence, event_id,
        'transaction.paid' as kind, environment, body, $10::timestamptz as created_at,
        postback_url
    from paid
),
{KEEP_EVENTS}
select transaction_id from paid
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


async def confirm(
    db: Connection, confirmations: Sequence[Confirmation], *, now: datetime
) -> set[str]:
    """Write payments as paid, with history, event, posting, balances and releases.

    Those that have changed since they were read, whose company owes us, or whose accounts are not
    open yet stay untouched; gives the ids of the others.
    """
    paid = [each.paid for each in confirmations]
    numbered = list(enumerate(confirmations, 1))
    legs = [
        (number, line, leg)
        for number, each in numbered
        for line, leg in enumerate(each.posting.legs)
    ]
    releases = [(number, release) for number, each in numbered for release in each.releases]
    rows = await db.fetch(
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
        now,
        [number for number, _, _ in legs],
        [line for _, line, _ in legs],
        [leg.account for _, _, leg in legs],
        [leg.amount for _, _, leg in legs],
        [number for number, _ in releases],
        [release.account for _, release in releases],
        [release.part for _, release in releases],
        [release.due_on for _, release in releases],
        [release.amount for _, release in releases],
        [each.event.postback_url for each in confirmations],
    )
    return {row["transaction_id"] for row in rows}
