"""Every page that buyers see, served as it was drawn, with the headers that pages have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from hosted.gallery import POLICY, application
from vintem.hosted.render import render_page
from vintem.hosted.views import Page


@dataclass
class Showcase:
    """A server of sample pages, and of any other page that a test draws."""

    base_url: str = ""
    pages: dict[str, bytes] = field(default_factory=dict)

    def url(self, name: str, theme: str, language: str = "pt-BR") -> str:
        return f"{self.base_url}/{name}/{theme.lower()}?lang={language}&test"

    def show(self, page: Page) -> str:
        """Serve a page and give its address."""
        name = str(len(self.pages))
        self.pages[name] = render_page(page)
        return f"{self.base_url}/drawn/as/{name}"

    async def give_drawn(self, request: web.Request) -> web.Response:
        return web.Response(
            body=self.pages[request.match_info["number"]],
            content_type="text/html",
            charset="utf-8",
            headers={"content-security-policy": POLICY},
        )


async def say_told(_: web.Request) -> web.Response:
    """Nobody has to be told of a payment that was only drawn."""
    return web.Response(status=204)


@asynccontextmanager
async def running_showcase() -> AsyncIterator[Showcase]:
    showcase = Showcase()
    served = application()
    served.router.add_get("/drawn/as/{number}", showcase.give_drawn)
    served.router.add_get("/s/{token}/told", say_told)
    runner = web.AppRunner(served, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    showcase.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield showcase
    finally:
        await runner.cleanup()
