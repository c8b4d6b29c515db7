"""The cookie by which a browser is known again."""

from typing import Final

from vintem.api.call import Call, Header
from vintem.resources import Resources

NAME: Final = "vintem_dashboard"
SECURE_NAME: Final = f"__Secure-{NAME}"
"""Browsers take a cookie of such a name over https alone: nobody on the way can plant it."""
PATH: Final = "/dashboard"


def cookie_of(call: Call) -> str:
    """Read the cookie that a browser was given when it was signed in."""
    name = _name(call.resources)
    for pair in call.headers.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            return value
    return ""


def given(call: Call, token: str) -> Header:
    """Give a browser its cookie; it ends with the browser, and before that with the sign-in."""
    return _header(call, token)


def taken_back(call: Call) -> Header:
    """Let a browser forget its cookie."""
    return _header(call, "", "; Max-Age=0")


def _header(call: Call, value: str, rest: str = "") -> Header:
    secure = "; Secure" if _is_https(call.resources) else ""
    flags = f"; Path={PATH}; HttpOnly; SameSite=Lax{secure}{rest}"
    return (b"set-cookie", f"{_name(call.resources)}={value}{flags}".encode("ascii"))


def _name(resources: Resources) -> str:
    return SECURE_NAME if _is_https(resources) else NAME


def _is_https(resources: Resources) -> bool:
    return resources.public_url.startswith("https://")
