"""The rules of the data, read from the catalogue: they keep one server and many alike."""

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pytest

from conftest import new_database
from vintem.runtime.db import Connection, Database
from vintem.runtime.migrations import migrate


class TableClass(StrEnum):
    """How a table is spread when one machine is not enough."""

    DISTRIBUTED = "distributed"
    REFERENCE = "reference"
    DIRECTORY = "directory"
    LOCAL = "local"


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    is_nullable: bool
    is_counted: bool
    """Whether the column numbers its rows by itself: an identity, or a default from a sequence."""


@dataclass(frozen=True)
class Key:
    """A primary key, a unique or exclusion constraint, or a unique index."""

    name: str
    is_primary: bool
    columns: Sequence[str]


@dataclass(frozen=True)
class ForeignKey:
    name: str
    columns: Sequence[str]
    target: str
    target_columns: Sequence[str]


@dataclass(frozen=True)
class Relation:
    """A table or a view as the catalogue describes it."""

    name: str
    kind: str
    comment: str
    parent: str | None
    is_partition: bool
    is_updatable_view: bool
    rules: Sequence[str]
    columns: Sequence[Column]
    keys: Sequence[Key]
    foreign_keys: Sequence[ForeignKey]

    @property
    def is_view(self) -> bool:
        return self.kind in "vm"


@dataclass(frozen=True)
class Catalogue:
    relations: Sequence[Relation]

    def find(self, name: str) -> Relation:
        return next(relation for relation in self.relations if relation.name == name)

    def class_of(self, relation: Relation) -> TableClass | None:
        """The class a table's comment begins with; a partition is of its parent's class."""
        while relation.is_partition and relation.parent is not None:
            relation = self.find(relation.parent)
        word, colon, rest = relation.comment.partition(":")
        if not colon or not rest.strip() or word not in set(TableClass):
            return None
        return TableClass(word)

    def of_class(self, *classes: TableClass) -> Sequence[Relation]:
        return [one for one in self.relations if not one.is_view and self.class_of(one) in classes]


# The rules: each returns its complaints


def every_table_names_its_class(catalogue: Catalogue) -> Sequence[str]:
    return [
        f"{one.name}: its comment must begin with one of {', '.join(TableClass)} and a colon"
        for one in catalogue.relations
        if not one.is_view and catalogue.class_of(one) is None
    ]


def company_leads_every_primary_key(catalogue: Catalogue) -> Sequence[str]:
    complaints = []
    for one in catalogue.of_class(TableClass.DISTRIBUTED):
        columns = {column.name: column for column in one.columns}
        company = columns.get("company_id")
        if company is None or company.type != "bigint" or company.is_nullable:
            complaints.append(f"{one.name}: has no company_id bigint not null")
        primary = [key for key in one.keys if key.is_primary]
        if not primary or primary[0].columns[0] != "company_id":
            complaints.append(f"{one.name}: its primary key does not begin with company_id")
    return complaints


def every_key_contains_the_company(catalogue: Catalogue) -> Sequence[str]:
    return [
        f"{one.name}: {key.name} does not contain company_id"
        for one in catalogue.of_class(TableClass.DISTRIBUTED)
        for key in one.keys
        if "company_id" not in key.columns
    ]


def foreign_keys_stay_with_the_company(catalogue: Catalogue) -> Sequence[str]:
    complaints = []
    for one in catalogue.of_class(TableClass.DISTRIBUTED):
        for key in one.foreign_keys:
            target = catalogue.class_of(catalogue.find(key.target))
            pairs = list(zip(key.columns, key.target_columns, strict=True))
            is_with_company = (
                target is TableClass.DISTRIBUTED and ("company_id", "company_id") in pairs
            )
            if target is not TableClass.REFERENCE and not is_with_company:
                complaints.append(f"{one.name}: {key.name} leaves the company")
    return complaints


def reference_tables_point_to_reference_tables(catalogue: Catalogue) -> Sequence[str]:
    return [
        f"{one.name}: {key.name} points to {key.target}, which is not a reference table"
        for one in catalogue.of_class(TableClass.REFERENCE)
        for key in one.foreign_keys
        if catalogue.class_of(catalogue.find(key.target)) is not TableClass.REFERENCE
    ]


def counted_columns_are_bigint(catalogue: Catalogue) -> Sequence[str]:
    return [
        f"{one.name}: {column.name} counts in {column.type}, not in bigint"
        for one in catalogue.relations
        for column in one.columns
        if column.is_counted and column.type != "bigint"
    ]


def companies_are_bigint_everywhere(catalogue: Catalogue) -> Sequence[str]:
    return [
        f"{one.name}: company_id is {column.type}, not bigint"
        for one in catalogue.relations
        for column in one.columns
        if column.name == "company_id" and column.type != "bigint"
    ]


def nothing_is_rewritten(catalogue: Catalogue) -> Sequence[str]:
    rules = [
        f"{one.name}: has the rule {rule}" for one in catalogue.relations for rule in one.rules
    ]
    views = [
        f"{one.name}: is an updatable view" for one in catalogue.relations if one.is_updatable_view
    ]
    return [*rules, *views]


def nothing_is_inherited(catalogue: Catalogue) -> Sequence[str]:
    heirs = [one for one in catalogue.relations if one.parent is not None]
    return [
        *(f"{one.name}: inherits from {one.parent}" for one in heirs if not one.is_partition),
        *(
            f"{one.name}: is a partition that has partitions"
            for one in heirs
            if one.is_partition and one.kind == "p"
        ),
    ]


RULES: Sequence[Callable[[Catalogue], Sequence[str]]] = (
    every_table_names_its_class,
    company_leads_every_primary_key,
    every_key_contains_the_company,
    foreign_keys_stay_with_the_company,
    reference_tables_point_to_reference_tables,
    counted_columns_are_bigint,
    companies_are_bigint_everywhere,
    nothing_is_rewritten,
    nothing_is_inherited,
)


# Reading the catalogue

RELATIONS = """
    select c.oid, c.oid::regclass::text as name, c.relkind::text as kind, c.relispartition,
        coalesce(obj_description(c.oid, 'pg_class'), '') as comment,
        (select i.inhparent::regclass::text from pg_inherits i where i.inhrelid = c.oid
            order by i.inhseqno limit 1) as parent,
        -- 28 are the bits of update, insert and delete.
        c.relkind = 'v' and pg_relation_is_updatable(c.oid, true) & 28 <> 0 as is_updatable_view,
        array(select rulename::text from pg_rewrite r
            where r.ev_class = c.oid and r.rulename <> '_RETURN' order by 1) as rules
    from pg_class c
    where c.relkind in ('r', 'p', 'f', 'v', 'm')
        and c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
        and c.relnamespace::regnamespace::text not like 'pg\\_%'
    order by name
"""

COLUMNS = """
    select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type,
        not a.attnotnull as is_nullable,
        a.attidentity <> '' or coalesce(
            pg_get_expr(d.adbin, d.adrelid) like '%nextval(%', false) as is_counted
    from pg_attribute a
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
    order by a.attnum
"""

# Constraints that keep rows apart rest on an index, so the indexes tell of all of them.
KEYS = """
    select i.indexrelid::regclass::text as name, i.indisprimary as is_primary,
        array(
            select coalesce(a.attname::text, '')
            from unnest(i.indkey[0:i.indnkeyatts - 1]) with ordinality k (number, place)
            left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
            order by k.place
        ) as columns
    from pg_index i
    where i.indrelid = $1 and (i.indisunique or i.indisexclusion)
    order by 1
"""

FOREIGN_KEYS = """
    select conname::text as name, confrelid::regclass::text as target,
        array(select attname::text from unnest(conkey) with ordinality k (number, place)
            join pg_attribute on attrelid = conrelid and attnum = number order by place) as columns,
        array(select attname::text from unnest(confkey) with ordinality k (number, place)
            join pg_attribute on attrelid = confrelid and attnum = number order by place)
            as target_columns
    from pg_constraint
    where conrelid = $1 and contype = 'f'
    order by 1
"""


async def read_catalogue(db: Connection) -> Catalogue:
    relations = [
        Relation(
            name=row["name"],
            kind=row["kind"],
            comment=row["comment"],
            parent=row["parent"],
            is_partition=row["relispartition"],
            is_updatable_view=row["is_updatable_view"],
            rules=row["rules"],
            columns=[
                Column(one["name"], one["type"], one["is_nullable"], one["is_counted"])
                for one in await db.fetch(COLUMNS, row["oid"])
            ],
            keys=[
                Key(one["name"], one["is_primary"], one["columns"])
                for one in await db.fetch(KEYS, row["oid"])
            ],
            foreign_keys=[
                ForeignKey(one["name"], one["columns"], one["target"], one["target_columns"])
                for one in await db.fetch(FOREIGN_KEYS, row["oid"])
            ],
        )
        for row in await db.fetch(RELATIONS)
    ]
    return Catalogue(relations)


def complaints_of(catalogue: Catalogue) -> Sequence[str]:
    return [complaint for rule in RULES for complaint in rule(catalogue)]


# The tests

databases = itertools.count(1)


@pytest.fixture(scope="module")
async def migrated(worker_id: str) -> AsyncIterator[Database]:
    """A database with the migrations and nothing of other tests."""
    database = Database(await new_database(f"catalogue_{worker_id}_{next(databases)}"))
    await database.open()
    await migrate(database)
    yield database
    await database.close()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
async def test_the_migrated_database_keeps_the_rule(
    migrated: Database, rule: Callable[[Catalogue], Sequence[str]]
) -> None:
    catalogue = await read_catalogue(migrated)
    assert len(catalogue.relations) > 3
    assert rule(catalogue) == []


async def test_the_catalogue_is_read_as_it_is(migrated: Database) -> None:
    catalogue = await read_catalogue(migrated)
    fee = catalogue.find("company_fee")
    assert catalogue.class_of(fee) is TableClass.REFERENCE
    assert fee.columns[0] == Column("company_id", "bigint", is_nullable=False, is_counted=False)
    assert [(key.is_primary, list(key.columns)) for key in fee.keys] == [
        (True, ["company_id", "method", "installments_from"])
    ]
    assert [(key.target, list(key.target_columns)) for key in fee.foreign_keys] == [
        ("company", ["company_id"])
    ]
    company = catalogue.find("company")
    assert catalogue.class_of(company) is TableClass.REFERENCE
    assert company.columns[0].is_counted
    assert {tuple(key.columns) for key in company.keys} == {("company_id",), ("public_id",)}


GOOD = """
    create table ground (code text primary key);
    comment on table ground is 'reference: ground';
    create table lookup (token bytea primary key, company_id bigint not null);
    comment on table lookup is 'directory: lookup';
    create table owner (
        company_id bigint not null, id text not null, code text references ground,
        number bigint generated always as identity,
        primary key (company_id, id), unique (company_id, code)
    );
    create unique index owner_lower on owner (company_id, lower(code)) where code <> '';
    comment on table owner is 'distributed: owner';
    create table owned (
        company_id bigint not null, id text not null, owner_id text not null,
        primary key (company_id, id),
        foreign key (company_id, owner_id) references owner (company_id, id)
    );
    comment on table owned is 'distributed: owned';
    create table log (
        company_id bigint not null, id text not null, at timestamptz not null,
        primary key (company_id, at, id)
    ) partition by range (at);
    comment on table log is 'distributed: log';
    create table log_2026 partition of log for values from ('2026-01-01') to ('2027-01-01');
    create view report as select company_id, count(*) from owner group by company_id;
"""

BAD = {
    "a table without a comment": (
        """
        create table bad (company_id bigint primary key)
        """,
        "bad: its comment must begin with",
    ),
    "an unknown class": (
        """
        create table bad (company_id bigint primary key);
        comment on table bad is 'global: everything'
        """,
        "bad: its comment must begin with",
    ),
    "a class that explains nothing": (
        """
        create table bad (company_id bigint primary key);
        comment on table bad is 'local:'
        """,
        "bad: its comment must begin with",
    ),
    "a class that only begins like one": (
        """
        create table bad (company_id bigint primary key);
        comment on table bad is 'locally: x'
        """,
        "bad: its comment must begin with",
    ),
    "no company": (
        """
        create table bad (id text primary key);
        comment on table bad is 'distributed: x'
        """,
        "bad: has no company_id bigint not null",
    ),
    "a company that is not bigint": (
        """
        create table bad (company_id integer primary key);
        comment on table bad is 'distributed: x'
        """,
        "bad: has no company_id bigint not null",
    ),
    "a company that may be missing": (
        """
        create table bad (company_id bigint);
        comment on table bad is 'distributed: x'
        """,
        "bad: has no company_id bigint not null",
    ),
    "no primary key": (
        """
        create table bad (company_id bigint not null);
        comment on table bad is 'distributed: x'
        """,
        "bad: its primary key does not begin with company_id",
    ),
    "a primary key that begins with something else": (
        """
        create table bad (company_id bigint, id text, primary key (id, company_id));
        comment on table bad is 'distributed: x'
        """,
        "bad: its primary key does not begin with company_id",
    ),
    "a company that is only included in the key": (
        """
        create table bad (company_id bigint not null, id text, primary key (id) include
            (company_id));
        comment on table bad is 'distributed: x'
        """,
        "bad: bad_pkey does not contain company_id",
    ),
    "a unique constraint without the company": (
        """
        create table bad (company_id bigint primary key, ref text unique);
        comment on table bad is 'distributed: x'
        """,
        "bad: bad_ref_key does not contain company_id",
    ),
    "a unique index without the company": (
        """
        create table bad (company_id bigint primary key, ref text);
        create unique index bad_ref on bad (lower(ref)) where ref <> '';
        comment on table bad is 'distributed: x'
        """,
        "bad: bad_ref does not contain company_id",
    ),
    "an exclusion without the company": (
        """
        create table bad (company_id bigint primary key, during tstzrange, constraint
            bad_during exclude using gist (during with &&));
        comment on table bad is 'distributed: x'
        """,
        "bad: bad_during does not contain company_id",
    ),
    "a foreign key into a directory": (
        """
        create table bad (company_id bigint primary key, token bytea references lookup);
        comment on table bad is 'distributed: x'
        """,
        "bad: bad_token_fkey leaves the company",
    ),
    "a foreign key that crosses companies": (
        """
        create table bad (company_id bigint primary key, other_id bigint, owner_id text,
            constraint bad_owner foreign key (other_id, owner_id) references owner
            (company_id, id));
        comment on table bad is 'distributed: x'
        """,
        "bad: bad_owner leaves the company",
    ),
    "a foreign key with the company in another place": (
        """
        create table peer (company_id bigint, place bigint, primary key (company_id,
            place));
        comment on table peer is 'distributed: x';
        create table bad (company_id bigint primary key, place bigint, constraint bad_peer
            foreign key (place, company_id) references peer (company_id, place));
        comment on table bad is 'distributed: x'
        """,
        "bad: bad_peer leaves the company",
    ),
    "a reference table that points to companies' rows": (
        """
        create table bad (id text primary key, company_id bigint, owner_id text, constraint
            bad_owner foreign key (company_id, owner_id) references owner);
        comment on table bad is 'reference: x'
        """,
        "bad: bad_owner points to owner, which is not a reference table",
    ),
    "a serial": (
        """
        create table bad (id serial primary key);
        comment on table bad is 'local: x'
        """,
        "bad: id counts in integer, not in bigint",
    ),
    "a narrow identity": (
        """
        create table bad (id smallint generated by default as identity primary key);
        comment on table bad is 'reference: x'
        """,
        "bad: id counts in smallint, not in bigint",
    ),
    "a narrow company": (
        """
        create table bad (token bytea primary key, company_id integer);
        comment on table bad is 'directory: x'
        """,
        "bad: company_id is integer, not bigint",
    ),
    "a rule": (
        """
        create rule bad_rule as on delete to ground do instead nothing
        """,
        "ground: has the rule bad_rule",
    ),
    "an updatable view": (
        """
        create view bad as select * from ground
        """,
        "bad: is an updatable view",
    ),
    "a view made updatable by a trigger": (
        """
        create view bad as select company_id, count(*) from owner group by company_id;
        create function bad_move() returns trigger language plpgsql as 'begin return null;
        end';
        create trigger bad_trigger instead of insert on bad for each row execute function
            bad_move()
        """,
        "bad: is an updatable view",
    ),
    "inheritance": (
        """
        create table bad (extra text) inherits (ground);
        comment on table bad is 'reference: x'
        """,
        "bad: inherits from ground",
    ),
    "partitions of partitions": (
        """
        create table bad partition of log for values from ('2027-01-01') to ('2028-01-01')
            partition by range (id)
        """,
        "bad: is a partition that has partitions",
    ),
    "a partition with a key of its own": (
        """
        create unique index bad_id on log_2026 (id)
        """,
        "log_2026: bad_id does not contain company_id",
    ),
}


@pytest.fixture(scope="module")
async def playground(worker_id: str) -> AsyncIterator[Database]:
    """A database with good tables of every class."""
    database = Database(await new_database(f"playground_{worker_id}_{next(databases)}"))
    await database.open()
    await database.execute(GOOD)
    yield database
    await database.close()


async def test_tables_that_keep_every_rule_are_not_complained_of(playground: Database) -> None:
    assert complaints_of(await read_catalogue(playground)) == []


async def catalogue_with(playground: Database, statements: str) -> Catalogue:
    """Read the catalogue as it would be after these statements, and undo them."""
    connection = await playground.connect()
    try:
        await connection.execute("begin")
        await connection.execute(statements)
        return await read_catalogue(connection)
    finally:
        connection.terminate()


@pytest.mark.parametrize(("statements", "complaint"), BAD.values(), ids=BAD)
async def test_a_breach_is_complained_of(
    playground: Database, statements: str, complaint: str
) -> None:
    complaints = complaints_of(await catalogue_with(playground, statements))
    assert any(one.startswith(complaint) for one in complaints), complaints


async def test_every_rule_is_broken_by_one_of_the_breaches(playground: Database) -> None:
    broken = set()
    for statements, _ in BAD.values():
        catalogue = await catalogue_with(playground, statements)
        broken |= {rule.__name__ for rule in RULES if rule(catalogue)}
    assert broken == {rule.__name__ for rule in RULES}
