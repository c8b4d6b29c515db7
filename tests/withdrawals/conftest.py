"""A company with money for each test."""

import pytest

from support.api import Api
from vintem.runtime.db import Database
from withdrawals.till import Till, new_till


@pytest.fixture
async def till(api: Api, database: Database) -> Till:
    """A company that has R$ 1.000,00 available."""
    return await new_till(api, database, funds=100_000)
