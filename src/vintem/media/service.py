"""Pictures are fetched once, when a merchant saves their address, and kept as we drew them."""

import hashlib
from datetime import datetime

from vintem.kit.errors import ErrorCode, Refusal
from vintem.media import store
from vintem.media.model import FETCH_SECONDS_MAX, FETCHED_BYTES_MAX, NotAPictureError, Picture, Use
from vintem.media.redraw import redraw
from vintem.runtime.db import Connection
from vintem.runtime.outbound import CallFailedError, ForbiddenAddressError, Outbound

ANSWER_OK = 200


async def rehost(
    db: Connection,
    outbound: Outbound,
    url: str,
    *,
    use: Use,
    company_id: int,
    environment: str,
    now: datetime,
    allows_loopback: bool = False,
) -> Picture:
    """Fetch a picture from a merchant's address and keep it; refused if it is none."""
    content = await fetch(outbound, url, allows_loopback=allows_loopback)
    return await keep(db, content, use=use, company_id=company_id, environment=environment, now=now)


async def fetch(outbound: Outbound, url: str, *, allows_loopback: bool) -> bytes:
    """Fetch what may be a picture."""
    try:
        answer = await outbound.get(
            url,
            allows_loopback=allows_loopback,
            seconds_max=FETCH_SECONDS_MAX,
            bytes_max=FETCHED_BYTES_MAX + 1,
        )
    except ForbiddenAddressError as forbidden:
        raise Refusal(ErrorCode.INVALID_URL, str(forbidden)) from None
    except CallFailedError as failed:
        raise Refusal(
            ErrorCode.INVALID_URL, f"The picture could not be fetched: {failed}."
        ) from None
    if answer.status != ANSWER_OK:
        raise Refusal(
            ErrorCode.INVALID_URL,
            f"The picture could not be fetched: the answer was {answer.status}.",
        )
    if len(answer.body) > FETCHED_BYTES_MAX:
        raise Refusal(
            ErrorCode.INVALID_URL,
            f"The picture is larger than {FETCHED_BYTES_MAX // 1024 // 1024} MB.",
        )
    return answer.body


async def keep(
    db: Connection, content: bytes, *, use: Use, company_id: int, environment: str, now: datetime
) -> Picture:
    """Draw a picture anew and keep it under its digest; refused if it is none."""
    try:
        drawn = await redraw(content, use)
    except NotAPictureError as refusal:
        raise Refusal(ErrorCode.INVALID_URL, str(refusal)) from None
    digest = hashlib.sha256(drawn.content).digest()
    await store.insert_picture(
        db, company_id=company_id, environment=environment, digest=digest, drawn=drawn, now=now
    )
    return Picture(digest.hex(), drawn.width, drawn.height)


async def copy(
    db: Connection, name: str, *, company_id: int, source: str, target: str, now: datetime
) -> None:
    """Keep a picture that a company has in one environment in another one, too."""
    picture = Picture.named(name)
    assert picture is not None, "a picture is kept by its name"
    await store.copy_picture(
        db,
        company_id=company_id,
        digest=bytes.fromhex(picture.digest),
        source=source,
        target=target,
        now=now,
    )


async def read(db: Connection, digest: str) -> bytes | None:
    """The bytes of a picture that is kept."""
    return await store.read_content(db, bytes.fromhex(digest))
