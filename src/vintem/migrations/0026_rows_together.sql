-- Rows that are written together travel as one array of rows. With an array for each column the
-- driver looks twice at every value before it sends it, and PostgreSQL calls a function a column.
--
-- The order of what is in a type is the order in which the program names it. A type is never
-- altered, for rows of a program that knows it as it was would be refused: one more column is a new
-- type.

-- A payment to be created, and the event that tells of it.
create type new_payment as (
    company_id bigint,
    transaction_id text collate "C",
    environment text collate "C",
    status text collate "C",
    payment_method text collate "C",
    amount bigint,
    fee bigint,
    installments bigint,
    external_ref text collate "C",
    document_digest bytea,
    document_sealed bytea,
    idempotency_key text collate "C",
    fingerprint bytea,
    details text,
    terms text,
    created_at timestamptz,
    expires_at timestamptz,
    due_at timestamptz,
    event_id text collate "C",
    kind text collate "C",
    body text,
    postback_url text,
    checkout_session_id text collate "C"
);

-- A payment as it was read, what changes once it is paid, its event, and the parts of its posting.
create type paid_payment as (
    company_id bigint,
    transaction_id text collate "C",
    was text collate "C",
    sequence bigint,
    status_reason text collate "C",
    end_to_end_id text collate "C",
    event_id text collate "C",
    body text,
    postback_url text,
    source text collate "C",
    total bigint,
    available bigint,
    fee bigint,
    release bigint,
    reserve bigint,
    available_at bigint,
    available_after bigint,
    release_at bigint,
    reserve_at bigint,
    -- The number of its ledger among those that gain something.
    gain bigint
);

-- What a ledger gains by all payments of a group, and by how many legs.
create type ledger_gain as (
    number bigint,
    company_id bigint,
    environment text collate "C",
    available bigint,
    available_legs bigint,
    release bigint,
    release_legs bigint,
    reserve bigint,
    reserve_legs bigint
);

-- Money of a payment that waits in an account until a day.
create type new_release as (
    company_id bigint,
    environment text collate "C",
    transaction_id text collate "C",
    account text collate "C",
    part bigint,
    due_on date,
    amount bigint
);

-- A call of a company's key, as it is kept.
create type new_call as (
    company_id bigint,
    environment text collate "C",
    request_id text collate "C",
    at timestamptz,
    method text,
    route text,
    record_id text,
    status bigint,
    code text,
    key_id text collate "C",
    client_ip text,
    correlation_id text,
    microseconds bigint,
    remaining bigint,
    body text
);
