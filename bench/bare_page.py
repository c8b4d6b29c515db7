"""The yardstick of pages: one bare Starlette HTML route on the same server, of a given size."""

import sys
from pathlib import Path

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from vintem.runtime.listening import listen
from vintem.server import make_server, run_server


def serve_bare(content: str, port: int) -> None:
    """Serve a page, encoded for every answer as any page is, until killed."""

    async def show(_request: Request) -> HTMLResponse:
        return HTMLResponse(content)

    app = Starlette(routes=[Route("/s/{token}", show)])
    uvloop.run(run_server(make_server(app, drain_seconds=1), [listen("127.0.0.1", port)]))


if __name__ == "__main__":
    serve_bare(Path(sys.argv[1]).read_text(), int(sys.argv[2]))
