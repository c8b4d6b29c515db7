-- Calls of one window that arrive together are admitted together, at one moment, in one row under the
-- number of the last. Where the window begins now is found by walking on from where it began: every
-- call is walked over once, because a window that has lost calls has room, and remembers its new begin.

alter table rate_call add column calls bigint not null default 1 check (calls > 0);
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
    v_last_at timestamptz;
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

    if v_first <= v_last then
        select call - calls + 1 into v_first
        from rate_call
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
            and call >= v_first and admitted_at > decided_at - p_window
        order by call limit 1;
        v_first := coalesce(v_first, v_last + 1);
    end if;

    admitted := least(p_calls, greatest(p_limit - (v_last - v_first + 1), 0));
    if admitted > 0 then
        v_last := v_last + admitted;
        update rate_window set first_call = v_first, last_call = v_last, last_at = decided_at
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name;
        insert into rate_call (company_id, key_id, group_name, call, calls, admitted_at)
        values (p_company_id, p_key_id, p_group_name, v_last, admitted, decided_at);
        -- Those that have left are deleted some at a time.
        if v_first / 32 > v_was_first / 32 then
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
