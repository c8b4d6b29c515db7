"""What keeps an operator from the mistakes that are hard to see: each is said in a sentence."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.api import TEST_PEPPER
from support.platform import fresh_database, promised, read_key, vintem
from vintem.__main__ import app

PASSWORD = "Geheim-77"
OTHER_PEPPER = "another-pepper-0123456789abcdef-0123"
WAIT_SECONDS_MAX = 12.0
NO_COMPANY = "cmp_00000000000000000000000000"
MANAGEMENT = (
    ("company", "list"),
    ("company", "create", "Loja"),
    ("key", "list", NO_COMPANY),
    ("audit",),
    ("work",),
)


def named(words: tuple[str, ...]) -> str:
    return " ".join(words[:2])


@pytest.fixture(scope="module")
async def peppered() -> dict[str, str]:
    """A database that knows its pepper."""
    settings = {"DATABASE_URL": await fresh_database(), "VINTEM_PEPPER": TEST_PEPPER}
    assert (await vintem("migrate", settings=settings)).status == 0
    return settings


@pytest.mark.parametrize(
    "words",
    [*MANAGEMENT, ("migrate",), ("serve", "--port", "0"), ("demo", "--port", "0")],
    ids=named,
)
async def test_another_pepper_is_refused(
    words: tuple[str, ...], peppered: dict[str, str], tmp_path: Path
) -> None:
    settings = {**peppered, "VINTEM_PEPPER": OTHER_PEPPER, "VINTEM_DATA": str(tmp_path / "data")}
    said = await vintem(*words, settings=settings)
    assert said.status == 2
    assert "The pepper is not the one that this database was made with" in said.err
    for secret in (TEST_PEPPER, OTHER_PEPPER):
        assert secret not in said.text


async def test_the_right_pepper_and_commands_that_need_none_go_on(peppered: dict[str, str]) -> None:
    assert (await vintem("company", "list", settings=peppered)).status == 0
    url_only = {"DATABASE_URL": peppered["DATABASE_URL"]}
    assert (await vintem("company", "list", settings=url_only)).status == 0


async def test_lost_secrets_of_an_embedded_database_are_noticed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = await vintem("migrate", "--data", str(data))
    assert made.status == 0, made.text
    listed = await vintem("company", "list", "--data", str(data))
    assert listed.status == 0, listed.text
    (data / "secrets.json").unlink()
    said = await vintem("company", "list", "--data", str(data))
    assert said.status == 2
    assert "secrets.json" in said.err


@pytest.mark.parametrize("words", MANAGEMENT, ids=named)
async def test_command_makes_no_database_where_there_is_none(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    nowhere = tmp_path / "mistyped"
    said = await vintem(*words, "--data", str(nowhere))
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith(f"vintem: There is no database in {nowhere}. Name the folder")
    assert not nowhere.exists()


@pytest.mark.parametrize("words", [*MANAGEMENT, ("migrate",), ("serve",)], ids=named)
def test_data_beside_a_database_of_ones_own_is_refused(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    settings = {
        "DATABASE_URL": f"postgresql://me:{PASSWORD}@db.example.com:6543/shop?sslmode=require",
        "VINTEM_PEPPER": TEST_PEPPER,
    }
    said = CliRunner().invoke(app, [*words, "--data", str(tmp_path / "data")], env=settings)
    assert said.exit_code == 2
    assert said.output == (
        "vintem: --data names an embedded database, but DATABASE_URL names the one at"
        " db.example.com:6543/shop. Leave one of them out.\n"
    )
    assert not (tmp_path / "data").exists()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


async def assert_waits_aloud(port: int) -> None:
    url = f"postgresql://me:{PASSWORD}@127.0.0.1:{port}/shop"
    began = time.monotonic()
    said = await vintem("company", "list", settings={"DATABASE_URL": url})
    assert time.monotonic() - began < promised(WAIT_SECONDS_MAX)
    assert (said.status, said.out) == (2, "")
    waiting, refused = said.err.splitlines()
    assert waiting == f"Waiting for the database at 127.0.0.1:{port}/shop …"
    assert refused.startswith(f"vintem: The database at 127.0.0.1:{port}/shop cannot be reached: ")
    assert PASSWORD not in said.text


async def test_dead_database_is_waited_for_aloud_and_not_for_long() -> None:
    await assert_waits_aloud(1)


async def test_database_that_hangs_is_waited_for_aloud_and_not_for_long(silent_port: int) -> None:
    await assert_waits_aloud(silent_port)


async def test_key_that_was_replaced_is_not_rotated_again(peppered: dict[str, str]) -> None:
    company = (await vintem("company", "create", "Loja", settings=peppered)).out.strip()
    words = ["key", "create", company, "--type", "sk", "--environment", "test"]
    old, _ = read_key(await vintem(*words, settings=peppered))
    new, _ = read_key(await vintem("key", "rotate", old, settings=peppered))
    again = await vintem("key", "rotate", old, settings=peppered)
    assert (again.status, again.out) == (2, "")
    assert again.err == f"vintem: {old} was replaced by {new} already; rotate that one.\n"


def test_version_is_told_by_an_option_too() -> None:
    by_option, by_command = (CliRunner().invoke(app, [word]) for word in ("--version", "version"))
    assert (by_option.exit_code, by_option.output) == (0, by_command.output)
