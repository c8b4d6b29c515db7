"""Requests that no decent client sends: each gets a refusal in the envelope, none hurts the server.

Everything here is written to a bare socket. The answers are parsed strictly, by hand, so that a
mistake of ours in framing cannot hide behind a forgiving client.
"""

import asyncio
import gc
import json
import random
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import uvloop
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

import conftest
from conftest import running_api
from support.api import Api, HttpReply, Tenant, assert_envelope, new_tenant
from support.routes import TEST_ROUTES, answer_slowly
from vintem import server
from vintem.api import pipeline
from vintem.api.body import BODY_BYTES_MAX
from vintem.kit.errors import ErrorCode
from vintem.runtime import log as logs
from vintem.runtime.db import Database
from vintem.settings import Settings

ANSWER_SECONDS_MAX = 5.0
AT_ONCE = 24
SEED = 20_260_302
MUTATIONS = 400

STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ([ -~]*)")
HEADER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([!-~]|[!-~][ -~]*[!-~])")


@dataclass(frozen=True)
class Case:
    """What is sent, and what the last answer to it may be."""

    name: str
    sent: bytes
    statuses: tuple[int, ...] = (400,)
    is_half_closed: bool = False
    earlier: int = 0
    """How many good answers come before the last one."""
    is_mutated: bool = False
    """Whether it may turn out to be anything, even several requests."""


class BrokenAnswerError(Exception):
    """The server's own bytes are not HTTP."""


async def read_answer(reader: asyncio.StreamReader, *, is_head: bool = False) -> HttpReply | None:
    """Read one answer and hold its framing against HTTP; nothing when the connection ended."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = await reader.read(1)
        if not byte:
            if head:
                raise BrokenAnswerError(head)
            return None
        head += byte
    first, *lines = head[:-4].split(b"\r\n")
    status = STATUS_LINE.fullmatch(first)
    if status is None:
        raise BrokenAnswerError(first)
    headers: dict[str, str] = {}
    for line in lines:
        header = HEADER_LINE.fullmatch(line)
        if header is None or header[1].decode().lower() in headers:
            raise BrokenAnswerError(line)
        headers[header[1].decode().lower()] = header[2].decode()
    if int(status[1]) == 100:
        return await read_answer(reader, is_head=is_head)
    length = 0 if is_head else int(headers["content-length"])
    body = await reader.readexactly(length)
    return HttpReply(int(status[1]), headers, body, json.loads(body) if body else None)


async def exchange(port: int, case: Case) -> tuple[Sequence[HttpReply], bool]:
    """Send a case; give the answers up to the last, and whether the connection then ended."""
    answers: list[HttpReply] = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.create_task(send(writer, case))
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            is_head = case.sent.startswith(b"HEAD ")
            while len(answers) <= case.earlier:
                answer = await read_answer(reader, is_head=is_head)
                if answer is None:
                    return answers, True
                answers.append(answer)
            is_closing = answers[-1].headers.get("connection") == "close"
            if not is_closing and (case.is_mutated or not case.is_half_closed):
                return answers, False
            rest = await reader.read()
            if rest:
                raise BrokenAnswerError(rest)
            return answers, True
    finally:
        sending.cancel()
        writer.close()
        await asyncio.gather(sending, writer.wait_closed(), return_exceptions=True)


async def send(writer: asyncio.StreamWriter, case: Case) -> None:
    writer.write(case.sent)
    if case.is_half_closed:
        writer.write_eof()
    await writer.drain()


@pytest.fixture(scope="module")
async def target(settings: Settings) -> AsyncIterator[Api]:
    """A server of this module, which may well be hurt."""
    async with running_api(replace(settings, public_wrong_keys_per_minute=1_000_000)) as running:
        yield running


@pytest.fixture(scope="module")
async def victim(database: Database) -> Tenant:
    return await new_tenant(database)


def port_of(api: Api) -> int:
    return int(api.base_url.rpartition(":")[2])


class Writer:
    """Writes requests, right ones to be broken."""

    def __init__(self, key: str) -> None:
        self.fields = b"Host: localhost\r\nx-api-key: %b\r\n" % key.encode()
        self.json = self.fields + b"Content-Type: application/json\r\n"
        self.get = self.start(b"GET /v1/balance HTTP/1.1") + b"\r\n"

    def start(self, line: bytes, more: bytes = b"") -> bytes:
        return line + b"\r\n" + self.fields + more

    def header(self, line: bytes) -> bytes:
        return self.start(b"GET /v1/balance HTTP/1.1", line + b"\r\n") + b"\r\n"

    def path(self, target: bytes, method: bytes = b"GET") -> bytes:
        return self.start(method + b" " + target + b" HTTP/1.1") + b"\r\n"

    def post(self, body: bytes, more: bytes = b"", path: bytes = b"/v1/test/orders") -> bytes:
        length = b"Content-Length: %d\r\n" % len(body)
        return b"POST %b HTTP/1.1\r\n" % path + self.json + length + more + b"\r\n" + body

    def framed(self, framing: bytes, rest: bytes, version: bytes = b"1.1") -> bytes:
        line = b"POST /v1/test/orders HTTP/%b\r\n" % version
        return line + self.json + framing + b"\r\n\r\n" + rest


ORDER = b'{"amount":1}'
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"c\r\n" + ORDER + b"\r\n0\r\n\r\n"

BROKEN_JSON: Sequence[bytes] = (
    b"",
    b" ",
    b"\x00",
    b"\xff",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"'",
    b"{{}}",
    b"[}",
    b"{]",
    b"nul",
    b"nulll",
    b"True",
    b"undefined",
    b"NaN",
    b"-Infinity",
    b"-",
    b"+1",
    b"01",
    b"1.",
    b".1",
    b"1e",
    b"1e+",
    b"0x10",
    b"1 2",
    b"{,}",
    b"{:}",
    b'{"a"}',
    b'{"a":}',
    b'{"a":1,}',
    b'{"a" 1}',
    b'{"a"::1}',
    b'{"a":1 "b":2}',
    b"{a:1}",
    b"{'a':1}",
    b"{1:1}",
    b"{null:1}",
    b'{"a":1}{"a":1}',
    b'{"a":1}\x00',
    b'\x00{"a":1}',
    b'{"a":\x001}',
    b'{"a":"\x00"}',
    b'{"a":"\x01"}',
    b'{"a":"\n"}',
    b'{"a":"\\"}',
    b'{"a":"\\x41"}',
    b'{"a":"\\u12"}',
    b'{"a":"\\u12G4"}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\ud800x"}',
    b'{"a":"\\udc00\\ud800"}',
    b'{"a":"\xff"}',
    b'{"a":"\xc3"}',
    b'{"a":"\xc0\xaf"}',
    b'{"a":"\xe2\x82"}',
    b'{"a":"\xf8\x88\x80\x80\x80"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"\xff":1}',
    b"\xef\xbb\xbf{}",
    b"\xfe\xff\x00{\x00}",
    b"\xff\xfe{\x00}\x00",
    b"[1,]",
    b"[,1]",
    b"[1 2]",
    b"//\n{}",
    b"/**/{}",
    b"<xml/>",
    b"a=1&b=2",
    b"\x80\x04K\x01.",
    b"\x1f\x8b\x08\x00\x00",
    b"1" * 5_000,
    b'{"amount":' + b"9" * 5_000 + b"}",
    b'{"amount":1e999}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"[" * 30_000 + b"]" * 30_000,
    b'{"a":' * 65 + b"1" + b"}" * 65,
    b'"' + b"\\" * 100_001,
    b'"' + b"a" * 200_000,
)

WRONG_JSON: Sequence[bytes] = (
    b"null",
    b"true",
    b"1",
    b'"x"',
    b"[]",
    b"{}",
    b'{"amount":null}',
    b'{"amount":"1"}',
    b'{"amount":1.0}',
    b'{"amount":true}',
    b'{"amount":[1]}',
    b'{"amount":{"amount":1}}',
    b'{"amount":1,"amount":1}',
    b'{"amount":1,"__proto__":{}}',
    b'{"amount":1,"$where":"1"}',
    b'{"amount":1,"constructor":1}',
    b'{"amount":1,"name":"\\u0000\\u0000\\u0000"}',
    b'{"amount":1,"metadata":{"\\u0000":1}}',
    b'{"amount":1,"items":[[[[]]]]}',
    b'{"amount":1,"items":' + b"[" * 60 + b"]" * 60 + b"}",
    b'{"amount":1,' + b",".join(b'"f%d":0' % number for number in range(20_000)) + b"}",
    b'{"amount":1,"items":[' + b",".join([b"0"] * 100_000) + b"]}",
)


def bodies(write: Writer) -> Iterator[Case]:
    for number, body in enumerate((*BROKEN_JSON, *WRONG_JSON)):
        yield Case(f"body {number}: {body[:30]!r}", write.post(body))
        chunks = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        framed = write.framed(CHUNKED, chunks + b"0\r\n\r\n")
        yield Case(f"chunked body {number}: {body[:30]!r}", framed)
    huge = BODY_BYTES_MAX + 1
    yield Case("body too large", write.post(b" " * huge), (413,))
    yield Case("body far too large", write.post(b" " * 3_000_000), (413,))
    yield Case(
        "body too large and not sent", write.framed(b"Content-Length: %d" % huge, b""), (413,)
    )
    yield Case(
        "body of 2^63 bytes", write.framed(b"Content-Length: 9223372036854775807", b""), (413,)
    )
    endless = b"".join(b"8000\r\n" + b" " * 0x8000 + b"\r\n" for _ in range(9))
    yield Case("chunks without end", write.framed(CHUNKED, endless), (413,))
    tiny = b"1\r\n \r\n" * 20_000 + b"0\r\n\r\n"
    yield Case("twenty thousand chunks of a blank", write.framed(CHUNKED, tiny))
    for media_type in (b"text/plain", b"", b"application/json, application/json", b"\xff", b";"):
        more = b"Content-Length: 12\r\nContent-Type: " + media_type
        line = write.start(b"POST /v1/test/orders HTTP/1.1", more + b"\r\n")
        yield Case(f"media type {media_type!r}", line + b"\r\n" + ORDER, (415,))
    gzip = write.post(b"\x1f\x8b\x08\x00", b"Content-Encoding: gzip\r\n")
    yield Case("compressed body", gzip)


def framings(write: Writer) -> Iterator[Case]:
    lengths: Sequence[bytes] = (
        b"",
        b"-1",
        b"-12",
        b"+12",
        b"12.0",
        b"1e1",
        b"0xc",
        b"0b1",
        b"12,12",
        b"12, 12",
        b"12 12",
        b"12;",
        b"12a",
        b"a12",
        b"\xb2",
        b"1_2",
        b'"12"',
        b"12\x00",
        b"12\x0b",
        b"18446744073709551616",
        b"99999999999999999999999999",
        b"9" * 5_000,
        b"chunked",
        b"nan",
    )
    for length in lengths:
        name = f"Content-Length {length[:20]!r}"
        yield Case(name, write.framed(b"Content-Length: " + length, ORDER))
    codings: Sequence[bytes] = (
        b"",
        b" ",
        b"identity",
        b"gzip",
        b"deflate",
        b"xchunked",
        b"chunkedx",
        b"chunked,",
        b"chunked, identity",
        b"identity, chunked",
        b"gzip, chunked",
        b"chunked, gzip",
        b"chunked, chunked",
        b"chunked;q=1",
        b'"chunked"',
        b"chun ked",
        b"\x0bchunked",
        b"chunked\x00",
        b"chunk\xe9d",
        b"compress, deflate, gzip, chunked",
    )
    for coding in codings:
        name = f"Transfer-Encoding {coding!r}"
        yield Case(name, write.framed(b"Transfer-Encoding: " + coding, CHUNKS))
    both: Sequence[bytes] = (
        b"Content-Length: 12\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 12",
        b"Content-Length: 0\r\nTransfer-Encoding: chunked",
        b"Content-Length: 27\r\nTransfer-Encoding: identity",
        b"Content-Length: 27\r\nTransfer-Encoding: xchunked",
        b"Content-Length: 27\r\nTransfer-Encoding : chunked",
        b"Content-Length: 27\r\n Transfer-Encoding: chunked",
        b"Content-Length: 27\r\nTransfer-Encoding\t: chunked",
        b"Content-Length: 27\r\nX: y\nTransfer-Encoding: chunked",
        b"Content-Length: 27\r\nX: y\rTransfer-Encoding: chunked",
        b"Content-Length: 27\r\nTransfer-Encoding:\r\n chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Content-Length: 12\r\nContent-Length: 12",
        b"Content-Length: 12\r\nContent-Length: 13",
        b"Content-Length: 0\r\nContent-Length: 12",
        b"Content-Length: 12\r\ncontent-length: 27",
        b"Content-Length : 12",
        b"Content-Length\x00: 12",
        b"Content Length: 12",
        b"Content-Length: 12\r\n 0",
    )
    for lines in both:
        yield Case(f"framing {lines!r}", write.framed(lines, CHUNKS))
    chunks: Sequence[bytes] = (
        b"\r\n",
        b"x\r\n",
        b"-c\r\n",
        b"+c\r\n" + ORDER + b"\r\n0\r\n\r\n",
        b"0xc\r\n" + ORDER + b"\r\n0\r\n\r\n",
        b" c\r\n" + ORDER + b"\r\n0\r\n\r\n",
        b"c\n" + ORDER + b"\r\n0\r\n\r\n",
        b"c\r" + ORDER + b"\r\n0\r\n\r\n",
        b"c\r\n" + ORDER + b"0\r\n\r\n",
        b"c\r\n" + ORDER + b"\n0\r\n\r\n",
        b"c\r\n" + ORDER + b"xx0\r\n\r\n",
        b"b\r\n" + ORDER + b"\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\n",
        b"10000000000000000\r\n",
        b"ffffffffffffffffffffffffffffffffff\r\n",
        b"c\x00\r\n" + ORDER + b"\r\n0\r\n\r\n",
        b"c;\x00\r\n" + ORDER + b"\r\n0\r\n\r\n",
        b"c;a\nb\r\n" + ORDER + b"\r\n0\r\n\r\n",
        b"c\r\n" + ORDER + b"\r\n0\r\nbad trailer\r\n\r\n",
        b"c\r\n" + ORDER + b"\r\n0\r\n: x\r\n\r\n",
        b"c\r\n" + ORDER + b"\r\n0\r\nx: a\x00b\r\n\r\n",
    )
    for chunk in chunks:
        yield Case(f"chunk {chunk!r}", write.framed(CHUNKED, chunk))
    yield Case("chunks in HTTP/1.0", write.framed(CHUNKED, CHUNKS, b"1.0"))
    smuggled = write.framed(b"Content-Length: 5\r\n" + CHUNKED, b"0\r\n\r\n" + write.get)
    yield Case("a request smuggled behind chunks", smuggled)


def request_lines(write: Writer) -> Iterator[Case]:
    lines: Sequence[bytes] = (
        b"",
        b" ",
        b"GET",
        b"GET ",
        b"GET /v1/balance",
        b"GET /v1/balance ",
        b"GET /v1/balance HTTP",
        b"GET /v1/balance HTTP/",
        b"GET /v1/balance HTTP/1",
        b"GET /v1/balance HTTP/1.",
        b"GET /v1/balance HTTP/1.2",
        b"GET /v1/balance HTTP/1.10",
        b"GET /v1/balance HTTP/01.1",
        b"GET /v1/balance HTTP/0.9",
        b"GET /v1/balance HTTP/2.0",
        b"GET /v1/balance HTTP/2",
        b"GET /v1/balance HTTP/3.0",
        b"GET /v1/balance HTTP/9.9",
        b"GET /v1/balance HTTP/-1.1",
        b"GET /v1/balance HTTP/1,1",
        b"GET /v1/balance http/1.1",
        b"GET /v1/balance HTTPS/1.1",
        b"GET /v1/balance HTTP/1.1 x",
        b"GET /v1/balance\tHTTP/1.1",
        b"GET\t/v1/balance HTTP/1.1",
        b"GET /v1/bal ance HTTP/1.1",
        b"GET /v1/balance\x00 HTTP/1.1",
        b"GET\x00 /v1/balance HTTP/1.1",
        b"\x00GET /v1/balance HTTP/1.1",
        b" GET /v1/balance HTTP/1.1",
        b"\tGET /v1/balance HTTP/1.1",
        b"GET /v1/\xff HTTP/1.1",
        b"GET /v1/\xc3\xa9 HTTP/1.1",
        b"GET /v1/balance#fragment HTTP/1.1",
        b"GET v1/balance HTTP/1.1",
        b"GET localhost:80 HTTP/1.1",
        b"GET ?page=1 HTTP/1.1",
        b"GET # HTTP/1.1",
        b"GET http:// HTTP/1.1",
        b"GET http://localhost HTTP/1.1",
        b"GET http:///v1/balance HTTP/1.1",
        b"GET http://localhost:99999999/v1/balance HTTP/1.1",
        b"GET http://[::1/v1/balance HTTP/1.1",
        b"GET \\v1\\balance HTTP/1.1",
        b"GET HTTP/1.1",
        b"/v1/balance HTTP/1.1",
        b"get /v1/balance HTTP/1.1",
        b"Get /v1/balance HTTP/1.1",
        b"GETS /v1/balance HTTP/1.1",
        b"GE /v1/balance HTTP/1.1",
        b"FOO /v1/balance HTTP/1.1",
        b"G\xcbT /v1/balance HTTP/1.1",
        b"(GET) /v1/balance HTTP/1.1",
        b"A" * 5_000 + b" /v1/balance HTTP/1.1",
        b"CONNECT localhost:443 HTTP/1.1",
        b"CONNECT /v1/balance HTTP/1.1",
        b"CONNECT * HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"GET /v1/balance ICE/1.0",
        b"HTTP/1.1 200 OK",
        b"SSH-2.0-OpenSSH_9.9",
        b"EHLO localhost",
        b"USER anonymous",
        b"*1\r\n$4\r\nPING",
        b"JRMI\x00\x02K",
    )
    for line in lines:
        if line:
            yield Case(f"line {line[:50]!r}", write.start(line) + b"\r\n")
    for method in ("TRACE", "PROPFIND", "PURGE", "M-SEARCH", "QUERY", "OPTIONS", "DELETE", "PATCH"):
        path = write.path(b"/v1/balance", method.encode())
        yield Case(f"method {method}", path, (405,) if method != "QUERY" else (400, 405))
    # The parser knows RTSP and does not say so; it can be taken for HTTP/1.0 without harm.
    rtsp = write.start(b"DESCRIBE /v1/balance RTSP/1.0") + b"\r\n"
    yield Case("RTSP", rtsp, (400, 405))
    yield Case("OPTIONS of the server", write.path(b"*", b"OPTIONS"), (404,))
    yield Case("HEAD of nothing", write.path(b"/v1/nothing", b"HEAD"), (404,))
    targets: Sequence[bytes] = (
        b"*",
        b"/nothing",
        b"//",
        b"/v1//balance",
        b"/v1/balance/",
        b"/v1/../v1/balance",
        b"/v1/%2e%2e/v1/balance",
        b"/%00",
        b"/v1/test/orders/%00",
        b"/v1/balance%00",
        b"/v1/balance%0d%0aX:%20y",
        b"/v1/%ff",
        b"/v1/%",
        b"/v1/%zz",
        b"/v1/balance;/../../etc/passwd",
        b"/etc/passwd",
        b"/.git/config",
        b"/v1/<script>",
        b"/v1/'or'1'='1",
        b"/v1/{name}",
        b"/v1/test/orders/a/b/c/d/e/f/g",
        b"/" * 10_000,
        b"/v1/" + b"a/" * 10_000,
        b"/" + b"%41" * 10_000,
    )
    for path in targets:
        yield Case(f"target {path[:40]!r}", write.path(path), (404,))
    for length in (33_000, 70_000, 300_000):
        yield Case(f"path of {length}", write.path(b"/" + b"a" * length), (413,))
    queries: Sequence[bytes] = (
        b"page=%",
        b"page=%zz",
        b"page=%ff",
        b"%00=1",
        b"status=%00",
        b"page=0",
        b"page=1&page=1",
        b"&".join([b"a=1"] * 51),
        b"=" * 5_000,
        b"page=" + b"9" * 20_000,
    )
    for query in queries:
        yield Case(f"query {query[:30]!r}", write.path(b"/v1/test/orders?" + query))


def headers(write: Writer) -> Iterator[Case]:
    lines: Sequence[bytes] = (
        b"no colon",
        b": no name",
        b" leading: blank",
        b"\tleading: tab",
        b"name : x",
        b"name\t: x",
        b"na me: x",
        b"na\x00me: x",
        b"na\xffme: x",
        b"n\xc3\xa9: x",
        b"name: a\x00b",
        b"name: a\x01b",
        b"name: a\x08b",
        b"name: a\x0bb",
        b"name: a\x7fb",
        b"name: a\rb",
        b"name: a\nb",
        b"name: a\n",
        b"name: a\r\n folded",
        b"name: a\r\n\tfolded",
        b"x-api-key: x\r\n folded",
        b"(name): x",
        b"name{}: x",
        b'"name": x',
        b"name@x: y",
        b"Host: other",
        b"Host: localhost",
        b"host:",
        b"\r: x",
    )
    for line in lines:
        yield Case(f"header {line!r}", write.header(line))
    hosts: Sequence[bytes] = (
        b"a b",
        b"a, b",
        b"a/b",
        b"a?b",
        b"a#b",
        b"user@a",
        b"http://a",
        b"a:b",
        b"a:80:80",
        b"a:123456",
        b"[::1",
        b"::1",
        b"[]",
        b"\xff",
        b"a\tb",
        b"<a>",
    )
    for host in hosts:
        sent = write.get.replace(b"Host: localhost", b"Host: " + host)
        yield Case(f"host {host!r}", sent)
    yield Case("no host", write.get.replace(b"Host: localhost\r\n", b""))
    yield Case("no headers", b"GET /v1/balance HTTP/1.1\r\n\r\n")
    many = b"\r\n".join(b"x-%d: y" % number for number in range(4_000))
    yield Case("four thousand headers", write.header(many), (413,))
    same = b"\r\n".join([b"x-forwarded-for: 1.1.1.1"] * 4_000)
    yield Case("one header four thousand times", write.header(same), (413,))
    for length in (33_000, 70_000, 300_000, 2_000_000):
        yield Case(f"value of {length}", write.header(b"x: " + b"a" * length), (413,))
        yield Case(f"name of {length}", write.header(b"a" * length + b": x"), (413,))
    yield Case("endless head", write.get[:-2] + b"x: y\r\n" * 50_000, (413,))
    for keys in ((b"x",), (b"\xff" * 46,), (b"a" * 20_000,), (b"x", b"y"), (b"",)):
        fields = b"".join(b"x-api-key: %b\r\n" % key for key in keys)
        sent = b"GET /v1/balance HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n"
        yield Case(f"keys {[key[:10] for key in keys]!r}", sent, (401,))
    for key in (b"", b"a b", b"\xff", b"k" * 256):
        sent = write.post(ORDER, b"X-Idempotency-Key: " + key + b"\r\n")
        yield Case(f"idempotency key {key[:10]!r}", sent)


def connections(write: Writer) -> Iterator[Case]:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    yield Case("HTTP/2 preface", preface)
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2
    yield Case("TLS client hello", hello)
    yield Case("TLS alert", b"\x15\x03\x03\x00\x02\x02\x28")
    yield Case("SOCKS", b"\x05\x01\x00\x05\x01\x00\x03")
    yield Case("proxy protocol", b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n" + write.get)
    binary = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12)
    yield Case("proxy protocol, binary", binary + write.get)
    yield Case("database hello", b"\x00\x00\x00\x08\x04\xd2\x16\x2f")
    yield Case("zeros", bytes(10_000))
    yield Case("bare line feeds", write.get.replace(b"\r\n", b"\n"))
    yield Case("bare carriage returns", write.get.replace(b"\r\n", b"\r") + b"x", (400,))
    yield Case("doubled carriage returns", write.get.replace(b"\r\n", b"\r\r\n"))
    yield Case("HTTP/0.9", b"GET /v1/balance\r\n\r\n")
    for version in (b"0.9", b"2.0"):
        sent = write.get.replace(b"HTTP/1.1", b"HTTP/" + version)
        yield Case(f"version {version!r}", sent)
    whole = write.post(ORDER)
    for cut in (1, 3, 10, 25, 60, len(whole) - len(ORDER) - 1, len(whole) - 5, len(whole) - 1):
        yield Case(f"cut after {cut}", whole[:cut], is_half_closed=True)
    chunked = write.framed(CHUNKED, CHUNKS)
    for cut in (2, 4, 6, 10, 20):
        yield Case(f"chunks cut by {cut}", chunked[:-cut], is_half_closed=True)
    for garbage in (b"GARBAGE\r\n\r\n", b"\x00", b"{}", write.get.replace(b"GET", b"GOT")):
        name = f"{garbage[:8]!r} behind a good request"
        yield Case(name, write.get + garbage, earlier=1)
        yield Case(f"{name} with a body", whole + garbage, earlier=1)
        yield Case(f"{name} that is slow", write.path(b"/v1/test/slow") + garbage, earlier=1)
        yield Case(f"{name} twice", write.get * 2 + garbage, earlier=2)
    broken_chunk = write.framed(CHUNKED, b"zz\r\n")
    yield Case("a broken chunk behind a good request", write.get + broken_chunk, earlier=1)
    slow = write.path(b"/v1/test/slow")
    yield Case("a broken chunk behind a slow request", slow + broken_chunk, earlier=1)
    yield Case("half a head behind a slow request", slow + b"GET", is_half_closed=True, earlier=1)
    yield Case("too much body", write.post(ORDER) + b"}", earlier=1)
    expects = write.framed(b"Content-Length: 12\r\nExpect: 100-continue", b"").replace(
        b"x-api-key: ", b"x-api-key: x"
    )
    yield Case("a wrong key that waits to continue", expects, (401,))


def legal(write: Writer) -> Iterator[Case]:
    """Odd, but HTTP: each of these must be answered as what it is."""
    ok, created = (200,), (201,)
    yield Case("plain", write.get, ok)
    # RFC 9112, 2.2: a server should ignore at least one empty line before the request line.
    yield Case("empty lines first", b"\r\n\r\n" + write.get, ok)
    # RFC 9112, 3: recipients may split the request line on any run of blanks.
    yield Case("wide request line", write.start(b"GET  /v1/balance  HTTP/1.1") + b"\r\n", ok)
    # RFC 9112, 3.2.2: a server must accept the absolute form.
    yield Case("absolute form", write.path(b"http://localhost/v1/balance"), ok)
    yield Case("HTTP/1.0", write.get.replace(b"HTTP/1.1", b"HTTP/1.0"), ok)
    no_host = b"GET /v1/balance HTTP/1.0\r\n" + write.fields.partition(b"\r\n")[2] + b"\r\n"
    yield Case("HTTP/1.0 without a host", no_host, ok)
    yield Case("empty host", write.get.replace(b"Host: localhost", b"Host:"), ok)
    yield Case("IPv6 host", write.get.replace(b"localhost", b"[::1]:8080"), ok)
    # RFC 9110, 5.5: blanks around a value are no part of it; other bytes are opaque.
    yield Case(
        "blanks around values",
        write.get.replace(b"\r\n", b" \t \r\n").replace(b"HTTP/1.1 \t ", b"HTTP/1.1")[
            : -len(b" \t \r\n")
        ]
        + b"\r\n",
        ok,
    )
    yield Case("blanks before a value", write.header(b"x:   \t y"), ok)
    yield Case("no blank before a value", write.header(b"x:y"), ok)
    yield Case("empty value", write.header(b"x:"), ok)
    yield Case("opaque bytes in a value", write.header(b"x: \xff\xfe\x80"), ok)
    yield Case("one header often", write.header(b"\r\n".join([b"x: y"] * 500)), ok)
    yield Case("names in capitals", write.get.replace(b"x-api-key", b"X-API-KEY"), ok)
    yield Case("a body with GET", write.get[:-2] + b"Content-Length: 12\r\n\r\n" + ORDER, ok)
    # RFC 9110, 7.8: a server may ignore an upgrade. Java's HttpClient asks for one by itself.
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
    yield Case("websocket upgrade", write.header(upgrade), ok)
    h2c = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    yield Case("HTTP/2 upgrade with a body", write.post(ORDER, h2c), created)
    chunked_upgrade = write.framed(CHUNKED + b"\r\n" + h2c[:-2], CHUNKS)
    yield Case("HTTP/2 upgrade with chunks", chunked_upgrade, created)
    pipelined = write.post(ORDER, h2c) + write.get
    yield Case("a request behind an upgrade", pipelined, ok, earlier=1)
    yield Case("upgrade without connection", write.header(b"Upgrade: websocket"), ok)
    yield Case("continue", write.post(ORDER, b"Expect: 100-continue\r\n"), created)
    yield Case("unknown expectation", write.post(ORDER, b"Expect: miracles\r\n"), created)
    # RFC 9112, 7.1: a recipient must ignore unknown chunk extensions and may drop trailers.
    yield Case("chunks", write.framed(CHUNKED, CHUNKS), created)
    extended = b'c;a=b;c="d"\r\n' + ORDER + b"\r\n0;x\r\n\r\n"
    yield Case("chunk extensions", write.framed(CHUNKED, extended), created)
    yield Case("zeros before a size", write.framed(CHUNKED, b"0000" + CHUNKS), created)
    single = b"".join(b"1\r\n%c\r\n" % byte for byte in ORDER) + b"0\r\n\r\n"
    yield Case("chunks of a byte", write.framed(CHUNKED, single), created)
    yield Case("chunked in capitals", write.framed(CHUNKED.upper(), CHUNKS), created)
    trailers = b"x-api-key: x\r\nHost: a b\r\nContent-Type: text/plain\r\n"
    with_trailers = CHUNKS[:-2] + trailers + b"\r\n"
    yield Case("trailers that look like headers", write.framed(CHUNKED, with_trailers), created)
    yield Case("zeros before a length", write.framed(b"Content-Length: 0012", ORDER), created)
    yield Case("three at once", write.get * 3, ok, earlier=2)
    yield Case("bodies at once", write.post(ORDER) * 3, created, earlier=2)
    yield Case("half closed", write.get, ok, is_half_closed=True)
    yield Case("half closed with a body", write.post(ORDER), created, is_half_closed=True)
    yield Case("half closed and slow", write.path(b"/v1/test/slow"), ok, is_half_closed=True)
    several = write.path(b"/v1/test/slow") + write.get
    yield Case("half closed and several", several, ok, is_half_closed=True, earlier=1)
    wide = write.header(b"x: " + b"a" * 32_000)
    yield Case("a head of almost 32 KiB", wide, ok)


def mutations(write: Writer) -> Iterator[Case]:
    """Good requests with a few bytes changed; what comes of it may be legal, but never a 5xx."""
    dice = random.Random(SEED)
    seeds = (
        write.get,
        write.post(ORDER),
        write.post(b'{"amount":1,"items":[{"title":"a","unitPrice":1}]}'),
        write.framed(CHUNKED, CHUNKS),
        write.path(b"/v1/test/orders?page=1&status=paid"),
        write.post(b"{}", b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"/v1/test/optional"),
    )
    bits = (
        b"\x00",
        b"\xff",
        b"\r",
        b"\n",
        b"\r\n",
        b" ",
        b":",
        b"%",
        b"{",
        b'"',
        b"0",
        b"\t",
        b"/",
    )
    anything = tuple(range(200, 500))
    for number in range(MUTATIONS):
        sent = bytearray(dice.choice(seeds))
        for _ in range(dice.randint(1, 4)):
            place = dice.randrange(len(sent))
            match dice.randrange(4):
                case 0:
                    sent[place : place + 1] = dice.choice(bits)
                case 1:
                    sent[place:place] = dice.choice(bits) * dice.randint(1, 20)
                case 2:
                    del sent[place : place + dice.randint(1, 10)]
                case _:
                    sent[place] ^= 1 << dice.randrange(8)
        name = f"mutation {number}: {bytes(sent)!r}"
        yield Case(name, bytes(sent), anything, is_half_closed=True, is_mutated=True)


async def survey(api: Api, cases: Sequence[Case]) -> list[str]:
    """Send all cases, some at once, and tell what is wrong with the answers."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> str | None:
        async with gate:
            try:
                answers, is_closed = await exchange(port_of(api), case)
            except TimeoutError:
                return f"{case.name}: no answer in time"
            except (ConnectionError, BrokenAnswerError, asyncio.IncompleteReadError) as fault:
                return f"{case.name}: {fault!r}"
            return complaint(case, answers, is_closed=is_closed)

    return [told for told in await asyncio.gather(*map(one, cases)) if told]


def complaint(case: Case, answers: Sequence[HttpReply], *, is_closed: bool) -> str | None:
    if not answers:
        return f"{case.name}: closed without a word"
    last = answers[-1]
    statuses = [answer.status for answer in answers]
    if len(answers) <= case.earlier or any(status >= 300 for status in statuses[:-1]):
        return f"{case.name}: {statuses}"
    if last.status not in case.statuses:
        return f"{case.name}: {last.status} {last.body[:200]!r}"
    for answer in answers:
        if answer.body:
            assert_envelope(answer)
    if is_closed and not case.is_half_closed and last.headers.get("connection") != "close":
        return f"{case.name}: closed without saying so"
    return None


async def assert_unhurt(api: Api, tenant: Tenant) -> None:
    reply = await api.get("/v1/balance", key=tenant.sk_test)
    assert reply.status == 200


@pytest.mark.parametrize("kind", [bodies, framings, request_lines, headers, connections, legal])
async def test_every_malformed_request_is_refused_in_the_envelope_and_every_legal_one_answered(
    target: Api, victim: Tenant, kind: Any
) -> None:
    cases = list(kind(Writer(victim.sk_test)))
    assert len(cases) >= 30
    complaints = await survey(target, cases)
    assert not complaints, "\n".join(complaints)
    await assert_unhurt(target, victim)


async def test_random_changes_never_bring_a_5xx_a_hang_or_a_broken_answer(
    target: Api, victim: Tenant
) -> None:
    cases = list(mutations(Writer(victim.sk_test)))
    assert len(cases) == MUTATIONS
    complaints = await survey(target, cases)
    assert not complaints, "\n".join(complaints)
    await assert_unhurt(target, victim)


def test_there_are_more_than_five_hundred_malformed_requests() -> None:
    write = Writer("x")
    kinds = (bodies, framings, request_lines, headers, connections)
    assert sum(len(list(kind(write))) for kind in kinds) > 500


async def test_random_bytes_get_a_400_or_nothing(target: Api, victim: Tenant) -> None:
    dice = random.Random(SEED)
    cases = [
        Case(f"noise {number}", dice.randbytes(dice.randint(1, 3_000)), is_half_closed=True)
        for number in range(100)
    ]
    complaints = await survey(target, cases)
    assert not complaints, "\n".join(complaints)
    await assert_unhurt(target, victim)


async def test_a_request_whose_head_comes_with_an_earlier_body_is_not_taken_for_too_large(
    target: Api, victim: Tenant
) -> None:
    write = Writer(victim.sk_test)
    large = b'{"amount":1,"metadata":{"a":"%b"}}' % (b"x" * 200_000)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(target))
    writer.write(write.post(large) + write.get[:40])
    first = await read_answer(reader)
    writer.write(write.get[40:])
    second = await read_answer(reader)
    writer.close()
    await writer.wait_closed()
    assert first is not None
    assert second is not None
    assert (first.status, second.status) == (201, 200)


async def test_after_an_answer_that_leaves_the_framing_in_doubt_the_connection_is_closed(
    target: Api, victim: Tenant
) -> None:
    write = Writer(victim.sk_test)
    waiting = b"Content-Length: 12\r\nExpect: 100-continue"
    for sent, status in (
        # Whoever waits to be asked for the body may send the next request instead of it.
        (Writer("wrong").framed(waiting, b"") + write.get, 401),
        (write.framed(b"Transfer-Encoding: gzip, chunked", CHUNKS) + write.get, 400),
        (write.get.replace(b"localhost", b"a b") + write.get, 400),
        (write.framed(CHUNKED, b"zz\r\n") + write.get, 400),
    ):
        (answer,), is_closed = await exchange(port_of(target), Case("", sent))
        assert answer.status == status
        assert is_closed
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(target))
    writer.write(Writer("wrong").framed(waiting, b""))
    reply = await asyncio.wait_for(reader.read(), ANSWER_SECONDS_MAX)
    assert reply.startswith(b"HTTP/1.1 401")
    writer.close()
    await writer.wait_closed()


async def test_a_trailer_cannot_replace_the_key_or_the_address(target: Api, victim: Tenant) -> None:
    write = Writer("wrong")
    trailer = b"x-api-key: %b\r\n" % victim.sk_test.encode()
    smuggled = write.framed(CHUNKED, CHUNKS[:-2] + trailer + b"\r\n")
    (answer,), _ = await exchange(port_of(target), Case("trailer", smuggled))
    assert answer.status == 401


async def test_the_answer_to_a_refused_upload_survives_a_connection_that_closes(
    target: Api,
) -> None:
    for closing in (b"HTTP/1.0\r\n", b"HTTP/1.1\r\nConnection: Close\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(target))
        head = b"Host: a\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n"
        writer.write(b"POST /v1/test/orders " + closing + head)
        await writer.drain()
        await asyncio.sleep(0.1)
        for _ in range(200):
            writer.write(b" " * 1_000)
            await writer.drain()
        answer = await read_answer(reader)
        assert answer is not None
        assert answer.status == 401
        assert answer.headers["connection"] == "close"
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def impatient(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """A server that waits for nothing longer than a moment."""
    monkeypatch.setattr(server, "HEAD_SECONDS_MAX", 0.4)
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", 1)
    monkeypatch.setattr(server, "LINGER_SECONDS_MAX", 0.4)
    monkeypatch.setattr(pipeline, "BODY_SECONDS_MAX", 0.4)
    async with running_api(settings) as running:
        yield running


async def read_until_end(api: Api, *parts: bytes, pause: float = 0.1) -> Sequence[HttpReply]:
    """Send parts with pauses, the last one over and over, until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(api))

    async def trickle() -> None:
        for part in parts[:-1]:
            writer.write(part)
            await asyncio.sleep(pause)
        while True:
            writer.write(parts[-1])
            await asyncio.sleep(pause)

    sending = asyncio.create_task(trickle())
    answers = []
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            while (answer := await read_answer(reader)) is not None:
                answers.append(answer)
    except ConnectionError:
        pass
    finally:
        sending.cancel()
        writer.close()
        await asyncio.gather(sending, writer.wait_closed(), return_exceptions=True)
    return answers


async def test_a_connection_that_says_nothing_is_closed_without_an_answer(impatient: Api) -> None:
    assert await read_until_end(impatient, b"") == []
    assert await read_until_end(impatient, b"\r\n") == []


async def test_a_head_that_never_ends_is_refused_in_time(impatient: Api, tenant: Tenant) -> None:
    write = Writer(tenant.sk_test)
    for parts in ((b"G", b""), (write.get[:-2], b""), (write.get[:-2], b"x: y\r\n"), (b"G", b"E")):
        (answer,) = await read_until_end(impatient, *parts)
        assert_envelope(answer)
        assert answer.status == 400
        assert answer.headers["connection"] == "close"
    await assert_unhurt(impatient, tenant)


async def test_the_second_head_of_a_connection_is_watched_like_the_first(
    impatient: Api, tenant: Tenant
) -> None:
    write = Writer(tenant.sk_test)
    first, second = await read_until_end(impatient, write.get, b"GET /v1/balance HTTP/1.1\r\n", b"")
    assert (first.status, second.status) == (200, 400)


async def test_a_body_that_never_ends_is_refused_in_time(impatient: Api, tenant: Tenant) -> None:
    write = Writer(tenant.sk_test)
    for stalled in (
        (write.post(ORDER)[:-1], b""),
        (write.post(b" " * 1_000)[:-999], b" "),
        (write.framed(CHUNKED, b"c\r\n"), b""),
        (write.framed(CHUNKED, b""), b"1\r\n \r\n"),
    ):
        (answer,) = await read_until_end(impatient, *stalled)
        assert_envelope(answer)
        assert answer.status == 400
        assert answer.json["error"]["code"] == ErrorCode.VALIDATION_ERROR
    await assert_unhurt(impatient, tenant)


async def test_a_connection_is_not_kept_for_a_refused_body_that_never_ends(
    impatient: Api, tenant: Tenant
) -> None:
    write = Writer("junk")
    (answer,) = await read_until_end(impatient, write.post(b" " * 100_000)[:-99_999], b" ")
    assert answer.status == 401
    (answer,) = await read_until_end(impatient, Writer(tenant.sk_test).get, b"\r\n")
    assert answer.status == 200


async def test_an_idle_connection_is_closed_after_a_refused_body_has_arrived(
    impatient: Api,
) -> None:
    sent = Writer("junk").post(b" " * 1_000)
    (answer,) = await read_until_end(impatient, sent[:-500], sent[-500:], b"")
    assert answer.status == 401


async def test_a_caller_that_leaves_in_the_middle_hurts_nobody(target: Api, victim: Tenant) -> None:
    write = Writer(victim.sk_test)
    slow = write.path(b"/v1/test/slow")

    async def leave(sent: bytes) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(target))
        writer.write(sent)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()

    wholes = (slow, write.post(ORDER)[:-1], write.framed(CHUNKED, b"c\r\n"), write.get[:30])
    await asyncio.gather(*(leave(sent) for sent in wholes * 5))
    await assert_unhurt(target, victim)


# What one connection may cost


@pytest.mark.parametrize("more", [b"ab:\r\n" * 2_000, b"a" * 10_000, b"x: " + b"a" * 10_000])
async def test_trailers_without_end_are_refused(target: Api, victim: Tenant, more: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(target))
    head = b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + CHUNKED + b"\r\n\r\n0\r\n"
    async with asyncio.timeout(ANSWER_SECONDS_MAX):
        writer.write(head)
        answer = await read_answer(reader)
        assert answer is not None
        assert answer.status == 200
        for _ in range(100):
            writer.write(more)
        answer = await read_answer(reader)
        assert answer is not None
        assert answer.status == 413
    writer.transport.abort()
    await assert_unhurt(target, victim)


async def test_trailers_that_are_too_large_are_refused_in_the_envelope(
    target: Api, victim: Tenant
) -> None:
    write = Writer(victim.sk_test)
    for trailers in (b"ab:\r\n" * 2_000, b"x: " + b"a" * 50_000 + b"\r\n"):
        sent = write.framed(CHUNKED, CHUNKS[:-2] + trailers + b"\r\n")
        (answer,), is_ended = await exchange(port_of(target), Case("trailers", sent))
        assert (answer.status, is_ended) == (413, True)
        assert answer.json["error"]["code"] == ErrorCode.PAYLOAD_TOO_LARGE
    few = write.framed(CHUNKED, CHUNKS[:-2] + b"ab: c\r\n" * 100 + b"\r\n")
    (answer,), _ = await exchange(port_of(target), Case("few trailers", few))
    assert answer.status == 201


async def test_requests_that_wait_for_their_turn_are_few(target: Api, victim: Tenant) -> None:
    write = Writer(victim.sk_test)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(target))
    sent = write.path(b"/v1/test/slow") + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 20_000
    writer.write(sent)
    await asyncio.sleep(0.5)
    waiting = sum(isinstance(found, RequestResponseCycle) for found in gc.get_objects())
    assert waiting < 500
    # None of them is lost, and all are answered in order.
    async with asyncio.timeout(60):
        for number in range(2_001):
            answer = await read_answer(reader)
            assert answer is not None
            assert (b"slow" in answer.body) == (number == 0)
            assert answer.status == 200
    writer.transport.abort()


async def test_a_body_behind_requests_that_wait_arrives_whole(target: Api, victim: Tenant) -> None:
    write = Writer(victim.sk_test)
    name = b"n" * 100
    order = b'{"amount":7,"name":"%b","items":[]%b}' % (name, b" " * 200_000)
    sent = write.get * 30 + write.post(order) + write.get * 30
    case = Case("a body between", sent, (200,), earlier=60)
    answers, _ = await exchange(port_of(target), case)
    assert [answer.status for answer in answers] == [200] * 30 + [201] + [200] * 30
    assert answers[30].json["data"]["amount"] == 7


async def test_a_head_that_we_did_not_read_is_not_late(impatient: Api, tenant: Tenant) -> None:
    write = Writer(tenant.sk_test)
    # The second request waits for the slow one, longer than a head may take.
    sent = write.path(b"/v1/test/slow") + write.get + write.get[:40]
    slow, first, *rest = await read_until_end(impatient, sent, write.get[40:], b"", pause=1.2)
    assert [answer.status for answer in (slow, first, *rest)] == [200, 200, 200]


async def test_many_requests_for_another_protocol_in_one_go_are_answered(
    target: Api, victim: Tenant
) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(target))
    writer.write(one * 2_000)
    async with asyncio.timeout(20):
        for _ in range(2_000):
            answer = await read_answer(reader)
            assert answer is not None
            assert answer.status == 200
    writer.close()
    await writer.wait_closed()
    await assert_unhurt(target, victim)


@pytest.mark.parametrize(
    ("pages", "closing"),
    [(60, b""), (1, b""), (1, b"Connection: close\r\n")],
    ids=["many answers", "one answer", "the last answer"],
)
async def test_a_caller_that_never_reads_is_given_up(
    impatient: Api, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, pages: int, closing: bytes
) -> None:
    monkeypatch.setattr(server, "DRAIN_SECONDS_MAX", 0.4)
    connect = server.HttpProtocol.connection_made

    def connect_narrowly(self: server.HttpProtocol, transport: asyncio.Transport) -> None:
        bare = transport.get_extra_info("socket")
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_048)
        connect(self, transport)

    page = (await impatient.get("/docs")).body
    monkeypatch.setattr(server.HttpProtocol, "connection_made", connect_narrowly)
    loop = asyncio.get_running_loop()
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        deaf.setblocking(False)
        await loop.sock_connect(deaf, ("127.0.0.1", port_of(impatient)))
        request = b"GET /docs HTTP/1.1\r\nHost: a\r\n" + closing + b"\r\n"
        await loop.sock_sendall(deaf, request * pages)
        await asyncio.sleep(2.0)
        heard = 0
        async with asyncio.timeout(10):
            while part := await receive(deaf):
                heard += len(part)
    assert heard < pages * len(page)
    await assert_unhurt(impatient, tenant)


async def receive(bare: socket.socket) -> bytes:
    try:
        return await asyncio.get_running_loop().sock_recv(bare, 1 << 20)
    except ConnectionResetError:
        return b""


def test_a_caller_that_leaves_while_requests_wait_leaves_no_fault_in_the_log(
    settings: Settings, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[logs.AccessLine] = []
    troubles: list[str] = []
    monkeypatch.setattr(logs, "write_access", noted.append)
    monkeypatch.setattr(
        logs.LibraryHandler, "emit", lambda _, record: troubles.append(record.getMessage())
    )

    # It waits for its body, and goes on reading for it, before it takes its time.
    slow = replace(
        next(route for route in TEST_ROUTES if route.path == "/v1/test/optional"),
        path="/v1/test/slow",
        handler=answer_slowly,
    )
    monkeypatch.setattr(conftest, "TEST_ROUTES", (*TEST_ROUTES, slow))

    async def leave() -> None:
        write = Writer(tenant.sk_test)
        async with running_api(settings) as api:
            for sent in (write.get, write.path(b"/v1/test/slow"), write.post(ORDER)[:-1]):
                _, writer = await asyncio.open_connection("127.0.0.1", port_of(api))
                writer.write(write.post(ORDER, path=b"/v1/test/slow") + write.get + sent)
                await asyncio.sleep(0.2)
                # Without a word of farewell: the connection is reset.
                bare = writer.get_extra_info("socket")
                bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            await asyncio.sleep(1.5)

    # The server's own kind of loop, which is stricter about connections that are closed.
    uvloop.run(leave())
    assert troubles == []
    assert [line.route for line in noted].count("/v1/test/slow") >= 3
