-- Pictures of merchants: fetched once, drawn anew by us, and served from here under their digest.

create table media_picture (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    digest bytea not null check (length(digest) = 32),
    width bigint not null check (width between 1 and 4096),
    height bigint not null check (height between 1 and 4096),
    content bytea not null check (length(content) between 1 and 2097152),
    created_at timestamptz not null,
    primary key (company_id, environment, digest)
);
-- What is drawn by us is packed already.
alter table media_picture alter column content set storage external;
comment on table media_picture is 'distributed: pictures of a company, as buyers are shown them';

create table media_place (
    digest bytea primary key check (length(digest) = 32),
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test'))
);
comment on table media_place is
    'directory: with whom a picture is found; of several who have the same one, the first';
