"""The list of payments: what a filter finds, page by page, and the same as a file."""

from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime, timedelta
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.api.transaction_order import document_digest
from vintem.brazil.documents import normalise_cnpj, normalise_cpf
from vintem.companies.model import Environment
from vintem.dashboard.answers import go, page
from vintem.dashboard.asked import cursor_of, period_of
from vintem.dashboard.csv_file import Cell, Export, Money, Source
from vintem.dashboard.exporting import exported
from vintem.dashboard.page import Page, shown
from vintem.dashboard.payment_rows import row_of, rows_of
from vintem.dashboard.statuses import METHOD, TRANSACTION
from vintem.dashboard.typed import cents_of
from vintem.dashboard.visit import Visit
from vintem.figures import service as figures
from vintem.kit.clock import business_day
from vintem.kit.ids import Prefix, is_id
from vintem.kit.paging import Cursor
from vintem.ledger.model import Scope
from vintem.members.model import Permission, may
from vintem.resources import Resources
from vintem.transactions import browsing
from vintem.transactions.browsing import TOTAL_ROWS_MAX, View
from vintem.transactions.model import Filter, PaymentMethod, Status

ROWS_MAX: Final = 50
EXPORTED_AT_ONCE_MAX: Final = 500
PERIODS: Final = (("", "Sempre"), ("1", "Hoje"), ("7", "7 dias"), ("30", "30 dias"))


class Asked(msgspec.Struct, frozen=True):
    """Which payments are shown, as the address says it."""

    status: str = ""
    method: str = ""
    days: str = ""
    since: str = ""
    until: str = ""
    amount_from: str = ""
    amount_to: str = ""
    who: str = ""
    """A payment's id, or a buyer's e-mail address or document."""
    before: str = ""
    after: str = ""

    @property
    def filters(self) -> dict[str, str]:
        """What the address says besides the place in the list."""
        asked = msgspec.structs.asdict(self)
        return {name: text for name, text in asked.items() if name not in {"before", "after"}}


async def show_transactions(visit: Visit) -> Answer:
    """List payments, the newest first."""
    asked, database = visit.asked(Asked), visit.resources.database
    if is_id(asked.who, Prefix.TRANSACTION):
        return go(visit.href(f"/transactions/{asked.who}"))
    view = await view_of(visit.resources, visit.scope, asked, now=visit.call.now)
    before, after = cursor_of(asked.before), cursor_of(asked.after)
    found = await browsing.browse(database, view, rows_max=ROWS_MAX, before=before, after=after)
    total = await browsing.total(database, view)
    filters = asked.filters
    return page(
        visit,
        "transactions.html",
        title="Transações",
        asked=asked,
        errors=faults_of(asked),
        rows=await rows_of(visit, found.transactions),
        total=total,
        total_rows_max=TOTAL_ROWS_MAX,
        statuses=[("", "Todos"), *((each, said.label) for each, said in TRANSACTION.items())],
        methods=[("", "Todos"), *METHOD.items()],
        periods=PERIODS,
        is_filtered=any(filters.values()),
        newer=_href(visit, filters, after=found.newer),
        older=_href(visit, filters, before=found.older),
        csv=visit.href("/transactions.csv", **filters),
    )


def _href(
    visit: Visit,
    filters: dict[str, str],
    *,
    before: Cursor | None = None,
    after: Cursor | None = None,
) -> str:
    if before is None and after is None:
        return ""
    return visit.href(
        "/transactions",
        **filters,
        before="" if before is None else before.encode(),
        after="" if after is None else after.encode(),
    )


async def view_of(resources: Resources, scope: Scope, asked: Asked, *, now: datetime) -> View:
    """Turn what an address asks for into what is looked for; nonsense asks for nothing."""
    since, until = _period(asked, business_day(now))
    statuses = {str(status): status for status in Status}
    methods = {str(method): method for method in PaymentMethod}
    wanted = Filter(
        scope=scope,
        statuses=(statuses[asked.status],) if asked.status in statuses else None,
        payment_method=methods.get(asked.method),
        created_from=since,
        created_before=until,
        amount_min=cents_of(asked.amount_from) if asked.amount_from else None,
        amount_max=cents_of(asked.amount_to) if asked.amount_to else None,
    )
    if not asked.who:
        return View(wanted)
    return View(wanted, await _buyers(resources, scope, asked.who))


def _period(asked: Asked, today: date) -> tuple[datetime | None, datetime | None]:
    since, until = asked.since, asked.until
    if not since and not until and asked.days in {days for days, _ in PERIODS if days}:
        since = (today - timedelta(days=int(asked.days) - 1)).isoformat()
    return period_of(since, until)


async def _buyers(resources: Resources, scope: Scope, who: str) -> Sequence[bytes]:
    """Whom somebody means by a document or by an e-mail address: nobody, one or several."""
    number = normalise_cpf(who) or normalise_cnpj(who)
    if number is not None:
        return [document_digest(resources.sealer, scope.company_id, number)]
    found = await figures.find_by_email(resources.database, resources.sealer, scope, who)
    return [customer.document_digest for customer in found]


def faults_of(asked: Asked) -> dict[str, str]:
    """What the address asks for that is none: an amount, a day."""
    faults = {}
    for name in ("amount_from", "amount_to"):
        if getattr(asked, name) and cents_of(getattr(asked, name)) is None:
            faults[name] = "Escreva o valor assim: 1.234,56"
    for name in ("since", "until"):
        text = getattr(asked, name)
        if text and period_of(text, "") == (None, None):
            faults[name] = "Escreva o dia assim: 15/11/2026"
    return faults


async def export_rows(source: Source, asked: Asked) -> AsyncIterator[Sequence[Cell]]:
    """Every payment of the filter, in the order of the page."""
    view = await view_of(source.resources, source.scope, asked, now=source.now)
    is_masked = not may(
        source.role, Environment(source.scope.environment), Permission.PERSONAL_READ
    )
    database, before = source.resources.database, None
    while True:
        found = await browsing.browse(database, view, rows_max=EXPORTED_AT_ONCE_MAX, before=before)
        for each in found.transactions:
            row = row_of(each, {}, is_masked=is_masked)
            yield (
                each.created_at,
                each.transaction_id,
                row.status.label,
                row.method,
                each.installments,
                each.amount,
                each.fee,
                each.amount + each.late_amount - each.fee,
                each.refunded_amount,
                each.paid_at,
                row.buyer.name,
                row.buyer.email,
                row.buyer.document,
                row.order,
                each.end_to_end_id if each.payment_method is PaymentMethod.PIX else None,
                each.checkout_session_id,
            )
        if found.older is None:
            return
        before = found.older


EXPORT: Final = Export(
    what="transacoes",
    label="Transações",
    header=(
        "data",
        "id",
        "status",
        "metodo",
        "parcelas",
        Money("valor"),
        Money("taxa"),
        Money("liquido"),
        Money("reembolsado"),
        "pago_em",
        "cliente",
        "email",
        "documento",
        "pedido",
        "e2e",
        "sessao",
    ),
    asked=Asked,
    rows=export_rows,
    permission=Permission.SALES_READ,
)

PAGES: Final[tuple[Page, ...]] = (
    shown("/transactions", show_transactions, Permission.SALES_READ, "Transações"),
    exported("/transactions.csv", EXPORT),
)
