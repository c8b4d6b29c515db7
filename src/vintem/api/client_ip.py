"""The caller's IP address: the socket's peer, or what a trusted proxy says of it."""

from collections.abc import Iterable, MutableMapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

from vintem.companies.model import Network

UNKNOWN: Final = "0.0.0.0"  # noqa: S104 - stands for no address, nothing listens on it


def find_client_ip(scope: MutableMapping[str, Any], trusted: Sequence[Network]) -> str:
    """Give the peer's address or, behind trusted proxies, the right-most untrusted hop."""
    client = scope.get("client")
    peer: str = client[0] if client else UNKNOWN
    if not trusted:
        return peer
    forwarded = (value for name, value in scope["headers"] if name == b"x-forwarded-for")
    return walk_hops(peer, forwarded, trusted)


def walk_hops(peer: str, forwarded: Iterable[bytes], trusted: Sequence[Network]) -> str:
    """Walk from the peer towards the client for as long as each hop is trusted."""
    hops = [hop.strip() for value in forwarded for hop in value.decode("latin-1").split(",")]
    current = peer
    while _is_trusted(current, trusted) and hops:
        candidate = _address(hops.pop())
        if candidate is None:
            break
        current = str(candidate)
    return current


def _is_trusted(ip: str, trusted: Sequence[Network]) -> bool:
    address = _address(ip)
    return address is not None and any(address in network for network in trusted)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address as proxies write it: plain, in brackets, or with a port."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
