"""The one table of every call that an integrator or an operator can make."""

from collections.abc import Sequence

from vintem.api import balance, health
from vintem.api.call import Route

TABLE: Sequence[Route] = (*balance.ROUTES, *health.ROUTES)
