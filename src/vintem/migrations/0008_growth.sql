-- What waits, day by day, so that neither a balance nor a hold reads every payment that waits.

create table release_day (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    account text collate "C" not null check (account in ('release', 'reserve')),
    due_on date not null,
    -- The sum of open in the schedule; whoever changes either holds the lock of the account.
    waiting bigint not null check (waiting >= 0),
    primary key (company_id, environment, account, due_on)
);
comment on table release_day is 'distributed: how much becomes available on a day';

insert into release_day (company_id, environment, account, due_on, waiting)
select company_id, environment, account, due_on, sum(open)
from release_schedule where released_at is null
group by company_id, environment, account, due_on;

create index release_schedule_latest on release_schedule
    (company_id, environment, account, due_on desc, transaction_id, part)
    where released_at is null and open > 0;
