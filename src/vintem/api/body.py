"""Strict decoding: JSON bodies and query parameters into declared shapes, or the list of faults."""

import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Final, NamedTuple, TypeVar, Union
from urllib.parse import parse_qsl

import msgspec

from vintem.api.call import MUST, Query
from vintem.kit.errors import ErrorCode, Refusal

StructT = TypeVar("StructT", bound=msgspec.Struct)

BODY_BYTES_MAX: Final = 256 * 1024
FAULTS_MAX: Final = 50
NESTING_MAX: Final = 64
QUERY_PARAMETERS_MAX: Final = 50

NO_BODY: Final = "This call needs a body, in JSON; there is none."
TOO_DEEP: Final = f"The body is nested more than {NESTING_MAX} levels deep."

Fault = dict[str, str]

_decode: Final = msgspec.json.Decoder().decode
_encode_canonical: Final = msgspec.json.Encoder(order="deterministic").encode
_KEY_END: Final = re.compile(rb'"[ \t\r\n]*:')
_PLACE: Final = re.compile(r" - at `[^`]*`$")
_BROKEN_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_WHOLE_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")


def parse_json(raw: bytes) -> object:
    """Parse JSON, refusing what is not JSON, repeated names, and text that cannot be stored."""
    if not raw:
        raise Refusal(ErrorCode.INVALID_JSON, NO_BODY)
    try:
        value = _decode(raw)
    except (ValueError, RecursionError) as error:
        raise Refusal(ErrorCode.INVALID_JSON, _why_not_json(error)) from None
    # Each name is followed by a colon. There are at least as many colons as names, so when there
    # are no more of them than names in the parsed value, no name was repeated. Texts may hold some
    # too; fewer of those follow a quote, and then all names are looked at.
    names = _count_names(value, NESTING_MAX)
    if raw.count(b":") != names and len(_KEY_END.findall(raw)) != names:
        _refuse_repeated_names(raw)
    if b"\\u0000" in raw:
        _refuse_nul(value, "")
    return value


def decode(value: object, shape: type[StructT]) -> StructT:
    """Turn a parsed value into a declared shape, or refuse with every fault in it."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        faults = find_faults(value, shape, "") or [_fault("", str(error))]
        raise validation_refusal(faults) from None


def canonical(value: object) -> bytes:
    """Write a parsed value so that the order of names makes no difference."""
    return _encode_canonical(value)


def decode_query(query: bytes, shape: type[StructT]) -> StructT:
    """Turn query parameters into a declared shape, or refuse with every fault in them."""
    faults: list[Fault] = []
    values: dict[str, str] = {}
    pairs = _pairs_of(query)
    if not shape.__struct_config__.forbid_unknown_fields:
        known = {field.encode_name for field in msgspec.structs.fields(shape)}
        pairs = [(name, text) for name, text in pairs if name in known]
    for name, text in pairs:
        if name in values:
            faults.append(_fault(name, "is given twice"))
        if "\x00" in text:
            faults.append(_fault(name, "must not contain NUL characters"))
        if name in _whole_numbers(shape) and _WHOLE_NUMBER.fullmatch(text) is None:
            faults.append(_fault(name, "must be a whole number"))
        values[name] = text
    try:
        decoded = msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        found = find_faults(values, shape, "", is_strict=False) or [_fault("", str(error))]
        _add_new(faults, found)
        # What has its type is looked at further, so that one answer names all that is wrong.
        wrong = {fault["field"] for fault in faults}
        sound = {name: text for name, text in values.items() if name not in wrong}
        try:
            decoded = msgspec.convert(sound, shape, strict=False)
        except msgspec.ValidationError:
            raise validation_refusal(faults) from None
    if isinstance(decoded, Query):
        _add_new(faults, decoded.faults())
    if faults:
        raise validation_refusal(faults)
    return decoded


def _pairs_of(query: bytes) -> list[tuple[str, str]]:
    try:
        if _BROKEN_PERCENT.search(query):
            raise ValueError("a percent sign needs two hexadecimal digits")  # noqa: TRY301
        return parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=QUERY_PARAMETERS_MAX,
            errors="strict",
        )
    except ValueError:
        raise validation_refusal([_fault("", "The query cannot be read.")]) from None


def _add_new(faults: list[Fault], found: list[Fault]) -> None:
    """Add faults of parameters that have none yet."""
    known = {fault["field"] for fault in faults}
    faults += [fault for fault in found if fault["field"] not in known]


def validation_refusal(faults: list[Fault]) -> Refusal:
    """Refuse because of these faults."""
    first = faults[0]
    where = f"{first['field']}: " if first["field"] else ""
    return Refusal(
        ErrorCode.VALIDATION_ERROR, f"{where}{first['message']}", details={"errors": faults}
    )


def whole_fault(message: str) -> Mapping[str, list[Fault]]:
    """The details of a request that is wrong as a whole, not in one of its fields."""
    return {"errors": [_fault("", message)]}


def find_faults(
    value: object, shape: type[msgspec.Struct], path: str, *, is_strict: bool = True
) -> list[Fault]:
    """List what keeps a value from having a shape, each fault with its path."""
    if not isinstance(value, dict):
        return [_fault(path, "must be an object")]
    faults: list[Fault] = []
    declared = {field.encode_name: field for field in msgspec.structs.fields(shape)}
    faults += [
        _fault(_join(path, name), "is not a known field") for name in value if name not in declared
    ]
    for name, field in declared.items():
        if name not in value:
            if field.required:
                faults.append(_fault(_join(path, name), "is required"))
            continue
        faults += _find_field_faults(
            value[name], field.type, _join(path, name), is_strict=is_strict
        )
    return faults[:FAULTS_MAX]


def _find_field_faults(
    value: object, declared: object, path: str, *, is_strict: bool
) -> list[Fault]:
    try:
        msgspec.convert(value, declared, strict=is_strict)
    except msgspec.ValidationError as error:
        inner = _find_inner_faults(value, declared, path)
        return inner or [_fault(path, _in_words(str(error), declared))]
    return []


def _in_words(message: str, declared: object) -> str:
    """Say what is wrong without the words of the program: no enumerations, no patterns."""
    words = _choices(declared)
    if message.startswith("Invalid enum value") and words:
        return f"must be {_one_of(words)}"
    if "matching regex" in message:
        return _must(declared) or "has a form that is not allowed"
    return message


def _one_of(words: Sequence[str]) -> str:
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


@cache
def _choices(declared: object) -> Sequence[str]:
    """The words that an annotation such as `Status | None` or `Literal["cpf", "cnpj"]` allows."""
    if isinstance(declared, type) and issubclass(declared, Enum):
        return [str(member.value) for member in declared]
    arguments = typing.get_args(declared)
    if typing.get_origin(declared) is typing.Literal:
        return [str(argument) for argument in arguments]
    return next((found for part in arguments if (found := _choices(part))), [])


@cache
def _must(declared: object) -> str | None:
    """What an annotation says in words of its pattern."""
    if isinstance(declared, msgspec.Meta):
        return (declared.extra or {}).get(MUST)
    parts = (*typing.get_args(declared), *getattr(declared, "__metadata__", ()))
    return next((found for part in parts if (found := _must(part))), None)


def _find_inner_faults(value: object, declared: object, path: str) -> list[Fault]:
    """Look for the faults one level further in; none means that the value itself is at fault."""
    inner = _inner(declared)
    if isinstance(inner.shape, type) and isinstance(value, dict):
        return find_faults(value, inner.shape, path)
    faults: list[Fault] = []
    if inner.item is not None and isinstance(value, list):
        for index, item in enumerate(value):
            faults += _find_field_faults(item, inner.item, f"{path}[{index}]", is_strict=True)
            if len(faults) >= FAULTS_MAX:
                break
    elif inner.value is not None and isinstance(value, dict):
        for name, item in value.items():
            faults += _find_field_faults(item, inner.value, _join(path, name), is_strict=True)
    return faults[:FAULTS_MAX]


class _Inner(NamedTuple):
    """What an annotation such as `Address | None`, `list[Item]` or `dict[str, int]` holds."""

    shape: type[msgspec.Struct] | None = None
    item: object = None
    value: object = None


@cache
def _inner(declared: object) -> _Inner:
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        return _Inner(shape=declared)
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin in {Union, types.UnionType}:
        found = [_inner(argument) for argument in arguments]
        return next((inner for inner in found if inner != _Inner()), _Inner())
    if origin is typing.Annotated:
        return _inner(arguments[0])
    if origin in {list, tuple, Sequence}:
        return _Inner(item=arguments[0])
    if origin in {dict, Mapping}:
        return _Inner(value=arguments[1])
    return _Inner()


@cache
def _whole_numbers(shape: type[msgspec.Struct]) -> frozenset[str]:
    """Name the parameters of a query that are whole numbers."""
    return frozenset(
        field.encode_name for field in msgspec.structs.fields(shape) if _holds_int(field.type)
    )


def _holds_int(declared: object) -> bool:
    return declared is int or any(_holds_int(part) for part in typing.get_args(declared))


def _fault(path: str, message: str) -> Fault:
    return {"field": path, "message": _PLACE.sub("", message)}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _why_not_json(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, UnicodeDecodeError):
        return "The body is not valid UTF-8."
    return f"The body is not valid JSON: {_PLACE.sub('', str(error))}."


def _count_names(value: object, levels_left: int) -> int:
    """Count the names of all objects in a value that is not nested too deeply."""
    if levels_left == 0:
        raise Refusal(ErrorCode.INVALID_JSON, TOO_DEEP)
    if isinstance(value, dict):
        names, inner = len(value), list(value.values())
    elif isinstance(value, list):
        names, inner = 0, value
    else:
        return 0
    for item in inner:
        if isinstance(item, dict | list):
            names += _count_names(item, levels_left - 1)
    return names


def _refuse_repeated_names(raw: bytes) -> None:
    """Refuse an object that has a name twice: its readers would not agree on what it says."""

    def refuse_repeated(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
        named: dict[str, object] = {}
        for name, value in pairs:
            if name in named:
                raise validation_refusal([_fault(name, "is given twice")])
            named[name] = value
        return named

    json.loads(raw, object_pairs_hook=refuse_repeated, parse_int=str, parse_float=str)


def _refuse_nul(value: object, path: str) -> None:
    if isinstance(value, str) and "\x00" in value:
        raise validation_refusal([_fault(path, "must not contain NUL characters")])
    if isinstance(value, dict):
        for name, inner in value.items():
            _refuse_nul(name, _join(path, name.replace("\x00", "")))
            _refuse_nul(inner, _join(path, name))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            _refuse_nul(inner, f"{path}[{index}]")
