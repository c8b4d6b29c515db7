-- Who did what in a company. Each act carries the hash of the one before it, so that none can be
-- changed, taken out or put in between without breaking the chain; the head knows where it ends.

create table act (
    company_id bigint not null,
    sequence bigint not null check (sequence >= 1),
    environment text collate "C" not null check (environment in ('live', 'test', '')),
    at timestamptz not null,
    actor_kind text collate "C" not null check (actor_kind in ('person', 'system', 'operator')),
    actor_id text collate "C" not null,
    actor_name text not null,
    role text collate "C" not null,
    ip text collate "C" not null,
    user_agent text not null,
    action text collate "C" not null check (action ~ '^[a-z0-9_-]+(\.[a-z0-9_-]+)+$'),
    target_type text collate "C" not null,
    target_id text collate "C" not null,
    -- JSON as it was hashed, byte by byte.
    before text not null check (octet_length(before) <= 65536),
    after text not null check (octet_length(after) <= 65536),
    reason text not null,
    request_id text collate "C" not null,
    previous_hash bytea not null check (length(previous_hash) = 32),
    hash bytea not null check (length(hash) = 32),
    primary key (company_id, sequence)
);
create index act_actor on act (company_id, actor_id, sequence);
create index act_action on act (company_id, action, sequence);
create index act_target on act (company_id, target_id, sequence);
create index act_at on act (company_id, at);
comment on table act is 'distributed: what was done in a company and by whom, in a chain; never changed';

create table trail_head (
    company_id bigint primary key references company,
    sequence bigint not null check (sequence >= 0),
    hash bytea not null check (length(hash) = 32)
);
comment on table trail_head is 'distributed: the last act of a company; whoever adds one holds this row';

create function refuse_act_change() returns trigger language plpgsql as $$
begin
    raise exception 'acts are never changed';
end
$$;
create trigger act_is_append_only before update or delete on act
    for each row execute function refuse_act_change();
create trigger act_is_never_emptied before truncate on act
    for each statement execute function refuse_act_change();

-- Lists that people took with them as files. Short ones go straight to the browser and leave only
-- this row; the worker writes long ones, piece by piece.

create table export_file (
    company_id bigint not null,
    export_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    what text collate "C" not null,
    file_name text collate "C" not null,
    person_id text collate "C" not null,
    person_name text not null,
    role text collate "C" not null,
    -- The filter: sealed for the worker, for it may hold a document, and in the clear without one.
    asked_sealed bytea not null,
    asked_shown text not null,
    status text collate "C" not null check (status in ('sent', 'waiting', 'ready', 'failed')),
    rows bigint not null default 0 check (rows >= 0),
    bytes bigint not null default 0 check (bytes >= 0),
    -- Whose turn it is: each claim takes the next number, and only its holder writes.
    fence bigint not null default 0,
    leased_until timestamptz,
    created_at timestamptz not null,
    finished_at timestamptz,
    expires_at timestamptz,
    primary key (company_id, export_id),
    check ((status = 'ready') = (expires_at is not null))
);
create index export_file_newest on export_file (company_id, environment, export_id desc);
create index export_file_of_person on export_file
    (company_id, environment, person_id, export_id desc);
create index export_file_waiting on export_file (created_at) where status = 'waiting';
comment on table export_file is 'distributed: who took which list away as a file, and the job of making a long one';

create table export_chunk (
    company_id bigint not null,
    export_id text collate "C" not null,
    number bigint not null check (number >= 1),
    content bytea not null,
    created_at timestamptz not null,
    primary key (company_id, export_id, number),
    foreign key (company_id, export_id) references export_file
);
create index export_chunk_age on export_chunk (company_id, created_at);
comment on table export_chunk is 'distributed: the pieces of a long file, kept for seven days';
