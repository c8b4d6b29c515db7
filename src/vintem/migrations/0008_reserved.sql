-- Kept free: the numbers of migrations have no gaps.
select;
