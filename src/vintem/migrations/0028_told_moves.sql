-- What providers tell us of a payment, as far as it changes what was agreed when it was made.

-- What a boleto brought beyond its amount: the fine and the interest of a late payment.
alter table transaction
    add column late_amount bigint not null default 0 check (late_amount >= 0);
