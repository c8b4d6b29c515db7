"""Takes pictures of every page, to look at: `python tests/hosted/gallery.py FOLDER [NAME…]`.

Chromium shows each on a phone and on a desk, light and dark, under the policy of real pages.
"""

import asyncio
import base64
import itertools
import json
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import page_views
from vintem.hosted.static_files import STATIC_FILES
from vintem.hosted.views import Language, Theme

WIDTHS = {"phone": 360, "desk": 1280}
HEIGHTS = {"phone": 740, "desk": 800}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'nonce-r4nd0m'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none';"
    " require-trusted-types-for 'script'; trusted-types co"
)


def application() -> web.Application:
    """Serve the samples with the headers that pages have."""

    async def give_page(request: web.Request) -> web.Response:
        name, theme = request.match_info["name"], Theme(request.match_info["theme"].upper())
        language = Language(request.query.get("lang", Language.PORTUGUESE))
        is_test = "test" in request.query
        return web.Response(
            text=page_views.html(name, language, theme, is_test=is_test),
            content_type="text/html",
            headers={"content-security-policy": POLICY},
        )

    async def give_static(request: web.Request) -> web.Response:
        static = STATIC_FILES[request.match_info["name"]]
        return web.Response(body=static.body, headers={"content-type": static.media_type})

    async def give_news(request: web.Request) -> web.Response:
        del request
        return web.json_response({"data": {"stateVersion": page_views.STATE_VERSION}})

    served = web.Application()
    served.router.add_get("/v1/checkout/sessions/{token}", give_news)
    served.router.add_get("/static/{name}", give_static)
    served.router.add_get("/{name}/{theme}", give_page)
    return served


class Tab:
    """One tab of a browser, spoken to by its own protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """Ask for something and wait for its answer."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while True:
            message = json.loads((await self._socket.receive()).data)
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            if message.get("method") == "Log.entryAdded":
                self.complaints.append(message["params"]["entry"]["text"])

    async def show(self, address: str, *, width: int, height: int) -> None:
        """Open a page in a window of a size."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        await self.call("Page.navigate", url=address)
        await self.until("document.readyState === 'complete'")
        await asyncio.sleep(0.5)

    async def evaluate(self, expression: str) -> Any:
        """Work out an expression in the page."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until something is true in the page."""
        async with asyncio.timeout(10):
            while not await self.evaluate(expression):
                await asyncio.sleep(0.05)

    async def picture(self, *, width: int) -> bytes:
        """Take a picture of the whole page."""
        height = await self.evaluate("document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = await self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(answer["data"])


@asynccontextmanager
async def open_tab(folder: Path) -> AsyncIterator[Tab]:
    """Start a browser with one tab."""
    browser = shutil.which("chromium")
    assert browser is not None, "pictures need Chromium"
    profile = folder / "profile"
    (profile / "DevToolsActivePort").unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        browser,
        *("--headless", "--no-sandbox", "--hide-scrollbars", "--remote-debugging-port=0"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(30):
            while not (profile / "DevToolsActivePort").exists():
                await asyncio.sleep(0.1)
        port = (profile / "DevToolsActivePort").read_text().split()[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as reply:
                target = next(one for one in await reply.json() if one["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                await tab.call("Log.enable")
                yield tab
    finally:
        process.terminate()
        await process.wait()


async def draw(folder: Path, wanted: Sequence[str]) -> None:
    """Take the pictures."""
    runner = web.AppRunner(application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    root = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with open_tab(folder) as tab:
        for name in wanted or page_views.names():
            for theme in ("light", "dark"):
                for device, width in WIDTHS.items():
                    test = "?test" if theme == "light" and name in {"open", "pix_shown"} else ""
                    address = f"{root}/{name}/{theme}{test}"
                    await tab.show(address, width=width, height=HEIGHTS[device])
                    picture = await tab.picture(width=width)
                    (folder / f"{name}.{theme}.{device}.png").write_bytes(picture)
        print(*tab.complaints, sep="\n")
    await runner.cleanup()


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(draw(target, sys.argv[2:]))
