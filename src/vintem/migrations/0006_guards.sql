-- What keeps integrators from paying twice by mistake.

create table implicit_intent (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    operation text collate "C" not null,
    fingerprint bytea not null check (length(fingerprint) = 32),
    entity_id text collate "C" not null,
    created_at timestamptz not null,
    primary key (company_id, environment, operation, fingerprint)
);
create index implicit_intent_age on implicit_intent (company_id, created_at);
comment on table implicit_intent is
    'distributed: what a request without a key made last, so that its repetition is recognised';
