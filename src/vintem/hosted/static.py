"""The files that pages load from us, under names that their content gave them."""

import gzip
from collections.abc import Mapping
from functools import cache
from typing import Final

from vintem.api.call import Access, Answer, Call, Content, Handler, Header, Route
from vintem.hosted.static_files import STATIC_FILES, StaticFile
from vintem.kit.errors import ErrorCode, Refusal

_HEADERS: Final[tuple[Header, ...]] = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    # A drawing that is opened on its own may hold a script too.
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"accept-encoding"),
)
_ZIPPED: Final[Header] = (b"content-encoding", b"gzip")


def sending(files: Mapping[str, StaticFile]) -> Handler:
    """Send files under the names that their content gave them; they never change."""

    async def send_file(call: Call) -> Answer:
        file = files.get(call.path.rpartition("/")[2])
        if file is None:
            raise Refusal(ErrorCode.NOT_FOUND)
        if accepts_gzip(call):
            return Content(_zipped(file), file.media_type, headers=(*_HEADERS, _ZIPPED))
        return Content(file.body, file.media_type, headers=_HEADERS)

    return send_file


@cache
def _zipped(file: StaticFile) -> bytes:
    return gzip.compress(file.body, mtime=0)


def accepts_gzip(call: Call) -> bool:
    """Tell whether the browser unpacks what is sent to it."""
    for coding in call.headers.get(b"accept-encoding", b"").lower().split(b","):
        name, _, weight = coding.replace(b" ", b"").partition(b";q=")
        if name == b"gzip":
            return weight.strip(b"0.") != b"" or weight == b""
    return False


ROUTES: Final = (
    Route(
        method="GET",
        path="/static/{name}.{hash}.{ext}",
        handler=sending(STATIC_FILES),
        summary="A file of the hosted pages",
        group="Pages",
        access=Access.PUBLIC,
        is_described=False,
        is_quiet=True,
    ),
)
