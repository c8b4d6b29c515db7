"""What an integrator keeps with a record: flat, and not much of it."""

from collections.abc import Mapping
from typing import Final

import msgspec

METADATA_KEYS_MAX: Final = 50
METADATA_BYTES_MAX: Final = 4 * 1024

Metadata = Mapping[str, str | int | float | bool | None]


def metadata_faults(metadata: Metadata | None) -> list[tuple[str, str]]:
    """Name what is wrong with it, if anything."""
    if metadata is None:
        return []
    if len(metadata) > METADATA_KEYS_MAX:
        return [("metadata", f"has more than {METADATA_KEYS_MAX} keys")]
    if len(msgspec.json.encode(metadata)) > METADATA_BYTES_MAX:
        return [("metadata", f"is larger than {METADATA_BYTES_MAX // 1024} KiB")]
    return []
