"""Addresses of machines: which of them are of the open internet, whatever form they come in."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address

# Beside what the standard library calls private, which differs between its releases.
CLOSED: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        # What carries an IPv4 address inside, or none that is reached: never needed for a call.
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "100:0:0:1::/64",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)


def is_public(text: str) -> bool:
    """Say whether an address belongs to the open internet and to nobody's private network."""
    address = parse_address(text)
    if address is None or not address.is_global or address.is_multicast:
        return False
    return not any(address in network for network in CLOSED if network.version == address.version)


def is_loopback(text: str) -> bool:
    """Say whether an address is this very machine's."""
    address = parse_address(text)
    return address is not None and address.is_loopback and not _is_mapped(address)


def parse_address(text: str) -> Address | None:
    """Read an address; one that is bound to an interface of this machine is none."""
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None


def _is_mapped(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None
