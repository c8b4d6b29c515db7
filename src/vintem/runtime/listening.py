"""Sockets that calls arrive at."""

import socket
from typing import Final

BACKLOG: Final = 2_048


def listen(host: str, port: int) -> socket.socket:
    """Bind a listening socket that child processes can share."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio sends small answers at once only on sockets that say TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(BACKLOG)
    listener.settimeout(0.0)
    return listener


def listen_beside(host: str, port: int) -> socket.socket:
    """Bind a listening socket beside others of this process on the same address."""
    is_v6 = ":" in host
    listener = socket.create_server(
        (host, port),
        family=socket.AF_INET6 if is_v6 else socket.AF_INET,
        backlog=BACKLOG,
        reuse_port=True,
        dualstack_ipv6=is_v6,
    )
    listener.settimeout(0.0)
    return listener
