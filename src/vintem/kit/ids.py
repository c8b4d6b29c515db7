"""Identifiers: ordered public ids, request ids and secret tokens."""

import os
import re
import secrets
import struct
import time
from enum import StrEnum
from threading import Lock
from typing import Final

_CROCKFORD: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_CROCKFORD_PAIRS: Final = tuple(high + low for high in _CROCKFORD for low in _CROCKFORD)
_BASE36_PAIRS: Final = tuple(high + low for high in _BASE36 for low in _BASE36)
_REQUEST_SUFFIXES: Final = 36**9
_RANDOM_BITS: Final = 80
_ULID: Final = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")

ANY_ID: Final = re.compile(r"(?!card_)[a-z]{2,4}_[0-7][0-9a-hjkmnp-tv-z]{25}")
"""The form of every public id that may be read by anybody; a card token is a secret."""


class Prefix(StrEnum):
    """What an id names."""

    TRANSACTION = "tx"
    WITHDRAWAL = "wd"
    SESSION = "cs"
    PRODUCT = "prod"
    COUPON = "cpn"
    PAYMENT_LINK = "pl"
    WEBHOOK = "whk"
    DELIVERY = "dlv"
    REFUND = "rf"
    CARD = "card"
    COMPANY = "cmp"
    EVENT = "evt"
    API_KEY = "key"
    IDEMPOTENCY = "idem"
    DECISION = "dec"
    PERSON = "usr"
    SIGN_IN = "sgn"
    INVITATION = "inv"
    ACT = "act"
    EXPORT = "exp"
    NOTE = "note"


def new_id(prefix: Prefix) -> str:
    """Make an id greater than every other this process made with the prefix."""
    return prefix + "_" + _ulid_text(_ulids.next_value(time.time_ns() // 1_000_000))


def new_secret_id(prefix: Prefix) -> str:
    """Make an id of 128 random bits: it has no place in time, and nobody can guess it."""
    return prefix + "_" + _ulid_text(secrets.randbits(128))


def is_id(text: str, prefix: Prefix) -> bool:
    """Tell whether a text has the form of an id with this prefix."""
    return text.startswith(prefix + "_") and _ULID.fullmatch(text, len(prefix) + 1) is not None


def new_request_id(now_ms: int) -> str:
    """Make a request id that carries its millisecond and differs between processes."""
    number = _random_64() % _REQUEST_SUFFIXES
    pairs = _BASE36_PAIRS
    return (
        f"req_{now_ms}_{pairs[number % 1296]}{pairs[number // 1296 % 1296]}"
        f"{pairs[number // 1679616 % 1296]}{pairs[number // 2176782336 % 1296]}"
        f"{_BASE36[number // 2821109907456]}"
    )


def new_token() -> str:
    """Make a secret of 256 random bits that fits in a URL."""
    return secrets.token_urlsafe(32)


class UlidSequence:
    """ULIDs as numbers, each greater than the one before, whatever the clock does."""

    __slots__ = ("_last", "_lock")

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget the last number, so that a forked process does not repeat its parent's."""
        self._last = 0
        self._lock = Lock()

    def next_value(self, now_ms: int) -> int:
        """Give the millisecond and 80 random bits, or the last number plus one."""
        with self._lock:
            if now_ms > self._last >> _RANDOM_BITS:
                random_80 = _random_64() << 16 | _random_64() >> 48
                self._last = now_ms << _RANDOM_BITS | random_80
            else:
                self._last += 1
            return self._last


def _ulid_text(value: int) -> str:
    pairs = _CROCKFORD_PAIRS
    high, low = value >> 60, value & 0xFFF_FFFF_FFFF_FFFF
    return (
        f"{pairs[high >> 60]}{pairs[high >> 50 & 1023]}{pairs[high >> 40 & 1023]}"
        f"{pairs[high >> 30 & 1023]}{pairs[high >> 20 & 1023]}{pairs[high >> 10 & 1023]}"
        f"{pairs[high & 1023]}{pairs[low >> 50]}{pairs[low >> 40 & 1023]}"
        f"{pairs[low >> 30 & 1023]}{pairs[low >> 20 & 1023]}{pairs[low >> 10 & 1023]}"
        f"{pairs[low & 1023]}"
    )


# The system's random numbers are fetched by the page: a call to the kernel per id costs more than
# the id. list.pop and list.extend are atomic, so that two threads never get the same number.
_RANDOM_PAGE: Final = struct.Struct("=512Q")
_random_numbers: Final[list[int]] = []


def _random_64() -> int:
    try:
        return _random_numbers.pop()
    except IndexError:
        fresh = _RANDOM_PAGE.unpack(os.urandom(_RANDOM_PAGE.size))
        _random_numbers.extend(fresh[1:])
        return int(fresh[0])


_ulids: Final = UlidSequence()
os.register_at_fork(after_in_child=_random_numbers.clear)
os.register_at_fork(after_in_child=_ulids.restart)
