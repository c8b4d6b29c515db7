-- What the dashboard needs of money going out, and of the statement.

alter table decision_log
    drop constraint decision_log_decision_check,
    add constraint decision_log_decision_check check (decision in (
        'approval_required', 'approved', 'approved_alone', 'rejected', 'paused', 'resumed',
        'rules_changed'
    ));

-- The statement of one kind. Payments are left out: they are found everywhere in the statement, and
-- booking one must not cost more.
create index posting_statement_kind on posting (company_id, environment, kind, available_version)
    where available_version is not null and kind <> 'capture';
