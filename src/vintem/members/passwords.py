"""Passwords: which may be chosen, and their hashes, made off the event loop and a few at a time."""

import asyncio
import unicodedata
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Final, TypeVar

import argon2

from vintem.kit.errors import ErrorCode, Refusal

T = TypeVar("T")

CHARACTERS_MIN: Final = 12
CHARACTERS_MAX: Final = 128
HASHES_AT_ONCE_MAX: Final = 2
HASHES_WAITING_MAX: Final = 64
RETRY_SECONDS: Final = 5
DIFFERENT_CHARACTERS_MIN: Final = 5
OWN_CHARACTERS_MIN: Final = 8
"""How much of a password must be left without the names that everybody knows."""
NAME_CHARACTERS_MIN: Final = 4

# The most common ones that are long enough, and what they are made of.
_COMMON_WORDS: Final = """
    123456789012 1234567890123 12345678901234 123456789123 123123123123 123456123456 012345678901
    passwordpassword password1234 password12345 password123456 passw0rd1234 p@ssw0rd1234
    senhasenha12 senha1234567 senha12345678 senha123456789 senhaforte123 minhasenha12 minhasenha123
    minhasenha1234 mudarsenha123 trocarsenha1 trocarsenha12 trocarsenha123 novasenha123 mudar1234567
    qwertyuiop12 qwertyuiop123 qwertyuiop1234 qwerty123456 qwerty1234567 qwertyqwerty qwertyuiopas
    asdfghjkl123 asdfasdfasdf zxcvbnm12345 zxcvbnmasdfg 1q2w3e4r5t6y 1q2w3e4r5t6y7u q1w2e3r4t5y6
    1qaz2wsx3edc 1qaz2wsx3edc4rfv qazwsxedcrfv zaq12wsxcde3 abcdefghijkl abcd12345678 abc123456789
    abcdef123456 administrator administrador admin1234567 admin123456789 adminadmin12 root12345678
    welcome12345 welcome123456 iloveyou1234 iloveyou12345 letmein12345 changeme1234 changeme12345
    brasil123456 brasil1234567 flamengo1234 flamengo12345 corinthians1 corinthians12 corinthians123
    palmeiras123 palmeiras1234 saopaulo1234 vascodagama1 gremio123456 sucesso12345 dragon123456
    monkey123456 football1234 baseball1234 superman1234 princess1234 sunshine1234 jesuscristo1
    jesuscristo12 jesusteama12 jesuseocaminho deusefiel123 correcthorsebatterystaple
"""
COMMON: Final = frozenset(_COMMON_WORDS.split())


class PasswordFault(StrEnum):
    """Why a password may not be chosen."""

    TOO_SHORT = "too short"
    TOO_LONG = "too long"
    COMMON = "common"
    NAMES = "made of names"


def normalised(password: str) -> str:
    """Write a password in the one form that is hashed, whichever keyboard it comes from."""
    return unicodedata.normalize("NFKC", password).strip()


def fault_of(password: str, *, names: Sequence[str]) -> PasswordFault | None:
    """Find what is wrong with a new password; names are the e-mail, the person's, the company's."""
    password = normalised(password)
    if len(password) < CHARACTERS_MIN:
        return PasswordFault.TOO_SHORT
    if len(password) > CHARACTERS_MAX:
        return PasswordFault.TOO_LONG
    plain = _plain(password)
    if plain in COMMON or len(set(plain)) < DIFFERENT_CHARACTERS_MIN:
        return PasswordFault.COMMON
    left = plain
    parts = {part for name in names for part in _parts(name)}
    for part in sorted(parts, key=len, reverse=True):
        left = left.replace(part, "")
    if left != plain and len(left) < OWN_CHARACTERS_MIN:
        return PasswordFault.NAMES
    return None


def _plain(text: str) -> str:
    """Take blanks, accents and the size of letters away."""
    bare = unicodedata.normalize("NFD", text.lower())
    return "".join(one for one in bare if not unicodedata.combining(one) and not one.isspace())


def _parts(name: str) -> set[str]:
    words = {name, name.partition("@")[0], *name.replace("@", " ").replace(".", " ").split()}
    return {word for word in map(_plain, words) if len(word) >= NAME_CHARACTERS_MIN}


class Hashing:
    """Makes and checks hashes in threads: one takes tens of milliseconds and 64 MB."""

    def __init__(self, hasher: argon2.PasswordHasher) -> None:
        self._hasher = hasher
        self._hands = ThreadPoolExecutor(HASHES_AT_ONCE_MAX, thread_name_prefix="passwords")
        self._waiting = 0
        nothing, costs = b64encode(bytes(16)).rstrip(b"=").decode(), hasher
        self._nobodys = (
            f"$argon2id$v=19$m={costs.memory_cost},t={costs.time_cost},p={costs.parallelism}"
            f"${nothing}${b64encode(bytes(32)).rstrip(b'=').decode()}"
        )

    async def hash(self, password: str) -> str:
        """Make the hash of a password."""
        return await self._run(self._hasher.hash, normalised(password))

    async def is_right(self, password: str, password_hash: str | None) -> bool:
        """Check a password; where there is no hash the answer takes as long, and is no."""
        return await self._run(self._verify, password_hash or self._nobodys, normalised(password))

    def is_outdated(self, password_hash: str) -> bool:
        """Tell whether a hash was made with other costs than today's."""
        return self._hasher.check_needs_rehash(password_hash)

    def _verify(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except argon2.exceptions.VerificationError:
            return False

    async def _run(self, work: Callable[..., T], *values: str) -> T:
        if self._waiting >= HASHES_WAITING_MAX:
            raise Refusal(ErrorCode.SERVICE_UNAVAILABLE, retry_after_seconds=RETRY_SECONDS)
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._hands, work, *values)
        finally:
            self._waiting -= 1


hashing: Final = Hashing(argon2.PasswordHasher())
