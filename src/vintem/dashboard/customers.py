"""Those who buy: the list, what one of them bought, and all that is kept about them."""

from collections.abc import Sequence
from typing import Final

import msgspec

from vintem.api.call import Answer, Content
from vintem.api.transaction_order import document_digest, unseal_document
from vintem.brazil.documents import format_document, normalise_cnpj, normalise_cpf
from vintem.dashboard.answers import page
from vintem.dashboard.asked import cursor_of
from vintem.dashboard.forms import Form
from vintem.dashboard.masks import REVEALS_PER_MINUTE
from vintem.dashboard.page import Page, count_visit, sent, shown
from vintem.dashboard.payment_rows import BuyerShown, rows_of
from vintem.dashboard.visit import Visit
from vintem.figures import service as figures
from vintem.figures.model import Customer
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.paging import Cursor
from vintem.members.model import Permission
from vintem.trail import service as trail
from vintem.transactions import browsing
from vintem.transactions import service as transactions
from vintem.transactions.browsing import View
from vintem.transactions.model import Filter, Transaction
from vintem.transactions.record import record_of

ROWS_MAX: Final = 50
EXPORTED_MAX: Final = 1_000
JSON: Final = "application/json"


class Asked(msgspec.Struct, frozen=True):
    """Which customers are shown."""

    who: str = ""
    before: str = ""
    after: str = ""


class Line(msgspec.Struct, frozen=True):
    """A customer as a line of the table."""

    customer: Customer
    buyer: BuyerShown


async def show_customers(visit: Visit) -> Answer:
    """List customers, those who came last first."""
    asked, resources = visit.asked(Asked), visit.resources
    is_current = await figures.refresh(
        resources.database, resources.sealer, visit.scope, now=visit.call.now
    )
    before, after = cursor_of(asked.before), cursor_of(asked.after)
    if asked.who:
        listed, has_more = await find_customers(visit, asked.who), False
    else:
        found = await figures.list_customers(
            resources.database, visit.scope, before=before, after=after, rows_max=ROWS_MAX + 1
        )
        has_more = len(found) > ROWS_MAX
        listed = found[-ROWS_MAX:] if after is not None else found[:ROWS_MAX]
    newer = older = ""
    if listed and (before is not None or (after is not None and has_more)):
        newer = visit.href("/customers", after=_cursor(listed[0]))
    if listed and (after is not None or has_more):
        older = visit.href("/customers", before=_cursor(listed[-1]))
    return page(
        visit,
        "customers.html",
        title="Clientes",
        asked=asked,
        lines=await lines_of(visit, listed),
        is_current=is_current,
        newer=newer,
        older=older,
    )


async def find_customers(visit: Visit, who: str) -> Sequence[Customer]:
    """Whom somebody means by a document or an e-mail address."""
    resources, scope = visit.resources, visit.scope
    number = normalise_cpf(who) or normalise_cnpj(who)
    if number is not None:
        digest = document_digest(resources.sealer, scope.company_id, number)
        return await figures.find_by_document(resources.database, scope, digest)
    return await figures.find_by_email(resources.database, resources.sealer, scope, who)


async def lines_of(visit: Visit, customers: Sequence[Customer]) -> Sequence[Line]:
    """Write customers as lines; the last payment of each says who they are."""
    last = await browsing.find_many(
        visit.resources.database, visit.scope, [each.last_transaction_id for each in customers]
    )
    rows = await rows_of(visit, last)
    return [Line(each, row.buyer) for each, row in zip(customers, rows, strict=True)]


async def show_customer(visit: Visit) -> Answer:
    """Show a customer and what they bought."""
    return await _show(visit, await _find(visit), is_whole=visit.can("personal.read"))


async def reveal_customer(visit: Visit) -> Answer:
    """Show a customer without the mask this once, and write down who has looked."""
    await visit.form(Form)
    customer = await _find(visit)
    count_visit(visit, "reveals", per_minute=REVEALS_PER_MINUTE)
    act = visit.act("personal.revealed", "customer", customer.customer_id)
    async with visit.resources.database.atomic() as block:
        await trail.record(block, act)
    return await _show(visit, customer, is_whole=True)


async def _show(visit: Visit, customer: Customer, *, is_whole: bool) -> Answer:
    database, asked = visit.resources.database, visit.asked(Asked)
    last = await _last(visit, customer)
    [row] = await rows_of(visit, [last], is_masked=not is_whole)
    bought = await browsing.browse(
        database,
        View(Filter(visit.scope), [customer.document_digest]),
        rows_max=ROWS_MAX,
        before=cursor_of(asked.before),
        after=cursor_of(asked.after),
    )
    here = f"/customers/{customer.customer_id}"
    document = row.buyer.document
    if is_whole:
        document = format_document(unseal_document(visit.resources.sealer, last))
    return page(
        visit,
        "customer.html",
        title="Cliente",
        customer=customer,
        buyer=row.buyer,
        document=document,
        is_whole=is_whole,
        rows=await rows_of(visit, bought.transactions, is_masked=not is_whole),
        newer="" if bought.newer is None else visit.href(here, after=bought.newer.encode()),
        older="" if bought.older is None else visit.href(here, before=bought.older.encode()),
    )


async def export_customer(visit: Visit) -> Answer:
    """Give all that is kept about a customer, as the law lets them ask for it."""
    await visit.form(Form)
    customer = await _find(visit)
    resources, scope = visit.resources, visit.scope
    view = View(Filter(scope), [customer.document_digest])
    found = await browsing.browse(resources.database, view, rows_max=EXPORTED_MAX)
    last = await _last(visit, customer)
    act = visit.act(
        "personal.exported",
        "customer",
        customer.customer_id,
        after={"transactions": len(found.transactions)},
    )
    async with resources.database.atomic() as block:
        await trail.record(block, act)
    shown_ = {
        "document": unseal_document(resources.sealer, last),
        "purchases": customer.purchases,
        "paidAmount": customer.paid_cents,
        "refundedAmount": customer.refunded_cents,
        "isComplete": found.older is None,
        "transactions": await _records(visit, found.transactions),
    }
    content = msgspec.json.format(msgspec.json.encode(shown_), indent=2)
    name = f"cliente_{customer.customer_id[:12]}_{visit.environment}.json"
    headers = (
        (b"content-disposition", f'attachment; filename="{name}"'.encode()),
        (b"cache-control", b"no-store"),
    )
    return Content(content, JSON, headers=headers)


async def _records(visit: Visit, found: Sequence[Transaction]) -> Sequence[msgspec.Raw]:
    refunds = await transactions.refunds_of(visit.resources.database, found)
    return [
        msgspec.Raw(
            record_of(
                each,
                [refund for refund in refunds if refund.transaction_id == each.transaction_id],
                document=unseal_document(visit.resources.sealer, each),
            )
        )
        for each in found
    ]


async def _find(visit: Visit) -> Customer:
    resources, scope = visit.resources, visit.scope
    customer_id = visit.call.params["id"]
    found = await figures.find_customer(resources.database, scope, customer_id)
    if found is None:
        # Somebody who has just bought may not be counted yet.
        await figures.refresh(resources.database, resources.sealer, scope, now=visit.call.now)
        found = await figures.find_customer(resources.database, scope, customer_id)
    if found is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    return found


async def _last(visit: Visit, customer: Customer) -> Transaction:
    return await transactions.get(
        visit.resources.database, visit.scope, customer.last_transaction_id
    )


def _cursor(customer: Customer) -> str:
    return Cursor(customer.seen_at, customer.customer_id).encode()


_ONE: Final = "/customers/{id}"

PAGES: Final[tuple[Page, ...]] = (
    shown("/customers", show_customers, Permission.SALES_READ, "Clientes"),
    shown(_ONE, show_customer, Permission.SALES_READ, "Cliente"),
    sent(f"{_ONE}/reveal", reveal_customer, Permission.PERSONAL_REVEAL, "Revelar o cliente"),
    sent(f"{_ONE}/export", export_customer, Permission.PERSONAL_EXPORT, "Exportar o cliente"),
)
