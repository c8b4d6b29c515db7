"""Sealing what must not be read at rest, and finding it again without reading it."""

import hashlib
import hmac
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES: Final = 12


class Sealer:
    """Seals with a key made from the server's pepper; each use has a purpose of its own."""

    def __init__(self, pepper: bytes) -> None:
        self._cipher = AESGCM(derive(pepper, b"seal"))
        self._digest_key = derive(pepper, b"digest")

    def seal(self, plain: bytes, *, purpose: bytes) -> bytes:
        """Make bytes unreadable; they open only with the same purpose."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, purpose)

    def open(self, sealed: bytes, *, purpose: bytes) -> bytes | None:
        """Read sealed bytes, or nothing when they were altered or sealed for something else."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose)
        except InvalidTag:
            return None

    def digest(self, plain: bytes, *, purpose: bytes) -> bytes:
        """Make what a value can be found by; without the pepper it cannot be guessed."""
        return hmac.digest(self._digest_key, purpose + b"\x00" + plain, hashlib.sha256)


def derive(pepper: bytes, purpose: bytes) -> bytes:
    """Make a key of 32 bytes for one purpose."""
    return hmac.digest(pepper, b"vintem/" + purpose, hashlib.sha256)
