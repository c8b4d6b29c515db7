select 1; -- This number belongs to another change.
