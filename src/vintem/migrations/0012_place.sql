-- Keeps the place of what another branch brings under this number.
select 1;
