"""Who may make public calls about a session or a link: whoever holds its token, from known pages.

A browser says which page makes a call; a page that is neither ours nor the company's is refused.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from vintem.api.call import Call, Header
from vintem.checkout import service as checkout
from vintem.checkout.model import Merchant, is_host_of
from vintem.companies.model import Environment
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.urls import is_loopback_host

TOKEN: Final = re.compile(r"[0-9A-Za-z_-]{43}")
EXPOSED_HEADERS: Final = (
    b"x-request-id, retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset,"
    b" x-idempotency-key, x-idempotency-replayed"
)
NO_ORIGIN: Final = "null"
ORIGIN: Final = re.compile(r"(https?)://([a-z0-9-]+(?:\.[a-z0-9-]+)*(?::[0-9]{1,5})?)")
SESSION_REFUSALS: Final = (
    ErrorCode.ORIGIN_NOT_ALLOWED,
    ErrorCode.SESSION_NOT_FOUND,
    ErrorCode.SESSION_COMPLETED,
    ErrorCode.SESSION_EXPIRED,
    ErrorCode.SESSION_CANCELLED,
)


async def find_session(call: Call, headers: Mapping[bytes, bytes]) -> Sequence[Header]:
    """Find the session of the path's token, then look at which page calls."""
    token = call.params["token"]
    found = None
    # A token of the wrong form is simply unknown.
    if TOKEN.fullmatch(token):
        found = await call.resources.sessions.read(token, call.now)
    if found is None:
        raise Refusal(ErrorCode.SESSION_NOT_FOUND)
    call.public_session = found
    return check_origin(call, headers, found.merchant, found.environment)


async def find_link(call: Call, headers: Mapping[bytes, bytes]) -> Sequence[Header]:
    """Find the payment link of the path's token, then look at which page calls."""
    token = call.params["publicToken"]
    found = None
    if TOKEN.fullmatch(token):
        found = await checkout.find_link(call.resources.database, token)
    if found is None:
        raise Refusal(ErrorCode.PAYMENT_LINK_NOT_FOUND)
    call.payment_link, merchant, _ = found
    allowed = check_origin(call, headers, merchant, call.payment_link.environment)
    if merchant.is_suspended:
        raise Refusal(ErrorCode.COMPANY_SUSPENDED)
    return allowed


def check_origin(
    call: Call, headers: Mapping[bytes, bytes], merchant: Merchant, environment: str
) -> Sequence[Header]:
    """Refuse a page that is neither the checkout's own nor the company's; let the others read."""
    sent = headers.get(b"origin")
    if sent is None:
        return ()
    origin = sent.decode("latin-1")
    if origin == NO_ORIGIN:
        # So a browser says it when a page tells nobody where it is; it still knows its own.
        if headers.get(b"sec-fetch-site") != b"same-origin":
            raise Refusal(ErrorCode.ORIGIN_NOT_ALLOWED)
        return ()
    is_own = origin == own_origin(call.resources.public_url)
    if not is_own and not _is_of(origin, merchant, environment):
        raise Refusal(ErrorCode.ORIGIN_NOT_ALLOWED)
    return (
        (b"access-control-allow-origin", sent),
        (b"access-control-expose-headers", EXPOSED_HEADERS),
        (b"vary", b"origin"),
    )


@lru_cache(maxsize=16)
def own_origin(public_url: str) -> str:
    """The origin of our own pages, as browsers write it."""
    parts = urlsplit(public_url)
    default = {"https": ":443", "http": ":80"}[parts.scheme]
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(default)}"


def _is_of(origin: str, merchant: Merchant, environment: str) -> bool:
    # Only what browsers write: whatever else looks like a host may be read in two ways.
    written = ORIGIN.fullmatch(origin)
    if written is None:
        return False
    scheme, place = written.groups()
    is_here = is_loopback_host(place.partition(":")[0]) and environment == Environment.TEST
    return (scheme == "https" or is_here) and is_host_of(place, merchant.domains)
