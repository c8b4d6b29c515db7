"""The headers of every page that buyers see: what the page may load, and who may show it."""

import secrets
from typing import Final

from vintem.api.call import Content, Header

HTML: Final = "text/html; charset=utf-8"

_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'nonce-%b'; img-src 'self'; "
    b"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    b"require-trusted-types-for 'script'; trusted-types co"
)
# What the pipeline adds by itself, `X-Content-Type-Options`, is not here.
_FIXED: Final[tuple[Header, ...]] = (
    (b"referrer-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"strict-transport-security", b"max-age=31536000"),
    (b"x-robots-tag", b"noindex, nofollow"),
)


def new_style_nonce() -> str:
    """Name the one style block of one answer, so that no other is believed."""
    return secrets.token_urlsafe(16)


def page_headers(style_nonce: str) -> tuple[Header, ...]:
    """What a page is sent with; its style block carries the nonce."""
    return ((b"content-security-policy", _POLICY % style_nonce.encode()), *_FIXED)


def see_other(location: str) -> Content:
    """Send a browser that has posted a form to a page of ours, so that it is not posted again."""
    assert location.startswith("/"), "a form leads to our own pages only"
    assert not location.startswith("//"), "two slashes name another host"
    assert location.isascii(), "a header is ASCII"
    assert location.isprintable(), "a header is one line"
    headers = ((b"location", location.encode()), *page_headers(new_style_nonce()))
    return Content(b"", HTML, 303, headers)
