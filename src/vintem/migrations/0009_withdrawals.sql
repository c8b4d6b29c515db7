-- Money going out: the record, what it is held to, who decided, and what the provider told.

alter table company
    add column withdrawals_paused boolean not null default false,
    -- Null: no limit. All amounts are what is debited, fee included.
    add column withdrawal_cents_max bigint check (withdrawal_cents_max >= 0),
    add column withdrawal_daily_cents_max bigint check (withdrawal_daily_cents_max >= 0),
    add column withdrawal_automatic_cents_max bigint check (withdrawal_automatic_cents_max >= 0),
    add column approves_new_destinations boolean not null default false,
    add column approves_crypto boolean not null default false;

create table platform_switch (
    name text collate "C" primary key check (name in ('withdrawals_paused')),
    is_on boolean not null
);
comment on table platform_switch is 'reference: what is stopped for every company at once';

create table withdrawal (
    company_id bigint not null,
    withdrawal_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    status text collate "C" not null,
    method text collate "C" not null check (method in ('pix', 'crypto')),
    amount bigint not null check (amount between 100 and 9999999999),
    fee bigint not null check (fee >= 0),
    net_amount bigint not null check (net_amount >= 100),
    total_debited bigint not null check (total_debited = net_amount + fee),
    external_ref text collate "C",
    -- Whom it goes to: sealed for the provider, digested to be recognised.
    destination_sealed bytea not null,
    destination_digest bytea not null,
    requested_by text collate "C" not null,
    idempotency_key text collate "C" not null,
    fingerprint bytea not null,
    sequence bigint not null,
    -- The record as it was made, as lists show it, as JSON text.
    details text not null,
    -- What a crypto withdrawal buys: the coin on its network, in its smallest unit, and at what rate.
    asset text collate "C",
    asset_units numeric(38, 0) check (asset_units > 0),
    exchange_rate text collate "C",
    rate_source text collate "C",
    quoted_at timestamptz,
    -- How the provider knows it: written before the provider is asked, and never another one.
    request_id text collate "C",
    -- Whose turn it is: each claim takes the next number, and only its holder writes an answer down.
    fence bigint not null default 0,
    asked bigint not null default 0,
    due_at timestamptz,
    failure_code text collate "C",
    failure_reason text,
    end_to_end_id text collate "C",
    tx_hash text collate "C",
    confirmations bigint,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    processed_at timestamptz,
    completed_at timestamptz,
    cancelled_at timestamptz,
    primary key (company_id, withdrawal_id),
    unique (company_id, environment, idempotency_key),
    unique (company_id, request_id),
    check ((method = 'crypto') = (asset is not null)),
    check ((asset is null) = (asset_units is null) and (asset is null) = (exchange_rate is null)
        and (asset is null) = (rate_source is null) and (asset is null) = (quoted_at is null)),
    check ((request_id is not null) = (processed_at is not null))
) with (toast_tuple_target = 8160, fillfactor = 85);
create index withdrawal_newest on withdrawal
    (company_id, environment, created_at desc, withdrawal_id desc);
create index withdrawal_status on withdrawal
    (company_id, environment, status, created_at desc, withdrawal_id desc);
create index withdrawal_external_ref on withdrawal
    (company_id, environment, external_ref, created_at desc, withdrawal_id desc)
    where external_ref is not null;
create index withdrawal_destination on withdrawal (company_id, environment, destination_digest)
    where status = 'completed';
create index withdrawal_due on withdrawal (company_id, due_at) where due_at is not null;
comment on table withdrawal is
    'distributed: money going out; due_at is when the worker must send it or ask about it';

create table withdrawal_history (
    company_id bigint not null,
    withdrawal_id text collate "C" not null,
    sequence bigint not null,
    from_status text collate "C",
    to_status text collate "C" not null,
    created_at timestamptz not null,
    primary key (company_id, withdrawal_id, sequence)
);
comment on table withdrawal_history is 'distributed: every status a withdrawal has entered';

create table withdrawal_day (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    day date not null,
    total bigint not null check (total >= 0),
    primary key (company_id, environment, day)
) with (fillfactor = 50);
comment on table withdrawal_day is
    'distributed: what the withdrawals made on a business day debit, those that came to nothing aside';

create function refuse_rewriting() returns trigger language plpgsql as $$
begin
    raise exception '% is never changed', tg_table_name;
end
$$;

create table decision_log (
    company_id bigint not null,
    decision_id text collate "C" not null,
    subject text collate "C" not null,
    decision text collate "C" not null check (decision in (
        'approval_required', 'approved', 'rejected', 'paused', 'resumed', 'rules_changed'
    )),
    decided_by text collate "C" not null,
    reason text not null,
    created_at timestamptz not null,
    primary key (company_id, decision_id)
);
create index decision_log_subject on decision_log (company_id, subject);
create trigger decision_log_is_append_only before update or delete on decision_log
    for each row execute function refuse_rewriting();
comment on table decision_log is
    'distributed: who decided what about money going out, and why; company 0 is the whole platform';

create table payout_notice (
    company_id bigint not null,
    notice_id text collate "C" not null,
    request_id text collate "C" not null,
    received_at timestamptz not null,
    primary key (company_id, notice_id)
);
comment on table payout_notice is 'distributed: what providers told by themselves, each word once';

-- The ledger: money held for a withdrawal, and what is bought with it.

alter table hold
    drop constraint hold_kind_check,
    add constraint hold_kind_check check (kind in ('dispute', 'block', 'refund', 'withdrawal'));

alter table posting
    drop constraint posting_codes_check,
    add constraint posting_codes_check check (codes <@ array[
        'available', 'blocked', 'debt', 'dispute', 'payout', 'refund', 'release', 'reserve',
        'fee', 'bank', 'receivable', 'suspense', 'fx'
    ] and array_position(codes, null) is null);

create function sum_of(amounts numeric[]) returns numeric
    language sql immutable strict parallel safe
    return (select coalesce(sum(amount), 0) from unnest(amounts) as amount);

create table asset_posting (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    kind text collate "C" not null,
    reference text collate "C" not null,
    asset text collate "C" not null,
    codes text[] collate "C" not null,
    amounts numeric(38, 0)[] not null,
    exchange_rate text collate "C" not null,
    rate_source text collate "C" not null,
    quoted_at timestamptz not null,
    created_at timestamptz not null,
    primary key (company_id, kind, reference),
    check (sum_of(amounts) = 0),
    check (cardinality(amounts) >= 2 and array_position(amounts, 0) is null),
    check (array_position(amounts, null) is null),
    check (codes <@ array['fx', 'crypto'] and array_position(codes, null) is null),
    check (cardinality(codes) = cardinality(amounts))
);
create trigger asset_posting_is_append_only before update or delete on asset_posting
    for each row execute function refuse_rewriting();
comment on table asset_posting is
    'distributed: the other half of a posting that changes reais into an asset, in its smallest unit';

-- The sandbox's provider keeps its own books, as a bank would: no statement of ours joins them.

create table simulated_payout (
    company_id bigint not null,
    request_id text collate "C" not null,
    amount bigint not null,
    network text collate "C",
    plan text collate "C" not null check (plan in ('pay', 'reject', 'pay_late', 'reject_late')),
    queries bigint not null default 0,
    outcome text collate "C" check (outcome in ('executed', 'rejected')),
    executions bigint not null default 0,
    failure_code text collate "C",
    accepted_at timestamptz not null,
    settles_at timestamptz not null,
    settled_at timestamptz,
    primary key (company_id, request_id),
    check ((outcome is null) = (settled_at is null))
);
comment on table simulated_payout is
    'distributed: what the sandbox''s provider was asked to pay, and what it did, once a request';
