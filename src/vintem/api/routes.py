"""The one table of every call that an integrator or an operator can make."""

from collections.abc import Sequence

from vintem.api import balance, card_tokens, health, pictures, sandbox, transactions, webhooks
from vintem.api.call import Route

TABLE: Sequence[Route] = (
    *transactions.ROUTES,
    *pictures.ROUTES,
    *card_tokens.ROUTES,
    *balance.ROUTES,
    *webhooks.ROUTES,
    *sandbox.ROUTES,
    *health.ROUTES,
)
