"""Lists as files: what is on the screen, safe in a spreadsheet, for those who may, and noted."""

import re
from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest

from dashboard.test_trail import numbers, write
from support.api import Api, Tenant, complaints
from support.team import Browser, sign_in
from vintem import worker
from vintem.companies.model import Environment
from vintem.dashboard import exporting
from vintem.dashboard.csv_file import Cell, Export, Money, file_name, head, line
from vintem.kit.clock import business_day, utc_now
from vintem.members.model import Permission, Role
from vintem.resources import Resources, open_resources
from vintem.runtime.db import Database
from vintem.settings import Settings
from vintem.trail import service as trail
from vintem.trail.model import ActFilter

TEST = "/dashboard/test"


class Asked(msgspec.Struct, frozen=True):
    since: str = ""
    until: str = ""


async def no_rows(*_: object) -> AsyncIterator[tuple[Cell, ...]]:
    rows: tuple[tuple[Cell, ...], ...] = ()
    for row in rows:
        yield row


SALES = Export(
    what="transacoes",
    label="Transações",
    header=("data", "cliente", Money("valor"), "parcelas", "dia"),
    asked=Asked,
    rows=no_rows,
    permission=Permission.SALES_READ,
)
MOMENT = datetime(2026, 11, 15, 14, 21, 5, tzinfo=ZoneInfo("UTC"))


def test_a_file_begins_with_its_mark_and_names_in_portuguese() -> None:
    assert head(SALES) == b"\xef\xbb\xbfdata;cliente;valor_centavos;valor;parcelas;dia\r\n"


def test_money_is_written_twice_and_moments_by_the_clocks_of_brasilia() -> None:
    written = line(SALES, (MOMENT, "Ação", 123456, 2, date(2026, 11, 15)))
    assert written == "15/11/2026 11:21:05;Ação;123456;1234,56;2;15/11/2026\r\n".encode()
    assert line(SALES, (None, "", -5, 0, None)) == b";;-5;-0,05;0;\r\n"
    assert line(SALES, (None, None, None, None, None)) == b";;;;;\r\n"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+5511", "'+5511"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", '"\'\r=1"'),
        ("\n=1", '"\'\n=1"'),
        ("＝1", "'＝1"),
        ('a;b"c', '"a;b""c"'),
        ("a=b", "a=b"),
        ("two\r\nlines", '"two\r\nlines"'),
    ],
)
def test_no_text_is_a_formula_or_leaves_its_cell(text: str, cell: str) -> None:
    assert line(SALES, (None, text, None, None, None)).decode() == f";{cell};;;;\r\n"


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (Asked("2026-11-01", "2026-11-15"), "transacoes_2026-11-01_2026-11-15_live.csv"),
        (Asked(), "transacoes_inicio_2026-11-15_live.csv"),
        (Asked('"; x=', "../../x"), "transacoes_inicio_2026-11-15_live.csv"),
    ],
)
def test_a_file_is_named_by_what_is_in_it(asked: Asked, name: str) -> None:
    assert file_name(SALES, asked, environment=Environment.LIVE, now=MOMENT) == name


async def test_the_file_is_what_the_screen_shows(
    api: Api, database: Database, tenant: Tenant
) -> None:
    await write(database, tenant, "key.created", "key.created", actor_name="=cmd|calc")
    await write(database, tenant, "webhook.created")
    finance = await sign_in(api, database, tenant, Role.FINANCE)
    owner = await sign_in(api, database, tenant, Role.OWNER)
    query = f"action=key.created&since=2020-01-01&until={business_day(utc_now())}"
    screen = await owner.get(f"{TEST}/trail?{query}")
    reply = await owner.get(f"{TEST}/trail.csv?{query}")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    assert reply.headers["cache-control"] == "no-store"
    name = f"auditoria_2020-01-01_{business_day(utc_now())}_test.csv"
    assert reply.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert reply.body.startswith(b"\xef\xbb\xbfnumero;data;quem;")
    lines = reply.body.decode().split("\r\n")[1:-1]
    assert [int(one.split(";")[0]) for one in lines] == numbers(screen.body) == [2, 1]
    assert all(";'=cmd|calc;" in one for one in lines)
    # Whoever sees less takes less away.
    part = await finance.get(f"{TEST}/trail.csv")
    assert b";key.created;" not in part.body
    assert b";export.made;" in part.body


async def test_an_export_is_noted_with_its_rows_and_its_filter(
    api: Api, database: Database, tenant: Tenant
) -> None:
    await write(database, tenant, "key.created")
    owner = await sign_in(api, database, tenant, Role.OWNER)
    await owner.get(f"{TEST}/trail.csv?target=390.533.447-05&action=key.created")
    [act] = await trail.list_older(
        database,
        tenant.company.company_id,
        ActFilter(environment="test", action="export.made"),
        rows_max=5,
    )
    assert '"rows":0' in act.after
    assert '"filter":{"action":"key.created","target":"[redacted]"}' in act.after
    page = (await owner.get(f"{TEST}/exports")).body.decode()
    assert "auditoria_inicio_" in page
    assert "Pessoa owner" in page
    assert "action=key.created" in page
    assert "390.533.447-05" not in page
    assert await complaints(database) == {}


async def test_only_those_who_may_export(api: Api, database: Database, tenant: Tenant) -> None:
    statuses = {}
    for role in Role:
        browser = await sign_in(api, database, tenant, role)
        statuses[role] = [
            (await browser.get(f"/dashboard/{environment}/{path}")).status
            for environment in Environment
            for path in ("trail.csv", "exports")
        ]
    assert statuses == {
        Role.OWNER: [200] * 4,
        Role.ADMIN: [200] * 4,
        Role.FINANCE: [200] * 4,
        Role.DEVELOPER: [403, 403, 200, 200],
        Role.SUPPORT: [403] * 4,
    }


async def test_nobody_takes_lists_faster_than_a_person_would(
    api: Api, database: Database, tenant: Tenant
) -> None:
    owner = await sign_in(api, database, tenant, Role.OWNER)
    statuses = [(await owner.get(f"{TEST}/trail.csv")).status for _ in range(11)]
    assert statuses == [200] * 10 + [429]
    admin = await sign_in(api, database, tenant, Role.ADMIN)
    assert (await admin.get(f"{TEST}/trail.csv")).status == 200


@pytest.fixture
async def resources(settings: Settings) -> AsyncIterator[Resources]:
    async with open_resources(settings, shared_limits=False) as opened:
        yield opened


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are long, and pieces small, as if there were many rows."""
    monkeypatch.setattr(exporting, "ROWS_AT_ONCE_MAX", 3)
    monkeypatch.setattr(exporting, "PIECE_BYTES", 500)


async def link_of(browser: Browser) -> str:
    page = (await browser.get(f"{TEST}/exports")).body.decode()
    found = re.search(r'href="([^"]+/file)"', page)
    assert found, page
    return found[1]


@pytest.mark.usefixtures("short")
async def test_a_long_list_is_made_by_the_worker_and_fetched_later(
    api: Api, database: Database, tenant: Tenant, resources: Resources
) -> None:
    await write(database, tenant, *["withdrawal.approved"] * 9)
    finance = await sign_in(api, database, tenant, Role.FINANCE)
    reply = await finance.get(f"{TEST}/trail.csv?action=withdrawal.approved")
    assert (reply.status, reply.headers["location"]) == (303, f"{TEST}/exports?said=export-waiting")
    assert "Em preparo" in (await finance.get(f"{TEST}/exports")).body.decode()
    assert await worker.make_exports(resources) == 1
    assert await worker.make_exports(resources) == 0
    path = await link_of(finance)
    file = await finance.get(path)
    assert file.status == 200
    assert int(file.headers["content-length"]) == len(file.body)
    assert file.body.startswith(b"\xef\xbb\xbfnumero;")
    assert [one.split(";")[0] for one in file.body.decode().split("\r\n")[1:-1]] == list(
        "987654321"
    )
    pieces = await database.fetchval(
        "select count(*) from export_chunk where company_id = $1", tenant.company.company_id
    )
    assert pieces > 1
    acts = await trail.list_older(
        database,
        tenant.company.company_id,
        ActFilter(environment="test", subjects=["export"]),
        rows_max=5,
    )
    assert [act.action for act in acts] == ["export.fetched", "export.made", "export.requested"]
    assert '"rows":9' in acts[1].after
    assert await complaints(database) == {}

    # Another member's file is for those who see the whole trail; another company's for nobody.
    admin = await sign_in(api, database, tenant, Role.ADMIN)
    assert (await admin.get(path)).status == 200
    assert (await (await sign_in(api, database, tenant, Role.FINANCE)).get(path)).status == 404
    assert (await (await sign_in(api, database, tenant, Role.SUPPORT)).get(path)).status == 403
    assert (await admin.get(path.replace("/test/", "/live/"))).status == 404


@pytest.mark.usefixtures("short")
async def test_a_file_is_fetched_for_seven_days(
    api: Api, database: Database, tenant: Tenant, resources: Resources
) -> None:
    await write(database, tenant, *["withdrawal.approved"] * 9)
    owner = await sign_in(api, database, tenant, Role.OWNER)
    await owner.get(f"{TEST}/trail.csv")
    assert await worker.make_exports(resources) == 1
    path = await link_of(owner)
    company_id = tenant.company.company_id
    assert await worker.forget_old_exports(resources) == 0
    await database.execute(
        "update export_file set expires_at = $2 where company_id = $1", company_id, utc_now()
    )
    assert (await owner.get(path)).status == 404
    assert "Prazo encerrado" in (await owner.get(f"{TEST}/exports")).body.decode()
    await database.execute(
        "update export_chunk set created_at = created_at - $2::interval where company_id = $1",
        company_id,
        timedelta(days=9),
    )
    assert await worker.forget_old_exports(resources) > 1


@pytest.mark.usefixtures("short")
async def test_a_file_that_a_worker_left_half_made_is_made_by_the_next(
    api: Api,
    database: Database,
    tenant: Tenant,
    resources: Resources,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await write(database, tenant, *["withdrawal.approved"] * 9)
    owner = await sign_in(api, database, tenant, Role.OWNER)
    await owner.get(f"{TEST}/trail.csv?action=withdrawal.approved")
    company_id = tenant.company.company_id
    whole = line
    written = []

    def breaking(*args: object) -> bytes:
        written.append(args)
        if len(written) > 6:
            raise RuntimeError("the worker dies")
        return whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(exporting, "line", breaking)
    with pytest.raises(RuntimeError):
        await worker.make_exports(resources)
    monkeypatch.setattr(exporting, "line", whole)
    assert await worker.make_exports(resources) == 0
    await database.execute(
        "update export_file set leased_until = $2 where company_id = $1", company_id, utc_now()
    )
    assert await worker.make_exports(resources) == 1
    file = await owner.get(await link_of(owner))
    assert len(file.body.decode().split("\r\n")) == 11


@pytest.mark.usefixtures("short")
async def test_a_list_that_no_spreadsheet_opens_is_given_up(
    api: Api,
    database: Database,
    tenant: Tenant,
    resources: Resources,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporting, "FILE_ROWS_MAX", 8)
    await write(database, tenant, *["withdrawal.approved"] * 9)
    owner = await sign_in(api, database, tenant, Role.OWNER)
    await owner.get(f"{TEST}/trail.csv?action=withdrawal.approved")
    assert await worker.make_exports(resources) == 1
    assert await worker.make_exports(resources) == 0
    assert "Não foi possível" in (await owner.get(f"{TEST}/exports")).body.decode()
    assert (
        await database.fetchval(
            "select count(*) from export_chunk where company_id = $1", tenant.company.company_id
        )
        == 0
    )
