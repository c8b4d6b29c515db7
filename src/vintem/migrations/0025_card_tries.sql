-- Cards that buyers have tried, so that nobody tries out stolen ones here.
--
-- A row is written before its card is tried, and lives for an hour. Neither the card nor the address is in it: both are
-- known only by their keyed digests. The table is unlogged: after a crash of the database everybody starts anew.

create unlogged table checkout_card_try (
    company_id bigint not null,
    transaction_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    card_digest bytea not null check (length(card_digest) = 32),
    address_digest bytea not null check (length(address_digest) = 32),
    tried_at timestamptz not null,
    primary key (company_id, transaction_id)
);
create index checkout_card_try_newest on checkout_card_try
    (company_id, environment, tried_at desc);
create index checkout_card_try_card on checkout_card_try (card_digest, tried_at desc);
create index checkout_card_try_address on checkout_card_try (address_digest, tried_at desc);
create index checkout_card_try_old on checkout_card_try (tried_at);
comment on table checkout_card_try is
    'distributed: the cards that were tried in sessions within the hour, by keyed digests';

-- Forgets the last call of a window, which is found not to count.
create function give_back_call(p_company_id bigint, p_key_id text, p_group_name text) returns void
language plpgsql
as $$
declare
    v_last bigint;
begin
    update rate_window set last_call = last_call - 1
    where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
        and last_call >= first_call
    returning last_call + 1 into v_last;
    if not found then
        return;
    end if;
    -- Calls that came together are one row.
    update rate_call set call = call - 1, calls = calls - 1
    where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
        and call = v_last and calls > 1;
    if not found then
        delete from rate_call
        where company_id = p_company_id and key_id = p_key_id and group_name = p_group_name
            and call = v_last;
    end if;
end
$$;
