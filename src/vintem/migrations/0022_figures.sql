-- How a company sells, day by day and buyer by buyer, so that no page adds up its payments.
--
-- A worker counts the events of each company in the order of their moments, stretch by stretch. What
-- is committed later than its moment says is found when the stretch is looked at again: its events
-- are more than were counted, and it is counted anew.

create table figures_cursor (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    -- Everything that happened before is counted, late comers aside.
    counted_until timestamptz not null,
    -- When the worker looks next; the longer nothing happens, the later.
    look_at timestamptz not null,
    pause_seconds bigint not null check (pause_seconds > 0),
    primary key (company_id, environment)
) with (fillfactor = 50);
create index figures_cursor_due on figures_cursor (look_at, company_id);
comment on table figures_cursor is
    'distributed: how far a company''s events are counted; look_at is when the worker must look';

create table figures_stretch (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    from_at timestamptz not null,
    until_at timestamptz not null,
    events bigint not null check (events >= 0),
    -- What was added to the days, as JSON text: taken off again when it is counted anew.
    counted text not null,
    counted_at timestamptz not null,
    checks bigint not null default 0,
    check_at timestamptz not null,
    primary key (company_id, environment, from_at),
    check (from_at < until_at)
);
create index figures_stretch_due on figures_stretch (company_id, environment, check_at);
comment on table figures_stretch is
    'distributed: a counted stretch of time to which events may still be added';

create table figures_day (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    day date not null,
    payment_method text collate "C" not null,
    created_count bigint not null default 0 check (created_count >= 0),
    created_cents bigint not null default 0 check (created_cents >= 0),
    paid_count bigint not null default 0 check (paid_count >= 0),
    paid_cents bigint not null default 0 check (paid_cents >= 0),
    failed_count bigint not null default 0 check (failed_count >= 0),
    failed_cents bigint not null default 0 check (failed_cents >= 0),
    refunded_count bigint not null default 0 check (refunded_count >= 0),
    refunded_cents bigint not null default 0 check (refunded_cents >= 0),
    disputed_count bigint not null default 0 check (disputed_count >= 0),
    disputed_cents bigint not null default 0 check (disputed_cents >= 0),
    primary key (company_id, environment, day, payment_method)
) with (fillfactor = 70);
comment on table figures_day is
    'distributed: what happened to a company''s payments on a day of Brasilia, by method';

create table figures_customer (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    -- As payments keep it; who it is, the last payment says.
    document_digest bytea not null,
    last_transaction_id text collate "C" not null,
    seen_at timestamptz not null,
    -- Of the newest payments of a buyer who has very many.
    payments bigint not null check (payments > 0),
    purchases bigint not null check (purchases >= 0),
    paid_cents bigint not null check (paid_cents >= 0),
    refunded_cents bigint not null check (refunded_cents >= 0),
    first_paid_at timestamptz,
    last_paid_at timestamptz,
    primary key (company_id, environment, document_digest)
) with (fillfactor = 70);
create index figures_customer_newest on figures_customer
    (company_id, environment, seen_at desc, document_digest desc);
comment on table figures_customer is 'distributed: who buys from a company, and how much';

create table figures_customer_email (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    email_digest bytea not null,
    document_digest bytea not null,
    primary key (company_id, environment, email_digest, document_digest)
);
comment on table figures_customer_email is
    'distributed: finds buyers by an e-mail address they have given';

create table transaction_note (
    company_id bigint not null,
    note_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    transaction_id text collate "C" not null,
    text text not null check (length(text) between 1 and 1000),
    author text not null,
    created_at timestamptz not null,
    primary key (company_id, note_id)
);
create index transaction_note_of on transaction_note (company_id, transaction_id, created_at);
comment on table transaction_note is 'distributed: what members wrote about a payment';
