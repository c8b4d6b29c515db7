"""The statement of a time and of a kind, found without walking through all of it."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from support.api import Tenant
from vintem.ledger import service as ledger
from vintem.ledger.model import Kind, Scope, StatementFilter
from vintem.runtime.db import Connection, Database

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(hours=6)
MOVEMENTS = 200
FAR = timedelta(days=9_999)


class RolledBackError(Exception):
    """Ends a block whose rows no other test shall see."""


async def write_movements(block: Connection, scope: Scope) -> None:
    """Movements every six hours, each tenth of another kind; every seventh was overtaken."""
    await block.execute(
        """
        insert into account (company_id, environment, code, balance, version)
        values ($1, $2, 'available', 0, $3)
        on conflict (company_id, environment, code) do update set version = excluded.version
        """,
        scope.company_id,
        scope.environment,
        MOVEMENTS,
    )
    await block.execute(
        """
        insert into posting (company_id, environment, kind, reference, codes, amounts, versions,
            available_amount, available_version, available_after, created_at)
        select $1, $2, case when n % 10 = 0 then 'reserve_release' else 'release' end, 'r' || n,
            '{release,available}', array[-1, 1], array[n, n], 1, n, n,
            $3::timestamptz + (n - 1) * $4::interval
                - case when n % 7 = 0 then interval '50 minutes' else interval '0' end
        from generate_series(1, $5::bigint) as n
        """,
        scope.company_id,
        scope.environment,
        BEGINNING,
        STEP,
        MOVEMENTS,
    )


def happened_at(number: int) -> datetime:
    overtaken = timedelta(minutes=50) if number % 7 == 0 else timedelta()
    return BEGINNING + (number - 1) * STEP - overtaken


@pytest.mark.parametrize(
    "wanted",
    [
        StatementFilter(),
        StatementFilter(created_from=BEGINNING + 9 * STEP, created_before=BEGINNING + 60 * STEP),
        StatementFilter(created_from=happened_at(14), created_before=happened_at(14) + STEP),
        StatementFilter(created_from=BEGINNING - FAR),
        StatementFilter(created_before=BEGINNING),
        StatementFilter(created_from=BEGINNING + FAR),
        StatementFilter(Kind.RESERVE_RELEASE, created_before=BEGINNING + 100 * STEP),
        StatementFilter(Kind.RELEASE, created_from=BEGINNING + 100 * STEP),
        StatementFilter(Kind.CAPTURE),
    ],
)
async def test_exactly_the_movements_of_a_time_and_a_kind_are_listed(
    database: Database, tenant: Tenant, wanted: StatementFilter
) -> None:
    scope = Scope(tenant.company.company_id, "live")
    found: list[int] = []
    with suppress(RolledBackError):
        async with database.atomic() as block:
            await write_movements(block, scope)
            before = None
            while lines := await ledger.filtered_statement(
                block, scope, wanted, before=before, rows_max=40
            ):
                found += [line.number for line in lines]
                before = found[-1]
            raise RolledBackError
    assert found == [number for number in range(MOVEMENTS, 0, -1) if is_wanted(number, wanted)]


async def test_a_page_is_found_by_its_number_and_the_whole_is_known_without_counting(
    database: Database, tenant: Tenant
) -> None:
    scope = Scope(tenant.company.company_id, "live")
    pages: list[list[int]] = []
    with suppress(RolledBackError):
        async with database.atomic() as block:
            await write_movements(block, scope)
            for before, offset in ((None, 0), (None, 150), (None, 195), (None, 200), (100, 0)):
                page = await ledger.statement(
                    block, scope, before=before, offset=offset, rows_max=10
                )
                assert page.total == MOVEMENTS
                pages.append([line.number for line in page.lines])
            raise RolledBackError
    assert [(page[0], page[-1]) for page in pages if page] == [
        *((200, 191), (50, 41), (5, 1), (99, 90)),
    ]
    assert pages[3] == []


def is_wanted(number: int, wanted: StatementFilter) -> bool:
    kind = Kind.RESERVE_RELEASE if number % 10 == 0 else Kind.RELEASE
    moment = happened_at(number)
    return (
        wanted.kind in {None, kind}
        and (wanted.created_from is None or moment >= wanted.created_from)
        and (wanted.created_before is None or moment < wanted.created_before)
    )


async def test_a_company_without_movements_has_an_empty_statement(
    database: Database, tenant: Tenant
) -> None:
    scope = Scope(tenant.company.company_id, "live")
    wanted = StatementFilter(created_from=BEGINNING, created_before=BEGINNING + FAR)
    lines = await ledger.filtered_statement(database, scope, wanted, before=None, rows_max=9)
    assert list(lines) == []
    page = await ledger.statement(database, scope, before=None, offset=0, rows_max=9)
    assert (list(page.lines), page.total) == ([], 0)
