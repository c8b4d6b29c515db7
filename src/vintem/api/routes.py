"""The one table of every call that an integrator or an operator can make."""

from collections.abc import Sequence

from vintem.api import (
    balance,
    callbacks,
    card_tokens,
    checkout,
    health,
    media,
    pictures,
    sandbox,
    sinks,
    transactions,
    webhooks,
    withdrawal_sandbox,
    withdrawals,
)
from vintem.api.call import Route

TABLE: Sequence[Route] = (
    *transactions.ROUTES,
    *pictures.ROUTES,
    *media.ROUTES,
    *card_tokens.ROUTES,
    *checkout.ROUTES,
    *withdrawals.ROUTES,
    *balance.ROUTES,
    *webhooks.ROUTES,
    *sandbox.ROUTES,
    *withdrawal_sandbox.ROUTES,
    *sinks.ROUTES,
    *callbacks.ROUTES,
    *health.ROUTES,
)
