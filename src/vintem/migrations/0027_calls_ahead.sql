-- Windows that are called into together are decided together: one statement holds them all, and one
-- decides. A process that is called often takes some calls of a window ahead, and decides them by itself:
-- to ask for each of them was a third of all work where two processes confirm payments.

create unlogged table rate_lease (
    company_id bigint not null,
    key_id text collate "C" not null,
    group_name text collate "C" not null,
    holder text collate "C" not null,
    -- Calls that the holder may have admitted and has not told of; others count them as made.
    held bigint not null check (held >= 0),
    ends_at timestamptz not null,
    primary key (company_id, key_id, group_name, holder)
) with (fillfactor = 50);
comment on table rate_lease is 'distributed: the calls of a window that a process has taken ahead';

drop function admit_calls(bigint, text, text, bigint, interval, bigint);

-- The windows must be named in the order of company, key and group, each of them once.
create function admit_calls(
    p_holder text,
    p_company_ids bigint[],
    p_key_ids text[],
    p_group_names text[],
    p_limits bigint[],
    p_seconds double precision[],
    p_calls bigint[],
    -- What the holder had taken ahead; of those, what it has admitted since, and what it keeps.
    p_held bigint[],
    p_untold bigint[],
    p_kept bigint[],
    -- How many more it would take ahead now, and for how long it holds them all.
    p_wanted bigint[],
    p_lasting double precision[],
    -- More is taken ahead while less than this part of a limit is used.
    p_used_part bigint
)
returns table (
    -- So many of a window's calls, the first ones.
    admitted bigint,
    decided_at timestamptz,
    remaining bigint,
    next_at timestamptz,
    ahead bigint,
    -- Soon after it others have given back what they have taken ahead and not used.
    held_until timestamptz
)
language plpgsql as $$
declare
    v_held bigint;
    v_now timestamptz;
begin
    -- Another caller may insert a window first, and idle windows are deleted: look until all are held.
    loop
        select count(*) into v_held
        from (
            select 1
            from unnest(p_company_ids, p_key_ids, p_group_names) with ordinality
                as c (company_id, key_id, group_name, number)
            join rate_window w on w.company_id = c.company_id and w.key_id = c.key_id
                and w.group_name = c.group_name
            order by c.number
            for update of w
        ) as held;
        exit when v_held = cardinality(p_company_ids);
        insert into rate_window (company_id, key_id, group_name, first_call, last_call, last_at)
        select c.company_id, c.key_id, c.group_name, 1, 0, '-infinity'
        from unnest(p_company_ids, p_key_ids, p_group_names) with ordinality
            as c (company_id, key_id, group_name, number)
        order by c.number
        on conflict do nothing;
    end loop;

    -- The clock is read under the locks, so moments never run backwards within a window.
    v_now := clock_timestamp();

    return query
    with held as (
        select c.number, w.company_id, w.key_id, w.group_name, c.max_calls, c.calls, c.held,
            c.untold, c.kept, c.wanted, make_interval(secs => c.seconds) as length,
            make_interval(secs => c.lasting) as lasting, w.first_call, w.last_call,
            -- A last call more than a window ahead means that the clock was set back: start anew.
            w.last_at > v_now + make_interval(secs => c.seconds) as is_ahead, w.last_at
        from unnest(p_company_ids, p_key_ids, p_group_names, p_limits, p_seconds, p_calls, p_held,
            p_untold, p_kept, p_wanted, p_lasting)
            with ordinality
            as c (company_id, key_id, group_name, max_calls, seconds, calls, held, untold, kept,
                wanted, lasting, number)
        join rate_window w on w.company_id = c.company_id and w.key_id = c.key_id
            and w.group_name = c.group_name
    ),
    timed as materialized (
        select h.*, case when h.is_ahead then v_now else greatest(v_now, h.last_at) end as at
        from held h
    ),
    begun as materialized (
        select t.*, coalesce(
            (
                select r.call - r.calls + 1 from rate_call r
                where r.company_id = t.company_id and r.key_id = t.key_id
                    and r.group_name = t.group_name and r.call >= t.first_call
                    and r.admitted_at > t.at - t.length and not t.is_ahead
                order by r.call limit 1
            ),
            t.last_call + 1
        ) as begins_with,
        o.held as held_by_others, o.held_until
        from timed t cross join lateral (
            select coalesce(sum(l.held), 0)::bigint as held,
                max(l.ends_at) filter (where l.held > 0) as held_until
            from rate_lease l
            where l.company_id = t.company_id and l.key_id = t.key_id
                and l.group_name = t.group_name and l.holder <> p_holder
                -- Whoever has not told of its calls may have made the last of them at the end.
                and l.ends_at > t.at - t.length and l.ends_at <= t.at + t.length
        ) as o
    ),
    counted as materialized (
        select b.*, b.last_call - b.begins_with + 1 + b.untold + b.kept + b.held_by_others
            as used
        from begun b
    ),
    decided as materialized (
        select c.*, f.fit, f.fit + c.untold as made,
            c.kept + least(c.wanted, greatest(c.max_calls / p_used_part - c.used - f.fit, 0)) as taken
        from counted c
        cross join lateral (
            select least(c.calls, greatest(c.max_calls - c.used, 0)) as fit
        ) as f
    ),
    moved as (
        update rate_window w
        set first_call = d.begins_with, last_call = d.last_call + d.made, last_at = d.at
        from decided d
        where d.made > 0 and w.company_id = d.company_id and w.key_id = d.key_id
            and w.group_name = d.group_name
    ),
    kept as (
        insert into rate_call (company_id, key_id, group_name, call, calls, admitted_at)
        select d.company_id, d.key_id, d.group_name, d.last_call + d.made, d.made, d.at
        from decided d where d.made > 0
    ),
    leased as (
        insert into rate_lease (company_id, key_id, group_name, holder, held, ends_at)
        select d.company_id, d.key_id, d.group_name, p_holder, d.taken, d.at + d.lasting
        from decided d where d.taken > 0 or d.held > 0
        on conflict (company_id, key_id, group_name, holder)
            do update set held = excluded.held, ends_at = excluded.ends_at
    ),
    gone as (
        -- Those that have left are deleted some at a time. They are looked up window by window: a
        -- join that is planned while the table is small would read all of it for ever.
        delete from rate_call where ctid = any (array(
            select left_behind.place
            from decided d cross join lateral (
                select r.ctid as place from rate_call r
                where r.company_id = d.company_id and r.key_id = d.key_id
                    and r.group_name = d.group_name and r.call < d.begins_with
                offset 0
            ) as left_behind
            where d.made > 0 and d.begins_with / 32 > d.first_call / 32
        ))
    ),
    forgotten as (
        -- So are those of processes that have ended.
        delete from rate_lease where ctid = any (array(
            select left_behind.place
            from decided d cross join lateral (
                select l.ctid as place from rate_lease l
                where l.company_id = d.company_id and l.key_id = d.key_id
                    and l.group_name = d.group_name and l.holder <> p_holder
                    and (l.ends_at <= d.at - d.length or l.ends_at > d.at + d.length)
                offset 0
            ) as left_behind
            where d.made > 0 and d.begins_with / 32 > d.first_call / 32
        ))
    ),
    told as (
        select d.*, greatest(d.max_calls - d.used - d.fit + d.kept, 0) as room from decided d
    )
    select t.fit, t.at, t.room,
        case when t.room > 0 then t.at else t.length + coalesce(
            (
                select r.admitted_at from rate_call r
                where r.company_id = t.company_id and r.key_id = t.key_id
                    and r.group_name = t.group_name
                    and r.call >= t.last_call + t.made + 1 - t.max_calls + t.held_by_others
                order by r.call limit 1
            ),
            -- It is one of these very calls.
            t.at
        ) end,
        t.taken, t.held_until
    from told t
    order by t.number;
end
$$;
