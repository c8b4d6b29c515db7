"""Fresh books for each test."""

import pytest

from ledger.books import Books
from support.api import Tenant
from vintem.ledger.model import Scope
from vintem.runtime.db import Database


@pytest.fixture
def books(database: Database, tenant: Tenant) -> Books:
    """The ledger of a new company."""
    return Books(database, Scope(tenant.company.company_id, "live"))
