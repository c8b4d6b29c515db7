-- The refund that a provider told of: one that we had asked for, or one that its word has made.

alter table provider_callback add column refund_id text collate "C";
create unique index provider_callback_refund on provider_callback (company_id, refund_id)
    where refund_id is not null;
