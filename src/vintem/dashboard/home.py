"""The first page: how the company does today, and what needs attention."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.checkout import catalogue_listing
from vintem.checkout.catalogue_listing import FIRST
from vintem.companies import service as companies
from vintem.companies.model import ApiKey
from vintem.dashboard.answers import page
from vintem.dashboard.chart import draw
from vintem.dashboard.page import Page, shown
from vintem.dashboard.payment_rows import rows_of
from vintem.dashboard.visit import Visit
from vintem.figures import service as figures
from vintem.figures.model import Figures, by_day, total
from vintem.kit.clock import business_day
from vintem.ledger.model import Account
from vintem.members.model import Permission
from vintem.transactions import browsing
from vintem.transactions.browsing import View
from vintem.transactions.model import Filter, Status
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import DisabledReason
from vintem.webhooks.service import Place
from vintem.withdrawals import service as withdrawals
from vintem.withdrawals.model import Filter as WithdrawalFilter
from vintem.withdrawals.model import Status as WithdrawalStatus

PERIODS: Final = (("7", "7 dias"), ("30", "30 dias"), ("90", "90 dias"))
PERIOD_DEFAULT: Final = "30"
ROWS_MAX: Final = 10
WAITING_SHOWN_MAX: Final = 10
KEY_ENDS_SOON: Final = timedelta(days=7)
TOLD_REASONS: Final = frozenset({DisabledReason.GONE, DisabledReason.UNREACHABLE})


class Asked(msgspec.Struct, frozen=True):
    """Of how many days the figures are."""

    days: str = PERIOD_DEFAULT


class Alert(msgspec.Struct, frozen=True):
    """Something that needs attention, and where it is seen to."""

    sentence: str
    path: str


class Task(msgspec.Struct, frozen=True):
    """A step of an integration, and who may take it."""

    label: str
    path: str
    permission: Permission
    is_done: bool


async def show_home(visit: Visit) -> Answer:
    """Show what needs attention, and how sales go."""
    resources, scope = visit.resources, visit.scope
    database = resources.database
    asked = visit.asked(Asked)
    days = asked.days if asked.days in dict(PERIODS) else PERIOD_DEFAULT
    is_current = await figures.refresh(database, resources.sealer, scope, now=visit.call.now)
    today = business_day(visit.call.now)
    first = today - timedelta(days=int(days) - 1)
    counted = by_day(await figures.list_days(database, scope, first=first, last=today))
    series = _series(first, today, counted)
    balances = await resources.balances.read(scope) if visit.can("balance.read") else None
    newest = await browsing.browse(database, View(Filter(scope)), rows_max=ROWS_MAX)
    return page(
        visit,
        "home.html",
        title="Início",
        days=days,
        periods=PERIODS,
        is_current=is_current,
        today=counted.get(today, Figures()),
        period=total(each for _, each in series),
        series=series,
        chart=draw([(day, each.paid_cents) for day, each in series]),
        available=None if balances is None else balances[Account.AVAILABLE],
        rows=await rows_of(visit, newest.transactions),
        alerts=await _alerts(visit),
        tasks=await _tasks(visit) if visit.is_test else (),
    )


def _series(first: date, last: date, counted: Mapping[date, Figures]) -> list[tuple[date, Figures]]:
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [(day, counted.get(day, Figures())) for day in days]


async def _alerts(visit: Visit) -> list[Alert]:
    return [
        *await _webhook_alerts(visit),
        *await _approval_alerts(visit),
        *await _key_alerts(visit),
    ]


async def _webhook_alerts(visit: Visit) -> list[Alert]:
    if not visit.can("webhooks.read"):
        return []
    place = Place(visit.scope.company_id, visit.scope.environment)
    alerts = []
    for endpoint, failing_since in await webhooks.list_health(visit.resources.database, place):
        path = f"/webhooks/{endpoint.endpoint_id}"
        if endpoint.disabled_reason in TOLD_REASONS:
            alerts.append(Alert(f"O webhook {endpoint.url} foi desativado.", path))
        elif endpoint.is_enabled and failing_since is not None:
            alerts.append(Alert(f"O webhook {endpoint.url} está falhando.", path))
    return alerts


async def _approval_alerts(visit: Visit) -> list[Alert]:
    if not visit.can("withdrawal.approve"):
        return []
    waiting = await withdrawals.list_page(
        visit.resources.database,
        WithdrawalFilter(visit.scope, statuses=(WithdrawalStatus.PENDING_APPROVAL,)),
        cursor=None,
        offset=0,
        rows_max=WAITING_SHOWN_MAX + 1,
    )
    if not waiting:
        return []
    number = str(len(waiting))
    if len(waiting) > WAITING_SHOWN_MAX:
        number = f"Mais de {WAITING_SHOWN_MAX}"
    is_one = len(waiting) == 1
    words = "saque aguarda aprovação." if is_one else "saques aguardam aprovação."
    return [Alert(f"{number} {words}", "/approvals")]


async def _key_alerts(visit: Visit) -> list[Alert]:
    if not visit.can("keys.read"):
        return []
    ends_before = visit.call.now + KEY_ENDS_SOON
    return [
        Alert(f"A chave que termina em {key.last_four} expira em menos de 7 dias.", "/keys")
        for key in await _keys(visit)
        if key.works_at(visit.call.now)
        and key.expires_at is not None
        and key.expires_at < ends_before
        and key.replaced_by is None
    ]


async def _keys(visit: Visit) -> list[ApiKey]:
    keys = await companies.list_keys(visit.resources.database, visit.member.company_public_id)
    return [key for key in keys if key.environment is visit.environment]


async def _tasks(visit: Visit) -> list[Task]:
    """The steps of an integration, until all of them are done."""
    database, scope = visit.resources.database, visit.scope
    place = Place(scope.company_id, scope.environment)
    paid = View(Filter(scope, statuses=(Status.PAID, Status.REFUNDED)))
    tasks = [
        Task(
            "Faça a primeira chamada com uma chave de teste",
            "/keys",
            Permission.KEYS_READ,
            any(key.last_used_at is not None for key in await _keys(visit)),
        ),
        Task(
            "Cadastre um produto",
            "/products",
            Permission.CATALOGUE_READ,
            bool(await catalogue_listing.list_products(database, scope, FIRST)),
        ),
        Task(
            "Registre um webhook",
            "/webhooks",
            Permission.WEBHOOKS_READ,
            bool(await webhooks.list_health(database, place)),
        ),
        Task(
            "Receba o primeiro pagamento",
            "/transactions",
            Permission.SALES_READ,
            bool((await browsing.browse(database, paid, rows_max=1)).transactions),
        ),
    ]
    return [] if all(task.is_done for task in tasks) else tasks


PAGES: Final[tuple[Page, ...]] = (shown("", show_home, Permission.SALES_READ, "Início"),)
