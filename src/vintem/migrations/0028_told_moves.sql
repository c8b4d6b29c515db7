-- What providers tell us of a payment, as far as it changes what was agreed when it was made.

-- What a boleto brought beyond its amount: the fine and the interest of a late payment.
alter table transaction
    add column late_amount bigint not null default 0 check (late_amount >= 0);

-- The dispute that was told of, as its provider names it.
alter table provider_callback add column dispute_id text collate "C";

-- Time comes first, as it does for payments: whoever looks for what waits reads nothing else.
drop index provider_callback_waiting;
create index provider_callback_waiting on provider_callback (look_at, company_id)
    where look_at is not null;
