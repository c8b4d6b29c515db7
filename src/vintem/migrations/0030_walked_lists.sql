-- What a list may ask for without an order of its own stands beside the keys, so that a long history is walked in
-- an index alone: only the payments of the page are read.
drop index transaction_newest;
create index transaction_newest on transaction
    (company_id, environment, created_at desc, transaction_id desc)
    include (payment_method, amount);
drop index transaction_status;
create index transaction_status on transaction
    (company_id, environment, status, created_at desc, transaction_id desc)
    include (payment_method, amount);
