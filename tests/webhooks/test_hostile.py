"""Strangers' addresses that lead into our own network: none of them is ever connected to."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, ip_network
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.sink import Sink
from vintem.kit.addresses import CLOSED, is_loopback, is_public
from vintem.runtime.names import ask_system
from vintem.runtime.outbound import (
    ANSWER_BYTES_MAX,
    CallFailedError,
    ForbiddenAddressError,
    Outbound,
)

PUBLIC = "93.184.216.34"


@asynccontextmanager
async def canary() -> AsyncIterator[tuple[int, list[object]]]:
    """A listener on every address of this machine that must see nobody."""
    seen: list[object] = []

    def meet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername"))
        writer.close()

    server = await asyncio.start_server(meet, "0.0.0.0", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        second = await asyncio.start_server(meet, "::", port, family=socket.AF_INET6)
    except OSError:
        second = None
    yield port, seen
    server.close()
    if second is not None:
        second.close()


def spellings(address: str) -> list[str]:
    """One IPv4 address in the many ways that resolvers and browsers take it."""
    number = int(IPv4Address(address))
    a, b, c, d = (number >> 24, number >> 16 & 255, number >> 8 & 255, number & 255)
    return [
        address,
        str(number),
        hex(number),
        hex(number).upper(),
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a:#x}.{b:#x}.{c:#x}.{d:#x}",
        f"{a:#x}.{b}.0{c:o}.{d}",
        f"00{a}.{b}.{c}.{d}",
        address + ".",
        address.replace(".", "%2e"),
        address.replace(".", "。"),
        "".join(chr(ord("０") + int(digit)) if digit.isdigit() else digit for digit in address),
        f"[::ffff:{address}]",
        f"[::{address}]",
        f"[64:ff9b::{address}]",
        f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::]",
        f"[::ffff:0:{address}]",
    ]


TARGETS = ("127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "172.16.0.1", "100.64.0.1")
HOSTS = [
    *(spelling for target in TARGETS for spelling in spellings(target)),
    *("0", "0.0.0.0", "127.1", "127.0.1", "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[fe80::1]"),
    *("[fc00::1]", "[fd00:ec2::254]", "[fe80::1%25lo]", "localhost", "LOCALHOST", "localhost."),
    *("a.localhost", "db.internal", "router.lan", "x.local", "metadata.google.internal"),
    *("kubernetes.default.svc.cluster.local", "1.0.0.127.in-addr.arpa", "intranet", "x.onion"),
]
NOT_URLS = [
    "file:///etc/passwd", "gopher://127.0.0.1:70/_x", "ftp://127.0.0.1/", "dict://127.0.0.1:11211/",
    "//127.0.0.1/", "127.0.0.1", "", "https://", "https:///x", "https:127.0.0.1",
    "https:/127.0.0.1/",
    "javascript:alert(1)", "data:text/plain,x", "http://loja.com.br\\@127.0.0.1/", "ht\ntps://127.0.0.1",
    "https://loja.com.br@127.0.0.1/", "https://127.0.0.1#@loja.com.br/", "https://127.0.0.1\\.loja.com.br/",
    "https://loja.com.br:443@127.0.0.1/", "https://[::1", "https://::1/", "jar:https://127.0.0.1!/",
    "https://127.0.0.1 .loja.com.br/", "https://127.0.0.1\t/", "https://127.0.0.1%00.loja.com.br/",
    "unix:///run/postgresql", "ldap://127.0.0.1/", "https://user:pass@127.0.0.1/", "wss://127.0.0.1/",
]  # fmt: skip


async def refused(outbound: Outbound, url: str, *, allows_loopback: bool = False) -> None:
    with pytest.raises((ForbiddenAddressError, CallFailedError)):
        await outbound.post(url, b"{}", {}, allows_loopback=allows_loopback, seconds_max=3.0)


async def test_no_spelling_of_an_address_reaches_this_machine() -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        # As a careless system would: whatever looks like a number is one.
        del host, port
        return ["127.0.0.1"]

    async with canary() as (port, seen):
        urls = [
            f"{scheme}://{host}:{number}/"
            for host in HOSTS
            for scheme, number in (("https", 443), ("https", port), ("http", port))
        ]
        urls += NOT_URLS
        assert len(urls) > 400
        for resolver in (resolve, ask_system):
            outbound = Outbound(ask=resolver)
            for url in urls:
                await refused(outbound, url)
                with pytest.raises(ForbiddenAddressError):
                    await outbound.check(url, allows_loopback=False)
            await outbound.close()
        assert seen == []


async def test_no_name_reaches_a_private_address_whatever_it_resolves_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Sequence[str]] = [
        *([str(network[1])] for network in CLOSED),
        *([str(network[-1])] for network in CLOSED),
        *([PUBLIC, str(network[0])] for network in CLOSED),
        ["127.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["::ffff:7f00:1"],
        ["64:ff9b::7f00:1"],
        ["fe80::1%lo"],
        ["0.0.0.0"],
        ["::"],
        ["255.255.255.255"],
        ["junk"],
        [],
    ]
    assert len(answers) > 100
    async with canary() as (port, seen):
        monkeypatch.setattr("vintem.kit.urls.PORTS", frozenset({port}))
        for answer in answers:

            def resolve(host: str, port: int, answer: Sequence[str] = answer) -> Sequence[str]:
                del host, port
                return answer

            outbound = Outbound(ask=resolve)
            for allows_loopback in (False, True):
                with pytest.raises(ForbiddenAddressError):
                    await outbound.post(
                        f"https://loja.com.br:{port}/", b"{}", {},
                        allows_loopback=allows_loopback, seconds_max=3.0,
                    )  # fmt: skip
            await outbound.close()
        assert seen == []


async def test_a_name_that_changes_between_check_and_connection_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second answer would be this machine; the connection goes to the first, or nowhere."""
    async with canary() as (port, seen):
        asked: list[str] = []

        def resolve(host: str, _: int) -> Sequence[str]:
            asked.append(host)
            return [PUBLIC] if len(asked) % 2 else ["127.0.0.1"]

        monkeypatch.setattr("vintem.kit.urls.PORTS", frozenset({port}))
        outbound = Outbound(ask=resolve)
        await refused(outbound, f"https://loja.com.br:{port}/")
        assert asked == ["loja.com.br"]
        await refused(outbound, f"https://loja.com.br:{port}/")
        assert len(asked) == 2
        await outbound.close()
        assert seen == []


async def test_the_socket_itself_refuses_what_slipped_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Were the check of names broken, the connection would still not be made."""
    async with canary() as (port, seen):

        def resolve(host: str, _: int) -> Sequence[str]:
            del host
            return ["127.0.0.1"]

        monkeypatch.setattr("vintem.kit.urls.PORTS", frozenset({port}))
        outbound = Outbound(ask=resolve)

        async def unchecked(*_: object, **__: object) -> Sequence[str]:
            return ["127.0.0.1"]

        monkeypatch.setattr(outbound, "_addresses", unchecked)
        with pytest.raises(CallFailedError):
            await outbound.post(
                f"https://loja.com.br:{port}/", b"{}", {}, allows_loopback=False, seconds_max=3.0
            )
        await outbound.close()
        assert seen == []


async def test_the_canary_would_be_seen() -> None:
    """The control: what is allowed does connect, so that silence means something."""
    async with canary() as (port, seen):
        outbound = Outbound()
        for host in ("127.0.0.1", "localhost", "127.8.9.10"):
            await refused(outbound, f"http://{host}:{port}/", allows_loopback=True)
        await outbound.close()
        assert len(seen) >= 3


async def test_redirects_and_proxies_are_not_followed(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with canary() as (port, seen):
        for variable in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{port}")
        outbound = Outbound()
        for status in (301, 302, 303, 307, 308):

            async def redirect(_: web.Request, status: int = status) -> web.Response:
                return web.Response(
                    status=status, headers={"location": f"http://127.0.0.1:{port}/latest"}
                )

            sink.behaviours["/hook"] = redirect
            answer = await outbound.post(
                sink.url(), b"{}", {}, allows_loopback=True, seconds_max=3.0
            )
            assert answer.status == status
        await outbound.close()
        assert seen == []


async def test_an_answer_is_read_no_further_than_needed(sink: Sink) -> None:
    sink.answer("/hook", 200, body="x" * 1_000_000)
    outbound = Outbound()
    answer = await outbound.post(sink.url(), b"{}", {}, allows_loopback=True, seconds_max=3.0)
    assert len(answer.body) == ANSWER_BYTES_MAX
    await outbound.close()


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0", 0.0), ("7", 7.0), (" 120 ", 120.0), ("99999999999999999999", 999_999_999.0),
        ("Thu, 01 Jan 2015 00:00:00 GMT", 0.0), ("Thu, 01 Jan 2015 00:00:00 -0000", 0.0),
        ("-1", None), ("1.5", None), ("soon", None), ("", None), (",", None), ("Thu,", None),
        ("Thu, 01 Jan 2026 00:00:00 +9999999999", None), ("01 Jan 99999 00:00:00 GMT", None),
        ("Thu, 99 Jan 2026 99:99:99 GMT", None), ("a b c d e f g", None), ("١٢", None),
    ],
)  # fmt: skip
async def test_what_is_written_as_retry_after_breaks_nothing(
    sink: Sink, written: str, seconds: float | None
) -> None:
    async def throttle(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"retry-after": written})

    sink.behaviours["/hook"] = throttle
    outbound = Outbound()
    answer = await outbound.post(sink.url(), b"{}", {}, allows_loopback=True, seconds_max=3.0)
    await outbound.close()
    assert (answer.status, answer.retry_after_seconds) == (429, seconds)


@pytest.mark.parametrize("network", CLOSED, ids=str)
def test_no_closed_network_is_public(network: object) -> None:
    closed = ip_network(str(network))
    for address in (closed[0], closed[1], closed[closed.num_addresses // 2], closed[-1]):
        assert not is_public(str(address))


@pytest.mark.parametrize("address", [PUBLIC, "1.1.1.1", "2606:4700:4700::1111", "200.160.2.3"])
def test_the_open_internet_is_public(address: str) -> None:
    assert is_public(address)
    assert not is_loopback(address)


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's side with a certificate for a name, and a client's that believes it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "certificate.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    return server, ssl.create_default_context(cafile=str(pem))


@asynccontextmanager
async def tls_server(context: ssl.SSLContext) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=request.headers["host"])

    app = web.Application()
    app.router.add_post("/", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server = site._server
    assert isinstance(server, asyncio.Server)
    yield f"https://localhost:{server.sockets[0].getsockname()[1]}/"
    await runner.cleanup()


async def test_a_certificate_is_verified_against_the_name(tmp_path: Path) -> None:
    for name, trusts, is_taken in (
        ("localhost", True, True),
        ("localhost", False, False),
        ("loja.com.br", True, False),
    ):
        server, client = certificate(tmp_path, name)
        outbound = Outbound(tls=client if trusts else None)
        async with tls_server(server) as url:
            if is_taken:
                answer = await outbound.post(url, b"{}", {}, allows_loopback=True, seconds_max=3.0)
                assert answer.body.decode() in url
            else:
                with pytest.raises(CallFailedError, match="TLS"):
                    await outbound.post(url, b"{}", {}, allows_loopback=True, seconds_max=3.0)
        await outbound.close()
