-- What became of what providers told us: of payments, and of money going out.

-- The refund that was told of: one that we had asked for, or one that this word has made.
alter table provider_callback add column refund_id text collate "C";
create unique index provider_callback_refund on provider_callback (company_id, refund_id)
    where refund_id is not null;

-- What was said of a payout and what came of it; empty in what was told before this was kept.
alter table payout_notice
    add column environment text collate "C" check (environment in ('live', 'test')),
    add column kind text collate "C" check (kind in ('payout.paid', 'payout.rejected')),
    add column amount bigint,
    add column outcome text collate "C" check (outcome in ('applied', 'unchanged', 'contradicts'));
update payout_notice n set environment = w.environment from withdrawal w
where w.company_id = n.company_id and w.request_id = n.request_id;
alter table payout_notice alter column environment set not null;
create index payout_notice_request on payout_notice (company_id, request_id);
