-- What is never changed is not emptied either: triggers of rows say nothing about that.
create trigger posting_is_never_emptied before truncate on posting
    for each statement execute function refuse_rewriting();
create trigger asset_posting_is_never_emptied before truncate on asset_posting
    for each statement execute function refuse_rewriting();
create trigger decision_log_is_never_emptied before truncate on decision_log
    for each statement execute function refuse_rewriting();
