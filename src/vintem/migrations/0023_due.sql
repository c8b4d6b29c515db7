-- Time comes first, as it does for sessions: whoever looks for what is due reads nothing else, however
-- many payments of however many companies are still to come.
drop index transaction_due;
create index transaction_due on transaction (due_at, company_id) where due_at is not null;
