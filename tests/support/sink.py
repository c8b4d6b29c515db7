"""An integrator's server: keeps what it is sent, and answers as a test wants."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook

ANSWER_OK = 200


@dataclass(frozen=True)
class Arrived:
    """One call, as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def event(self) -> Any:
        return json.loads(self.body)

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]

    def verify(self, secret: str) -> Any:
        """Hold the call against its signature, as a stranger's library does."""
        return Webhook(secret).verify(self.body, self.headers)


Behaviour = Callable[[web.Request], Awaitable[web.Response]]


@dataclass
class Sink:
    """A server of this machine with any number of paths, each with its own behaviour."""

    base_url: str = ""
    arrived: list[Arrived] = field(default_factory=list)
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    in_flight: dict[str, int] = field(default_factory=dict)
    in_flight_max: dict[str, int] = field(default_factory=dict)

    def url(self, path: str = "/hook") -> str:
        return self.base_url + path

    def answer(self, path: str, status: int, *, body: str = "", seconds: float = 0.0) -> None:
        """Answer so from now on."""

        async def behave(_: web.Request) -> web.Response:
            await asyncio.sleep(seconds)
            return web.Response(status=status, text=body)

        self.behaviours[path] = behave

    def serve(
        self, path: str, status: int, content: bytes, *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Serve these bytes from now on."""

        async def behave(_: web.Request) -> web.Response:
            return web.Response(status=status, body=content, headers=headers)

        self.behaviours[path] = behave

    def at(self, path: str = "/hook") -> list[Arrived]:
        return [each for each in self.arrived if each.path == path]

    async def until(
        self, count: int, path: str = "/hook", *, seconds: float = 15.0
    ) -> list[Arrived]:
        """What arrived at a path, once it is so much."""
        give_up_at = time.monotonic() + seconds
        while len(self.at(path)) < count:
            assert time.monotonic() < give_up_at, [each.event for each in self.at(path)]
            await asyncio.sleep(0.02)
        return self.at(path)

    async def handle(self, request: web.Request) -> web.Response:
        path = request.path_qs
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.arrived.append(Arrived(path, headers, body, time.monotonic()))
        self.in_flight[path] = self.in_flight.get(path, 0) + 1
        self.in_flight_max[path] = max(self.in_flight_max.get(path, 0), self.in_flight[path])
        try:
            behave = self.behaviours.get(path)
            return web.Response() if behave is None else await behave(request)
        finally:
            self.in_flight[path] -= 1


@asynccontextmanager
async def running_sink() -> AsyncIterator[Sink]:
    sink = Sink()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", sink.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server = site._server
    assert isinstance(server, asyncio.Server)
    sink.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield sink
    finally:
        await runner.cleanup()
