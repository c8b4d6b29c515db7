-- The statement of one kind. Payments are left out: they are found everywhere in the statement, and
-- booking one must not cost more.
create index posting_statement_kind on posting (company_id, environment, kind, available_version)
    where available_version is not null and kind <> 'capture';
