-- Calls of one window that arrive together are admitted together, at one moment: a row of rate_call
-- now stands for all calls up to its number that came after the row before it.

drop function admit_call(bigint, text, text, bigint, interval);
comment on table rate_call is 'distributed: the moments of the calls that a window may still hold, under the last call of each';

create function admit_calls(
    p_company_id bigint,
    p_key_id text,
    p_group_name text,
    p_limit bigint,
    p_window interval,
    p_calls bigint,
    -- So many of them, the first ones.
    out admitted bigint,
    out decided_at timestamptz,
    out remaining bigint,
    out next_at timestamptz
)
language plpgsql as $$
declare
    v_first bigint;
    v_last bigint;
    v_was_first bigint;
    v_beyond bigint;
    v_middle bigint;
    v_call bigint;
    v_last_at timestamptz;
    v_at timestamptz;
begin
    -- Another caller may insert the window first, and idle windows are deleted: look until it is held.
    loop
        select first_call, last_call, last_at into v_first, v_last, v_last_at
        from rate_window
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
        for update;
        exit when found;
        insert into rate_window (company_id, key_id, group_name, first_call, last_call, last_at)
        values (p_company_id, p_key_id, p_group_name, 1, 0, '-infinity')
        on conflict do nothing;
    end loop;
    v_was_first := v_first;

    -- The clock is read under the lock, so moments never run backwards within a window.
    -- A last call more than a window ahead means that the clock was set back: start anew.
    decided_at := clock_timestamp();
    if v_last_at > decided_at + p_window then
        v_first := v_last + 1;
    else
        decided_at := greatest(decided_at, v_last_at);
    end if;

    -- Find the first call inside the window, mostly the one that was the first before.
    v_beyond := v_last + 1;
    v_middle := v_first;
    while v_first < v_beyond loop
        select call, admitted_at into strict v_call, v_at
        from rate_call
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
            and call >= v_middle
        order by call limit 1;
        if v_at > decided_at - p_window then
            v_beyond := v_middle;
        else
            v_first := v_call + 1;
        end if;
        v_middle := (v_first + v_beyond) / 2;
    end loop;

    admitted := least(p_calls, greatest(p_limit - (v_last - v_first + 1), 0));
    if admitted > 0 then
        v_last := v_last + admitted;
        update rate_window set first_call = v_first, last_call = v_last, last_at = decided_at
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name;
        insert into rate_call (company_id, key_id, group_name, call, admitted_at)
        values (p_company_id, p_key_id, p_group_name, v_last, decided_at);
        if v_first > v_was_first then
            delete from rate_call
            where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
                and call < v_first;
        end if;
    end if;

    remaining := greatest(p_limit - (v_last - v_first + 1), 0);
    next_at := decided_at;
    if remaining = 0 then
        select admitted_at + p_window into strict next_at
        from rate_call
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
            and call >= v_last + 1 - p_limit
        order by call limit 1;
    end if;
end
$$;
