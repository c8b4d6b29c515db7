"""The SQL of payment links: how they are kept, and how many payments were made by them."""

from vintem.checkout.link import PaymentLink
from vintem.checkout.public_store import link_of
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection


async def upsert_link(db: Connection, link: PaymentLink) -> None:
    """Write a payment link, new or changed; its token stays, and what was paid by it."""
    await db.execute(
        """
        with kept as (
            insert into checkout_link (
                company_id, link_id, environment, public_token, name, product_id, quantity,
                success_url, cancel_url, inactive_message, is_active, ends_at, created_at,
                updated_at, message, offered_methods, installments_max, coupon_id, payments_max,
                copied_from
            ) values (
                $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                $19, $20
            )
            on conflict (company_id, link_id) do update set name = excluded.name,
                product_id = excluded.product_id, quantity = excluded.quantity,
                success_url = excluded.success_url, cancel_url = excluded.cancel_url,
                inactive_message = excluded.inactive_message, is_active = excluded.is_active,
                ends_at = excluded.ends_at, updated_at = excluded.updated_at,
                message = excluded.message, offered_methods = excluded.offered_methods,
                installments_max = excluded.installments_max, coupon_id = excluded.coupon_id,
                payments_max = excluded.payments_max
            where checkout_link.environment = excluded.environment
        )
        insert into checkout_link_token (public_token, company_id, link_id) values ($4, $1, $2)
        on conflict do nothing
        """,
        link.company_id,
        link.link_id,
        link.environment,
        link.public_token,
        link.name,
        link.product_id,
        link.quantity,
        link.success_url,
        link.cancel_url,
        link.inactive_message,
        link.is_active,
        link.ends_at,
        link.created_at,
        link.updated_at,
        link.message,
        list(link.payment_methods),
        link.installments_max,
        link.coupon_id,
        link.payments_max,
        link.copied_from,
    )


async def find_link(db: Connection, scope: Scope, link_id: str) -> PaymentLink | None:
    """Find a payment link."""
    row = await db.fetchrow(
        """
        select * from checkout_link
        where company_id = $1 and link_id = $3 and environment = $2
        """,
        scope.company_id,
        scope.environment,
        link_id,
    )
    return None if row is None else link_of(row)


async def lock_link(db: Connection, scope: Scope, link_id: str) -> PaymentLink | None:
    """Find a payment link and keep others from changing it until the block ends."""
    row = await db.fetchrow(
        """
        select * from checkout_link
        where company_id = $1 and link_id = $3 and environment = $2
        for update
        """,
        scope.company_id,
        scope.environment,
        link_id,
    )
    return None if row is None else link_of(row)


async def find_copied_link(db: Connection, scope: Scope, copied_from: str) -> PaymentLink | None:
    """Find the link that was copied from another one."""
    row = await db.fetchrow(
        """
        select * from checkout_link
        where company_id = $1 and environment = $2 and copied_from = $3
        """,
        scope.company_id,
        scope.environment,
        copied_from,
    )
    return None if row is None else link_of(row)


async def has_maximum(db: Connection, company_id: int, link_id: str) -> bool:
    """Say whether a link ends after so many payments."""
    found = await db.fetchval(
        """
        select payments_max is not null from checkout_link
        where company_id = $1 and link_id = $2
        """,
        company_id,
        link_id,
    )
    return bool(found)


async def hold_place(db: Connection, company_id: int, link_id: str) -> bool:
    """Keep one of the last places of a link for a payment, if there is one left."""
    found = await db.fetchval(
        """
        update checkout_link set payments_held = payments_held + 1
        where company_id = $1 and link_id = $2
            and (payments_max is null or payments_made + payments_held < payments_max)
        returning true
        """,
        company_id,
        link_id,
    )
    return bool(found)


async def release_place(db: Connection, company_id: int, link_id: str) -> None:
    """Give the place of a payment back that came to nothing."""
    await db.execute(
        """
        update checkout_link set payments_held = payments_held - 1
        where company_id = $1 and link_id = $2
        """,
        company_id,
        link_id,
    )


async def count_payment(
    db: Connection, company_id: int, link_id: str, *, amount: int, places_held: int
) -> None:
    """Count a payment that completed a session, whatever the maximum."""
    await db.execute(
        """
        update checkout_link set payments_made = payments_made + 1, revenue = revenue + $3,
            payments_held = payments_held - $4
        where company_id = $1 and link_id = $2
        """,
        company_id,
        link_id,
        amount,
        places_held,
    )
