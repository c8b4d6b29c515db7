"""Keccak-256 as Ethereum uses it, which differs from SHA3-256 in its padding alone."""

from typing import Final

_RATE_BYTES: Final = 136
_DIGEST_BYTES: Final = 32
_LANE_MASK: Final = (1 << 64) - 1
_ROUNDS: Final = 24


def keccak_256(message: bytes) -> bytes:
    """Digest a message."""
    padding = bytearray(_RATE_BYTES - len(message) % _RATE_BYTES)
    padding[0] |= 0x01
    padding[-1] |= 0x80
    padded = message + bytes(padding)
    lanes = [0] * 25
    for start in range(0, len(padded), _RATE_BYTES):
        block = padded[start : start + _RATE_BYTES]
        for index in range(_RATE_BYTES // 8):
            lanes[index] ^= int.from_bytes(block[index * 8 : index * 8 + 8], "little")
        lanes = _permuted(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[: _DIGEST_BYTES // 8])


def _permuted(lanes: list[int]) -> list[int]:
    for constant in _ROUND_CONSTANTS:
        parities = [
            lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20]
            for x in range(5)
        ]
        mixes = [parities[x - 1] ^ _turned(parities[(x + 1) % 5], 1) for x in range(5)]
        moved = [0] * 25
        for index, lane in enumerate(lanes):
            target, turn = _MOVES[index]
            moved[target] = _turned(lane ^ mixes[index % 5], turn)
        lanes = [
            moved[index] ^ (~moved[_right_of(index, 1)] & moved[_right_of(index, 2)])
            for index in range(25)
        ]
        lanes[0] ^= constant
    return lanes


def _right_of(index: int, steps: int) -> int:
    return index - index % 5 + (index + steps) % 5


def _turned(lane: int, bits: int) -> int:
    return (lane << bits | lane >> (64 - bits)) & _LANE_MASK


def _moves() -> list[tuple[int, int]]:
    """Where each lane goes in a round, and by how many bits it turns on the way."""
    turns = [0] * 25
    x, y = 1, 0
    for step in range(24):
        turns[x + 5 * y] = (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return [
        (index // 5 + 5 * ((2 * (index % 5) + 3 * (index // 5)) % 5), turns[index])
        for index in range(25)
    ]


def _round_constants() -> list[int]:
    """One constant a round, from the shift register that the standard defines."""
    constants, register = [], 1
    for _ in range(_ROUNDS):
        constant = 0
        for power in range(7):
            if register & 1:
                constant |= 1 << ((1 << power) - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return constants


_MOVES: Final = _moves()
_ROUND_CONSTANTS: Final = _round_constants()
