"""Segurança: where one is signed in, one's password, and the second step."""

from typing import Final

from vintem.api.call import Answer
from vintem.dashboard.answers import page
from vintem.dashboard.page import Page, shown
from vintem.dashboard.visit import Visit
from vintem.members import service as members
from vintem.members.model import Permission


async def show_security(visit: Visit) -> Answer:
    """Show how one's own account is protected."""
    browsers = await members.list_browsers(
        visit.resources.database, visit.member.person_id, now=visit.call.now
    )
    return page(visit, "security.html", title="Segurança", browsers=browsers)


PAGES: Final[tuple[Page, ...]] = (
    shown("/security", show_security, Permission.SIGNED_IN, "Segurança"),
)
