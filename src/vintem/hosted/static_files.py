"""The files that pages load: named by their content, so that a browser keeps them for good."""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = Path(__file__).parent / "static"
INVENTORY: Final = FOLDER / "scripts.json"

_NAME_HASH_CHARACTERS: Final = 12
_MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file under the name that its content gave it, and the hash by which a page demands it."""

    folder: str
    name: str
    media_type: str
    body: bytes
    integrity: str

    @property
    def path(self) -> str:
        """Give the address of the file."""
        return f"{self.folder}/{self.name}"


class KnownScript(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the inventory of scripts that may run on a payment page (PCI DSS 6.4.3)."""

    file: str
    sha384: str
    owner: str
    reason: str


def read_static(path: Path, folder: str) -> StaticFile:
    """Read a file that pages load from a folder of ours."""
    body = path.read_bytes()
    name_hash = hashlib.sha256(body).hexdigest()[:_NAME_HASH_CHARACTERS]
    digest = base64.b64encode(hashlib.sha384(body).digest()).decode()
    return StaticFile(
        folder=folder,
        name=f"{path.stem}.{name_hash}{path.suffix}",
        media_type=_MEDIA_TYPES[path.suffix],
        body=body,
        integrity=f"sha384-{digest}",
    )


STYLE: Final = read_static(FOLDER / "checkout.css", "/static")
SCRIPT: Final = read_static(FOLDER / "checkout.js", "/static")
ICON: Final = read_static(FOLDER / "icon.svg", "/static")

STATIC_FILES: Final[Mapping[str, StaticFile]] = {
    static.name: static for static in (STYLE, SCRIPT, ICON)
}


def check_inventory() -> None:
    """Refuse to start with a script that the inventory does not know."""
    known = msgspec.json.decode(INVENTORY.read_bytes(), type=list[KnownScript])
    served = {"checkout.js": SCRIPT.integrity}
    assert {script.file: script.sha384 for script in known} == served, (
        f"{INVENTORY.name} does not list exactly the scripts that are served"
    )
