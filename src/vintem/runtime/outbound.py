"""Calls to addresses that strangers gave us: only to the open internet, however they are named.

A name is resolved once for each call and every address it has is checked; the connection goes to
one of those very addresses, and the socket's own address is checked once more before it connects.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from vintem.kit.addresses import is_loopback, is_public, parse_address
from vintem.kit.clock import utc_now
from vintem.kit.urls import UrlFault, WebUrl, parse_web_url
from vintem.runtime.names import RESOLVE_SECONDS_MAX, Ask, Names, ask_system

ANSWER_BYTES_MAX: Final = 20_000
CONNECT_SECONDS_MAX: Final = 5.0
IDLE_CONNECTIONS_SECONDS: Final = 15.0
_POST_HEADERS: Final = {"content-type": "application/json", "user-agent": "Vintem-Webhooks/1"}
_GET_HEADERS: Final = {"accept": "image/*", "user-agent": "Vintem-Pictures/1"}


class ForbiddenAddressError(Exception):
    """The address is none that we call; the sentence says why."""


class CallFailedError(Exception):
    """There was no answer; the sentence says why, in words that may be shown to the company."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered, no more of it than anybody needs."""

    status: int
    body: bytes
    seconds: float
    retry_after_seconds: float | None = None
    """How long the other side asks to be left alone."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What is sent, and how much of the answer is read."""

    method: str
    headers: Mapping[str, str]
    body: bytes | None
    answer_bytes_max: int


# The checked addresses of the call that this task is making.
_checked: Final[ContextVar[Sequence[str]]] = ContextVar("checked addresses", default=())
_may_be_loopback: Final[ContextVar[bool]] = ContextVar("may be loopback", default=False)


class _CheckedResolver(AbstractResolver):
    """Gives the connector the addresses that were checked for this call, and no others."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        del family
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in _checked.get()
        ]

    async def close(self) -> None:
        """Nothing is held."""


def _checked_socket(info: aiohttp.connector.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, place = info
    address = str(place[0])
    if not is_public(address) and not (_may_be_loopback.get() and is_loopback(address)):
        raise OSError(f"{address} is not called")
    made = socket.socket(family, kind, protocol)
    made.settimeout(0.0)
    return made


class Outbound:
    """Calls addresses that strangers gave us; to be closed at the end."""

    def __init__(self, *, ask: Ask = ask_system, tls: ssl.SSLContext | None = None) -> None:
        self._names = Names(ask)
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def check(self, url: str, *, allows_loopback: bool, asker: str = "") -> None:
        """Raise ForbiddenAddressError unless an address may be called as it resolves now."""
        parsed = _parsed(url, allows_loopback=allows_loopback)
        await self._addresses(parsed, allows_loopback=allows_loopback, asker=asker, is_proven=False)

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        allows_loopback: bool,
        seconds_max: float,
        asker: str = "",
        is_proven: bool = False,
    ) -> Answer:
        """Send a JSON body and return the answer, whatever its status; redirects are answers.

        Whoever asks has its names looked up apart from others, and one that is proven before them.
        """
        request = _Request("POST", {**_POST_HEADERS, **headers}, body, ANSWER_BYTES_MAX)
        return await self._call(
            request,
            url,
            allows_loopback=allows_loopback,
            seconds_max=seconds_max,
            asker=asker,
            is_proven=is_proven,
        )

    async def get(
        self,
        url: str,
        *,
        allows_loopback: bool,
        seconds_max: float,
        bytes_max: int,
        asker: str = "",
    ) -> Answer:
        """Fetch the first bytes of what is at an address; redirects are answers."""
        request = _Request("GET", _GET_HEADERS, None, bytes_max)
        return await self._call(
            request,
            url,
            allows_loopback=allows_loopback,
            seconds_max=seconds_max,
            asker=asker,
            is_proven=False,
        )

    async def _call(
        self,
        request: _Request,
        url: str,
        *,
        allows_loopback: bool,
        seconds_max: float,
        asker: str,
        is_proven: bool,
    ) -> Answer:
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds_max):
                parsed = _parsed(url, allows_loopback=allows_loopback)
                found = await self._addresses(
                    parsed, allows_loopback=allows_loopback, asker=asker, is_proven=is_proven
                )
                _checked.set(found)
                _may_be_loopback.set(allows_loopback)
                response, answered = await self._send_again_if_cut(parsed, request)
        except aiohttp.ServerTimeoutError:
            raise CallFailedError(f"no connection within {CONNECT_SECONDS_MAX:g} s") from None
        except TimeoutError:
            raise CallFailedError(f"no answer within {seconds_max:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallFailedError(_reason(error)) from None
        seconds = time.monotonic() - began
        return Answer(response.status, answered, seconds, _retry_after_seconds(response))

    async def _send_again_if_cut(
        self, url: WebUrl, request: _Request
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        try:
            return await self._send(url, request)
        except (aiohttp.ServerDisconnectedError, ConnectionResetError):
            # Most likely a connection of before that the other side was just closing.
            return await self._send(url, request)

    async def _send(self, url: WebUrl, request: _Request) -> tuple[aiohttp.ClientResponse, bytes]:
        session = self._session or self._open()
        async with session.request(
            request.method,
            # As it was given: what is signed for one path must not arrive at another.
            URL(_with_ascii_host(url), encoded=True),
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
        ) as response:
            answered = bytearray()
            while len(answered) < request.answer_bytes_max:
                piece = await response.content.read(request.answer_bytes_max - len(answered))
                if not piece:
                    break
                answered += piece
            else:
                # What comes after is not read: the connection cannot be used again.
                response.close()
            return response, bytes(answered)

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=_CheckedResolver(),
            use_dns_cache=False,
            socket_factory=_checked_socket,
            ssl=self._tls or ssl.create_default_context(),
            limit=0,
            keepalive_timeout=IDLE_CONNECTIONS_SECONDS,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            # No proxy, no password file of the environment.
            trust_env=False,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS_MAX),
            skip_auto_headers=("Accept-Encoding",),
        )
        return self._session

    async def _addresses(
        self, url: WebUrl, *, allows_loopback: bool, asker: str, is_proven: bool
    ) -> Sequence[str]:
        """The addresses of a host, if every one of them may be called."""
        if allows_loopback and (url.host == "localhost" or is_loopback(url.host)):
            return ("127.0.0.1", "::1") if url.host == "localhost" else (url.host,)
        if parse_address(url.host) is not None:
            raise ForbiddenAddressError(UrlFault.IP_LITERAL)
        found = await self._names.resolve(url.host, url.port, asker=asker, is_proven=is_proven)
        if found is None:
            raise ForbiddenAddressError(
                f"The host's name was not resolved within {RESOLVE_SECONDS_MAX:g} s."
            )
        if not found:
            raise ForbiddenAddressError("The host's name does not resolve to an address.")
        if not all(is_public(address) for address in found):
            raise ForbiddenAddressError("The host is not on the open internet.")
        return found


def _parsed(url: str, *, allows_loopback: bool) -> WebUrl:
    parsed = parse_web_url(url, allows_loopback=allows_loopback)
    if isinstance(parsed, UrlFault):
        raise ForbiddenAddressError(parsed)
    return parsed


def _with_ascii_host(url: WebUrl) -> str:
    """The address with the host in the form that travels; path and query as they were given."""
    scheme, _, rest = url.text.partition("://")
    end = min((at for mark in "/?" if (at := rest.find(mark)) >= 0), default=len(rest))
    host = f"[{url.host}]" if ":" in url.host else url.host
    after = rest[end:]
    return f"{scheme}://{host}:{url.port}{'' if after.startswith('/') else '/'}{after}"


def _reason(error: Exception) -> str:
    """Say in a few words why there was no answer."""
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS: the certificate is not valid for this name, or there is no TLS"
    cause = getattr(error, "os_error", None) or error
    if isinstance(cause, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "the connection was closed before an answer came"
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(cause, OSError):
        return cause.strerror or "no connection"
    return f"the answer could not be read ({type(cause).__name__})"


def _retry_after_seconds(response: aiohttp.ClientResponse) -> float | None:
    """How long the other side asks to be left alone: given in seconds, or as a date."""
    written = response.headers.get("retry-after", "").strip()
    if not written:
        return None
    if written.isascii() and written.isdecimal():
        # Whoever writes more digits than these means never.
        return float(written[:9])
    try:
        until = parsedate_to_datetime(written)
    except (ValueError, TypeError, IndexError, OverflowError):
        # The reader is not strict, and a stranger may write anything.
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - utc_now()).total_seconds())
