-- Companies, their fees and their API keys.
--
-- Every table says in its comment how it is spread when one machine is not enough:
--   distributed  rows live with their company; company_id leads every key
--   reference    small, read by everyone, copied to every machine
--   directory    finds the company of an opaque token
--   local        of one database only

create table company (
    company_id bigint generated always as identity primary key,
    public_id text collate "C" not null unique,
    name text not null check (length(name) between 1 and 120),
    status text not null default 'active' check (status in ('active', 'suspended')),
    transactions_per_second bigint not null default 5 check (transactions_per_second >= 1),
    withdrawals_per_minute bigint not null default 10 check (withdrawals_per_minute >= 1),
    requests_per_minute bigint not null default 60 check (requests_per_minute >= 1),
    implicit_protection text not null default 'off'
        check (implicit_protection in ('off', 'observe', 'enforce')),
    created_at timestamptz not null
);
comment on table company is 'reference: who integrates with us';

create table company_fee (
    company_id bigint not null references company,
    method text not null,
    installments_from bigint not null default 1 check (installments_from between 1 and 12),
    fixed_cents bigint not null check (fixed_cents >= 0),
    percent_basis_points bigint not null check (percent_basis_points between 0 and 10000),
    primary key (company_id, method, installments_from)
);
comment on table company_fee is
    'reference: what a company pays a movement; a row holds from its number of installments up to the next row';

create table api_key (
    key_id text collate "C" primary key,
    company_id bigint not null references company,
    type text not null check (type in ('sk', 'ck')),
    environment text not null check (environment in ('live', 'test')),
    digest bytea not null unique check (length(digest) = 32),
    last_four text not null,
    label text not null default '',
    allowed_networks text[] not null default '{}',
    replaced_by text collate "C" references api_key,
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    check (replaced_by is null or expires_at is not null)
);
create index api_key_company on api_key (company_id);
comment on table api_key is 'reference: keys, known only by their keyed digest';
