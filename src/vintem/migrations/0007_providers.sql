-- Those who move money for us: what they were asked, what they told us, and the sandbox's own one.

-- A payment is answered when its provider has said the first word. Until then its sequence is 0: it
-- has no history and no event, and nobody but the caller's own retry has heard of it. A payment that
-- nobody had to be asked about is answered in the commit that creates it, and leaves this empty.
alter table transaction add column answered_at timestamptz;
-- Nothing comes by itself any more: whatever happens to a payment later, its provider tells us.
update transaction set due_at = null where steps <> '[]';
alter table transaction drop column steps;

create table provider_request (
    company_id bigint not null,
    transaction_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    provider text collate "C" not null,
    correlation_id text not null,
    asked_at timestamptz not null,
    attempts bigint not null default 0,
    ask_at timestamptz,
    primary key (company_id, transaction_id)
);
create index provider_request_due on provider_request (company_id, ask_at)
    where ask_at is not null;
comment on table provider_request is
    'distributed: what a provider was asked under the id of a payment; ask_at is when the worker must ask what became of it';

create table provider_callback (
    company_id bigint not null,
    provider text collate "C" not null,
    callback_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    kind text collate "C" not null,
    reference text collate "C" not null,
    transaction_id text collate "C",
    sequence bigint,
    amount bigint,
    end_to_end_id text collate "C",
    code text,
    message text,
    state text collate "C" not null
        check (state in ('waiting', 'applied', 'ignored', 'unclaimed')),
    cause text collate "C",
    look_at timestamptz,
    received_at timestamptz not null,
    primary key (company_id, provider, callback_id),
    check ((state = 'waiting') = (look_at is not null))
);
create index provider_callback_transaction on provider_callback (company_id, transaction_id)
    where transaction_id is not null;
create index provider_callback_transfer on provider_callback
    (company_id, environment, end_to_end_id) where end_to_end_id is not null;
create index provider_callback_waiting on provider_callback (company_id, look_at)
    where look_at is not null;
comment on table provider_callback is
    'distributed: what providers told us, each once by its id, and what became of it';

create table simulator_charge (
    company_id bigint not null,
    reference text collate "C" not null,
    account text collate "C" not null,
    amount bigint not null,
    installments bigint not null,
    last_four text collate "C" not null check (length(last_four) = 4),
    queries bigint not null default 0,
    charged_at timestamptz not null,
    primary key (company_id, reference)
);
comment on table simulator_charge is
    'distributed: the simulated acquirer''s own book of charges, of which the payments know nothing';

create table simulator_callback (
    company_id bigint not null,
    callback_id text collate "C" not null,
    reference text collate "C" not null,
    sequence bigint not null,
    body text not null,
    due_at timestamptz,
    attempts bigint not null default 0,
    repeats_left bigint not null default 0,
    primary key (company_id, callback_id)
);
create index simulator_callback_due on simulator_callback (company_id, due_at)
    where due_at is not null;
comment on table simulator_callback is
    'distributed: what the simulated acquirer has yet to tell us, or has told; due_at is empty once it was heard';
