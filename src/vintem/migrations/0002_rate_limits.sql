-- The exact sliding window, counted here when several processes share it.
--
-- The calls of a window are numbered; first_call is the oldest one still inside. A call is admitted
-- when fewer than the limit are inside. The cost does not grow with the limit: calls leave from the
-- front, and where the front lies now is found by halving.
-- The tables are unlogged: after a crash of the database every window starts empty, as it does
-- when a single process that counts in memory is started again.

create unlogged table rate_window (
    company_id bigint not null,
    key_id text collate "C" not null,
    group_name text collate "C" not null,
    first_call bigint not null,
    last_call bigint not null,
    last_at timestamptz not null,
    primary key (company_id, key_id, group_name)
) with (fillfactor = 50);
comment on table rate_window is 'distributed: the first and the last call inside the window of a key and a group';

create unlogged table rate_call (
    company_id bigint not null,
    key_id text collate "C" not null,
    group_name text collate "C" not null,
    call bigint not null,
    admitted_at timestamptz not null,
    primary key (company_id, key_id, group_name, call)
);
comment on table rate_call is 'distributed: the moments of the calls that a window may still hold';

create function admit_call(
    p_company_id bigint,
    p_key_id text,
    p_group_name text,
    p_limit bigint,
    p_window interval,
    out admitted boolean,
    out decided_at timestamptz,
    out remaining bigint,
    out next_at timestamptz
)
language plpgsql
-- A plan made while the tables were small would read them whole, and would be kept as they grow.
set enable_seqscan = off
as $$
declare
    v_first bigint;
    v_last bigint;
    v_beyond bigint;
    v_middle bigint;
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
        select admitted_at into strict v_at
        from rate_call
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
            and call = v_middle;
        if v_at > decided_at - p_window then
            v_beyond := v_middle;
        else
            v_first := v_middle + 1;
        end if;
        v_middle := (v_first + v_beyond) / 2;
    end loop;

    admitted := v_last - v_first + 1 < p_limit;
    if admitted then
        v_last := v_last + 1;
        update rate_window set first_call = v_first, last_call = v_last, last_at = decided_at
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name;
        insert into rate_call (company_id, key_id, group_name, call, admitted_at)
        values (p_company_id, p_key_id, p_group_name, v_last, decided_at);
        delete from rate_call
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
            and call < v_first;
    end if;

    remaining := greatest(p_limit - (v_last - v_first + 1), 0);
    next_at := decided_at;
    if remaining = 0 then
        select admitted_at + p_window into strict next_at
        from rate_call
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
            and call = v_last + 1 - p_limit;
    end if;
end
$$;
