"""The HTTP server of one process: uvicorn, with our word for requests that are not HTTP."""

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from vintem.api import envelope
from vintem.kit.clock import public_time, utc_now
from vintem.kit.errors import ErrorCode
from vintem.kit.ids import new_request_id
from vintem.resources import Life
from vintem.runtime import metrics

log = structlog.get_logger()

BACKLOG: Final = 2_048
HEAD_BYTES_MAX: Final = 32 * 1024
HEAD_SECONDS_MAX: Final = 15.0
KEEP_ALIVE_SECONDS: Final = 75

App = Callable[..., Awaitable[None]]


class HttpProtocol(HttpToolsProtocol):
    """A connection that answers broken, endless and stalled requests in the error envelope."""

    _head_bytes = 0
    _is_head_complete = False
    _is_refused = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, but not for ever."""
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer with the connection."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head of the request grows without end."""
        if self._is_refused:
            return
        super().data_received(data)
        if not self._is_head_complete and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(
                    ErrorCode.PAYLOAD_TOO_LARGE,
                    f"The request line and headers are larger than {HEAD_BYTES_MAX // 1024} KiB.",
                )

    def on_message_begin(self) -> None:
        """Start counting a request's head."""
        self._is_head_complete = False
        self._head_bytes = 0
        if self._head_timer is None:
            self._start_head_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop counting: from here on the pipeline watches the body."""
        self._is_head_complete = True
        self._stop_head_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what could not be parsed."""
        del msg
        self._refuse(ErrorCode.VALIDATION_ERROR, "The request is not valid HTTP/1.1.")

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS_MAX, self._refuse_stalled)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse_stalled(self) -> None:
        self._head_timer = None
        if self._head_bytes or not self._is_head_complete:
            self._refuse(ErrorCode.VALIDATION_ERROR, "The request did not arrive in time.")

    def _refuse(self, code: ErrorCode, message: str) -> None:
        """Write the error envelope and close; nothing more is read from this connection."""
        self._is_refused = True
        self._stop_head_timer()
        metrics.count_refusal(code)
        request_id = new_request_id(time.time_ns() // 1_000_000)
        content = envelope.failure(
            code, message, {}, timestamp=public_time(utc_now()), request_id=request_id
        )
        log.info("request refused before it was read", request=request_id, code=code)
        head = (
            b"content-type: application/json\r\nx-request-id: %b\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n"
        ) % (request_id.encode(), len(content))
        self.transport.write(STATUS_LINE[envelope.STATUS[code]] + head + content)
        self.transport.close()


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
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(drain_seconds)),
        )
    )


async def run_server(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """Run uvicorn without its own signal handling."""
    server.config.load()
    await server._serve(sockets)  # noqa: SLF001 - serve() would take the signals over


def listen(host: str, port: int) -> socket.socket:
    """Bind a listening socket that child processes can share."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(BACKLOG)
    listener.settimeout(0.0)
    return listener
