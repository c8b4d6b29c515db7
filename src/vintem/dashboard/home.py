"""The first page: how the company does today."""

from typing import Final

from vintem.api.call import Answer
from vintem.dashboard.answers import page
from vintem.dashboard.page import Page, shown
from vintem.dashboard.visit import Visit
from vintem.members.model import Permission


async def show_home(visit: Visit) -> Answer:
    """Show what needs attention, and how sales go."""
    balances = await visit.resources.balances.read(visit.scope)
    return page(visit, "home.html", title="Início", balances=balances)


PAGES: Final[tuple[Page, ...]] = (shown("", show_home, Permission.SALES_READ, "Início"),)
