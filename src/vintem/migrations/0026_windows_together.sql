-- Windows that are called into together are decided together: one statement holds them all, and one
-- decides. A function a window, with five statements each, cost 6 to 8 % of all creates.

drop function admit_calls(bigint, text, text, bigint, interval, bigint);

-- The windows must be named in the order of company, key and group, each of them once.
create function admit_calls(
    p_company_ids bigint[],
    p_key_ids text[],
    p_group_names text[],
    p_limits bigint[],
    p_seconds double precision[],
    p_calls bigint[]
)
returns table (
    -- So many of a window's calls, the first ones.
    admitted bigint,
    decided_at timestamptz,
    remaining bigint,
    next_at timestamptz
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
        select c.number, w.company_id, w.key_id, w.group_name, c.max_calls, c.calls,
            make_interval(secs => c.seconds) as length, w.first_call, w.last_call,
            -- A last call more than a window ahead means that the clock was set back: start anew.
            w.last_at > v_now + make_interval(secs => c.seconds) as is_ahead, w.last_at
        from unnest(p_company_ids, p_key_ids, p_group_names, p_limits, p_seconds, p_calls)
            with ordinality
            as c (company_id, key_id, group_name, max_calls, seconds, calls, number)
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
        ) as begins_with
        from timed t
    ),
    decided as materialized (
        select b.*,
            least(b.calls, greatest(b.max_calls - (b.last_call - b.begins_with + 1), 0)) as fit
        from begun b
    ),
    moved as (
        update rate_window w
        set first_call = d.begins_with, last_call = d.last_call + d.fit, last_at = d.at
        from decided d
        where d.fit > 0 and w.company_id = d.company_id and w.key_id = d.key_id
            and w.group_name = d.group_name
    ),
    kept as (
        insert into rate_call (company_id, key_id, group_name, call, calls, admitted_at)
        select d.company_id, d.key_id, d.group_name, d.last_call + d.fit, d.fit, d.at
        from decided d where d.fit > 0
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
            where d.fit > 0 and d.begins_with / 32 > d.first_call / 32
        ))
    ),
    told as (
        select d.*, greatest(d.max_calls - (d.last_call + d.fit - d.begins_with + 1), 0) as room
        from decided d
    )
    select t.fit, t.at, t.room,
        case when t.room > 0 then t.at else t.length + coalesce(
            (
                select r.admitted_at from rate_call r
                where r.company_id = t.company_id and r.key_id = t.key_id
                    and r.group_name = t.group_name
                    and r.call >= t.last_call + t.fit + 1 - t.max_calls
                order by r.call limit 1
            ),
            -- It is one of these very calls.
            t.at
        ) end
    from told t
    order by t.number;
end
$$;
