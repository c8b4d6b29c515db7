-- A day on which something becomes available is one row for a company, however many payments wait for it. Whoever
-- looks for what is due reads the days that have come, first of all by their date, and no payment that still waits.
create index release_day_due on release_day (due_on, company_id);
