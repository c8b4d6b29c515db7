"""Pictures of merchants, as we drew them: for every buyer, under an address that never changes."""

import re
from typing import Final

from vintem.api.call import Access, Answer, Call, Content, Route
from vintem.kit.errors import ErrorCode, Refusal
from vintem.media import service as media
from vintem.media.model import MEDIA_TYPE
from vintem.runtime.rate_limit import PublicLimit

DIGEST: Final = re.compile(r"[0-9a-f]{64}")
HEADERS: Final = (
    # The address is the digest of what it shows: it never shows anything else.
    (b"cache-control", b"public, max-age=31536000, immutable"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"x-robots-tag", b"noindex"),
)


async def show_picture(call: Call) -> Answer:
    """Show a picture that is kept."""
    digest = call.params["digest"]
    if DIGEST.fullmatch(digest) is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    content = await media.read(call.resources.database, digest)
    if content is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    return Content(content, MEDIA_TYPE, headers=HEADERS)


ROUTES = (
    Route(
        method="GET",
        path="/media/{digest}",
        handler=show_picture,
        summary="Picture of a product, a logo or a banner",
        description=(
            "Needs no key. What a merchant's address showed when it was saved, drawn anew as WebP"
            " and kept under its SHA-256."
        ),
        group="Pictures",
        access=Access.PUBLIC,
        is_quiet=True,
        public_limits=(PublicLimit.MEDIA,),
        refusals=(ErrorCode.NOT_FOUND, ErrorCode.RATE_LIMIT_EXCEEDED),
    ),
)
