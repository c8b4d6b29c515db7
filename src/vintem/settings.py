"""Every setting: its variable, type, default and meaning; a wrong one stops the start."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from vintem.providers.faults import Fault, FaultShare, parse_faults
from vintem.runtime.db import DatabaseOptions

Network = IPv4Network | IPv6Network
T = TypeVar("T")

PEPPER_CHARACTERS_MIN: Final = 32


class SettingsError(Exception):
    """A setting is wrong; the sentence says which, and what is allowed."""


def setting(
    variable: str, parse: Callable[[str], T], default: str, meaning: str, *, allowed: str
) -> Any:  # noqa: ANN401 - stands for the field's own type, as dataclasses.field does
    """Declare a setting; its default is written as an operator would write it."""
    metadata = {"variable": variable, "parse": parse, "meaning": meaning, "allowed": allowed}
    return field(default=parse(default), metadata={**metadata, "default": default})


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            raise ValueError(text)
        return number

    return parse


def _seconds(most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = float(text)
        if not 0 <= number <= most:
            raise ValueError(text)
        return number

    return parse


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(text)
        return text.lower()

    return parse


def _flag(text: str) -> bool:
    return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[
        text.lower()
    ]


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def _host(text: str) -> str:
    if "/" in text or "@" in text or any(character.isspace() for character in text):
        raise ValueError(text)
    return text.lower()


def _sender(text: str) -> str:
    name, at, host = text.rpartition("@")
    if text and (not name or not at or "." not in host or not text.isprintable() or " " in text):
        raise ValueError(text)
    return text


def _database_url(text: str) -> str:
    if text and not text.startswith(("postgresql://", "postgres://")):
        raise ValueError(text)
    # Reading the port raises ValueError where it is none.
    places = urlsplit(text).netloc.rpartition("@")[2]
    _ = [urlsplit(f"//{place}").port for place in places.split(",")]
    return text


def _public_url(text: str) -> str:
    if text and not text.startswith(("https://", "http://")):
        raise ValueError(text)
    return text.rstrip("/")


def _pepper(text: str) -> str:
    if text and len(text) < PEPPER_CHARACTERS_MIN:
        raise ValueError(text)
    return text


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator can choose."""

    database_url: str = setting(
        "DATABASE_URL",
        _database_url,
        "",
        "PostgreSQL 15 or newer to use; empty: an embedded one in the data folder.",
        allowed="an address that starts with postgresql:// or postgres://; its port is a number",
    )
    data: Path = setting(
        "VINTEM_DATA",
        Path,
        ".vintem",
        "Folder of the embedded PostgreSQL, its log and the secrets made for it.",
        allowed="a path",
    )
    host: str = setting(
        "VINTEM_HOST",
        str,
        "127.0.0.1",
        "Address to listen on.",
        allowed="an address of this machine",
    )
    port: int = setting(
        "VINTEM_PORT",
        _whole(0, 65_535),
        "8080",
        "Port to listen on. 0: any free one.",
        allowed="a whole number from 0 to 65535",
    )
    public_url: str = setting(
        "VINTEM_PUBLIC_URL",
        _public_url,
        "",
        "Address that the world uses, for links in answers; empty: http:// with host and port.",
        allowed="an address that starts with https:// or http://",
    )
    live_host: str = setting(
        "VINTEM_LIVE_HOST",
        _host,
        "",
        "Host name of the live environment; test keys are refused there. Empty: any.",
        allowed="a host name, with a port if callers send one",
    )
    sandbox_host: str = setting(
        "VINTEM_SANDBOX_HOST",
        _host,
        "",
        "Host name of the sandbox; live keys are refused there. Empty: any.",
        allowed="a host name, with a port if callers send one",
    )
    pepper: str = setting(
        "VINTEM_PEPPER",
        _pepper,
        "",
        "Secret that API keys and fingerprints are digested with; needed with DATABASE_URL. Empty:"
        " one is made and kept in the data folder. A database refuses any but its first one.",
        allowed=f"at least {PEPPER_CHARACTERS_MIN} characters",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        "VINTEM_TRUSTED_PROXIES",
        _networks,
        "",
        "Proxies whose X-Forwarded-For is believed; empty: nobody's.",
        allowed="networks separated by commas, such as 10.0.0.0/8, 192.0.2.7/32",
    )
    shared_limits: bool = setting(
        "VINTEM_SHARED_LIMITS",
        _flag,
        "0",
        "Count rate limits in PostgreSQL, for several machines. `serve --workers N` with N > 1 does"
        " so by itself.",
        allowed="1 or 0",
    )
    public_wrong_keys_per_minute: int = setting(
        "VINTEM_PUBLIC_WRONG_KEYS_PER_MINUTE",
        _whole(1, 1_000_000),
        "20",
        "Wrong API keys from one IP address before further wrong ones get 429, per process.",
        allowed="a whole number from 1 to 1000000",
    )
    public_pictures_per_minute: int = setting(
        "VINTEM_PUBLIC_PICTURES_PER_MINUTE",
        _whole(1, 1_000_000),
        "60",
        "Pictures of codes and pages of boletos that one IP address may fetch, per process.",
        allowed="a whole number from 1 to 1000000",
    )
    public_media_per_minute: int = setting(
        "VINTEM_PUBLIC_MEDIA_PER_MINUTE",
        _whole(1, 1_000_000),
        "600",
        "Logos, banners and pictures of products that one IP address may fetch, per process.",
        allowed="a whole number from 1 to 1000000",
    )
    public_reads_of_one_per_minute: int = setting(
        "VINTEM_PUBLIC_READS_OF_ONE_PER_MINUTE",
        _whole(1, 1_000_000),
        "60",
        "Reads of one checkout session by one IP address, per process.",
        allowed="a whole number from 1 to 1000000",
    )
    public_reads_per_minute: int = setting(
        "VINTEM_PUBLIC_READS_PER_MINUTE",
        _whole(1, 1_000_000),
        "900",
        "Reads of checkout sessions by one IP address, whichever they are, per process.",
        allowed="a whole number from 1 to 1000000",
    )
    public_coupons_per_minute: int = setting(
        "VINTEM_PUBLIC_COUPONS_PER_MINUTE",
        _whole(1, 1_000_000),
        "10",
        "Coupons that one IP address may apply or remove, per process.",
        allowed="a whole number from 1 to 1000000",
    )
    public_payments_per_minute: int = setting(
        "VINTEM_PUBLIC_PAYMENTS_PER_MINUTE",
        _whole(1, 1_000_000),
        "10",
        "Payments of checkout sessions that one IP address may begin, per process.",
        allowed="a whole number from 1 to 1000000",
    )
    public_card_tokens_per_minute: int = setting(
        "VINTEM_PUBLIC_CARD_TOKENS_PER_MINUTE",
        _whole(1, 1_000_000),
        "10",
        "Card tokens of checkout sessions that one IP address may make, per process.",
        allowed="a whole number from 1 to 1000000",
    )
    public_link_sessions_per_minute: int = setting(
        "VINTEM_PUBLIC_LINK_SESSIONS_PER_MINUTE",
        _whole(1, 1_000_000),
        "10",
        "Sessions of payment links that one IP address may open, per process.",
        allowed="a whole number from 1 to 1000000",
    )
    public_refused_cards_per_hour: int = setting(
        "VINTEM_PUBLIC_REFUSED_CARDS_PER_HOUR",
        _whole(1, 1_000_000),
        "10",
        "Cards of one IP address that may be refused in checkout sessions.",
        allowed="a whole number from 1 to 1000000",
    )
    public_refusals_of_card_per_hour: int = setting(
        "VINTEM_PUBLIC_REFUSALS_OF_CARD_PER_HOUR",
        _whole(1, 1_000_000),
        "3",
        "How often one card may be refused in checkout sessions of the live environment.",
        allowed="a whole number from 1 to 1000000",
    )
    public_refusals_of_test_card_per_hour: int = setting(
        "VINTEM_PUBLIC_REFUSALS_OF_TEST_CARD_PER_HOUR",
        _whole(1, 1_000_000),
        "10000",
        "The same for the test environment, where everybody tries the same few numbers.",
        allowed="a whole number from 1 to 1000000",
    )
    public_wrong_codes_per_hour: int = setting(
        "VINTEM_PUBLIC_WRONG_CODES_PER_HOUR",
        _whole(1, 1_000_000),
        "20",
        "Wrong coupon codes that one IP address may try in checkout sessions; per process, unless"
        " limits are shared.",
        allowed="a whole number from 1 to 1000000",
    )
    public_sign_ins_per_minute: int = setting(
        "VINTEM_PUBLIC_SIGN_INS_PER_MINUTE",
        _whole(1, 1_000_000),
        "20",
        "Forms to sign in, choose a password or accept an invitation that one IP address may send,"
        " per process.",
        allowed="a whole number from 1 to 1000000",
    )
    allow_loopback_webhooks: bool = setting(
        "VINTEM_ALLOW_LOOPBACK_WEBHOOKS",
        _flag,
        "0",
        "In the test environment, let addresses that are called lead to this machine, over http and"
        " to any port. `vintem demo` always does.",
        allowed="1 or 0",
    )
    live_raw_cards: bool = setting(
        "VINTEM_LIVE_RAW_CARDS",
        _flag,
        "0",
        "In the live environment, take cards themselves with a transaction, not only their tokens:"
        " their numbers then pass through the merchants' servers.",
        allowed="1 or 0",
    )
    smtp_host: str = setting(
        "VINTEM_SMTP_HOST",
        _host,
        "",
        "Server that takes mail to members: links to choose a password, invitations. Empty: no mail"
        " is sent.",
        allowed="a host name or an address",
    )
    smtp_port: int = setting(
        "VINTEM_SMTP_PORT",
        _whole(1, 65_535),
        "587",
        "Port of that server.",
        allowed="a whole number from 1 to 65535",
    )
    smtp_user: str = setting(
        "VINTEM_SMTP_USER", str, "", "Who we are to that server. Empty: nobody.", allowed="a name"
    )
    smtp_password: str = setting(
        "VINTEM_SMTP_PASSWORD", str, "", "The password of that user.", allowed="a password"
    )
    smtp_from: str = setting(
        "VINTEM_SMTP_FROM",
        _sender,
        "",
        "Address that mail is from; needed with VINTEM_SMTP_HOST.",
        allowed="an e-mail address",
    )
    smtp_tls: str = setting(
        "VINTEM_SMTP_TLS",
        _one_of("starttls", "tls", "none"),
        "starttls",
        "How the way to that server is protected; none only on this machine.",
        allowed="starttls, tls or none",
    )
    mail_to_log: bool = setting(
        "VINTEM_MAIL_TO_LOG",
        _flag,
        "0",
        "For development: without VINTEM_SMTP_HOST, write mail to standard error, with its secret"
        " links. `vintem demo` always does.",
        allowed="1 or 0",
    )
    connections_max: int = setting(
        "VINTEM_DATABASE_CONNECTIONS",
        _whole(2, 500),
        "10",
        "Connections to PostgreSQL of one process.",
        allowed="a whole number from 2 to 500",
    )
    statement_timeout_ms: int = setting(
        "VINTEM_STATEMENT_TIMEOUT_MS",
        _whole(100, 600_000),
        "5000",
        "How long one SQL statement may take.",
        allowed="a whole number from 100 to 600000",
    )
    lock_timeout_ms: int = setting(
        "VINTEM_LOCK_TIMEOUT_MS",
        _whole(100, 600_000),
        "2000",
        "How long a statement may wait for a locked row.",
        allowed="a whole number from 100 to 600000",
    )
    log_format: str = setting(
        "VINTEM_LOG_FORMAT",
        _one_of("auto", "json", "pretty"),
        "auto",
        "Form of the log on standard error; auto: pretty in a terminal, JSON elsewhere.",
        allowed="auto, json or pretty",
    )
    log_level: str = setting(
        "VINTEM_LOG_LEVEL",
        _one_of("debug", "info", "warning", "error"),
        "info",
        "The least important lines that are written. The JSON log has a line for every call; the"
        " pretty one leaves out, unless this is debug, what pages fetch by themselves and get:"
        " their files, their pictures, and how a session stands.",
        allowed="debug, info, warning or error",
    )
    metrics_port: int = setting(
        "VINTEM_METRICS_PORT",
        _whole(0, 65_535),
        "0",
        "Port of 127.0.0.1 with GET /metrics for Prometheus; API process k answers on port + k, the"
        " worker on the port after the last of them. 0: none.",
        allowed="a whole number from 0 to 65535",
    )
    metrics_public: bool = setting(
        "VINTEM_METRICS_PUBLIC",
        _flag,
        "0",
        "Answer GET /metrics on the public address too.",
        allowed="1 or 0",
    )
    test_mode: bool = setting(
        "VINTEM_TEST_MODE",
        _flag,
        "0",
        "For tests of the platform itself, never where money is real: lets VINTEM_FAILPOINTS work.",
        allowed="1 or 0",
    )
    failpoints: str = setting(
        "VINTEM_FAILPOINTS",
        str,
        "",
        "Folder where a test arms the points at which a process dies; needs VINTEM_TEST_MODE=1."
        " Empty: none.",
        allowed="a path",
    )
    callback_url: str = setting(
        "VINTEM_CALLBACK_URL",
        _public_url,
        "",
        "Address of the API for the sandbox's own provider, which the worker runs; empty: http://"
        " with host and port.",
        allowed="an address that starts with https:// or http://",
    )
    simulator_seed: int = setting(
        "VINTEM_SIMULATOR_SEED",
        _whole(0, 1_000_000_000),
        "0",
        "Number by which the sandbox's own provider names its callbacks and chooses the charges"
        " that its faults happen to.",
        allowed="a whole number from 0 to 1000000000",
    )
    simulator_faults: tuple[FaultShare, ...] = setting(
        "VINTEM_SIMULATOR_FAULTS",
        parse_faults,
        "",
        "What the sandbox's own provider does badly, for tests; `:30` after a word: to 30 % of the"
        " charges only.",
        allowed=f"a list, separated by commas, of {', '.join(Fault)}",
    )
    drain_notice_seconds: float = setting(
        "VINTEM_DRAIN_NOTICE_SECONDS",
        _seconds(60),
        "1",
        "After SIGTERM: how long /readyz says 503 before connections are closed.",
        allowed="a number from 0 to 60",
    )
    drain_seconds: float = setting(
        "VINTEM_DRAIN_SECONDS",
        _seconds(60),
        "10",
        "After that: how long calls in flight may take to end.",
        allowed="a number from 0 to 60",
    )

    @property
    def database_options(self) -> DatabaseOptions:
        """How a process uses its database."""
        return DatabaseOptions(
            connections_max=self.connections_max,
            statement_timeout_ms=self.statement_timeout_ms,
            lock_timeout_ms=self.lock_timeout_ms,
        )


def public_address(settings: Settings) -> str:
    """The address that links lead to: what the world uses, or else where we listen."""
    return settings.public_url or http_address(settings.host, settings.port)


def http_address(host: str, port: int) -> str:
    """Write the address of a host and a port."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read every setting from the environment, or raise SettingsError about the first wrong one."""
    environment = os.environ if environment is None else environment
    values: dict[str, object] = {}
    for declared in fields(Settings):
        text = environment.get(declared.metadata["variable"], "").strip()
        if not text:
            continue
        try:
            values[declared.name] = declared.metadata["parse"](text)
        except (ValueError, KeyError) as error:
            shown = (
                ""
                if declared.name in {"pepper", "database_url", "smtp_password"}
                else f" is {text!r}, which"
            )
            raise SettingsError(
                f"{declared.metadata['variable']}{shown} is not allowed:"
                f" it must be {declared.metadata['allowed']}."
            ) from error
    settings = Settings(**values)  # type: ignore[arg-type]
    if settings.failpoints and not settings.test_mode:
        raise SettingsError(
            "VINTEM_FAILPOINTS lets processes die on purpose: it needs VINTEM_TEST_MODE=1."
        )
    if settings.smtp_host and not settings.smtp_from:
        raise SettingsError("VINTEM_SMTP_FROM is missing: VINTEM_SMTP_HOST needs a sender.")
    return settings
