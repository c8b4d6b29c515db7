-- What keeps integrators from paying twice by mistake, and what more is agreed with a company.

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

alter table company
    add column card_interest_basis_points bigint not null default 0
        check (card_interest_basis_points between 0 and 10000),
    add column card_free_installments bigint not null default 1,
    add column card_installments_max bigint not null default 12,
    add check (1 <= card_free_installments and card_free_installments <= card_installments_max
        and card_installments_max <= 12);

-- Who a company is to the tax office: a CPF or a CNPJ without its mask, and its registered name.
alter table company
    add column document text collate "C" check (document ~ '^([0-9]{11}|[0-9A-Z]{12}[0-9]{2})$'),
    add column legal_name text check (length(legal_name) between 1 and 120);

create table pepper_check (
    is_only boolean primary key default true check (is_only),
    digest bytea not null check (length(digest) = 32)
);
comment on table pepper_check is 'reference: one row, by which a wrong pepper is noticed';
