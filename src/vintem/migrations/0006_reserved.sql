-- Reserved: this number belongs to another change that has not arrived here yet.
select 1;
