-- The people who sign in to the dashboard: one record a person, whatever number of companies they work for.

create table person (
    person_id text collate "C" primary key,
    email text not null check (email = lower(email) and length(email) between 3 and 254),
    name text not null check (length(name) between 1 and 120),
    password_hash text,
    totp_sealed bytea,
    totp_last_step bigint,
    totp_offered_sealed bytea,
    totp_offered_at timestamptz,
    created_at timestamptz not null,
    check ((totp_offered_sealed is null) = (totp_offered_at is null))
);
create unique index person_email on person (email);
comment on table person is 'reference: who signs in, found by e-mail; the password is known only by its argon2 hash, the secret of the second step is sealed';
comment on column person.totp_last_step is 'the thirty seconds whose code was used last; that code and earlier ones are not taken again';
comment on column person.totp_offered_sealed is 'a secret that was shown and not yet proved by a code';

create table backup_code (
    person_id text collate "C" not null references person,
    digest bytea not null check (length(digest) = 32),
    used_at timestamptz,
    primary key (person_id, digest)
);
comment on table backup_code is 'reference: what stands in for a lost authenticator, once each; known only by its keyed digest';

create table member (
    company_id bigint not null references company,
    person_id text collate "C" not null references person,
    role text not null check (role in ('owner', 'admin', 'finance', 'developer', 'support')),
    created_at timestamptz not null,
    signed_in_at timestamptz,
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

create table sign_in_tries (
    who bytea not null check (length(who) = 32),
    address text not null,
    tried_at timestamptz[] not null,
    last_at timestamptz not null,
    primary key (who, address)
);
create index sign_in_tries_last on sign_in_tries (last_at);
comment on table sign_in_tries is 'reference: recent tries to prove who somebody is, by account and address; an empty address stands for all of them';

create table password_link (
    digest bytea primary key check (length(digest) = 32),
    person_id text collate "C" not null references person,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at timestamptz
);
create index password_link_person on password_link (person_id, created_at);
comment on table password_link is 'reference: one-time links to choose a password, known only by their digest';

create table invitation (
    invitation_id text collate "C" primary key,
    digest bytea not null unique check (length(digest) = 32),
    company_id bigint not null references company,
    email text not null check (email = lower(email) and length(email) between 3 and 254),
    role text not null check (role in ('admin', 'finance', 'developer', 'support')),
    invited_by text collate "C" references person,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    accepted_at timestamptz,
    revoked_at timestamptz,
    check (accepted_at is null or revoked_at is null)
);
create index invitation_company on invitation (company_id, created_at);
create unique index invitation_open on invitation (company_id, email) where accepted_at is null and revoked_at is null;
comment on table invitation is 'reference: who was asked to join a company, as what; the link is known only by its digest';
