"""The files that pages load from us: named by their content, and every script on an inventory."""

import base64
import gzip
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import Final

import msgspec

from vintem.api.call import Access, Answer, Call, Content, Header, Route
from vintem.kit.errors import ErrorCode, Refusal

FOLDER: Final = "static"
INVENTORY: Final = "scripts.json"
SCRIPT_ENDING: Final = ".js"
HASH_CHARACTERS: Final = 16
MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    SCRIPT_ENDING: "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
TEXT_ENDINGS: Final = frozenset({".css", SCRIPT_ENDING, ".svg"})

_HEADERS: Final[tuple[Header, ...]] = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"accept-encoding"),
)
_NO_SCRIPT: Final[Header] = (b"content-security-policy", b"default-src 'none'")


class InventoryError(Exception):
    """A script is not the one that was written down, so the program does not start."""


class InventoryLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script that pages may load, who answers for it, and what it is for."""

    file: str
    sha384: str
    owner: str
    reason: str


class StaticFile(msgspec.Struct, frozen=True):
    """A file that pages load."""

    url: str
    integrity: str
    media_type: str
    content: bytes
    zipped: bytes | None


@cache
def files() -> Mapping[str, StaticFile]:
    """Read every file once, by its name in the folder; a script nobody wrote down stops us."""
    folder = resources.files("vintem.hosted").joinpath(FOLDER)
    contents = {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if PurePath(entry.name).suffix in MEDIA_TYPES
    }
    inventory = msgspec.json.decode(
        folder.joinpath(INVENTORY).read_bytes(), type=list[InventoryLine]
    )
    check_inventory(contents, inventory)
    return {name: _static_file(name, content) for name, content in contents.items()}


def check_inventory(contents: Mapping[str, bytes], inventory: Iterable[InventoryLine]) -> None:
    """Refuse a script that is not written down, or not with these bytes."""
    written = {line.file: line.sha384 for line in inventory}
    served = {
        name: integrity_of(content)
        for name, content in contents.items()
        if name.endswith(SCRIPT_ENDING)
    }
    if written != served:
        wrong = sorted(name for name in written | served if written.get(name) != served.get(name))
        raise InventoryError(
            f"{', '.join(wrong)}: not as {INVENTORY} has it; look at the change, then write down"
            f" {served}"
        )


def integrity_of(content: bytes) -> str:
    """What a page says of a script so that the browser runs no other."""
    return "sha384-" + base64.b64encode(hashlib.sha384(content).digest()).decode()


def _static_file(name: str, content: bytes) -> StaticFile:
    path = PurePath(name)
    digest = hashlib.sha256(content).hexdigest()[:HASH_CHARACTERS]
    is_text = path.suffix in TEXT_ENDINGS
    return StaticFile(
        url=f"/{FOLDER}/{path.stem}.{digest}{path.suffix}",
        integrity=integrity_of(content),
        media_type=MEDIA_TYPES[path.suffix],
        content=content,
        zipped=gzip.compress(content, 9, mtime=0) if is_text else None,
    )


@cache
def _by_url() -> Mapping[str, StaticFile]:
    return {file.url: file for file in files().values()}


async def send_file(call: Call) -> Answer:
    """Send a file under the name that its content gave it; it never changes."""
    file = _by_url().get(call.path)
    if file is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    headers = (*_HEADERS, _NO_SCRIPT) if file.url.endswith(".svg") else _HEADERS
    if file.zipped is not None and accepts_gzip(call):
        return Content(
            file.zipped, file.media_type, headers=(*headers, (b"content-encoding", b"gzip"))
        )
    return Content(file.content, file.media_type, headers=headers)


def accepts_gzip(call: Call) -> bool:
    """Tell whether the browser unpacks what is sent to it."""
    for coding in call.headers.get(b"accept-encoding", b"").lower().split(b","):
        name, _, weight = coding.partition(b";")
        if name.strip() == b"gzip":
            return weight.replace(b" ", b"").rstrip(b"0") not in {b"q=", b"q=0."}
    return False


ROUTES: Final = (
    Route(
        method="GET",
        path="/static/{name}.{hash}.{ext}",
        handler=send_file,
        summary="A file of the hosted pages",
        group="Pages",
        access=Access.PUBLIC,
        is_described=False,
    ),
)
