-- Money coming in, what happened to it, and the events that tell integrators.

alter table company
    add column city text not null default 'SAO PAULO',
    add column reserve_basis_points bigint not null default 0
        check (reserve_basis_points between 0 and 10000),
    add column reserve_days bigint not null default 30 check (reserve_days between 1 and 365),
    add column pix_release_days bigint not null default 0 check (pix_release_days between 0 and 365),
    add column boleto_release_days bigint not null default 1
        check (boleto_release_days between 0 and 365),
    add column card_release_days bigint not null default 30
        check (card_release_days between 0 and 365),
    add column dispute_fee_cents bigint not null default 0 check (dispute_fee_cents >= 0);

create table transaction (
    company_id bigint not null,
    transaction_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    status text collate "C" not null,
    status_reason text collate "C",
    payment_method text collate "C" not null,
    amount bigint not null check (amount between 100 and 9999999999),
    fee bigint not null check (fee between 0 and amount),
    installments bigint not null check (installments between 1 and 12),
    refunded_amount bigint not null default 0 check (refunded_amount between 0 and amount),
    external_ref text collate "C",
    document_digest bytea not null,
    document_sealed bytea not null,
    idempotency_key text collate "C" not null,
    fingerprint bytea not null,
    sequence bigint not null,
    hold_reference text collate "C",
    -- The record as it was made, as lists show it, and what was agreed then, as JSON text.
    details text not null,
    terms text not null,
    -- The moves that will come by themselves, as JSON text; the first one at due_at.
    steps text not null default '[]',
    end_to_end_id text collate "C",
    created_at timestamptz not null,
    updated_at timestamptz not null,
    paid_at timestamptz,
    expires_at timestamptz,
    cancelled_at timestamptz,
    refunded_at timestamptz,
    due_at timestamptz,
    primary key (company_id, transaction_id),
    unique (company_id, environment, idempotency_key)
) with (toast_tuple_target = 8160, fillfactor = 85);
create index transaction_newest on transaction
    (company_id, environment, created_at desc, transaction_id desc);
create index transaction_status on transaction
    (company_id, environment, status, created_at desc, transaction_id desc);
create index transaction_external_ref on transaction
    (company_id, environment, external_ref, created_at desc, transaction_id desc)
    where external_ref is not null;
create index transaction_document on transaction
    (company_id, environment, document_digest, created_at desc, transaction_id desc);
create index transaction_due on transaction (company_id, due_at) where due_at is not null;
comment on table transaction is
    'distributed: payments; due_at is when the worker must look at one';

create table transaction_history (
    company_id bigint not null,
    transaction_id text collate "C" not null,
    sequence bigint not null,
    from_status text collate "C",
    to_status text collate "C" not null,
    reason text collate "C",
    created_at timestamptz not null,
    primary key (company_id, transaction_id, sequence)
);
comment on table transaction_history is 'distributed: every status a payment has entered';

create table refund (
    company_id bigint not null,
    refund_id text collate "C" not null,
    transaction_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    amount bigint not null check (amount > 0),
    status text collate "C" not null check (status in ('processing', 'completed', 'failed')),
    reason text,
    idempotency_key text collate "C" not null,
    fingerprint bytea not null,
    created_at timestamptz not null,
    completed_at timestamptz,
    primary key (company_id, refund_id),
    unique (company_id, transaction_id, idempotency_key)
);
comment on table refund is 'distributed: money given back, wholly or in part';

create table webhook_event (
    company_id bigint not null,
    entity_id text collate "C" not null,
    sequence bigint not null,
    event_id text collate "C" not null,
    kind text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    body text not null,
    created_at timestamptz not null,
    primary key (company_id, entity_id, sequence),
    unique (company_id, event_id)
) with (toast_tuple_target = 8160);
comment on table webhook_event is
    'distributed: what integrators are told, byte by byte, in the order of each record';
