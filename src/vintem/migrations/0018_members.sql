-- The people who sign in to the dashboard: one record a person, whatever number of companies they work for.

create table person (
    person_id text collate "C" primary key,
    email text not null check (email = lower(email) and length(email) between 3 and 254),
    name text not null check (length(name) between 1 and 120),
    password_hash text,
    created_at timestamptz not null
);
create unique index person_email on person (email);
comment on table person is 'reference: who signs in, found by e-mail; the password is known only by its argon2 hash';

create table member (
    company_id bigint not null references company,
    person_id text collate "C" not null references person,
    role text not null check (role in ('owner', 'admin', 'finance', 'developer', 'support')),
    created_at timestamptz not null,
    primary key (company_id, person_id)
);
create index member_person on member (person_id);
create unique index member_owner on member (company_id) where role = 'owner';
comment on table member is 'reference: what a person is in a company; a company has one owner at most';

create table sign_in (
    session_id text collate "C" primary key,
    digest bytea not null unique check (length(digest) = 32),
    person_id text collate "C" not null references person,
    company_id bigint not null references company,
    ip text not null,
    user_agent text not null,
    created_at timestamptz not null,
    last_seen_at timestamptz not null,
    ended_at timestamptz,
    kept_for_next_page bytea
);
create index sign_in_person on sign_in (person_id, created_at);
comment on table sign_in is 'reference: browsers that are signed in; the cookie is known only by its digest';
