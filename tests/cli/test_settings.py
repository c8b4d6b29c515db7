"""Wrong settings stop the start with a sentence, and no secret is ever shown."""

import signal
from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path

import aiohttp
import pytest
from typer.testing import CliRunner

from support.api import TEST_PEPPER
from support.platform import (
    Running,
    command,
    free_port,
    get_once,
    leftovers,
    served,
    until_logged,
    vintem,
)
from vintem.__main__ import app
from vintem.runtime.db import Database
from vintem.settings import Settings

PASSWORD = "Geheim-77"

# What each variable must not be. Paths and addresses to listen on can only be tried.
WRONG = {
    "DATABASE_URL": [f"mysql://u:{PASSWORD}@h/x", "h/x", f"postgresql://u:{PASSWORD}@h:five/x"],
    "VINTEM_PORT": ["http", "-1", "65536", "80.5", "[/]"],
    "VINTEM_PUBLIC_URL": ["example.com", "ftp://example.com"],
    "VINTEM_LIVE_HOST": ["https://api.example.com", "a b"],
    "VINTEM_SANDBOX_HOST": ["https://sandbox.example.com", "me@sandbox"],
    "VINTEM_PEPPER": [PASSWORD, "x" * 31],
    "VINTEM_TRUSTED_PROXIES": ["proxy", "10.0.0.1/8", "10.0.0.0/8;192.0.2.0/24"],
    "VINTEM_SHARED_LIMITS": ["maybe", "2"],
    "VINTEM_PUBLIC_WRONG_KEYS_PER_MINUTE": ["0", "many"],
    **{
        f"VINTEM_PUBLIC_{name}": ["0", "all"]
        for name in (
            "PICTURES_PER_MINUTE",
            "MEDIA_PER_MINUTE",
            "READS_OF_ONE_PER_MINUTE",
            "READS_PER_MINUTE",
            "COUPONS_PER_MINUTE",
            "PAYMENTS_PER_MINUTE",
            "CARD_TOKENS_PER_MINUTE",
            "LINK_SESSIONS_PER_MINUTE",
            "REFUSED_CARDS_PER_HOUR",
            "REFUSALS_OF_CARD_PER_HOUR",
            "REFUSALS_OF_TEST_CARD_PER_HOUR",
            "WRONG_CODES_PER_HOUR",
            "SIGN_INS_PER_MINUTE",
        )
    },
    "VINTEM_SMTP_HOST": ["smtp://mail.example.com", "a b"],
    "VINTEM_SMTP_PORT": ["0", "65536", "smtp"],
    "VINTEM_SMTP_FROM": ["painel", "painel@host", "a b@example.com"],
    "VINTEM_SMTP_TLS": ["maybe", "ssl3"],
    "VINTEM_MAIL_TO_LOG": ["maybe", "2"],
    "VINTEM_ALLOW_LOOPBACK_WEBHOOKS": ["maybe", "all"],
    "VINTEM_LIVE_RAW_CARDS": ["maybe", "visa"],
    "VINTEM_DATABASE_CONNECTIONS": ["1", "501", "ten"],
    "VINTEM_STATEMENT_TIMEOUT_MS": ["99", "5s"],
    "VINTEM_LOCK_TIMEOUT_MS": ["99", "2s"],
    "VINTEM_LOG_FORMAT": ["xml", "[bold]"],
    "VINTEM_LOG_LEVEL": ["loud", "[/x]"],
    "VINTEM_METRICS_PORT": ["metrics", "65536"],
    "VINTEM_METRICS_PUBLIC": ["maybe"],
    "VINTEM_TEST_MODE": ["maybe"],
    "VINTEM_CALLBACK_URL": ["127.0.0.1:8080", "ftp://example.com"],
    "VINTEM_SIMULATOR_SEED": ["-1", "chance"],
    "VINTEM_SIMULATOR_FAULTS": [
        "lost_money",
        "lost_answers:0",
        "lost_answers:101",
        "slow_answers:x",
    ],
    "VINTEM_DRAIN_NOTICE_SECONDS": ["-1", "61", "nan", "soon"],
    "VINTEM_DRAIN_SECONDS": ["-1", "61", "inf"],
}
TRIED_ONLY = {
    "VINTEM_DATA",
    "VINTEM_HOST",
    "VINTEM_FAILPOINTS",
    "VINTEM_SMTP_USER",
    "VINTEM_SMTP_PASSWORD",
}
SECRET = {"DATABASE_URL", "VINTEM_PEPPER"}
ALLOWED = {item.metadata["variable"]: item.metadata["allowed"] for item in fields(Settings)}
COMMANDS = (["demo"], ["serve"], ["work"], ["migrate"], ["audit"], ["company", "list"])


def test_every_setting_is_tried_with_a_wrong_value() -> None:
    assert set(WRONG) | TRIED_ONLY == set(ALLOWED)


@pytest.mark.parametrize(
    ("variable", "value"),
    [(variable, value) for variable, values in WRONG.items() for value in values],
)
def test_wrong_setting_stops_the_start_with_what_is_allowed(
    variable: str, value: str, tmp_path: Path
) -> None:
    environment = {"VINTEM_DATA": str(tmp_path / "data"), variable: value}
    words = COMMANDS[len(value) % len(COMMANDS)]
    result = CliRunner().invoke(app, words, env=environment)
    assert result.exit_code == 2
    assert result.output.startswith(f"vintem: {variable} ")
    assert f"is not allowed: it must be {ALLOWED[variable]}." in result.output
    assert (repr(value) in result.output) == (variable not in SECRET)
    assert PASSWORD not in result.output
    assert not (tmp_path / "data").exists()


async def test_wrong_setting_is_one_sentence_from_outside() -> None:
    said = await vintem("serve", settings={"VINTEM_LOG_LEVEL": "loud"})
    sentence = "VINTEM_LOG_LEVEL is 'loud', which is not allowed: it must be debug, info, warning"
    assert (said.status, said.out) == (2, "")
    assert said.err == f"vintem: {sentence} or error.\n"


async def test_unknown_variable_is_warned_about_with_a_suggestion(
    database_url: str, database: Database
) -> None:
    del database
    settings = {"DATABASE_URL": database_url, "VINTEM_PROT": "80", "VINTEM_UNHEARD_OF": "1"}
    said = await vintem("company", "list", settings=settings)
    assert said.status == 0
    assert said.err.splitlines() == [
        "VINTEM_PROT is not a setting and has no effect; did you mean VINTEM_PORT?",
        "VINTEM_UNHEARD_OF is not a setting and has no effect.",
    ]


@pytest.mark.parametrize("words", [("serve",), ("work",)], ids=lambda words: str(words[0]))
async def test_database_of_ones_own_needs_a_pepper(words: tuple[str, ...]) -> None:
    said = await vintem(
        *words, settings={"DATABASE_URL": f"postgresql://u:{PASSWORD}@127.0.0.1:1/x"}
    )
    assert said.status == 2
    assert said.err.startswith("vintem: VINTEM_PEPPER is missing:")
    assert PASSWORD not in said.text


async def test_data_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    said = await vintem("serve", settings={"VINTEM_DATA": str(tmp_path / "file")})
    assert said.status == 2
    assert f"The data folder {tmp_path}/file cannot be used" in said.err


@pytest.fixture(scope="module")
async def measured(
    module_path: Path, database_url: str, database: Database
) -> AsyncIterator[tuple[Running, int]]:
    """A platform that shows its metrics in both places, and the port of the private one."""
    del database
    port = free_port()
    settings = {
        "DATABASE_URL": database_url,
        "VINTEM_PEPPER": TEST_PEPPER,
        "VINTEM_METRICS_PUBLIC": "1",
        "VINTEM_METRICS_PORT": str(port),
    }
    async with served(module_path / "data", settings=settings) as running:
        yield running, port


async def test_metrics_are_on_the_public_address_where_the_operator_wants_it(
    measured: tuple[Running, int],
) -> None:
    reply = await get_once(measured[0], "/metrics")
    assert reply.status == 200
    assert b"# HELP vintem_" in reply.body


async def test_metrics_are_on_their_own_port_of_this_machine(
    measured: tuple[Running, int],
) -> None:
    running, port = measured
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as response,
    ):
        assert response.status == 200
        assert "# HELP vintem_" in await response.text()
    (api,) = running.children("api")
    listening = {link.laddr for link in api.net_connections() if link.status == "LISTEN"}
    assert ("127.0.0.1", port) in listening


async def test_taken_metrics_port_is_said_before_anything_is_served(
    measured: tuple[Running, int], database_url: str
) -> None:
    settings = {
        "DATABASE_URL": database_url,
        "VINTEM_PEPPER": TEST_PEPPER,
        "VINTEM_METRICS_PORT": str(measured[1]),
    }
    said = await vintem("serve", "--port", "0", settings=settings)
    assert said.status == 2
    assert f"VINTEM_METRICS_PORT is {measured[1]}, so port {measured[1]} of 127.0.0.1" in said.err
    assert leftovers(measured[0])


async def test_neither_pepper_nor_password_is_shown(
    measured: tuple[Running, int], tmp_path: Path
) -> None:
    running, _ = measured
    assert TEST_PEPPER not in running.log + running.out
    settings = {
        "DATABASE_URL": f"postgresql://u:{PASSWORD}@127.0.0.1:1/x",
        "VINTEM_PEPPER": PASSWORD * 4,
        "VINTEM_LOG_LEVEL": "debug",
    }
    async with command(
        ["serve", "--port", "0"], data=tmp_path / "data", address="", settings=settings
    ) as waiting:
        await until_logged(waiting, "waiting for the database")
        # Whoever waits for a database can still be told to stop.
        assert await waiting.stop(signal.SIGTERM) == 0
        assert PASSWORD not in waiting.log + waiting.out
