"""The SQL of companies, their fees and their keys."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_network

from vintem.brazil.installments import CardInterest
from vintem.companies.model import (
    Caller,
    Company,
    CompanyTerms,
    Environment,
    Fee,
    FeePlan,
    ImplicitProtection,
    KeyType,
    Limits,
    Method,
    Storefront,
    TermsChange,
    WithdrawalPolicy,
    WithdrawalRules,
)
from vintem.runtime.db import Connection, Row


async def insert_company(
    db: Connection,
    *,
    public_id: str,
    name: str,
    document: str | None,
    legal_name: str | None,
    limits: Limits,
    now: datetime,
) -> Company:
    """Add a company."""
    row = await db.fetchrow(
        """
        insert into company (
            public_id, name, transactions_per_second, withdrawals_per_minute, requests_per_minute,
            created_at, document, legal_name
        ) values ($1, $2, $3, $4, $5, $6, $7, $8)
        returning *
        """,
        public_id,
        name,
        limits.transactions_per_second,
        limits.withdrawals_per_minute,
        limits.requests_per_minute,
        now,
        document,
        legal_name,
    )
    assert row is not None
    return _company(row)


async def find_company(db: Connection, public_id: str) -> Company | None:
    """Find a company by the id the world knows."""
    row = await db.fetchrow("select * from company where public_id = $1", public_id)
    return None if row is None else _company(row)


async def lock_company(db: Connection, public_id: str) -> Company | None:
    """Read a company and keep others from changing it until the block ends."""
    row = await db.fetchrow("select * from company where public_id = $1 for update", public_id)
    return None if row is None else _company(row)


async def list_companies(db: Connection) -> Sequence[Company]:
    """All companies, the oldest first."""
    return [_company(row) for row in await db.fetch("select * from company order by created_at")]


async def update_limits(
    db: Connection,
    public_id: str,
    *,
    transactions_per_second: int | None,
    withdrawals_per_minute: int | None,
    requests_per_minute: int | None,
) -> Company | None:
    """Change the limits that are given."""
    row = await db.fetchrow(
        """
        update company set
            transactions_per_second = coalesce($2, transactions_per_second),
            withdrawals_per_minute = coalesce($3, withdrawals_per_minute),
            requests_per_minute = coalesce($4, requests_per_minute)
        where public_id = $1
        returning *
        """,
        public_id,
        transactions_per_second,
        withdrawals_per_minute,
        requests_per_minute,
    )
    return None if row is None else _company(row)


async def update_status(db: Connection, public_id: str, *, is_suspended: bool) -> Company | None:
    """Suspend a company or let it work again."""
    row = await db.fetchrow(
        "update company set status = $2 where public_id = $1 returning *",
        public_id,
        "suspended" if is_suspended else "active",
    )
    return None if row is None else _company(row)


async def update_implicit_protection(
    db: Connection, public_id: str, protection: ImplicitProtection
) -> Company | None:
    """Set what is done about repeated requests without a key."""
    row = await db.fetchrow(
        "update company set implicit_protection = $2 where public_id = $1 returning *",
        public_id,
        protection,
    )
    return None if row is None else _company(row)


async def update_identity(
    db: Connection, public_id: str, *, document: str, legal_name: str | None
) -> Company | None:
    """Set who a company is to the tax office; a name that is not given stays."""
    row = await db.fetchrow(
        """
        update company set document = $2, legal_name = coalesce($3, legal_name)
        where public_id = $1
        returning *
        """,
        public_id,
        document,
        legal_name,
    )
    return None if row is None else _company(row)


async def update_card_interest(
    db: Connection, public_id: str, interest: CardInterest
) -> Company | None:
    """Set what buyers pay for installments."""
    row = await db.fetchrow(
        """
        update company set
            card_interest_basis_points = $2,
            card_free_installments = $3,
            card_installments_max = $4
        where public_id = $1
        returning *
        """,
        public_id,
        interest.monthly_rate_basis_points,
        interest.free_installments,
        interest.installments_max,
    )
    return None if row is None else _company(row)


async def update_terms(db: Connection, public_id: str, change: TermsChange) -> Company | None:
    """Change when a company's money is free, and what is held back, as far as given."""
    row = await db.fetchrow(
        """
        update company set
            pix_release_days = coalesce($2, pix_release_days),
            boleto_release_days = coalesce($3, boleto_release_days),
            card_release_days = coalesce($4, card_release_days),
            reserve_basis_points = coalesce($5, reserve_basis_points),
            reserve_days = coalesce($6, reserve_days),
            dispute_fee_cents = coalesce($7, dispute_fee_cents)
        where public_id = $1
        returning *
        """,
        public_id,
        change.pix_release_days,
        change.boleto_release_days,
        change.card_release_days,
        change.reserve_basis_points,
        change.reserve_days,
        change.dispute_fee_cents,
    )
    return None if row is None else _company(row)


async def upsert_fee(db: Connection, company_id: int, fee: Fee) -> None:
    """Set what a company pays for a method from a number of installments on."""
    await db.execute(
        """
        insert into company_fee (
            company_id, method, installments_from, fixed_cents, percent_basis_points
        ) values ($1, $2, $3, $4, $5)
        on conflict (company_id, method, installments_from) do update set
            fixed_cents = excluded.fixed_cents,
            percent_basis_points = excluded.percent_basis_points
        """,
        company_id,
        fee.method,
        fee.installments_from,
        fee.fixed_cents,
        fee.percent_basis_points,
    )


async def list_fees(db: Connection, company_id: int) -> Sequence[Fee]:
    """All fees of a company."""
    rows = await db.fetch(
        "select * from company_fee where company_id = $1 order by method, installments_from",
        company_id,
    )
    return [
        Fee(
            method=Method(row["method"]),
            fixed_cents=row["fixed_cents"],
            percent_basis_points=row["percent_basis_points"],
            installments_from=row["installments_from"],
        )
        for row in rows
    ]


async def find_withdrawal_policy(db: Connection, company_id: int) -> WithdrawalPolicy:
    """Read what a company's withdrawals are held to."""
    row = await db.fetchrow(
        """
        select c.*, c.withdrawals_paused or c.status = 'suspended'
            or exists (select from platform_switch where name = 'withdrawals_paused' and is_on)
            as is_paused
        from company c where c.company_id = $1
        """,
        company_id,
    )
    assert row is not None, "a withdrawal belongs to a company"
    return WithdrawalPolicy(
        rules=WithdrawalRules(
            cents_max=row["withdrawal_cents_max"],
            daily_cents_max=row["withdrawal_daily_cents_max"],
            automatic_cents_max=row["withdrawal_automatic_cents_max"],
            approves_new_destinations=row["approves_new_destinations"],
            approves_crypto=row["approves_crypto"],
        ),
        is_paused=row["is_paused"],
        implicit_protection=ImplicitProtection(row["implicit_protection"]),
    )


async def update_withdrawal_rules(db: Connection, company_id: int, rules: WithdrawalRules) -> None:
    """Set all rules of a company's withdrawals."""
    await db.execute(
        """
        update company set withdrawal_cents_max = $2, withdrawal_daily_cents_max = $3,
            withdrawal_automatic_cents_max = $4, approves_new_destinations = $5,
            approves_crypto = $6
        where company_id = $1
        """,
        company_id,
        rules.cents_max,
        rules.daily_cents_max,
        rules.automatic_cents_max,
        rules.approves_new_destinations,
        rules.approves_crypto,
    )


async def update_withdrawals_paused(db: Connection, company_id: int, *, is_paused: bool) -> None:
    """Stop a company's withdrawals, or let them go on."""
    await db.execute(
        "update company set withdrawals_paused = $2 where company_id = $1", company_id, is_paused
    )


async def upsert_all_withdrawals_paused(db: Connection, *, is_paused: bool) -> None:
    """Stop everybody's withdrawals, or let them go on."""
    await db.execute(
        """
        insert into platform_switch (name, is_on) values ('withdrawals_paused', $1)
        on conflict (name) do update set is_on = excluded.is_on
        """,
        is_paused,
    )


async def find_callers(
    db: Connection, digests: Collection[bytes], *, now: datetime
) -> Mapping[bytes, Caller]:
    """Find who the working keys among these belong to."""
    rows = await db.fetch(
        """
        select k.digest, k.key_id, k.type, k.environment, k.allowed_networks, k.expires_at, c.*,
            array(
                select row(f.method, f.fixed_cents, f.percent_basis_points, f.installments_from)
                from company_fee f where f.company_id = c.company_id
            ) as fees
        from api_key k join company c on c.company_id = k.company_id
        where k.digest = any($1::bytea[]) and k.revoked_at is null
            and (k.expires_at is null or k.expires_at > $2)
        """,
        list(digests),
        now,
    )
    return {row["digest"]: _caller(row) for row in rows}


async def find_payee(db: Connection, company_id: int, environment: Environment) -> Caller:
    """Read a company as if it called itself, without a key."""
    row = await db.fetchrow(
        """
        select '' as key_id, 'ck' as type, $2::text as environment,
            '{}'::text[] as allowed_networks, null::timestamptz as expires_at, c.*,
            array(
                select row(f.method, f.fixed_cents, f.percent_basis_points, f.installments_from)
                from company_fee f where f.company_id = c.company_id
            ) as fees
        from company c where c.company_id = $1
        """,
        company_id,
        environment,
    )
    assert row is not None, "companies are never deleted"
    return _caller(row)


async def find_storefront(db: Connection, company_id: int) -> Storefront:
    """Read how a company shows itself to buyers and lets them pay."""
    row = await db.fetchrow("select * from company where company_id = $1", company_id)
    assert row is not None, "companies are never deleted"
    return Storefront(
        display_name=row["display_name"],
        support_email=row["support_email"],
        support_url=row["support_url"],
        support_phone=row["support_phone"],
        domains=row["domains"],
        payment_methods=row["payment_methods"],
        boleto_due_days=row["boleto_due_days"],
    )


async def update_storefront(db: Connection, company_id: int, storefront: Storefront) -> None:
    """Set how a company shows itself to buyers and lets them pay."""
    await db.execute(
        """
        update company set display_name = $2, support_email = $3, support_url = $4,
            support_phone = $5, domains = $6, payment_methods = $7, boleto_due_days = $8
        where company_id = $1
        """,
        company_id,
        storefront.display_name,
        storefront.support_email,
        storefront.support_url,
        storefront.support_phone,
        list(storefront.domains),
        list(storefront.payment_methods),
        storefront.boleto_due_days,
    )


async def touch_keys(
    db: Connection, key_ids: Collection[str], *, now: datetime, at_most_every: timedelta
) -> None:
    """Remember that these keys were used, unless some process has done so just before."""
    await db.execute(
        """
        update api_key set last_used_at = $2
        where key_id = any($1::text[]) and (last_used_at is null or last_used_at <= $3)
        """,
        sorted(key_ids),
        now,
        now - at_most_every,
    )


def _company(row: Row) -> Company:
    return Company(
        company_id=row["company_id"],
        public_id=row["public_id"],
        name=row["name"],
        is_suspended=row["status"] == "suspended",
        limits=_limits(row),
        implicit_protection=ImplicitProtection(row["implicit_protection"]),
        created_at=row["created_at"],
        document=row["document"],
        legal_name=row["legal_name"],
    )


def _limits(row: Row) -> Limits:
    return Limits(
        transactions_per_second=row["transactions_per_second"],
        withdrawals_per_minute=row["withdrawals_per_minute"],
        requests_per_minute=row["requests_per_minute"],
    )


def _terms(row: Row) -> CompanyTerms:
    return CompanyTerms(
        fees=FeePlan(
            [
                Fee(Method(method), fixed_cents, percent_basis_points, installments_from)
                for method, fixed_cents, percent_basis_points, installments_from in row["fees"]
            ]
        ),
        reserve_basis_points=row["reserve_basis_points"],
        reserve_days=row["reserve_days"],
        pix_release_days=row["pix_release_days"],
        boleto_release_days=row["boleto_release_days"],
        card_release_days=row["card_release_days"],
        dispute_fee_cents=row["dispute_fee_cents"],
        card_interest=CardInterest(
            monthly_rate_basis_points=row["card_interest_basis_points"],
            free_installments=row["card_free_installments"],
            installments_max=row["card_installments_max"],
        ),
    )


def _caller(row: Row) -> Caller:
    return Caller(
        key_id=row["key_id"],
        key_type=KeyType(row["type"]),
        environment=Environment(row["environment"]),
        company_id=row["company_id"],
        company_public_id=row["public_id"],
        company_name=row["name"],
        company_city=row["city"],
        is_company_suspended=row["status"] == "suspended",
        limits=_limits(row),
        terms=_terms(row),
        implicit_protection=ImplicitProtection(row["implicit_protection"]),
        allowed_networks=tuple(ip_network(text) for text in row["allowed_networks"]),
        expires_at=row["expires_at"],
    )
