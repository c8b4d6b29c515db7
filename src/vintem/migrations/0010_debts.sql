-- A statement that credits companies without debt looks for debt before it locks their balances. This
-- one is asked under the lock: a debt made in between is a conflict, and whoever lost tries again.

create function owes_nothing(balance bigint) returns boolean language plpgsql as $$
begin
    if balance <> 0 then
        raise exception 'a debt was made meanwhile' using errcode = 'serialization_failure';
    end if;
    return true;
end
$$;
