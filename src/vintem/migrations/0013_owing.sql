-- Whether a company owes us stands beside what it has available: a statement that credits many
-- companies learns it from the row that it locks anyway, and leaves those alone who owe.

drop function owes_nothing(bigint);

alter table account add column owes boolean not null default false
    check (not owes or code = 'available');

update account a set owes = true
from account d
where a.code = 'available' and d.code = 'debt' and d.balance <> 0
    and d.company_id = a.company_id and d.environment = a.environment;

create function note_debt() returns trigger language plpgsql as $$
begin
    update account set owes = new.balance <> 0
    where company_id = new.company_id and environment = new.environment and code = 'available'
        and owes <> (new.balance <> 0);
    return null;
end
$$;
create trigger account_debt after update on account
    for each row when (new.code = 'debt' and old.balance <> new.balance)
    execute function note_debt();

-- Asked in a statement that writes all of a group or nothing: who lost a race tries again.
create function is_whole(written bigint, wanted bigint) returns boolean language plpgsql as $$
begin
    if written <> wanted then
        raise exception 'somebody else was faster' using errcode = 'serialization_failure';
    end if;
    return true;
end
$$;

-- Most postings have two legs, whose sum needs no function of its own.
alter table posting drop constraint posting_amounts_check;
alter table posting add constraint posting_amounts_check check (
    case cardinality(amounts) when 2 then amounts[1]::numeric + amounts[2] = 0 else sum_of(amounts) = 0 end
);
