"""The SQL of products, coupons, payment links and appearances."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from vintem.checkout.model import Appearance, Coupon, DiscountType, PaymentLink, Product
from vintem.checkout.public_store import appearance_of, link_of
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Row

_encode: Final = msgspec.json.Encoder().encode


async def upsert_product(db: Connection, product: Product) -> None:
    """Write a product, new or changed; sessions keep the names and prices they began with."""
    await db.execute(
        """
        insert into checkout_product (
            company_id, product_id, environment, name, description, unit_amount, image_url,
            image_media, is_active, created_at, updated_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        on conflict (company_id, product_id) do update set name = excluded.name,
            description = excluded.description, unit_amount = excluded.unit_amount,
            image_url = excluded.image_url, image_media = excluded.image_media,
            is_active = excluded.is_active, updated_at = excluded.updated_at
        """,
        product.company_id,
        product.product_id,
        product.environment,
        product.name,
        product.description,
        product.unit_amount,
        product.image_url,
        product.image_media,
        product.is_active,
        product.created_at,
        product.updated_at,
    )


async def find_products(
    db: Connection, scope: Scope, product_ids: Sequence[str]
) -> Sequence[Product]:
    """Find those of these products that exist."""
    rows = await db.fetch(
        """
        select * from checkout_product
        where company_id = $1 and environment = $2 and product_id = any($3::text[])
        """,
        scope.company_id,
        scope.environment,
        list(product_ids),
    )
    return [_product(row) for row in rows]


async def list_products(db: Connection, scope: Scope, *, rows_max: int) -> Sequence[Product]:
    """The products of a company, the newest first."""
    rows = await db.fetch(
        """
        select * from checkout_product where company_id = $1 and environment = $2
        order by created_at desc, product_id desc limit $3
        """,
        scope.company_id,
        scope.environment,
        rows_max,
    )
    return [_product(row) for row in rows]


async def insert_coupon(db: Connection, coupon: Coupon) -> bool:
    """Add a coupon; false when its code is taken."""
    found = await db.fetchval(
        """
        insert into checkout_coupon (
            company_id, coupon_id, environment, code, discount_type, discount_value,
            redemptions_max, starts_at, ends_at, minimum_amount, is_active, created_at, updated_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
        on conflict (company_id, environment, code) do nothing returning true
        """,
        coupon.company_id,
        coupon.coupon_id,
        coupon.environment,
        coupon.code,
        coupon.discount_type,
        coupon.discount_value,
        coupon.redemptions_max,
        coupon.starts_at,
        coupon.ends_at,
        coupon.minimum_amount,
        coupon.is_active,
        coupon.created_at,
        coupon.updated_at,
    )
    return bool(found)


async def update_coupon(db: Connection, coupon: Coupon) -> None:
    """Change a coupon; how often it was redeemed stays, and sessions keep what they have."""
    await db.execute(
        """
        update checkout_coupon set discount_type = $3, discount_value = $4, redemptions_max = $5,
            starts_at = $6, ends_at = $7, minimum_amount = $8, is_active = $9, updated_at = $10
        where company_id = $1 and coupon_id = $2
        """,
        coupon.company_id,
        coupon.coupon_id,
        coupon.discount_type,
        coupon.discount_value,
        coupon.redemptions_max,
        coupon.starts_at,
        coupon.ends_at,
        coupon.minimum_amount,
        coupon.is_active,
        coupon.updated_at,
    )


async def find_coupon_by_code(db: Connection, scope: Scope, code: str) -> Coupon | None:
    """Find a coupon by its code, in capitals."""
    row = await db.fetchrow(
        """
        select * from checkout_coupon
        where company_id = $1 and environment = $2 and code = $3
        """,
        scope.company_id,
        scope.environment,
        code,
    )
    return None if row is None else _coupon(row)


async def list_coupons(db: Connection, scope: Scope, *, rows_max: int) -> Sequence[Coupon]:
    """The coupons of a company, the newest first."""
    rows = await db.fetch(
        """
        select * from checkout_coupon where company_id = $1 and environment = $2
        order by created_at desc, coupon_id desc limit $3
        """,
        scope.company_id,
        scope.environment,
        rows_max,
    )
    return [_coupon(row) for row in rows]


async def reserve_coupon(db: Connection, company_id: int, coupon_id: str, *, now: datetime) -> bool:
    """Count one more redemption, if there is one left."""
    found = await db.fetchval(
        """
        update checkout_coupon set redemptions = redemptions + 1
        where company_id = $1 and coupon_id = $2 and is_active
            and (redemptions_max is null or redemptions < redemptions_max)
            and (starts_at is null or starts_at <= $3) and (ends_at is null or ends_at > $3)
        returning true
        """,
        company_id,
        coupon_id,
        now,
    )
    return bool(found)


async def add_redemptions(db: Connection, company_id: int, coupon_id: str, count: int) -> None:
    """Count a redemption that came to nothing, or one that came late, whatever the maximum."""
    await db.execute(
        """
        update checkout_coupon set redemptions = redemptions + $3
        where company_id = $1 and coupon_id = $2
        """,
        company_id,
        coupon_id,
        count,
    )


async def upsert_link(db: Connection, link: PaymentLink) -> None:
    """Write a payment link, new or changed; its token stays."""
    await db.execute(
        """
        insert into checkout_link (
            company_id, link_id, environment, public_token, name, product_id, quantity,
            success_url, cancel_url, inactive_message, is_active, ends_at, created_at, updated_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        on conflict (company_id, link_id) do update set name = excluded.name,
            product_id = excluded.product_id, quantity = excluded.quantity,
            success_url = excluded.success_url, cancel_url = excluded.cancel_url,
            inactive_message = excluded.inactive_message, is_active = excluded.is_active,
            ends_at = excluded.ends_at, updated_at = excluded.updated_at
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
    )
    await db.execute(
        """
        insert into checkout_link_token (public_token, company_id, link_id) values ($1, $2, $3)
        on conflict do nothing
        """,
        link.public_token,
        link.company_id,
        link.link_id,
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


async def list_links(db: Connection, scope: Scope, *, rows_max: int) -> Sequence[PaymentLink]:
    """The payment links of a company, the newest first."""
    rows = await db.fetch(
        """
        select * from checkout_link where company_id = $1 and environment = $2
        order by created_at desc, link_id desc limit $3
        """,
        scope.company_id,
        scope.environment,
        rows_max,
    )
    return [link_of(row) for row in rows]


async def insert_appearance(
    db: Connection, scope: Scope, appearance: Appearance, *, now: datetime
) -> bool:
    """Add a version of how pages look; false when another has that number."""
    found = await db.fetchval(
        """
        insert into checkout_appearance (
            company_id, environment, version, template, theme, display_name, logo_url, logo_media,
            primary_color, background_color, banners, created_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        on conflict do nothing returning true
        """,
        scope.company_id,
        scope.environment,
        appearance.version,
        appearance.template,
        appearance.theme,
        appearance.display_name,
        appearance.logo_url,
        appearance.logo_media,
        appearance.primary_color,
        appearance.background_color,
        _encode(appearance.banners).decode(),
        now,
    )
    return bool(found)


async def find_newest_appearance(db: Connection, scope: Scope) -> Appearance | None:
    """Find how the pages of a company look today."""
    row = await db.fetchrow(
        """
        select * from checkout_appearance where company_id = $1 and environment = $2
        order by version desc limit 1
        """,
        scope.company_id,
        scope.environment,
    )
    return None if row is None else appearance_of(row)


def _product(row: Row) -> Product:
    return Product(
        company_id=row["company_id"],
        product_id=row["product_id"],
        environment=row["environment"],
        name=row["name"],
        unit_amount=row["unit_amount"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        description=row["description"],
        image_url=row["image_url"],
        image_media=row["image_media"],
        is_active=row["is_active"],
    )


def _coupon(row: Row) -> Coupon:
    return Coupon(
        company_id=row["company_id"],
        coupon_id=row["coupon_id"],
        environment=row["environment"],
        code=row["code"],
        discount_type=DiscountType(row["discount_type"]),
        discount_value=row["discount_value"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        redemptions_max=row["redemptions_max"],
        redemptions=row["redemptions"],
        starts_at=row["starts_at"],
        ends_at=row["ends_at"],
        minimum_amount=row["minimum_amount"],
        is_active=row["is_active"],
    )
