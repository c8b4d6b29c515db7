-- Every payment of a session keeps the coupon and the discount it was made with: whichever completes
-- the session says what the session was paid at. One key of a buyer stands for one payment, also where
-- it was answered with a payment that another key had made.

alter table checkout_session add column slips_made bigint not null default 0;
update checkout_session s set slips_made = (
    select count(*) from checkout_payment p join transaction t
        on t.company_id = p.company_id and t.transaction_id = p.transaction_id
    where p.company_id = s.company_id and p.session_id = s.session_id
        and t.payment_method = 'boleto'
);

alter table checkout_payment add column discount_amount bigint not null default 0,
    add column coupon_code text collate "C",
    add column coupon_discount_type text collate "C";
update checkout_payment p set coupon_code = c.code, coupon_discount_type = c.discount_type,
    discount_amount = s.subtotal_amount + s.shipping_amount + s.additional_amount - t.amount
        + coalesce((t.details::json ->> 'interestAmount')::bigint, 0)
from checkout_coupon c, checkout_session s, transaction t
where c.company_id = p.company_id and c.coupon_id = p.coupon_id
    and s.company_id = p.company_id and s.session_id = p.session_id
    and t.company_id = p.company_id and t.transaction_id = p.transaction_id;
alter table checkout_payment add check ((coupon_id is null) = (coupon_code is null)
    and (coupon_id is null) = (coupon_discount_type is null)
    and (coupon_id is null) = (discount_amount = 0));

create table checkout_payment_key (
    company_id bigint not null,
    session_id text collate "C" not null,
    idempotency_key text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    fingerprint bytea not null,
    transaction_id text collate "C" not null,
    created_at timestamptz not null,
    primary key (company_id, session_id, idempotency_key)
);
comment on table checkout_payment_key is
    'distributed: the keys of buyers who were shown a payment that another key had made';
