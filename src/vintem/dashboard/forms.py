"""The fields of a dashboard's form as a browser sends them, or a refusal."""

import re
from typing import Any, Final, TypeVar, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from vintem.api.call import Call
from vintem.hosted.forms import FORM_MEDIA_TYPE
from vintem.kit.errors import ErrorCode, Refusal

FORM_BYTES_MAX: Final = 64 * 1024
FIELDS_MAX: Final = 200

_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+"
)


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a form: texts, empty where nothing was typed; a tuple where several may be."""

    csrf: str = ""


FormT = TypeVar("FormT", bound=Form)


def cleaned(text: str) -> str:
    """A text that was typed, without what nobody can see in it."""
    return _UNSEEN.sub(" ", text).strip()


async def read_form(call: Call, shape: type[FormT]) -> FormT:
    """Read a call's form: fields that nobody declared are refused, and so is one sent twice."""
    return decode_form(await _read_fields(call), shape)


async def read_csrf(call: Call) -> str:
    """Read of a call's form only what tells which page has sent it."""
    sent = [text for name, text in _parse(await _read_fields(call)) if name == "csrf"]
    return sent[0] if len(sent) == 1 else ""


async def _read_fields(call: Call) -> bytes:
    raw = await call.read_raw()
    media_type = raw.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if raw.body and media_type != FORM_MEDIA_TYPE:
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the form as a browser does.")
    if len(raw.body) > FORM_BYTES_MAX:
        raise Refusal(ErrorCode.PAYLOAD_TOO_LARGE)
    return raw.body


def _parse(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            max_num_fields=FIELDS_MAX,
            errors="strict",
        )
    except ValueError:
        raise Refusal(ErrorCode.VALIDATION_ERROR, "The form cannot be read.") from None


def decode_form(raw: bytes, shape: type[FormT]) -> FormT:
    """Turn what a browser sent into the fields of a shape."""
    kinds, texts = get_type_hints(shape), dict[str, list[str]]()
    for name, text in _parse(raw):
        if name not in kinds:
            raise Refusal(ErrorCode.VALIDATION_ERROR, "The form has a field that is not known.")
        texts.setdefault(name, []).append(cleaned(text))
    values: dict[str, Any] = {}
    for name, sent in texts.items():
        if kinds[name] is not str:
            values[name] = tuple(sent)
        elif len(sent) == 1:
            values[name] = sent[0]
        else:
            raise Refusal(ErrorCode.VALIDATION_ERROR, "The form has a field twice.")
    return shape(**values)
