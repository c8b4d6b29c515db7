"""The files that pages load from us, under names that their content gave them."""

import gzip
from collections.abc import Mapping
from functools import cache
from typing import Final

from vintem.api.call import Access, Answer, Call, Content, Header, Route
from vintem.hosted.static_files import STATIC_FILES
from vintem.kit.errors import ErrorCode, Refusal

_HEADERS: Final[tuple[Header, ...]] = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    # A drawing that is opened on its own may hold a script too.
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"accept-encoding"),
)
_ZIPPED: Final[Header] = (b"content-encoding", b"gzip")


async def send_file(call: Call) -> Answer:
    """Send a file under the name that its content gave it; it never changes."""
    file = STATIC_FILES.get(call.path.rpartition("/")[2])
    if file is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    if accepts_gzip(call):
        return Content(_zipped()[file.name], file.media_type, headers=(*_HEADERS, _ZIPPED))
    return Content(file.body, file.media_type, headers=_HEADERS)


@cache
def _zipped() -> Mapping[str, bytes]:
    return {file.name: gzip.compress(file.body, mtime=0) for file in STATIC_FILES.values()}


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
        handler=send_file,
        summary="A file of the hosted pages",
        group="Pages",
        access=Access.PUBLIC,
        is_described=False,
    ),
)
