"""The few rules of the house that no other tool checks."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
DRAWERS = {"helpers", "helper", "utils", "util", "common", "misc", "base", "core", "manager"}
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")

# Locks, notices and isolation of one server, which several servers would not share.
ONE_SERVER_ONLY = re.compile(
    r"(?i)pg_advisory|\blisten\s+[a-z_]+;|\bnotify\s+[a-z_]+;|serializable"
)
DISTRIBUTED_TABLE = re.compile(r"comment on table (\w+) is\s+'distributed:")


def tracked_files() -> Iterator[Path]:
    for top in ("src", "tests", "bench", "tools", "docs", ".ci"):
        yield from (path for path in (ROOT / top).rglob("*") if path.is_file())
    yield from (path for path in ROOT.iterdir() if path.is_file())


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_file_and_its_functions_are_short(path: Path) -> None:
    source = path.read_text()
    assert source.count("\n") <= FILE_LINES_MAX
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < FUNCTION_LINES_MAX, node.name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_file_is_named_by_a_noun_and_has_no_leftovers(path: Path) -> None:
    assert path.stem not in DRAWERS
    assert LEFTOVERS.search(path.read_text()) is None


def test_no_file_names_a_package_registry() -> None:
    hosts = ["py" + "pi.org", "python" + "hosted", "npm" + "js", "deb." + "debian"]
    naming = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if any(host in text_of(path) for host in hosts)
    ]
    assert naming == []


def test_the_lock_file_holds_hashes_and_no_addresses() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "--hash=sha256:" in lock
    assert "://" not in lock
    assert "uv.lock" in (ROOT / ".gitignore").read_text()


def test_correctness_never_rests_on_one_server() -> None:
    leaning = {
        str(path.relative_to(ROOT))
        for path in [*SOURCES, *(ROOT / "src").rglob("*.sql")]
        if ONE_SERVER_ONLY.search(path.read_text())
    }
    # Migrations run on one server, and the retry of a block names the failure it retries.
    assert leaning <= {"src/vintem/runtime/migrations.py", "src/vintem/runtime/db.py"}


def test_every_statement_on_a_distributed_table_names_the_company() -> None:
    tables = {
        table
        for migration in (ROOT / "src").rglob("*.sql")
        for table in DISTRIBUTED_TABLE.findall(migration.read_text())
    }
    assert "rate_window" in tables
    statements = [
        (path, node.value)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    for path, statement in statements:
        words = set(re.findall(r"\w+", statement))
        if words & tables and words & {"select", "insert", "update", "delete"}:
            assert "company_id" in words, f"{path}: {statement}"
