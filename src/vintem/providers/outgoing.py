"""One POST over a connection of its own, with nothing but the standard library."""

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

ANSWER_SECONDS_MAX: Final = 10.0
PORTS: Final = {"http": 80, "https": 443}


class NotAnsweredError(Exception):
    """Nobody answered; whether the request was heard is not known."""


async def post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send a body and give the status of the answer."""
    address = urlsplit(url)
    assert address.hostname is not None, "the settings hold a whole address"
    head = [f"POST {address.path} HTTP/1.1", f"host: {address.netloc}", "connection: close"]
    head += [f"{name}: {value}" for name, value in headers.items()]
    head += [f"content-length: {len(body)}", "", ""]
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(
                address.hostname,
                address.port or PORTS[address.scheme],
                ssl=address.scheme == "https" or None,
            )
            try:
                writer.write("\r\n".join(head).encode() + body)
                status_line = await reader.readline()
            finally:
                writer.close()
        return int(status_line.split(b" ", 2)[1])
    except (OSError, TimeoutError, ValueError, IndexError) as fault:
        raise NotAnsweredError(f"{type(fault).__name__}: {fault}") from fault
