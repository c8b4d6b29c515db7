"""Web addresses that strangers give us, to call or to send buyers to: public names over https.

They are judged by their form. What a name resolves to is checked by whoever calls it, each time it
is called.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address
from typing import Final
from urllib.parse import SplitResult, urlsplit

URL_CHARACTERS_MAX: Final = 2_048
HOST_CHARACTERS_MAX: Final = 253
PORTS: Final = frozenset({443, 8_443})
PORT_MAX: Final = 65_535
DEFAULT_PORTS: Final = {"https": 443, "http": 80}

# Names that only the machine itself or a private network knows.
PRIVATE_ENDINGS: Final = (
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "arpa",
    "onion",
)

_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
_AFTER_HOST: Final = re.compile(r"[!-~]*")
_HOST_AND_PORT: Final = re.compile(r"(?P<host>[^:\[\]%]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[^:]*))?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# No address in numbers ends in a word, whichever way it is written.
_LAST_LABEL: Final = re.compile(r"[a-z]{2,63}|xn--[a-z0-9-]{1,59}")


class UrlFault(StrEnum):
    """Why an address is not taken, as a sentence."""

    TOO_LONG = f"The address is longer than {URL_CHARACTERS_MAX} characters."
    CHARACTERS = "The address has characters that must be percent-encoded."
    MALFORMED = "The address cannot be read."
    SCHEME = "The address must begin with https://."
    USERINFO = "The address must not hold a user name or password."
    FRAGMENT = "The address must not have a fragment."
    PORT = "The port must be 443 or 8443."
    NO_PORT = f"The port must be a number from 1 to {PORT_MAX}."
    IP_LITERAL = "The address must name its host, not give it in numbers."
    HOST = "The host is not a public name."


@dataclass(frozen=True, slots=True)
class WebUrl:
    """An address that was read, and where it leads; the host in ASCII and lower case."""

    text: str
    scheme: str
    host: str
    port: int


def parse_web_url(text: str, *, allows_loopback: bool) -> WebUrl | UrlFault:
    """Read an address to call, or say why it is none.

    Where loopback is allowed, so are http and any port.
    """
    found = _parse(text, allows_loopback=allows_loopback, has_any_port=allows_loopback)
    if isinstance(found, WebUrl) and "#" in text:
        return UrlFault.FRAGMENT
    return found


def parse_page_url(text: str, *, allows_loopback: bool) -> WebUrl | UrlFault:
    """Read an address that a browser shall open, with any port and any fragment, or say why not.

    Where loopback is allowed, so is http.
    """
    return _parse(text, allows_loopback=allows_loopback, has_any_port=True)


def _parse(text: str, *, allows_loopback: bool, has_any_port: bool) -> WebUrl | UrlFault:
    if len(text) > URL_CHARACTERS_MAX:
        return UrlFault.TOO_LONG
    # The reader below would drop some of these without a word.
    if _FORBIDDEN.search(text):
        return UrlFault.CHARACTERS
    try:
        parts = urlsplit(text)
    except ValueError:
        return UrlFault.MALFORMED
    fault = _fault_around_host(text, parts, allows_loopback=allows_loopback)
    if fault is not None:
        return fault
    place = _HOST_AND_PORT.fullmatch(parts.netloc)
    if place is None:
        return UrlFault.IP_LITERAL if "[" in parts.netloc else UrlFault.HOST
    port = _port(place["port"], parts.scheme, is_any=has_any_port)
    if isinstance(port, UrlFault):
        return port
    host = _host(place["host"], allows_loopback=allows_loopback)
    return host if isinstance(host, UrlFault) else WebUrl(text, parts.scheme, host, port)


def _fault_around_host(text: str, parts: SplitResult, *, allows_loopback: bool) -> UrlFault | None:
    schemes = {"https", "http"} if allows_loopback else {"https"}
    if parts.scheme not in schemes or text[len(parts.scheme) :][:3] != "://":
        return UrlFault.SCHEME
    if "@" in parts.netloc:
        return UrlFault.USERINFO
    if _AFTER_HOST.fullmatch(parts.path + parts.query + parts.fragment) is None:
        return UrlFault.CHARACTERS
    return None


def _port(written: str | None, scheme: str, *, is_any: bool) -> int | UrlFault:
    if written is None:
        return DEFAULT_PORTS[scheme]
    port = 0 if _PORT.fullmatch(written) is None else int(written)
    if is_any:
        return port if 0 < port <= PORT_MAX else UrlFault.NO_PORT
    return port if port in PORTS else UrlFault.PORT


def _host(written: str, *, allows_loopback: bool) -> str | UrlFault:
    bare = written.lower().strip("[]")
    is_bracketed = written.startswith("[")
    if allows_loopback and is_loopback_host(bare) and is_bracketed == (":" in bare):
        return bare
    if written.startswith("["):
        return UrlFault.IP_LITERAL
    try:
        # Brings digits and dots of other scripts, too, into the form that a resolver sees.
        host = written.encode("idna").decode("ascii").lower()
        # What looks like one name and is another deceives whoever reads it.
        is_plain = written.isascii() or host.encode().decode("idna") == written.lower()
    except UnicodeError:
        return UrlFault.HOST
    labels = host.split(".")
    if all(label[:1].isdigit() for label in labels if label):
        return UrlFault.IP_LITERAL
    is_name = (
        is_plain
        and len(host) <= HOST_CHARACTERS_MAX
        and len(labels) > 1
        and all(_LABEL.fullmatch(label) for label in labels)
        and _LAST_LABEL.fullmatch(labels[-1]) is not None
    )
    return host if is_name and labels[-1] not in PRIVATE_ENDINGS else UrlFault.HOST


def is_loopback_host(host: str) -> bool:
    """Say whether a host, without brackets, is the machine itself."""
    if host in {"localhost", "::1"}:
        return True
    try:
        return IPv4Address(host).is_loopback
    except AddressValueError:
        return False
