"""Companies: their records, limits and fees."""

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.api import TEST_PEPPER, Tenant
from vintem.brazil.installments import CardInterest
from vintem.companies import keys, store
from vintem.companies import service as companies
from vintem.companies.model import (
    WINDOW_SECONDS,
    Company,
    Environment,
    Fee,
    FeePlan,
    ImplicitProtection,
    LimitGroup,
    Limits,
    Method,
)
from vintem.kit.clock import utc_now
from vintem.kit.money import AMOUNT_CENTS_MAX
from vintem.runtime.db import Database


@pytest.fixture
async def company(database: Database) -> Company:
    return await companies.create_company(database, "Padaria São João", now=utc_now())


# Records


async def test_a_company_reads_back_as_it_was_made(database: Database) -> None:
    now = utc_now()
    made = await companies.create_company(database, "Padaria São João", now=now)
    assert made.public_id.startswith("cmp_")
    assert made.name == "Padaria São João"
    assert made.created_at == now
    assert made.limits == Limits(5, 10, 60)
    assert made.implicit_protection is ImplicitProtection.OFF
    assert not made.is_suspended
    assert await companies.find_company(database, made.public_id) == made
    assert await companies.get_company(database, made.public_id) == made
    assert made in await companies.list_companies(database)


async def test_a_company_can_be_made_under_a_given_id_once(database: Database) -> None:
    public_id = "cmp_00000000000000000000000001"
    made = await companies.create_company(database, "A", now=utc_now(), public_id=public_id)
    assert made.public_id == public_id
    with pytest.raises(asyncpg.UniqueViolationError):
        await companies.create_company(database, "B", now=utc_now(), public_id=public_id)


@pytest.mark.parametrize("name", ["", "x" * 121])
async def test_a_name_of_no_or_too_many_characters_is_refused(
    database: Database, name: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await companies.create_company(database, name, now=utc_now())


async def test_an_unknown_company_is_nothing_or_an_error(database: Database) -> None:
    unknown = "cmp_unknown"
    assert await companies.find_company(database, unknown) is None
    for attempt in (
        companies.get_company(database, unknown),
        companies.list_keys(database, unknown),
        companies.set_limits(database, unknown, requests_per_minute=1),
        companies.set_suspended(database, unknown, is_suspended=True),
        companies.set_fee(database, unknown, Fee(Method.PIX, 1, 1)),
    ):
        with pytest.raises(companies.UnknownRecordError):
            await attempt


async def test_a_suspension_can_be_repeated_and_taken_back(
    database: Database, company: Company
) -> None:
    for is_suspended in (True, True, False, False):
        changed = await companies.set_suspended(
            database, company.public_id, is_suspended=is_suspended
        )
        assert changed.is_suspended is is_suspended
    assert await companies.get_company(database, company.public_id) == company


async def test_keys_are_listed_by_company_only(database: Database, tenant: Tenant) -> None:
    listed = await companies.list_keys(database, tenant.company.public_id)
    assert len(listed) == 4
    assert {key.company_id for key in listed} == {tenant.company.company_id}
    assert {key.environment for key in listed} == set(Environment)
    assert [key.created_at for key in listed] == sorted(key.created_at for key in listed)


# Limits


async def test_only_the_limits_that_are_given_change(database: Database, company: Company) -> None:
    other = await companies.create_company(database, "Other", now=utc_now())
    first = await companies.set_limits(database, company.public_id, transactions_per_second=50)
    assert first.limits == Limits(50, 10, 60)
    second = await companies.set_limits(
        database, company.public_id, withdrawals_per_minute=20, requests_per_minute=600
    )
    assert second.limits == Limits(50, 20, 600)
    assert (await companies.get_company(database, company.public_id)).limits == second.limits
    assert (await companies.get_company(database, other.public_id)).limits == Limits()


@pytest.mark.parametrize("wrong", [0, -1])
async def test_a_limit_below_one_is_refused(
    database: Database, company: Company, wrong: int
) -> None:
    for attempt in (
        companies.set_limits(database, company.public_id, transactions_per_second=wrong),
        companies.set_limits(database, company.public_id, withdrawals_per_minute=wrong),
        companies.set_limits(database, company.public_id, requests_per_minute=wrong),
    ):
        with pytest.raises(asyncpg.CheckViolationError):
            await attempt
    assert (await companies.get_company(database, company.public_id)).limits == Limits()


def test_each_group_of_calls_has_its_own_limit_and_window() -> None:
    limits = Limits(transactions_per_second=1, withdrawals_per_minute=2, requests_per_minute=3)
    assert [limits.of(group) for group in LimitGroup] == [1, 2, 3]
    assert set(WINDOW_SECONDS) == set(LimitGroup)
    assert [WINDOW_SECONDS[group] for group in LimitGroup] == [1, 60, 60]


# Fees

methods = st.sampled_from(Method)
amounts = st.integers(0, AMOUNT_CENTS_MAX)
fees = st.builds(
    Fee,
    method=methods,
    fixed_cents=st.integers(0, 100_000),
    percent_basis_points=st.integers(0, 10_000),
    installments_from=st.integers(1, 12),
)
plans = st.lists(fees, max_size=12, unique_by=lambda fee: (fee.method, fee.installments_from)).map(
    FeePlan
)

CARD = FeePlan(
    [
        Fee(Method.CREDIT_CARD, 39, 399, 1),
        Fee(Method.CREDIT_CARD, 49, 499, 2),
        Fee(Method.CREDIT_CARD, 59, 599, 7),
    ]
)


@given(methods, amounts, st.integers(1, 12))
def test_a_movement_without_a_fee_is_free(method: Method, amount: int, installments: int) -> None:
    assert FeePlan().fee_cents(method, amount, installments=installments) == 0


def test_a_fee_of_one_method_is_not_charged_for_another() -> None:
    plan = FeePlan([Fee(Method.PIX, 100, 100)])
    assert plan.fee_cents(Method.PIX, 10_000) == 200
    for other in set(Method) - {Method.PIX}:
        assert plan.fee_cents(other, 10_000) == 0


@pytest.mark.parametrize(
    ("installments", "fee"),
    [(1, 39 + 399), (2, 49 + 499), (6, 49 + 499), (7, 59 + 599), (12, 59 + 599)],
)
def test_a_fee_holds_from_its_installments_up_to_the_next(installments: int, fee: int) -> None:
    assert CARD.fee_cents(Method.CREDIT_CARD, 10_000, installments=installments) == fee
    backwards = FeePlan(tuple(reversed(CARD.fees)))
    assert backwards.fee_cents(Method.CREDIT_CARD, 10_000, installments=installments) == fee


def test_fewer_installments_than_the_first_fee_are_free() -> None:
    plan = FeePlan([Fee(Method.CREDIT_CARD, 10, 0, installments_from=2)])
    assert plan.fee_cents(Method.CREDIT_CARD, 10_000, installments=1) == 0
    assert plan.fee_cents(Method.CREDIT_CARD, 10_000, installments=2) == 10


@pytest.mark.parametrize(
    ("amount", "basis_points", "fee"),
    [
        (149, 100, 1),  # 1.49
        (150, 100, 2),  # 1.50
        (151, 100, 2),  # 1.51
        (250, 100, 3),  # 2.50: half up, not half to even
        (9_999_999_999, 1, 1_000_000),
        (100, 49, 0),
        (100, 50, 1),
    ],
)
def test_a_percentage_is_rounded_half_up(amount: int, basis_points: int, fee: int) -> None:
    plan = FeePlan([Fee(Method.BOLETO, 0, basis_points)])
    assert plan.fee_cents(Method.BOLETO, amount) == fee


@given(plans, methods, amounts, st.integers(1, 12))
def test_a_fee_is_never_negative_and_never_above_the_amount(
    plan: FeePlan, method: Method, amount: int, installments: int
) -> None:
    assert 0 <= plan.fee_cents(method, amount, installments=installments) <= amount


def test_a_fee_above_the_amount_takes_the_whole_amount() -> None:
    plan = FeePlan([Fee(Method.PIX_WITHDRAWAL, 500, 10_000)])
    assert plan.fee_cents(Method.PIX_WITHDRAWAL, 100) == 100


async def test_a_fee_that_is_set_again_replaces_the_earlier_one(
    database: Database, company: Company
) -> None:
    assert (await companies.fee_plan(database, company.company_id)).fees == []
    await companies.set_fee(database, company.public_id, Fee(Method.PIX, 100, 0))
    await companies.set_fee(database, company.public_id, Fee(Method.CREDIT_CARD, 0, 300, 2))
    plan = await companies.set_fee(database, company.public_id, Fee(Method.PIX, 50, 99))
    assert set(plan.fees) == {Fee(Method.PIX, 50, 99), Fee(Method.CREDIT_CARD, 0, 300, 2)}
    assert await companies.fee_plan(database, company.company_id) == plan


async def test_a_fee_belongs_to_its_company_only(database: Database, company: Company) -> None:
    other = await companies.create_company(database, "Other", now=utc_now())
    await companies.set_fee(database, company.public_id, Fee(Method.PIX, 100, 0))
    assert (await companies.fee_plan(database, other.company_id)).fees == []


@pytest.mark.parametrize(
    "fee",
    [
        Fee(Method.PIX, -1, 0),
        Fee(Method.PIX, 0, -1),
        Fee(Method.PIX, 0, 10_001),
        Fee(Method.CREDIT_CARD, 0, 0, 0),
        Fee(Method.CREDIT_CARD, 0, 0, 13),
    ],
)
async def test_an_impossible_fee_is_refused(database: Database, company: Company, fee: Fee) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await companies.set_fee(database, company.public_id, fee)
    assert (await companies.fee_plan(database, company.company_id)).fees == []


# Interest


async def test_interest_is_part_of_what_is_agreed_with_a_caller(
    database: Database, tenant: Tenant
) -> None:
    interest = CardInterest(monthly_rate_basis_points=299, free_installments=3, installments_max=10)
    digest = keys.digest(tenant.sk_test.encode(), pepper=TEST_PEPPER.encode())

    async def agreed() -> CardInterest:
        found = await store.find_callers(database, [digest], now=utc_now())
        return found[digest].terms.card_interest

    assert await agreed() == CardInterest()
    await companies.set_card_interest(database, tenant.company.public_id, interest)
    assert await agreed() == interest
    with pytest.raises(companies.UnknownRecordError):
        await companies.set_card_interest(database, "cmp_unknown", interest)
