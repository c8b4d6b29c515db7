-- What merchants set up for their checkout: prices as they were, coupons for some products or once
-- a customer, coupons made many at once, and links that end after so many payments.

alter table checkout_product
    -- The product of the test environment that it was copied from.
    add column copied_from text collate "C";
create unique index checkout_product_copied on checkout_product
    (company_id, environment, copied_from) where copied_from is not null;
create index checkout_product_active on checkout_product
    (company_id, environment, is_active, created_at desc, product_id desc);

create table checkout_product_price (
    company_id bigint not null,
    product_id text collate "C" not null,
    since timestamptz not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    unit_amount bigint not null check (unit_amount between 1 and 9999999999),
    primary key (company_id, product_id, since)
);
comment on table checkout_product_price is
    'distributed: what a product has cost, and since when; nothing is changed afterwards';
insert into checkout_product_price (company_id, product_id, since, environment, unit_amount)
select company_id, product_id, updated_at, environment, unit_amount from checkout_product;

alter table checkout_coupon
    -- Empty: for every product.
    add column product_ids text[] collate "C" not null default '{}'
        check (cardinality(product_ids) <= 50),
    add column customer_redemptions_max bigint check (customer_redemptions_max >= 1),
    -- Coupons that were made at once, and which of them it is.
    add column batch_id text collate "C",
    add column batch_number bigint,
    add check ((batch_id is null) = (batch_number is null));
create unique index checkout_coupon_batch on checkout_coupon (company_id, batch_id, batch_number)
    where batch_id is not null;
create index checkout_coupon_newest on checkout_coupon
    (company_id, environment, created_at desc, coupon_id desc);
create index checkout_coupon_active on checkout_coupon
    (company_id, environment, is_active, created_at desc, coupon_id desc);

alter table checkout_link
    add column message text not null default '' check (length(message) <= 500),
    -- Empty: as the company offers.
    add column offered_methods text[] collate "C" not null default '{}'
        check (offered_methods <@ array['pix', 'credit_card', 'boleto'] collate "C"),
    add column installments_max bigint check (installments_max between 1 and 12),
    add column coupon_id text collate "C",
    add column payments_max bigint check (payments_max >= 1),
    -- Payments that wait for their buyers, counted only where there is a maximum.
    add column payments_held bigint not null default 0 check (payments_held >= 0),
    add column payments_made bigint not null default 0 check (payments_made >= 0),
    add column revenue bigint not null default 0 check (revenue >= 0),
    add column copied_from text collate "C";
create unique index checkout_link_copied on checkout_link
    (company_id, environment, copied_from) where copied_from is not null;
create index checkout_link_active on checkout_link
    (company_id, environment, is_active, created_at desc, link_id desc);
update checkout_link l set payments_made = paid.payments, revenue = paid.amount
from (
    select s.company_id, s.link_id, count(*) as payments, sum(t.amount)::bigint as amount
    from checkout_session s join transaction t on t.company_id = s.company_id
        and t.transaction_id = s.transaction_id
    where s.link_id is not null and s.status = 'COMPLETED'
    group by s.company_id, s.link_id
) as paid
where l.company_id = paid.company_id and l.link_id = paid.link_id;

alter table checkout_session
    -- What its link offers, of what the company does; empty and null: all of it.
    add column offered_methods text[] collate "C" not null default '{}',
    add column installments_limit bigint check (installments_limit between 1 and 12);
create index checkout_session_link on checkout_session
    (company_id, environment, link_id, created_at desc, session_id desc) where link_id is not null;

alter table checkout_payment
    -- Who pays, known only by the digest of a document; for coupons that each may use so often.
    add column document_digest bytea,
    -- Whether it is one of its link's last payments.
    add column holds_place boolean not null default false;
create index checkout_payment_customer on checkout_payment
    (company_id, coupon_id, document_digest) where holds_coupon;
