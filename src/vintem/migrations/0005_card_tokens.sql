-- Cards on their way from the form to the acquirer.
--
-- A row lives for minutes: deleted in the commit that uses it, or by whoever finds it too old. The
-- card in it is sealed, and the token is known only by its keyed digest. The table is unlogged, so
-- that no card is written to the log of the database or to what is copied from it.

create unlogged table card_token (
    company_id bigint not null,
    token_digest bytea not null check (length(token_digest) = 32),
    environment text collate "C" not null check (environment in ('live', 'test')),
    card_sealed bytea not null,
    expires_at timestamptz not null,
    primary key (company_id, token_digest)
);
comment on table card_token is 'distributed: cards that wait to be used once, sealed';
