"""The one table of every call that an integrator or an operator can make."""

from collections.abc import Sequence

from vintem.api import balance, callbacks, card_tokens, health, pictures, sandbox, transactions
from vintem.api.call import Route

TABLE: Sequence[Route] = (
    *transactions.ROUTES,
    *pictures.ROUTES,
    *card_tokens.ROUTES,
    *balance.ROUTES,
    *sandbox.ROUTES,
    *callbacks.ROUTES,
    *health.ROUTES,
)
