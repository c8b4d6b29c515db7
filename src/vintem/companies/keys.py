"""The form of an API key: readable type and environment, random body, checksum; keyed digest."""

import hashlib
import hmac
import re
import secrets
import string
import zlib
from dataclasses import dataclass
from typing import Final

from vintem.companies.model import Environment, KeyType

BASE62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
RANDOM_CHARACTERS: Final = 32
CHECKSUM_CHARACTERS: Final = 6
FORM: Final = re.compile(r"([sc]k)_(live|test)_[0-9A-Za-z]{32}([0-9A-Za-z]{6})")


@dataclass(frozen=True, slots=True)
class KeyForm:
    """What a well-formed key says of itself before anybody looks it up."""

    type: KeyType
    environment: Environment


def new_key(key_type: KeyType, environment: Environment) -> str:
    """Make a key that nobody has seen before."""
    random = "".join(secrets.choice(BASE62) for _ in range(RANDOM_CHARACTERS))
    body = f"{key_type}_{environment}_{random}"
    return body + _checksum(body)


def read_form(key: str) -> KeyForm | None:
    """Read a key's own words, or nothing when it is junk: the wrong form or checksum."""
    match = FORM.fullmatch(key)
    if match is None or match[3] != _checksum(key[:-CHECKSUM_CHARACTERS]):
        return None
    return KeyForm(KeyType(match[1]), Environment(match[2]))


def digest(key: bytes, *, pepper: bytes) -> bytes:
    """Turn a key into what is stored of it; useless without the server's pepper."""
    return hmac.digest(pepper, b"api-key\x00" + key, hashlib.sha256)


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    text = ""
    for _ in range(CHECKSUM_CHARACTERS):
        number, remainder = divmod(number, len(BASE62))
        text = BASE62[remainder] + text
    return text
