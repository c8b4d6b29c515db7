"""Logs: one line an event, JSON for machines or colour for people, and never a secret in them."""

import asyncio
import atexit
import logging
import re
import sys
import traceback
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from typing import Final, TextIO

import asyncpg
import msgspec
import structlog

from vintem.kit.clock import utc_now, utc_text

log = structlog.get_logger()

REDACTED: Final = "[redacted]"
FAULTS_MAX: Final = 20

# What must not be written anywhere, by form: API keys, webhook secrets, card tokens, opaque tokens,
# passwords in addresses and after their name, card numbers, CPF and CNPJ.
SECRETS: Final = re.compile(
    r"""
      [sc]k_(?:live|test)_[0-9A-Za-z]+
    | whsec_[0-9A-Za-z+/=_-]+
    | card_[0-9a-hjkmnp-tv-z]{26}
    | (?<![0-9A-Za-z_-])[0-9A-Za-z_-]{43}(?![0-9A-Za-z_-])
    | (?<=://)[^\s/@:]*:\S*(?=@)
    | (?P<name>(?i:pass(?:word|wd|phrase)|pwd|senha|(?:secret|token)(?:_key)?|api_?key|pepper|cvv)
        (?:\s?=\s?|\\*["']\s?:\s?))
      (?:\\*"[^"]*"|\\*'[^']*'|[^\s&"']+)
    | (?<![0-9A-Za-z_.-])\d(?:[ -]?\d){12,18}(?![0-9A-Za-z_-])
    | (?<![0-9A-Za-z_.-])\d{3}\.?\d{3}\.?\d{3}-?\d{2}(?![0-9A-Za-z_-])
    | (?<![0-9A-Za-z_.-])
      [0-9A-Z]{2}\.?[0-9A-Z]{3}\.?[0-9A-Z]{3}/?[0-9A-Z]{4}-?\d{2}(?![0-9A-Za-z_-])
    """,
    re.VERBOSE,
)

# The same numbers wherever they stand, even in the middle of a word. By their form alone they would
# take parts of identifiers and moments along, so that their check digits must be right.
NUMBERS: Final = re.compile(
    r"""
      (?<!\d)(?P<card>
          \d{4}(?P<mark>[ .-])\d{4}(?P=mark)\d{4}(?P=mark)\d{1,7}
        | \d{4}(?P<dash>[ .-])\d{6}(?P=dash)\d{4,5}
      )(?!\d)
    | (?<!\d)(?P<cpf>\d{3}[. ]?\d{3}[. ]?\d{3}[./ -]?\d{2})(?!\d)
    | (?<![0-9A-Z])(?P<cnpj>
          [0-9A-Z]{2}[. ]?[0-9A-Z]{3}[. ]?[0-9A-Z]{3}[/. -]?[0-9A-Z]{4}[. -]?\d{2}
      )(?![0-9A-Z])
    | (?<!\d)(?P<digits>\d{13,19})(?!\d)
    """,
    re.VERBOSE,
)
EMAIL: Final = re.compile(r"(?<![\w.%+-])(?<!://)[\w.%+-]+@[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)+")
MARKS: Final = re.compile(r"[ ./-]")

# What must not be written whatever it looks like, by the name of the field.
SECRET_NAMES: Final = re.compile(
    r"(?i)pass|secret|token|api_?key|authorization|cookie|cvv|pan$|number|document|cpf|cnpj|pepper|email|phone"
)

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
CALLER_ERROR: Final = 400
SERVER_ERROR: Final = 500
FLUSH_SECONDS: Final = 0.05

_access_lines: Final[list[bytes]] = []
_EVENT: Final = msgspec.json.Encoder(enc_hook=str)


class Output:
    """Where lines go: chosen once at the start, standard error until then."""

    stream: TextIO = sys.stderr
    is_json: bool = False
    level: int = logging.INFO


def configure(*, is_json: bool, level: str = "info", stream: TextIO | None = None) -> None:
    """Choose the form of every log line of this process."""
    flush_access()
    Output.stream = stream or sys.stderr
    Output.is_json = is_json
    Output.level = logging.getLevelNamesMapping()[level.upper()]
    _take_over_libraries()
    renderer: structlog.typing.Processor = (
        _render_json if is_json else structlog.dev.ConsoleRenderer(colors=Output.stream.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _format_fault,
            _add_time,
            redact_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(Output.level),
        logger_factory=structlog.PrintLoggerFactory(Output.stream),
        cache_logger_on_first_use=False,
    )


def redact(text: str) -> str:
    """Replace everything in a text that looks like a secret, or like somebody's address."""
    return EMAIL.sub(REDACTED, redact_secrets(text))


def redact_secrets(text: str) -> str:
    """Replace secrets alone: for whoever reads back what they have written themselves."""
    return NUMBERS.sub(_redact_number, SECRETS.sub(_redact_secret, text))


def _redact_secret(found: re.Match[str]) -> str:
    return (found["name"] or "") + REDACTED


def _redact_number(found: re.Match[str]) -> str:
    number = MARKS.sub("", found[0])
    return REDACTED if _is_card(number) or _is_cpf(number) or _is_cnpj(number) else found[0]


def _is_card(number: str) -> bool:
    # Thirteen digits were the first cards of one brand, and are the milliseconds of a request's id.
    is_length_right = 14 <= len(number) <= 19 or (len(number) == 13 and number[0] == "4")
    if not (is_length_right and number.isdecimal() and number[0] in "23456"):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2])
    return (sum(int(digit) for digit in number[::-2]) + sum(doubled)) % 10 == 0


def _is_cpf(number: str) -> bool:
    return len(number) == 11 and all(
        _check_digit(number[:place], weights=range(place + 1, 1, -1)) == int(number[place])
        for place in (9, 10)
    )


def _is_cnpj(number: str) -> bool:
    weights = (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)
    return len(number) == 14 and all(
        _check_digit(number[:place], weights=weights[-place:]) == int(number[place])
        for place in (12, 13)
    )


def _check_digit(text: str, *, weights: Iterable[int]) -> int:
    # A letter of a CNPJ counts as far as it stands behind the zero.
    rest = sum((ord(sign) - 48) * weight for sign, weight in zip(text, weights, strict=True)) % 11
    return 0 if rest < 2 else 11 - rest


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
    code: str = ""
    admitted: float | None = None


def level_of(status: int, *, is_quiet: bool) -> str:
    """Say how much the line of a call matters; a quiet one only when it fails."""
    if status >= SERVER_ERROR:
        return "error"
    return "debug" if is_quiet and status < CALLER_ERROR else "info"


def write_access(line: AccessLine) -> None:
    """Write the line of a call the short way; this is on every call's path."""
    # Machines are told of every call, people only of those that say something.
    least = logging.INFO if Output.is_json else logging.DEBUG
    if Output.level > least and Output.level > LEVELS[line.level]:
        return
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
    if line.code:
        text += f"  {line.code}"
    if line.correlation:
        text += f"  {line.correlation}"
    if not Output.stream.isatty():
        return text + "\n"
    colour = 32 if line.status < 400 else 33 if line.status < 500 else 31
    return f"\x1b[{colour}m{text}\x1b[0m\n"


class LibraryHandler(logging.Handler):
    """Writes what libraries log as lines of ours, redacted like all the others."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; what cannot be written is no fault of the library."""
        with suppress(Exception):
            fault = record.exc_info[1] if record.exc_info else None
            text = record.getMessage().strip()
            log.log(record.levelno, text, library=record.name, exc_info=fault)


_LIBRARIES: Final = LibraryHandler()


def _take_over_libraries() -> None:
    # Their lines below a warning are their own affairs.
    root = logging.getLogger()
    root.setLevel(max(Output.level, logging.WARNING))
    root.addHandler(_LIBRARIES)


def report_fault(_kind: type[BaseException], fault: BaseException, _trace: object) -> None:
    """Write what ended the program; meant as sys.excepthook, whose own lines are not redacted."""
    log.critical("the program failed", exc_info=fault)


def _format_fault(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    fault = event.pop("exc_info", None)
    if fault is True:
        fault = sys.exc_info()[1]
    elif isinstance(fault, tuple):
        fault = fault[1]
    if isinstance(fault, BaseException):
        event["exception"] = describe_fault(fault)
    return event


def describe_fault(fault: BaseException) -> str:
    """Where a fault and those behind it came from, and what they say, but no row of a table."""
    parts: list[str] = []
    told: set[int] = set()
    left: list[BaseException | None] = [fault]
    while left:
        one = left.pop()
        if one is None or id(one) in told or len(told) >= FAULTS_MAX:
            continue
        told.add(id(one))
        where = "".join(traceback.format_tb(one.__traceback__))
        parts.append(f"{where}{_say_fault(one)}")
        if isinstance(one, BaseExceptionGroup):
            left += reversed(one.exceptions)
        left.append(one.__cause__ or (None if one.__suppress_context__ else one.__context__))
    return "\nbehind it:\n".join(parts)


def _say_fault(fault: BaseException) -> str:
    kind = f"{type(fault).__module__}.{type(fault).__qualname__}"
    if not isinstance(fault, asyncpg.PostgresError):
        return f"{kind}: {fault}"
    # The server repeats rows and values in what it says, unless it speaks of the statement itself.
    state = fault.sqlstate or ""
    said = fault.args[0] if state.startswith("42") and fault.args else ""
    names = {"sqlstate": state, "constraint": fault.constraint_name, "table": fault.table_name}
    known = ", ".join(f"{name} {value}" for name, value in names.items() if value)
    return f"{kind}: {known} {said}".rstrip(": ")


def _render_json(_logger: object, _method: str, event: MutableMapping[str, object]) -> str:
    return _EVENT.encode(event).decode()


def _add_time(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    event["time"] = utc_text(utc_now())
    return event


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
