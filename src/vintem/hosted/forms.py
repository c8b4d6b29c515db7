"""The fields of a form as a browser sends them, or a refusal: nothing unknown, nothing twice."""

import re
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from vintem.api.body import validation_refusal
from vintem.api.call import Call
from vintem.kit.errors import ErrorCode, Refusal

FORM_BYTES_MAX: Final = 16 * 1024
FIELDS_MAX: Final = 40
FORM_MEDIA_TYPE: Final = b"application/x-www-form-urlencoded"

_BROKEN_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_UNSEEN: Final = re.compile(r"[\x00-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")

FormT = TypeVar("FormT", bound="Form")


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a form: texts, empty where nothing was typed."""


async def read_form(call: Call, shape: type[FormT]) -> FormT:
    """Read a call's form, or refuse all of it; a refusal never repeats what was typed."""
    raw = await call.read_raw()
    media_type = raw.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if raw.body and media_type != FORM_MEDIA_TYPE:
        raise Refusal(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the form as a browser does.")
    if len(raw.body) > FORM_BYTES_MAX:
        raise Refusal(ErrorCode.PAYLOAD_TOO_LARGE)
    return decode_form(raw.body, shape)


def decode_form(raw: bytes, shape: type[FormT]) -> FormT:
    """Turn what a browser sent into the fields of a shape."""
    fields = _parse(raw)
    known = shape.__struct_fields__
    # A name is not repeated either: a number may have been sent where a name should be.
    if any(name not in known for name in fields):
        raise _refusal("The form has a field that is not known.")
    return shape(**fields)


def _parse(raw: bytes) -> Mapping[str, str]:
    try:
        if _BROKEN_PERCENT.search(raw):
            raise ValueError("a percent sign needs two hexadecimal digits")  # noqa: TRY301
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            max_num_fields=FIELDS_MAX,
            errors="strict",
        )
    except ValueError:
        raise _refusal("The form cannot be read.") from None
    fields: dict[str, str] = {}
    for name, text in pairs:
        if name in fields:
            raise _refusal("The form has a field twice.")
        fields[name] = _UNSEEN.sub(" ", text).strip()
    return fields


def _refusal(message: str) -> Refusal:
    return validation_refusal([{"field": "", "message": message}])
