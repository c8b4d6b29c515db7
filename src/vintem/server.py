"""The HTTP server of one process: uvicorn, with our word for requests that are not HTTP."""

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import httptools
import structlog
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from vintem.api import envelope
from vintem.api.body import whole_fault
from vintem.api.call import Header
from vintem.api.pipeline import WHOLE_ANSWER, WHOLE_BODY
from vintem.kit.clock import public_time, utc_now
from vintem.kit.errors import ErrorCode
from vintem.kit.ids import new_request_id
from vintem.resources import Life
from vintem.runtime import metrics
from vintem.runtime.listening import BACKLOG

log = structlog.get_logger()

HEAD_BYTES_MAX: Final = 32 * 1024
HEAD_SECONDS_MAX: Final = 15.0
KEEP_ALIVE_SECONDS: Final = 75
LINGER_SECONDS_MAX: Final = 2.0
DRAIN_SECONDS_MAX: Final = 20.0
TRAILER_BYTES_MAX: Final = 4 * 1024
# So much is parsed at once. What a slice holds of requests waits in memory, and nothing beyond it.
SLICE_BYTES_MAX: Final = 4 * 1024

NOT_HTTP: Final = "The request is not valid HTTP/1.1."
NOT_IN_TIME: Final = "The request did not arrive in time."
NOT_WHOLE: Final = "The request did not arrive whole."
HEAD_TOO_LARGE: Final = (
    f"The request line and headers are larger than {HEAD_BYTES_MAX // 1024} KiB."
)
TRAILERS_TOO_LARGE: Final = (
    f"The trailers of the body are larger than {TRAILER_BYTES_MAX // 1024} KiB."
)

App = Callable[..., Awaitable[None]]


class TooLargeError(Exception):
    """A part of the request is larger than what is accepted; the sentence says which."""


class Flow(FlowControl):
    """A connection's flow, which is read no further while requests of it wait for their turn."""

    is_held = False

    def resume_reading(self) -> None:
        """Read on, unless it is held."""
        if not self.is_held:
            super().resume_reading()

    async def drain(self) -> None:
        """Wait until the caller has read enough, but give up one that does not read."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                await super().drain()
        except TimeoutError:
            self._transport.abort()


class HttpProtocol(HttpToolsProtocol):
    """A connection that answers broken, endless and stalled requests in the error envelope.

    A timer runs whenever no call is being worked on, so that nobody holds a connection for ever.
    """

    flow: Flow

    _head_bytes = 0
    _trailer_bytes = 0
    _has_call = False
    _is_in_head = False
    _is_after_chunk_size = False
    _is_message_complete = True
    _is_refused = False
    _is_half_closed = False
    _unread = b""
    _refusal_in_wait: tuple[ErrorCode, str] | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, but not for ever."""
        super().connection_made(transport)
        self.flow = Flow(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers, and what was still to be read and answered."""
        self._stop_timer()
        self._unset_keepalive_if_required()
        self._unread = b""
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, a slice at a time, until a request has to wait for the one before it."""
        if self._unread:
            data = self._unread + data
        while data and not self._is_refused and not self.pipeline:
            self._unset_keepalive_if_required()
            piece, data = data[:SLICE_BYTES_MAX], data[SLICE_BYTES_MAX:]
            data = self._read(piece) + data
        self._unread = b"" if self._is_refused else data
        if self.pipeline:
            self.flow.pause_reading()
            self.flow.is_held = True

    def _read(self, data: bytes) -> bytes:
        """Parse a slice, unless the head of the request grows without end; give what is left."""
        was_after_chunk_size = self._is_after_chunk_size
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade() + data[upgrade.args[0] :]
        except httptools.HttpParserError as fault:
            if isinstance(fault.__context__, TooLargeError):
                self._refuse(ErrorCode.PAYLOAD_TOO_LARGE, str(fault.__context__))
            else:
                self._refuse(ErrorCode.VALIDATION_ERROR, NOT_HTTP)
            return b""
        if self._is_in_head:
            is_first_read = self._head_bytes < 0
            self._head_bytes = self._head_size() if is_first_read else self._head_bytes + len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(ErrorCode.PAYLOAD_TOO_LARGE, HEAD_TOO_LARGE)
        elif was_after_chunk_size and self._is_after_chunk_size:
            # Nothing of a body was in all this: it is a trailer, which the parser keeps whole.
            self._trailer_bytes += len(data)
            if self._trailer_bytes > TRAILER_BYTES_MAX:
                self._refuse(ErrorCode.PAYLOAD_TOO_LARGE, TRAILERS_TOO_LARGE)
        # Most heads arrive whole, and need no timer of their own.
        has_timer = self._timer is not None or self.timeout_keep_alive_task is not None
        is_awaited = self._is_in_head or self._is_answered
        if is_awaited and not has_timer and not self._is_refused:
            self._start_timer()
        return b""

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what arrived whole before the caller stopped sending, and refuse what did not."""
        self._is_half_closed = True
        if self._is_refused:
            return self._refusal_in_wait is not None
        if self._is_in_head or not (self._is_message_complete or self._is_answered):
            self._refuse(ErrorCode.VALIDATION_ERROR, NOT_WHOLE)
            return True
        if self._is_answered:
            return False
        self.cycle.keep_alive = False
        return True

    def on_message_begin(self) -> None:
        """Start counting a request's head."""
        self._is_in_head = True
        self._is_message_complete = False
        self._is_after_chunk_size = False
        self._head_bytes = -1
        self._trailer_bytes = 0
        self._stop_timer()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header without the blanks after it, which the parser leaves; drop a trailer."""
        if not self._is_in_head:
            self._trailer_bytes += len(name) + len(value) + 4
            if self._trailer_bytes > TRAILER_BYTES_MAX:
                raise TooLargeError(TRAILERS_TOO_LARGE)
            return
        name, value = name.lower(), value.rstrip(b" \t")
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Stop counting: from here on the pipeline watches the body."""
        is_in_one_slice = self._head_bytes < 0
        if not is_in_one_slice and self._head_size() > HEAD_BYTES_MAX:
            raise TooLargeError(HEAD_TOO_LARGE)
        if b"#" in self.url:
            raise ValueError("a request target has no fragment")
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("nothing is tunnelled here")
            return
        super().on_headers_complete()
        raw_path = self.scope["raw_path"]
        if b"%2" in raw_path and b"%2f" in raw_path.lower():
            # Decoded it would pass for a path of more parts; as it is, it is the path of nothing.
            self.scope["path"] = ENCODED_SLASH
        self.scope["extensions"] = {
            WHOLE_ANSWER: WholeAnswer(self.cycle, self),  # type: ignore[dict-item]
            WHOLE_BODY: partial(take_body, self.cycle),  # type: ignore[dict-item]
        }
        self._has_call = True
        self._is_in_head = False
        self._stop_timer()

    def on_chunk_header(self) -> None:
        """Note that a chunk of the body follows, or else the trailers."""
        self._is_after_chunk_size = True

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body for the pipeline."""
        self._is_after_chunk_size = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Let the pipeline know that the body is whole."""
        if self._is_in_head:
            return
        self._is_message_complete = True
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Go on with the next request, or say what was wrong with it."""
        is_last = not self.pipeline
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if is_last and self._refusal_in_wait is not None:
            self._unset_keepalive_if_required()
            self._write_refusal(*self._refusal_in_wait)
        elif self.flow.is_held and not self.pipeline:
            self.flow.is_held = False
            if self._timer is not None:
                # The caller's time starts anew: it was we who did not read on.
                self._start_timer()
            self.data_received(b"")
            self.flow.resume_reading()

    def shutdown(self) -> None:
        """Stop after the answers that are due, which nobody may keep us from finishing."""
        super().shutdown()
        if self.transport.is_closing():
            self.end()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if the last answer was never read."""
        self.timeout_keep_alive_task = None
        self._end_now()

    def end(self) -> None:
        """Close once all is written, but do not wait for a caller that does not read."""
        self._stop_timer()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._timer = self.loop.call_later(DRAIN_SECONDS_MAX, self.transport.abort)

    def _end_now(self) -> None:
        self._stop_timer()
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _without_upgrade(self) -> bytes:
        """Write a request's head again as if it had not asked for another protocol.

        We speak only this one. The parser, which ends here, would take all that follows for the
        other protocol, the request's body included.
        """
        lines = [b"%b: %b" % header for header in self.headers if header[0] not in UPGRADE_HEADERS]
        if any(name == b"connection" and b"close" in value.lower() for name, value in self.headers):
            lines.append(b"connection: close")
        start = (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"\r\n".join([b"%b %b HTTP/%b" % start, *lines, b"\r\n"])

    @property
    def _is_answered(self) -> bool:
        """Whether every request whose head arrived has its answer."""
        return not self._has_call or self.cycle.response_complete

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(HEAD_SECONDS_MAX, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.flow.is_held:
            # It is we who do not read on, for the answers before are not ready.
            self._start_timer()
        elif self._is_in_head:
            self._refuse(ErrorCode.VALIDATION_ERROR, NOT_IN_TIME)
        else:
            self._end_now()

    def _refuse(self, code: ErrorCode, message: str) -> None:
        """Read nothing more from this connection; refuse after the answers it still waits for."""
        self._is_refused = True
        self._stop_timer()
        if self.transport.is_closing():
            return
        is_in_body = not (self._is_in_head or self._is_message_complete)
        if is_in_body and self.pipeline:
            self.pipeline.popleft()
            self._refusal_in_wait = (code, message)
        elif self._is_answered:
            self._write_refusal(code, message)
        elif not is_in_body:
            self._refusal_in_wait = (code, message)
        elif self.cycle.response_started:
            self.end()
        else:
            # The call that is being worked on is the one whose body is broken.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._write_refusal(code, message)

    def _write_refusal(self, code: ErrorCode, message: str) -> None:
        """Write the error envelope and close, once the caller has had the time to read it."""
        self._refusal_in_wait = None
        metrics.count_refusal(code)
        request_id = new_request_id(time.time_ns() // 1_000_000)
        details = whole_fault(message) if code is ErrorCode.VALIDATION_ERROR else {}
        content = envelope.failure(
            code, message, details, timestamp=public_time(utc_now()), request_id=request_id
        )
        log.info("request refused before it was read", request=request_id, code=code)
        head = (
            b"x-request-id: %b\r\ncontent-type: application/json\r\ncache-control: no-store\r\n"
            b"x-content-type-options: nosniff\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        ) % (request_id.encode(), len(content))
        self.transport.write(STATUS_LINE[envelope.STATUS[code]] + head + content)
        if self._is_half_closed or not self.transport.can_write_eof():
            self.end()
            return
        # Closing at once would reset a caller that is still sending, and the answer be lost.
        self.transport.write_eof()
        self.flow.is_held = False
        self.flow.resume_reading()
        self._timer = self.loop.call_later(LINGER_SECONDS_MAX, self._end_now)


def take_body(cycle: RequestResponseCycle) -> bytes | None:
    """Take the body of a request if all of it has arrived."""
    if cycle.more_body or cycle.disconnected:
        return None
    body, cycle.body = bytes(cycle.body), bytearray()
    return body


class WholeAnswer:
    """Writes an answer that is complete, head and body at once; ASGI would take two writes."""

    __slots__ = ("_connection", "_cycle")

    def __init__(self, cycle: RequestResponseCycle, connection: HttpProtocol) -> None:
        self._cycle = cycle
        self._connection = connection

    async def __call__(self, status: int, headers: Sequence[Header], content: bytes) -> None:
        """Write it, unless the caller is gone; the headers must name the content's length."""
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected or cycle.transport.is_closing():
            cycle.disconnected = True
            return
        assert not cycle.response_started, "a call has one answer"
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        if (b"connection", b"close") in headers:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            headers = [*headers, (b"connection", b"close")]
        lines = [b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]
        if cycle.scope["method"] == "HEAD":
            content = b""
        cycle.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", content)))
        cycle.response_complete = True
        cycle.message_event.set()
        # The scope holds this, which holds the cycle, which holds the scope: opened here, all of it
        # goes at once, and the collector has nothing to look for.
        del cycle.scope["extensions"]
        if not cycle.keep_alive:
            self._connection.end()
        cycle.on_response()


ENCODED_SLASH: Final = "%2F"
UPGRADE_HEADERS: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})


async def serve(
    app: App,
    sockets: list[socket.socket],
    *,
    life: Life,
    notice_seconds: float,
    drain_seconds: float,
) -> None:
    """Answer calls until SIGTERM or SIGINT, then stop: first say so, then drain, then close."""
    server = make_server(app, drain_seconds=drain_seconds)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    serving = asyncio.create_task(run_server(server, sockets))
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    life.is_draining = True
    if not serving.done():
        log.info("stopping: no new calls are wanted")
        await asyncio.sleep(notice_seconds)
        server.should_exit = True
    await serving
    log.info("stopped: every call was answered")


def make_server(app: App, *, drain_seconds: float) -> uvicorn.Server:
    """Set uvicorn up the way we use it."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=HttpProtocol,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            # uvicorn would believe anything a peer on this machine says of the client's address.
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(drain_seconds)),
        )
    )


async def run_server(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """Run uvicorn without its own signal handling."""
    server.config.load()
    await server._serve(sockets)  # noqa: SLF001 - serve() would take the signals over
