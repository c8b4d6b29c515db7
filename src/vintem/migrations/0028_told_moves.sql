-- What providers tell us of a payment, as far as it changes what was agreed when it was made.

-- What a boleto brought beyond its amount: the fine and the interest of a late payment.
alter table transaction
    add column late_amount bigint not null default 0 check (late_amount >= 0);

-- The dispute that was told of, as its provider names it.
alter table provider_callback add column dispute_id text collate "C";

-- A charge that its acquirer has once had in process is not taken for one that never arrived. It is
-- asked about until it is decided, and so are those for which a callback alone was waited for.
alter table provider_request add column is_seen boolean not null default false;
update provider_request r set is_seen = true, ask_at = now()
from transaction t
where t.company_id = r.company_id and t.transaction_id = r.transaction_id
    and t.status = 'processing' and t.sequence > 0 and r.ask_at is null;

-- Time comes first, as it does for payments: whoever looks for what waits reads nothing else.
drop index provider_callback_waiting;
create index provider_callback_waiting on provider_callback (look_at, company_id)
    where look_at is not null;
