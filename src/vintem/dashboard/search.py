"""The search of the header: an id leads to its page, an address or a document to a buyer."""

from collections.abc import Mapping
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.api.transaction_order import document_digest
from vintem.brazil.documents import normalise_cnpj, normalise_cpf
from vintem.checkout import service as checkout
from vintem.dashboard.answers import go, page
from vintem.dashboard.page import Page, shown
from vintem.dashboard.payment_rows import PaymentRow, rows_of
from vintem.dashboard.visit import Visit
from vintem.figures import service as figures
from vintem.kit.errors import Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.members.model import Permission
from vintem.transactions import browsing
from vintem.transactions import service as transactions
from vintem.transactions.browsing import View
from vintem.transactions.model import Filter
from vintem.withdrawals import service as withdrawals

ROWS_MAX: Final = 20
QUERY_CHARACTERS_MAX: Final = 254

PLACES: Final[Mapping[str, tuple[str, Permission]]] = {
    "req_": ("/requests/", Permission.LOGS),
    f"{Prefix.PRODUCT}_": ("/products/", Permission.CATALOGUE_READ),
    f"{Prefix.COUPON}_": ("/coupons/", Permission.CATALOGUE_READ),
    f"{Prefix.PAYMENT_LINK}_": ("/links/", Permission.CATALOGUE_READ),
    f"{Prefix.WEBHOOK}_": ("/webhooks/", Permission.WEBHOOKS_READ),
    f"{Prefix.DELIVERY}_": ("/deliveries/", Permission.WEBHOOKS_READ),
}
"""Where the other ids are looked up: those pages say themselves what is not there."""


class Asked(msgspec.Struct, frozen=True):
    """What is looked for."""

    q: str = ""


async def search(visit: Visit) -> Answer:
    """Lead to the one thing that is meant, or list what may be."""
    asked = visit.asked(Asked)
    text = asked.q[:QUERY_CHARACTERS_MAX]
    found = await _find_page(visit, text)
    if found:
        return go(visit.href(found))
    rows = await _find_payments(visit, text)
    if len(rows) == 1:
        return go(visit.href(f"/transactions/{rows[0].transaction.transaction_id}"))
    return page(visit, "search.html", title="Busca", query=text, rows=rows)


async def _find_page(visit: Visit, text: str) -> str:
    """The page of an id that is this company's, in this environment."""
    database, scope = visit.resources.database, visit.scope
    try:
        if is_id(text, Prefix.TRANSACTION):
            await transactions.get(database, scope, text)
            return f"/transactions/{text}"
        if is_id(text, Prefix.REFUND):
            refund = await transactions.find_refund(database, scope, text)
            return "" if refund is None else f"/transactions/{refund.transaction_id}"
        if is_id(text, Prefix.WITHDRAWAL) and visit.can("balance.read"):
            await withdrawals.get(database, scope, text)
            return f"/withdrawals/{text}"
        if is_id(text, Prefix.SESSION):
            session = await checkout.find_session(database, scope, text)
            return "" if session is None else f"/sessions/{text}"
    except Refusal:
        return ""
    for start, (place, permission) in PLACES.items():
        if text.startswith(start) and text.isascii() and text.replace("_", "").isalnum():
            return place + text if visit.can(permission) else ""
    return ""


async def _find_payments(visit: Visit, text: str) -> list[PaymentRow]:
    """The newest payments of whoever is meant by a document, an address or a reference."""
    resources, scope = visit.resources, visit.scope
    if not text:
        return []
    number = normalise_cpf(text) or normalise_cnpj(text)
    if number is not None:
        digests = [document_digest(resources.sealer, scope.company_id, number)]
    elif "@" in text:
        found = await figures.find_by_email(resources.database, resources.sealer, scope, text)
        digests = [each.document_digest for each in found]
    else:
        return await _find_references(visit, text)
    view = View(Filter(scope), digests)
    browsed = await browsing.browse(resources.database, view, rows_max=ROWS_MAX)
    return list(await rows_of(visit, browsed.transactions))


async def _find_references(visit: Visit, text: str) -> list[PaymentRow]:
    found = await browsing.list_by_reference(
        visit.resources.database, visit.scope, text, rows_max=ROWS_MAX
    )
    return list(await rows_of(visit, found))


PAGES: Final[tuple[Page, ...]] = (shown("/search", search, Permission.SALES_READ, "Busca"),)
