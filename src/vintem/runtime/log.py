"""Logs: one line an event, JSON for machines or colour for people, and never a secret in them."""

import asyncio
import atexit
import logging
import re
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Final, TextIO

import msgspec
import structlog

from vintem.kit.clock import utc_now

REDACTED: Final = "[redacted]"

# What must not be written anywhere, by form: API keys, webhook secrets, opaque tokens, addresses
# with a password, card numbers, CPF and CNPJ with or without their marks.
SECRETS: Final = re.compile(
    r"""
      \b[sc]k_(?:live|test)_[0-9A-Za-z]+
    | \bwhsec_[0-9A-Za-z+/=_-]+
    | (?<![0-9A-Za-z_-])[0-9A-Za-z_-]{43}(?![0-9A-Za-z_-])
    | (?<=://)[^\s/@]+:[^\s/@]*(?=@)
    | (?<![0-9A-Za-z_.-])\d(?:[ -]?\d){12,18}(?![0-9A-Za-z_-])
    | (?<![0-9A-Za-z_.-])\d{3}\.?\d{3}\.?\d{3}-?\d{2}(?![0-9A-Za-z_-])
    | (?<![0-9A-Za-z_.-])
      [0-9A-Z]{2}\.?[0-9A-Z]{3}\.?[0-9A-Z]{3}/?[0-9A-Z]{4}-?\d{2}(?![0-9A-Za-z_-])
    """,
    re.VERBOSE,
)

# What must not be written whatever it looks like, by the name of the field.
SECRET_NAMES: Final = re.compile(
    r"(?i)pass|secret|token|api_?key|authorization|cookie|cvv|pan$|number|document|cpf|cnpj|pepper|email|phone"
)

FLUSH_SECONDS: Final = 0.05

_access_lines: Final[list[bytes]] = []
_EVENT: Final = msgspec.json.Encoder(enc_hook=str)


class Output:
    """Where lines go: chosen once at the start, standard error until then."""

    stream: TextIO = sys.stderr
    is_json: bool = False


def configure(*, is_json: bool, level: str = "info", stream: TextIO | None = None) -> None:
    """Choose the form of every log line of this process."""
    flush_access()
    Output.stream = stream or sys.stderr
    Output.is_json = is_json
    renderer: structlog.typing.Processor = (
        _render_json if is_json else structlog.dev.ConsoleRenderer(colors=Output.stream.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            _add_time,
            redact_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(Output.stream),
        cache_logger_on_first_use=False,
    )


def redact(text: str) -> str:
    """Replace everything in a text that looks like a secret."""
    return SECRETS.sub(REDACTED, text)


def redact_event(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """Replace secrets in every value of a log event, however deep."""
    for name, value in event.items():
        event[name] = REDACTED if _is_secret_name(name) else _redact_value(value)
    return event


class AccessLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answered call; no field can hold a secret, for the route is the pattern, not the path."""

    time: str
    level: str
    event: str
    method: str
    route: str
    status: int
    ms: float
    request: str
    correlation: str = ""
    company: str = ""
    key: str = ""
    admitted: float | None = None


def write_access(line: AccessLine) -> None:
    """Write the line of a call the short way; this is on every call's path."""
    if line.correlation:
        line = msgspec.structs.replace(line, correlation=redact(line.correlation))
    if not Output.is_json:
        Output.stream.write(_access_text(line))
        Output.stream.flush()
        return
    # A write for each call costs more than all the rest of its line, so lines wait for each other.
    if not _access_lines:
        asyncio.get_running_loop().call_later(FLUSH_SECONDS, flush_access)
    _access_lines.append(_EVENT.encode(line))


def flush_access() -> None:
    """Write the lines of calls that are still waiting."""
    if _access_lines:
        text = b"\n".join(_access_lines).decode() + "\n"
        _access_lines.clear()
        Output.stream.write(text)
        Output.stream.flush()


atexit.register(flush_access)


def _access_text(line: AccessLine) -> str:
    who = line.company or "-"
    text = (
        f"{line.time} {line.status} {line.method:<6} {line.route:<34} {line.ms:7.1f} ms"
        f"  {who}  {line.request}"
    )
    if line.correlation:
        text += f"  {line.correlation}"
    if not Output.stream.isatty():
        return text + "\n"
    colour = 32 if line.status < 400 else 33 if line.status < 500 else 31
    return f"\x1b[{colour}m{text}\x1b[0m\n"


def _render_json(_logger: object, _method: str, event: MutableMapping[str, object]) -> str:
    return _EVENT.encode(event).decode()


def _add_time(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    event["time"] = log_time(utc_now())
    return event


def log_time(moment: datetime) -> str:
    """A log line's moment: true UTC, as machines compare it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_secret_name(name: str) -> bool:
    return SECRET_NAMES.search(name) is not None


def _redact_value(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, bytes):
        return redact(value.decode(errors="replace"))
    if isinstance(value, dict):
        return {
            str(name): REDACTED if _is_secret_name(str(name)) else _redact_value(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_redact_value(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact(str(value))
