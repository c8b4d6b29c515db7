"""The yardstick: one bare Starlette JSON route on the same server, with nothing around it."""

import socket
import sys

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from vintem.runtime.listening import listen
from vintem.server import make_server, run_server

BALANCE = {
    "currency": "BRL",
    "available": 0,
    "waitingFunds": 0,
    "reserve": 0,
    "inTransit": 0,
    "debt": 0,
    "nextReleases": [],
}


async def read_balance(_request: Request) -> JSONResponse:
    """Answer without asking who, how often, or what for."""
    return JSONResponse(BALANCE)


def serve_bare(listener: socket.socket) -> None:
    """Serve the route until killed."""
    app = Starlette(routes=[Route("/v1/balance", read_balance)])
    uvloop.run(run_server(make_server(app, drain_seconds=1), [listener]))


if __name__ == "__main__":
    serve_bare(listen("127.0.0.1", int(sys.argv[1])))
