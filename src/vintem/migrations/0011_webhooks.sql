-- Who is told, what is still to be told to whom, and what came of each try.

create table webhook_endpoint (
    company_id bigint not null,
    endpoint_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    url text not null check (length(url) <= 2048),
    events text[] collate "C" not null check (cardinality(events) >= 1),
    description text not null check (length(description) <= 255),
    is_enabled boolean not null default true,
    disabled_reason text collate "C" check (disabled_reason in ('merchant', 'gone', 'unreachable')),
    secret_sealed bytea not null,
    -- The secret before the last rotation signs too, until then.
    old_secret_sealed bytea,
    old_secret_until timestamptz,
    -- An endpoint is a record with events of its own: pings, and that it was disabled.
    sequence bigint not null default 0,
    created_at timestamptz not null,
    -- Since when it is told of exactly what it says now.
    subscribed_at timestamptz not null,
    deleted_at timestamptz,
    primary key (company_id, endpoint_id),
    check (is_enabled = (disabled_reason is null)),
    check (deleted_at is null or not is_enabled),
    check ((old_secret_sealed is null) = (old_secret_until is null))
);
create index webhook_endpoint_listening on webhook_endpoint (company_id, environment)
    where is_enabled;
comment on table webhook_endpoint is 'distributed: addresses that a company has registered';

create table webhook_postback_secret (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    secret_sealed bytea not null,
    old_secret_sealed bytea,
    old_secret_until timestamptz,
    primary key (company_id, environment),
    check ((old_secret_sealed is null) = (old_secret_until is null))
);
comment on table webhook_postback_secret is
    'distributed: what calls to the postbackUrl of a company''s records are signed with';

create table webhook_lane (
    company_id bigint not null,
    lane text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    is_open boolean not null default true,
    failures_in_row bigint not null default 0,
    -- Nothing is sent before then: the circuit breaker.
    retry_at timestamptz,
    failing_since timestamptz,
    primary key (company_id, lane)
) with (fillfactor = 50);
comment on table webhook_lane is
    'distributed: where deliveries go, each at its own pace: an endpoint, or the origin of postbacks';

create table webhook_dispatch (
    company_id bigint not null,
    holder text collate "C" not null,
    leased_until timestamptz not null,
    primary key (company_id)
) with (fillfactor = 50);
comment on table webhook_dispatch is
    'distributed: the worker that delivers for a company now; taken over when its lease ends';

create table webhook_delivery (
    company_id bigint not null,
    delivery_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    lane text collate "C" not null,
    entity_id text collate "C" not null,
    sequence bigint not null,
    -- Where a postback goes; an endpoint's deliveries go where it stands when they are sent.
    url text,
    state text collate "C" not null default 'pending'
        check (state in ('pending', 'delivered', 'failed', 'ended')),
    -- How often it was tried in all, which is the fence, and since it was last asked for.
    attempts bigint not null default 0,
    tries bigint not null default 0,
    due_at timestamptz,
    created_at timestamptz not null,
    -- When it was last asked for, by its event or by the company: how long it is held back counts from then.
    asked_at timestamptz not null,
    finished_at timestamptz,
    primary key (company_id, lane, entity_id, sequence),
    unique (company_id, delivery_id),
    check ((state = 'pending') = (due_at is not null))
) with (fillfactor = 80);
create index webhook_delivery_due on webhook_delivery (company_id, lane, due_at)
    where due_at is not null;
create index webhook_delivery_newest on webhook_delivery
    (company_id, lane, created_at desc, delivery_id desc);
comment on table webhook_delivery is
    'distributed: one event to be told to one place; due_at is when it is tried next';

create table webhook_attempt (
    company_id bigint not null,
    delivery_id text collate "C" not null,
    attempt bigint not null,
    url text not null,
    signed_at bigint not null,
    signature text not null,
    status bigint,
    error text,
    answer text not null,
    milliseconds bigint not null,
    created_at timestamptz not null,
    primary key (company_id, delivery_id, attempt)
);
comment on table webhook_attempt is
    'distributed: what was sent with each try of a delivery, and what was answered';

-- For the list of events and for telling a range of them again.
create index webhook_event_newest on webhook_event
    (company_id, environment, created_at desc, entity_id desc, sequence desc);

-- A public id: ten letters of the millisecond, sixteen at random.
create function new_delivery_id(moment timestamptz) returns text
language sql volatile parallel safe
as $$
    select 'dlv_' || string_agg(
        substr(
            '0123456789abcdefghjkmnpqrstvwxyz',
            case
                when place < 10 then (ms >> (45 - 5 * place)) & 31
                else (get_byte(noise, place - 10) & 31)::bigint
            end::int + 1,
            1
        ),
        '' order by place
    )
    from (
        select floor(extract(epoch from moment) * 1000)::bigint as ms,
            decode(replace(gen_random_uuid()::text, '-', ''), 'hex') as noise
    ) as source cross join generate_series(0, 25) as place
$$;
