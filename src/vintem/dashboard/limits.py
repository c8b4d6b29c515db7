"""Limites: how often each key may call, and how much of that is used at this moment."""

from typing import Final, NamedTuple

from vintem.api.call import Answer
from vintem.companies import service as companies
from vintem.companies.model import WINDOW_SECONDS, ApiKey, Company, LimitGroup
from vintem.dashboard.answers import page
from vintem.dashboard.page import Page, shown
from vintem.dashboard.visit import Visit
from vintem.kit.money import AMOUNT_CENTS_MAX, AMOUNT_CENTS_MIN
from vintem.members.model import Permission
from vintem.runtime.rate_limit import Window

GROUP_WORDS: Final = {
    LimitGroup.TRANSACTIONS: ("Transações e tokens de cartão", "por segundo"),
    LimitGroup.WITHDRAWALS: ("Criação de saques", "por minuto"),
    LimitGroup.REQUESTS: ("Demais chamadas", "por minuto"),
}
KEYS_MAX: Final = 50


class KeyUse(NamedTuple):
    """How much of its limits a key uses."""

    key: ApiKey
    used: tuple[int, ...]


async def show_limits(visit: Visit) -> Answer:
    """Show the limits, and what the keys of this environment use of them now."""
    database = visit.resources.database
    company = await companies.get_company(database, visit.member.company_public_id)
    keys = [
        key
        for key in await companies.list_keys(database, company.public_id)
        if key.environment is visit.environment and key.works_at(visit.call.now)
    ]
    return page(
        visit,
        "limits.html",
        title="Limites",
        groups=[(*GROUP_WORDS[group], company.limits.of(group), group) for group in LimitGroup],
        uses=[await _use(visit, company, key) for key in keys[-KEYS_MAX:]],
        cents_min=AMOUNT_CENTS_MIN,
        cents_max=AMOUNT_CENTS_MAX,
        company=company,
    )


async def _use(visit: Visit, company: Company, key: ApiKey) -> KeyUse:
    windows = [
        Window(
            company.company_id,
            key.key_id,
            group,
            company.limits.of(group),
            WINDOW_SECONDS[group],
        )
        for group in LimitGroup
    ]
    return KeyUse(key, tuple([await visit.resources.limiter.count(one) for one in windows]))


PAGES: Final[tuple[Page, ...]] = (
    shown("/limits", show_limits, Permission.COMPANY_READ, "Limites"),
)
