"""Intents: one financial wish, recognised again however often it is sent."""

import hashlib
import hmac
import re
import struct
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from vintem.kit.errors import ErrorCode, Refusal

CLIENT_KEY_CHARACTERS_MAX: Final = 255

_CLIENT_KEY: Final = re.compile(rf"[!-~]{{1,{CLIENT_KEY_CHARACTERS_MAX}}}")
_LENGTHS: Final = struct.Struct(">QQQ")


class IntentSource(StrEnum):
    """Where an intent's key came from."""

    CLIENT = "client"
    GENERATED = "generated"
    IMPLICIT = "implicit"


class Intent(msgspec.Struct, frozen=True, gc=False):
    """One wish of a caller: its key, and the fingerprint of what was asked with it."""

    key: str
    source: IntentSource
    fingerprint: bytes


def fingerprint(*, pepper: bytes, method: str, path: str, body: bytes) -> bytes:
    """Digest a request so that only the same method, path and canonical body digest alike."""
    method_bytes, path_bytes = method.encode(), path.encode()
    # The lengths come first, so that no byte can move from one part to the next unnoticed.
    lengths = _LENGTHS.pack(len(method_bytes), len(path_bytes), len(body))
    return hmac.digest(pepper, lengths + method_bytes + path_bytes + body, hashlib.sha256)


def is_client_key(text: str) -> bool:
    """Tell whether a text may serve as a client's idempotency key."""
    return _CLIENT_KEY.fullmatch(text) is not None


class IntentReused(Refusal):
    """The key already stands for another wish; says when that one was completed."""

    def __init__(self, processed_at: datetime) -> None:
        super().__init__(ErrorCode.IDEMPOTENCY_KEY_REUSED)
        self.processed_at = processed_at
