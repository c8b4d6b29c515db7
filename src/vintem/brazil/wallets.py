"""Wallet addresses: Bitcoin's four forms, Tron's, and those of Ethereum and its kin."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from vintem.brazil.keccak import keccak_256

ADDRESS_CHARACTERS_MAX: Final = 90


class Coin(StrEnum):
    """What is sent."""

    USDT = "USDT"
    BTC = "BTC"


class Network(StrEnum):
    """The chain it is sent over."""

    BTC = "BTC"
    TRC20 = "TRC20"
    ERC20 = "ERC20"
    POLYGON = "POLYGON"
    BEP20 = "BEP20"


NETWORKS: Final[Mapping[Coin, frozenset[Network]]] = {
    Coin.BTC: frozenset({Network.BTC}),
    Coin.USDT: frozenset({Network.TRC20, Network.ERC20, Network.POLYGON, Network.BEP20}),
}
"""Which networks carry a coin."""

DECIMALS: Final[Mapping[Network, int]] = {
    Network.BTC: 8,
    Network.TRC20: 6,
    Network.ERC20: 6,
    Network.POLYGON: 6,
    Network.BEP20: 18,
}
"""How many decimals the smallest unit has: the same token is cut more finely on some chains."""

TOKEN_CONTRACTS: Final[Mapping[Network, str]] = {
    Network.TRC20: "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
    Network.ERC20: "0xdac17f958d2ee523a2206206994597c13d831ec7",
    Network.POLYGON: "0xc2132d05d31c914a87c6611c10748aeb04b58e8f",
    Network.BEP20: "0x55d398326f99059ff775485246999027b3197955",
}
"""The tokens' own programs: what is sent to one of them is lost."""

_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_BECH32_CHECK: Final = 1
_BECH32M_CHECK: Final = 0x2BC830A3
_BECH32_GENERATORS: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_BECH32_CHECK_CHARACTERS: Final = 6
_HASH_BYTES: Final = 20
_PAY_TO_PUBLIC_KEY: Final = 0x00
_PAY_TO_SCRIPT: Final = 0x05
_TEST_VERSIONS: Final = frozenset({0x6F, 0xC4})
_TRON_VERSION: Final = 0x41
_LIVE_PREFIX: Final = "bc"
_TEST_PREFIXES: Final = frozenset({"tb", "bcrt"})
_HEX_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")


def parse_network(coin: Coin, text: str) -> Network | None:
    """Read the name of a network, or give None when the coin is not sent over it."""
    try:
        network = Network(text)
    except ValueError:
        return None
    return network if network in NETWORKS[coin] else None


def normalise_address(network: Network, text: str, *, is_live: bool) -> str | None:
    """Give the one form of an address that money can be sent to, or None."""
    if len(text) > ADDRESS_CHARACTERS_MAX or not text.isascii():
        return None
    match network:
        case Network.BTC:
            return _bitcoin(text, is_live=is_live)
        case Network.TRC20:
            return _tron(text)
        case Network.ERC20 | Network.POLYGON | Network.BEP20:
            return _ethereum(network, text)


def with_checksum(address: str) -> str:
    """Write an address of Ethereum in the mixed case that checks itself (EIP-55)."""
    digits = address.lower().removeprefix("0x")
    digest = keccak_256(digits.encode()).hex()
    cased = (
        digit.upper() if int(nibble, 16) >= 8 else digit
        for digit, nibble in zip(digits, digest, strict=False)
    )
    return "0x" + "".join(cased)


def _bitcoin(text: str, *, is_live: bool) -> str | None:
    prefix = text.lower().rpartition("1")[0]
    if prefix == _LIVE_PREFIX or prefix in _TEST_PREFIXES:
        return _segwit(text, prefix, is_live=is_live)
    payload = _base58_payload(text)
    if payload is None or len(payload) != 1 + _HASH_BYTES:
        return None
    version, content = payload[0], payload[1:]
    if not any(content):
        return None
    if version in {_PAY_TO_PUBLIC_KEY, _PAY_TO_SCRIPT}:
        return text
    return text if version in _TEST_VERSIONS and not is_live else None


def _segwit(text: str, prefix: str, *, is_live: bool) -> str | None:
    """Check an address of witness version 0 or 1; nobody can spend from later versions yet."""
    if text != text.lower() and text != text.upper():
        return None
    if is_live and prefix != _LIVE_PREFIX:
        return None
    address = text.lower()
    values = [_BECH32.find(character) for character in address[len(prefix) + 1 :]]
    if len(values) < _BECH32_CHECK_CHARACTERS + 1 or -1 in values:
        return None
    version, data = values[0], values[1:-_BECH32_CHECK_CHARACTERS]
    program = _bytes_of_fives(data)
    if program is None or not any(program):
        return None
    is_right_form = (version == 0 and len(program) in {20, 32}) or (
        version == 1 and len(program) == 32
    )
    check = _BECH32_CHECK if version == 0 else _BECH32M_CHECK
    return address if is_right_form and _bech32_check(prefix, values) == check else None


def _tron(text: str) -> str | None:
    payload = _base58_payload(text)
    if payload is None or len(payload) != 1 + _HASH_BYTES or payload[0] != _TRON_VERSION:
        return None
    if not any(payload[1:]) or text == TOKEN_CONTRACTS[Network.TRC20]:
        return None
    return text


def _ethereum(network: Network, text: str) -> str | None:
    """Check an address; one in a single case carries no checksum and gets one."""
    if _HEX_ADDRESS.fullmatch(text) is None:
        return None
    digits = text[2:]
    checked = with_checksum(text)
    if digits not in {digits.lower(), digits.upper()} and text != checked:
        return None
    if int(digits, 16) == 0 or text.lower() == TOKEN_CONTRACTS[network]:
        return None
    return checked


def _base58_payload(text: str) -> bytes | None:
    number = 0
    for character in text:
        digit = _BASE58.find(character)
        if digit < 0:
            return None
        number = number * 58 + digit
    zeros = len(text) - len(text.lstrip("1"))
    raw = bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8)
    payload, check = raw[:-4], raw[-4:]
    digest = hashlib.sha256(hashlib.sha256(payload).digest()).digest()
    return payload if payload and digest[:4] == check else None


def _bech32_check(prefix: str, values: Sequence[int]) -> int:
    expanded = [*(ord(character) >> 5 for character in prefix), 0]
    expanded += [ord(character) & 31 for character in prefix]
    check = 1
    for value in (*expanded, *values):
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_BECH32_GENERATORS):
            check ^= generator if top >> bit & 1 else 0
    return check


def _bytes_of_fives(values: Sequence[int]) -> bytes | None:
    """Put groups of five bits together to bytes; what is left over must be less and zero."""
    number = 0
    for value in values:
        number = number << 5 | value
    bits = len(values) * 5
    spare = bits % 8
    if spare >= 5 or number & ((1 << spare) - 1):
        return None
    return (number >> spare).to_bytes(bits // 8)
