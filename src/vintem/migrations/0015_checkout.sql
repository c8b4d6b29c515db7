-- What buyers are asked to pay: products, coupons, links, how the page looks, and sessions.

-- How a company shows itself to buyers, where its pages are, and how it lets them pay.
alter table company
    add column display_name text check (length(display_name) between 1 and 120),
    add column support_email text check (length(support_email) <= 254),
    add column support_url text check (length(support_url) <= 2048),
    add column support_phone text check (length(support_phone) <= 20),
    add column domains text[] collate "C" not null default '{}' check (cardinality(domains) <= 50),
    add column payment_methods text[] collate "C" not null default '{pix,credit_card,boleto}'
        check (payment_methods <@ array['pix', 'credit_card', 'boleto'] collate "C"),
    add column boleto_due_days bigint not null default 3 check (boleto_due_days between 1 and 60);

create table checkout_product (
    company_id bigint not null,
    product_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    name text not null check (length(name) between 1 and 255),
    description text not null default '' check (length(description) <= 2000),
    unit_amount bigint not null check (unit_amount between 1 and 9999999999),
    image_url text check (length(image_url) <= 2048),
    -- The digest by which our own copy of the image is served.
    image_media text collate "C",
    is_active boolean not null default true,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (company_id, product_id)
);
create index checkout_product_newest on checkout_product
    (company_id, environment, created_at desc, product_id desc);
comment on table checkout_product is 'distributed: what a company sells';

create table checkout_coupon (
    company_id bigint not null,
    coupon_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    -- In capitals: buyers may type it either way.
    code text collate "C" not null check (length(code) between 3 and 32 and code = upper(code)),
    discount_type text collate "C" not null check (discount_type in ('PERCENTAGE', 'FIXED')),
    -- Hundredths of a percent, or cents.
    discount_value bigint not null check (discount_value between 1 and 9999999999),
    redemptions_max bigint check (redemptions_max >= 1),
    -- Payments that are alive or paid with it; late ones may take it above the maximum.
    redemptions bigint not null default 0 check (redemptions >= 0),
    starts_at timestamptz,
    ends_at timestamptz,
    minimum_amount bigint not null default 0 check (minimum_amount between 0 and 9999999999),
    is_active boolean not null default true,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (company_id, coupon_id),
    unique (company_id, environment, code),
    check (discount_type <> 'PERCENTAGE' or discount_value <= 10000)
) with (fillfactor = 50);
comment on table checkout_coupon is 'distributed: what buyers get something off with';

create table checkout_link (
    company_id bigint not null,
    link_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    public_token text collate "C" not null,
    name text not null check (length(name) between 1 and 120),
    product_id text collate "C" not null,
    quantity bigint not null default 1 check (quantity between 1 and 1000),
    success_url text check (length(success_url) <= 2048),
    cancel_url text check (length(cancel_url) <= 2048),
    inactive_message text not null default '' check (length(inactive_message) <= 500),
    is_active boolean not null default true,
    ends_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (company_id, link_id)
);
create index checkout_link_newest on checkout_link
    (company_id, environment, created_at desc, link_id desc);
comment on table checkout_link is 'distributed: addresses that a company gives to its buyers';

create table checkout_link_token (
    public_token text collate "C" primary key,
    company_id bigint not null,
    link_id text collate "C" not null
);
comment on table checkout_link_token is 'directory: finds the company of a payment link';

create table checkout_appearance (
    company_id bigint not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    version bigint not null check (version >= 1),
    template text collate "C" not null check (template in ('STANDARD')),
    theme text collate "C" not null check (theme in ('LIGHT', 'DARK', 'AUTO')),
    display_name text not null check (length(display_name) between 1 and 120),
    logo_url text check (length(logo_url) <= 2048),
    logo_media text collate "C",
    primary_color text collate "C" not null check (primary_color ~ '^#[0-9a-f]{6}$'),
    background_color text collate "C" not null check (background_color ~ '^#[0-9a-f]{6}$'),
    -- At most three, as JSON text.
    banners text not null default '[]',
    created_at timestamptz not null,
    primary key (company_id, environment, version)
);
comment on table checkout_appearance is
    'distributed: how a company''s pages look; a version never changes once it is published';

create table checkout_session (
    company_id bigint not null,
    session_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    -- The token itself is shown once and not known here.
    token_digest bytea not null check (length(token_digest) = 32),
    status text collate "C" not null
        check (status in ('OPEN', 'AWAITING_PAYMENT', 'COMPLETED', 'EXPIRED', 'CANCELLED')),
    -- Numbers the events; the version numbers all that a buyer can see change.
    sequence bigint not null check (sequence >= 1),
    state_version bigint not null check (state_version >= 1),
    link_id text collate "C",
    -- Without one the page looks as pages do that nobody has changed.
    appearance_version bigint,
    -- What is bought, with names and prices as they were, as JSON text.
    line_items text not null,
    subtotal_amount bigint not null check (subtotal_amount between 1 and 9999999999),
    discount_amount bigint not null default 0 check (discount_amount >= 0),
    shipping_amount bigint not null default 0 check (shipping_amount >= 0),
    additional_amount bigint not null default 0 check (additional_amount >= 0),
    total_amount bigint not null check (total_amount between 100 and 9999999999),
    coupon_id text collate "C",
    coupon_code text collate "C",
    coupon_discount_type text collate "C",
    success_url text check (length(success_url) <= 2048),
    cancel_url text check (length(cancel_url) <= 2048),
    external_ref text collate "C",
    postback_url text check (length(postback_url) <= 2048),
    metadata text not null default '{}',
    buyer_sealed bytea,
    idempotency_key text collate "C" not null,
    fingerprint bytea not null,
    -- The payment that the page is about: the one that is alive, else the last one.
    transaction_id text collate "C",
    payments_tried bigint not null default 0,
    pix_made bigint not null default 0,
    cards_refused bigint not null default 0,
    -- Payments that were made although another had completed the session.
    extra_payments bigint not null default 0,
    wrong_codes bigint not null default 0,
    coupon_locked_until timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    expires_at timestamptz not null,
    completed_at timestamptz,
    cancelled_at timestamptz,
    -- When the worker must look at it.
    due_at timestamptz,
    primary key (company_id, session_id),
    unique (company_id, environment, idempotency_key),
    check (total_amount = subtotal_amount - discount_amount + shipping_amount + additional_amount),
    check ((coupon_id is null) = (coupon_code is null)
        and (coupon_id is null) = (coupon_discount_type is null)
        and (coupon_id is null) = (discount_amount = 0)),
    check ((status = 'COMPLETED') = (completed_at is not null))
) with (toast_tuple_target = 8160, fillfactor = 70);
create index checkout_session_newest on checkout_session
    (company_id, environment, created_at desc, session_id desc);
create index checkout_session_status on checkout_session
    (company_id, environment, status, created_at desc, session_id desc);
create index checkout_session_external_ref on checkout_session
    (company_id, environment, external_ref, created_at desc, session_id desc)
    where external_ref is not null;
-- By time first: every session that is not over is due one day, and few are due now.
create index checkout_session_due on checkout_session (due_at, company_id)
    where due_at is not null;
comment on table checkout_session is
    'distributed: what one buyer is asked to pay; due_at is when the worker must look at it';

create table checkout_session_token (
    token_digest bytea primary key check (length(token_digest) = 32),
    company_id bigint not null,
    session_id text collate "C" not null
);
comment on table checkout_session_token is
    'directory: finds the company of a session by the digest of its token';

create table checkout_payment (
    company_id bigint not null,
    transaction_id text collate "C" not null,
    environment text collate "C" not null check (environment in ('live', 'test')),
    session_id text collate "C" not null,
    idempotency_key text collate "C" not null,
    fingerprint bytea not null,
    coupon_id text collate "C",
    -- Whether it counts as one of its coupon's redemptions.
    holds_coupon boolean not null,
    is_extra boolean not null default false,
    created_at timestamptz not null,
    paid_at timestamptz,
    primary key (company_id, transaction_id),
    unique (company_id, session_id, idempotency_key),
    check (coupon_id is not null or not holds_coupon),
    check (paid_at is not null or not is_extra)
);
comment on table checkout_payment is
    'distributed: every payment that was tried for a session, and the coupon it was made with';

alter table transaction add column checkout_session_id text collate "C";
