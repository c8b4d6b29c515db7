"""How a provider proves that a callback is its own: a keyed digest of its moment and its bytes."""

import hashlib
import hmac
import re
from datetime import datetime
from typing import Final

from vintem.kit.clock import epoch_seconds

TIMESTAMP_HEADER: Final = "x-callback-timestamp"
SIGNATURE_HEADER: Final = "x-callback-signature"
TOLERANCE_SECONDS: Final = 300

_TIMESTAMP: Final = re.compile(rb"[0-9]{1,12}")


def sign(secret: bytes, timestamp: bytes, body: bytes) -> bytes:
    """Write the signature of a callback."""
    return b"v1=" + hmac.digest(secret, timestamp + b"." + body, hashlib.sha256).hex().encode()


def is_signed(
    secret: bytes, *, timestamp: bytes, signature: bytes, body: bytes, now: datetime
) -> bool:
    """Say whether a callback was signed with the secret, and a short while ago."""
    if _TIMESTAMP.fullmatch(timestamp) is None:
        return False
    is_recent = abs(epoch_seconds(now) - int(timestamp)) <= TOLERANCE_SECONDS
    is_right = hmac.compare_digest(sign(secret, timestamp, body), signature)
    return is_recent and is_right
