"""The log: what must never stand in it, from whatever side it comes, and what it may leave out."""

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pytest
import structlog

from vintem.runtime import log as logs
from vintem.runtime.db import Database

log = structlog.get_logger()

KEY = "sk_live_" + "a1B2" * 9 + "zz"
CARD = "4111111111111111"
CPF = "52998224725"
CNPJ = "11222333000181"
ROW = "Segredo"


class Lines:
    """Everything that was written since the test began."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        logs.flush_access()
        return self.stream.getvalue()

    @property
    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture
def configured() -> Iterator[Callable[[str], Lines]]:
    stream = logs.Output.stream

    def configure(level: str) -> Lines:
        lines = Lines()
        logs.configure(is_json=True, level=level, stream=lines.stream)
        return lines

    yield configure
    logs.configure(is_json=True, level="debug", stream=stream)


@pytest.fixture
def lines(configured: Callable[[str], Lines]) -> Lines:
    return configured("info")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"key={KEY}", KEY),
        (f"x{KEY}", KEY),
        (f"_{KEY}", KEY),
        (f"9{KEY}", KEY),
        (f"a_whsec_{'Zz09' * 8}", "Zz09"),
        (f"card_{CARD}", CARD),
        ("card_7zj0000000000000000000000k", "7zj0"),
        ("/v1/transactions/card_01jd0000000000000000000000?", "01jd0"),
        (f"card-{CARD}", CARD),
        (f"card{CARD}x", CARD),
        ("4111.1111.1111.1111", "1111.1111"),
        ("pan_4111-1111-1111-1111", "1111-1111"),
        ("amex 3782.822463.10005", "822463"),
        (f"cpf_{CPF}", CPF),
        (f"cpf-{CPF}-x", CPF),
        ("doc-529.982.247-25", "982"),
        (f"v{CPF}", CPF),
        (f"cnpj_{CNPJ}", CNPJ),
        ("-11.222.333/0001-81", "222"),
        ("_12ABC34501DE35", "ABC345"),
        ("to maria.silva+loja@example.com.br!", "maria"),
        ("<joao@exemplo.com>", "joao"),
        ("http://h/x?password=Geheim&y=1", "Geheim"),
        ("host=h pwd=Geheim,77 user=u", "Geheim"),
        ("password='Ge heim' user=u", "heim"),
        ('{"password": "Ge heim", "a": 1}', "heim"),
        ("PASSWORD=Geheim", "Geheim"),
        ("postgresql://u:Ge@heim/7@h:5432/x", "heim"),
        ("postgresql://u:Geheim@h/x", "Geheim"),
    ],
)
def test_what_must_not_be_written_is_not(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in logs.redact(text)
    assert logs.REDACTED in logs.redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "req_1772422331234_abc123def",
        "cmp_01kbc9y2m3n4p5q6r7s8t9v0wx",
        "tx_01234567890123456789012345",
        "2026-03-02T03:40:05.123Z",
        "serving http://127.0.0.1:8080",
        "postgresql://vintem@/vintem?host=/tmp/x&port=5432",
        "postgresql://vintem@db.example.com/vintem",
        "The password is missing: nothing was sent.",
        "number_12345678901",
        "waited 1.52998224726 s",
        "4111.1111.1111.1112",
    ],
)
def test_what_only_resembles_a_secret_is_left_as_it_is(text: str) -> None:
    assert logs.redact(text) == text


def test_a_request_id_is_never_taken_for_a_card_number() -> None:
    for number in range(1_772_422_330_000, 1_772_422_331_000):
        text = f"req_{number}_k3v9x2m1q"
        assert logs.redact(text) == text


async def test_a_fault_of_the_database_is_logged_without_the_row(
    lines: Lines, database: Database
) -> None:
    await database.execute(
        f"create table test_log (name text primary key, check (name <> '{ROW}'))"
    )
    try:
        for statement in (
            "insert into test_log values ($1)",
            "select $1::text::bigint",
            "select $1::bigint",
        ):
            with pytest.raises(asyncpg.PostgresError) as caught:
                await database.execute(statement, ROW)
            outer = RuntimeError("outer")
            outer.__cause__ = caught.value
            log.error("it failed", exc_info=outer)
    finally:
        await database.execute("drop table test_log")
    assert ROW not in lines.text
    broken, wrong, unsendable = (line["exception"] for line in lines.all)
    assert "RuntimeError: outer" in broken
    assert "CheckViolationError: sqlstate 23514, constraint test_log_name_check" in broken
    assert "InvalidTextRepresentationError: sqlstate 22P02" in wrong
    assert "DataError" in unsendable


def test_what_is_said_of_a_statement_itself_is_kept(lines: Lines) -> None:
    fault = asyncpg.UndefinedTableError('relation "nowhere" does not exist')
    log.error("it failed", exc_info=fault)
    assert 'relation \\"nowhere\\" does not exist' in lines.text


def test_all_faults_of_a_chain_and_of_a_group_are_told_once(lines: Lines) -> None:
    first, second = ValueError("the first"), OSError("the second")
    first.__cause__ = second
    second.__cause__ = first
    log.error("it failed", exc_info=ExceptionGroup("together", [first, KeyError("the third")]))
    told = lines.all[0]["exception"]
    for words in ("together", "the first", "the second", "the third"):
        assert told.count(words) == 1


@pytest.mark.parametrize("name", ["asyncio", "uvicorn.error", "somebody.else"])
def test_what_a_library_logs_is_a_redacted_line_of_ours(lines: Lines, name: str) -> None:
    fault = RuntimeError(f"could not use {KEY}")
    logging.getLogger(name).error("trouble with %s", f"joao@example.com {CARD}", exc_info=fault)
    (line,) = lines.all
    assert (line["level"], line["library"]) == ("error", name)
    assert line["event"].startswith("trouble with")
    assert "RuntimeError: could not use [redacted]" in line["exception"]
    assert KEY not in lines.text
    assert CARD not in lines.text
    assert "joao" not in lines.text


def test_a_librarys_own_affairs_are_not_logged(lines: Lines) -> None:
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("somebody").warning("this matters")
    assert [line["event"] for line in lines.all] == ["this matters"]


def test_a_library_is_not_hurt_by_a_log_that_cannot_be_written(lines: Lines) -> None:
    lines.stream.close()
    logging.getLogger("somebody").error("trouble")


async def test_a_task_nobody_waits_for_leaves_no_bare_traceback(
    lines: Lines, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail() -> None:
        raise RuntimeError(f"could not use {KEY}")

    task = asyncio.create_task(fail())
    await asyncio.wait({task})
    del task
    await asyncio.sleep(0)
    assert "RuntimeError: could not use [redacted]" in lines.text
    assert KEY not in lines.text + "".join(capfd.readouterr())


def test_what_ends_the_program_is_redacted(lines: Lines) -> None:
    fault = RuntimeError(f"could not use {KEY}")
    logs.report_fault(type(fault), fault, None)
    assert "could not use [redacted]" in lines.text


def access_line(status: int, *, level: str = "") -> logs.AccessLine:
    return logs.AccessLine(
        time="now",
        level=level or ("info" if status < 500 else "error"),
        event="call",
        method="GET",
        route="/",
        status=status,
        ms=1.0,
        request="req",
    )


@pytest.mark.parametrize(
    ("level", "statuses"),
    [("debug", [200, 500]), ("info", [200, 500]), ("warning", [500]), ("error", [500])],
)
async def test_the_level_holds_for_the_lines_of_calls_too(
    configured: Callable[[str], Lines], level: str, statuses: list[int]
) -> None:
    lines = configured(level)
    for status in (200, 500):
        logs.write_access(access_line(status))
    assert [line["status"] for line in lines.all] == statuses


@pytest.mark.parametrize(
    ("is_json", "level", "statuses"),
    [
        (True, "info", [201, 200]),
        (True, "warning", []),
        (False, "info", [200]),
        (False, "debug", [201, 200]),
    ],
)
async def test_people_are_not_told_of_what_pages_fetch_by_themselves(
    configured: Callable[[str], Lines], level: str, statuses: list[int], *, is_json: bool
) -> None:
    lines = configured(level)
    logs.configure(is_json=is_json, level=level, stream=lines.stream)
    logs.write_access(access_line(201, level="debug"))
    logs.write_access(access_line(200))
    written = lines.text.splitlines()
    assert len(written) == len(statuses)
    assert all(str(status) in line for status, line in zip(statuses, written, strict=True))
