"""Each invariant of the ledger complains of its own breach, and of no other."""

from collections.abc import AsyncIterator

import pytest

from conftest import new_database
from ledger.books import Books, complaints, in_days
from support.api import new_tenant
from support.breaches import copied, spoil
from vintem.audit import INVARIANTS
from vintem.ledger.model import HoldKind, Scope
from vintem.runtime.db import Database
from vintem.runtime.migrations import migrate

# Those whose checks and triggers would refuse the breaches.
TABLES = ("posting", "account", "hold", "release_schedule", "release_day")

UNANSWERED = """
    insert into transaction (
        company_id, transaction_id, environment, status, payment_method, amount, fee, installments,
        document_digest, document_sealed, idempotency_key, fingerprint, sequence, details, terms,
        created_at, updated_at
    )
    select company_id, 'tx_unanswered', 'test', 'processing', 'credit_card', 100, 0, 1, '', '',
        'k', '', 0, '{}', '{}', now(), now()
    from company
"""
LAST_LINE = "environment = 'live' and available_version = 3"


@pytest.fixture(scope="module")
async def sound_url(worker_id: str) -> str:
    """A database with a bit of everything in its ledger, and nobody connected to it."""
    url = await new_database(f"audit_{worker_id}")
    opened = Database(url)
    await opened.open()
    await migrate(opened)
    tenant = await new_tenant(opened)
    for environment in ("live", "test"):
        books = Books(opened, Scope(tenant.company.company_id, environment))
        for number, day in ((1, 1), (2, 10)):
            await books.capture(
                f"tx_{environment}_{number}",
                1_000,
                fee=10,
                release=[(in_days(day), 200), (in_days(day + 30), 200)],
                reserve=[(in_days(90), 100)],
            )
        await books.hold(HoldKind.REFUND, f"re_{environment}", 1_180)
        await books.hold(HoldKind.DISPUTE, f"dp_{environment}", 150)
        await books.hold(HoldKind.BLOCK, f"bl_{environment}", 50)
        await books.hold(HoldKind.REFUND, f"re_paid_{environment}", 10)
        await books.pay_out(HoldKind.REFUND, f"re_paid_{environment}")
    assert await complaints(opened) == {}
    await opened.close()
    return url


@pytest.fixture
async def own(sound_url: str) -> AsyncIterator[Database]:
    """A copy of it to spoil."""
    async with copied(sound_url) as opened:
        yield opened


@pytest.mark.parametrize(
    ("broken", "breach"),
    [
        pytest.param(
            {"G1"},
            """
            insert into implicit_intent
            select company_id, 'test', 'transaction', sha256(''), 'tx_none', now() from company
            """,
            id="G1 a wish that made nothing",
        ),
        pytest.param(
            {"I1"},
            """
            update posting
            set amounts[1] = amounts[1] + case reference when 'tx_live_1' then 1 else -1 end
            where kind = 'capture' and environment = 'live'
            """,
            id="I1 two postings with opposite errors",
        ),
        pytest.param(
            {"I1", "I4"},  # what is wrong in the sum is wrong in one of its postings
            "update posting set amounts[1] = amounts[1] + 1 where reference = 'tx_live_1'",
            id="I4 money from nowhere",
        ),
        pytest.param(
            {"I2", "I10"},  # no hold stands behind it either
            "update account set balance = balance + 1 where code = 'payout'",
            id="I2 a balance without a leg",
        ),
        pytest.param(
            {"I2"},
            "update account set balance = balance + 1"
            " where code = 'available' and environment = 'live'",
            id="I2 a balance beside its legs",
        ),
        pytest.param(
            {"I3", "I10"},
            """
            update account set balance = -5, version = 1
            where code = 'payout' and environment = 'test';
            insert into posting (
                company_id, environment, kind, reference, codes, amounts, versions, created_at
            )
            select company_id, 'test', 'suspense', 'raw', '{payout,bank}', '{-5,5}', '{1,0}', now()
            from company
            """,
            id="I3 less than nothing",
        ),
        pytest.param(
            {"I3"},
            """
            update account set balance = 5, version = 1
            where code = 'debt' and environment = 'test';
            insert into posting (
                company_id, environment, kind, reference, codes, amounts, versions, created_at
            )
            select company_id, 'test', 'suspense', 'raw', '{debt,bank}', '{5,-5}', '{1,0}', now()
            from company
            """,
            id="I3 debt above zero",
        ),
        pytest.param(
            {"I3"},
            "update account set owes = true where code = 'available' and environment = 'test'",
            id="I3 a debt that is none",
        ),
        pytest.param(
            {"I5"},
            "update account set version = version + 1 where code = 'payout'",
            id="I5 a version without a leg",
        ),
        pytest.param(
            {"I5"},
            """
            update posting set versions[array_position(codes, 'release')] = 1
            where reference = 'tx_live_2'
            """,
            id="I5 a number twice",
        ),
        pytest.param(
            {"I5"},
            """
            update posting set versions[array_position(codes, 'release')] = 99
            where reference = 'tx_live_2'
            """,
            id="I5 a gap",
        ),
        pytest.param(
            {"I9", "R1"},
            "update release_schedule set open = open - 1 where transaction_id = 'tx_live_1'"
            " and account = 'reserve'",
            id="I9 a reserve that is not scheduled",
        ),
        pytest.param(
            {"I9", "R1"},
            "update release_schedule set released_at = now()"
            " where transaction_id = 'tx_live_1' and account = 'release' and part = 1",
            id="I9 a release that did not happen",
        ),
        pytest.param(
            {"R1"},
            "update release_day set waiting = waiting + 1"
            " where environment = 'live' and account = 'reserve'",
            id="R1 a day with more than waits for it",
        ),
        pytest.param(
            {"R1"},
            "delete from release_day where environment = 'live' and account = 'reserve'",
            id="R1 a day that is forgotten",
        ),
        *(
            pytest.param(
                {"I10"},
                f"update hold set amount = amount + 1 where kind = '{kind}'"
                " and environment = 'test' and resolution is null",
                id=f"I10 a {kind} of another amount",
            )
            for kind in HoldKind
        ),
        pytest.param(
            {"I10"},
            "update hold set resolution = 'restored', resolved_at = now()"
            " where reference = 'dp_live'",
            id="I10 an end without its posting",
        ),
        pytest.param(
            {"S1"},
            f"update posting set available_after = available_after + 1 where {LAST_LINE}",
            id="S1 a line that does not follow",
        ),
        pytest.param(
            {"S1"},
            "update posting set available_after = 1 where available_version = 1",
            id="S1 a first line that does not begin at zero",
        ),
        pytest.param(
            {"S2"},
            "update posting set available_amount = null, available_version = null,"
            f" available_after = null where {LAST_LINE}",
            id="S2 a line left out",
        ),
        pytest.param(
            {"S2"},
            f"update posting set available_version = 99 where {LAST_LINE}",
            id="S2 a line with another number",
        ),
        pytest.param(
            {"U1"},
            """
            insert into posting (
                company_id, environment, kind, reference, codes, amounts, versions, created_at
            )
            select company_id, 'test', 'suspense', 'bank/1', '{suspense,bank}', '{5,-5}', '{0,0}',
                now()
            from company
            """,
            id="U1 money that nobody told us of",
        ),
        pytest.param(
            {"U1"},
            """
            insert into provider_callback (
                company_id, provider, callback_id, environment, kind, reference, amount, state,
                received_at
            )
            select company_id, 'bank', '1', 'test', 'payment.received', 'x', 5, 'unclaimed', now()
            from company
            """,
            id="U1 money that was told and not booked",
        ),
        pytest.param(
            {"U2"},
            """
            insert into provider_callback (
                company_id, provider, callback_id, environment, kind, reference, amount, state,
                received_at
            )
            select company_id, 'bank', '1', 'test', 'refund.done', 'x', 5, 'applied', now()
            from company
            """,
            id="U2 a refund that was told and not booked",
        ),
        pytest.param(
            {"U3"},
            """
            insert into provider_callback (
                company_id, provider, callback_id, environment, kind, reference, transaction_id,
                amount, state, cause, received_at
            )
            select company_id, 'bank', '1', 'test', 'refund.done', 'x', 'x', 5, 'applied',
                'dispute', now()
            from company
            """,
            id="U3 a dispute that was told and not booked",
        ),
        pytest.param(
            {"P1"},
            UNANSWERED,
            id="P1 a payment that nobody will ask about",
        ),
        pytest.param(
            {"I11"},
            f"""
            {UNANSWERED};
            insert into provider_request (
                company_id, transaction_id, environment, provider, correlation_id, asked_at, ask_at
            )
            select company_id, 'tx_unanswered', 'test', 'simulator', '', now(), now() from company;
            insert into transaction_history (
                company_id, transaction_id, sequence, to_status, created_at
            )
            select company_id, 'tx_unanswered', 1, 'processing', now() from company
            """,
            id="I11 a payment with a history before its first answer",
        ),
    ],
)
async def test_a_breach_is_found_by_its_invariant_alone(
    own: Database, broken: set[str], breach: str
) -> None:
    await spoil(own, breach, tables=TABLES)
    found = await complaints(own)
    assert set(found) == broken, found


def test_every_invariant_has_a_name_of_its_own() -> None:
    names = [invariant.name for invariant in INVARIANTS]
    assert len(names) == len(set(names))
