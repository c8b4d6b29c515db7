"""Signatures by the Standard Webhooks specification, which verifiers of many languages know."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every secret begins with
SECRET_BYTES: Final = 32


def new_secret() -> str:
    """Make a secret to sign with."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sign(secrets_: Sequence[str], *, message_id: str, timestamp: int, body: bytes) -> str:
    """Sign exact bytes with each secret; whoever knows one of them can verify."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(
        "v1,"
        + base64.b64encode(hmac.digest(_key_of(secret), signed, hashlib.sha256)).decode("ascii")
        for secret in secrets_
    )


def headers_of(
    *, message_id: str, timestamp: int, signature: str, correlation_id: str = ""
) -> dict[str, str]:
    """The headers that go with a signed body."""
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature,
        "x-event-id": message_id,
    }
    if correlation_id:
        headers["x-correlation-id"] = correlation_id
    return headers


def _key_of(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX))
