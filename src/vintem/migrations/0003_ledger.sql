-- Whose money it is. A posting is one row: its legs stand in arrays of the same length, and the
-- database refuses one whose amounts do not add up to zero. Amounts are cents, positive where an
-- account of the company grows (what we owe it), negative where money comes in from outside.

create function sum_of(amounts bigint[]) returns numeric
    language sql immutable strict parallel safe
    return (select coalesce(sum(amount), 0) from unnest(amounts) as amount);

create table account (
    company_id bigint not null references company,
    environment text collate "C" not null check (environment in ('live', 'test')),
    code text collate "C" not null check (code in (
        'available', 'blocked', 'debt', 'dispute', 'payout', 'refund', 'release', 'reserve'
    )),
    balance bigint not null default 0,
    version bigint not null default 0,
    primary key (company_id, environment, code),
    -- What the company owes us is the one balance below zero.
    check (case code when 'debt' then balance <= 0 else balance >= 0 end)
) with (fillfactor = 50);
comment on table account is 'distributed: the accounts of a company that have a limit, with their balance';

create table posting (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    kind text collate "C" not null,
    reference text collate "C" not null,
    codes text[] collate "C" not null,
    amounts bigint[] not null,
    versions bigint[] not null,
    available_amount bigint,
    available_version bigint,
    available_after bigint,
    created_at timestamptz not null,
    primary key (company_id, kind, reference),
    check (sum_of(amounts) = 0),
    check (cardinality(amounts) >= 2 and array_position(amounts, 0) is null),
    check (array_position(amounts, null) is null and array_position(versions, null) is null),
    check (codes <@ array[
        'available', 'blocked', 'debt', 'dispute', 'payout', 'refund', 'release', 'reserve',
        'fee', 'bank', 'receivable', 'suspense'
    ] and array_position(codes, null) is null),
    check (cardinality(codes) = cardinality(amounts) and cardinality(versions) = cardinality(amounts))
);
create unique index posting_statement on posting (company_id, environment, available_version)
    where available_version is not null;
comment on table posting is 'distributed: every movement of money, once by its kind and reference; never changed';

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'postings are never changed';
end
$$;
create trigger posting_is_append_only before update or delete on posting
    for each row execute function refuse_change();

create table release_schedule (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    transaction_id text collate "C" not null,
    account text collate "C" not null check (account in ('release', 'reserve')),
    part bigint not null,
    due_on date not null,
    amount bigint not null check (amount > 0),
    open bigint not null check (open >= 0 and open <= amount),
    released_at timestamptz,
    primary key (company_id, transaction_id, account, part)
);
create index release_schedule_due on release_schedule (company_id, environment, due_on)
    where released_at is null;
comment on table release_schedule is 'distributed: when money that waits becomes available; the row is the job';

create table hold (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    reference text collate "C" not null,
    kind text collate "C" not null check (kind in ('dispute', 'block', 'refund')),
    amount bigint not null check (amount > 0),
    split text not null,
    opened_at timestamptz not null,
    resolved_at timestamptz,
    resolution text collate "C" check (resolution in ('restored', 'paid_out', 'returned')),
    primary key (company_id, kind, reference),
    check ((resolved_at is null) = (resolution is null))
);
comment on table hold is 'distributed: money taken aside, and from where, so that it can be put back';
