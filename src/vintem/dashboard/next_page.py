"""A secret that the next page shows once: sealed until then, and gone when it is loaded again."""

from vintem.dashboard.visit import Visit
from vintem.members import service as members
from vintem.runtime.db import Connection


async def leave(
    visit: Visit, text: str, *, place: str = "", block: Connection | None = None
) -> None:
    """Keep a text for the page that takes it from the same place, which comes after the form.

    With `block` it is kept in the same commit as what the text is of.
    """
    db = visit.resources.database if block is None else block
    where = f"{visit.environment} {place}"
    await members.keep_for_next_page(db, visit.resources.sealer, visit.member, text, place=where)


async def take(visit: Visit, *, place: str = "") -> str | None:
    """Read what was left for this page, or nothing: a page that is loaded again finds nothing."""
    if visit.call.method == "HEAD":
        # Whoever asks for the headers alone has not seen it.
        return None
    where = f"{visit.environment} {place}"
    return await members.take_for_next_page(
        visit.resources.database, visit.resources.sealer, visit.member, place=where
    )
