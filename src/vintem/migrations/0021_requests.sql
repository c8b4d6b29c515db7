-- What integrators have called, kept for some days, and what developers try things out with.

create table request_log (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    -- Begins with the millisecond of the call: in this order they are listed, and deleted.
    request_id text collate "C" not null,
    at timestamptz not null,
    method text not null,
    route text not null,
    record_id text not null,
    status bigint not null,
    code text not null,
    key_id text collate "C" not null,
    client_ip text not null,
    correlation_id text not null,
    microseconds bigint not null,
    remaining bigint,
    body text not null,
    primary key (company_id, environment, request_id)
);
create index request_log_refused on request_log (company_id, environment, request_id)
    where status >= 400;
comment on table request_log is
    'distributed: calls of a company''s keys; all that were refused, of the others some a second';

create table request_unlogged (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    hour timestamptz not null,
    calls bigint not null,
    primary key (company_id, environment, hour)
);
comment on table request_unlogged is
    'distributed: how many calls of an hour were counted only';

create table webhook_sink (
    company_id bigint not null,
    behaviour text collate "C" not null,
    primary key (company_id)
);
comment on table webhook_sink is
    'distributed: how the sandbox''s own webhook address of a company answers';

create table webhook_sink_call (
    company_id bigint not null,
    call_id text collate "C" not null,
    at timestamptz not null,
    headers text not null,
    body text not null,
    behaviour text collate "C" not null,
    primary key (company_id, call_id)
);
comment on table webhook_sink_call is
    'distributed: what arrived at the sandbox''s own webhook address of a company, the last of it';

-- What failed is found however much was delivered; what is delivered never enters it.
create index webhook_delivery_failed on webhook_delivery
    (company_id, lane, created_at desc, delivery_id desc) where state in ('failed', 'ended');

alter table api_key add column created_by text not null default '';
