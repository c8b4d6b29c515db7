"""The SQL of products, coupons and appearances."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from vintem.checkout.model import Appearance, Coupon, DiscountType, Product
from vintem.checkout.public_store import appearance_of
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection, Row

_encode: Final = msgspec.json.Encoder().encode


async def upsert_product(db: Connection, product: Product) -> None:
    """Write a product, new or changed, and since when it costs what it does.

    Sessions keep the names and prices they began with.
    """
    await db.execute(
        """
        with priced as (
            insert into checkout_product_price (
                company_id, product_id, since, environment, unit_amount
            )
            select $1::bigint, $2::text, $11::timestamptz, $3::text, $6::bigint
            where $6::bigint is distinct from (
                select unit_amount from checkout_product_price
                where company_id = $1 and product_id = $2
                order by since desc limit 1
            )
            on conflict (company_id, product_id, since) do update set
                unit_amount = excluded.unit_amount
        )
        insert into checkout_product (
            company_id, product_id, environment, name, description, unit_amount, image_url,
            image_media, is_active, created_at, updated_at, copied_from
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        on conflict (company_id, product_id) do update set name = excluded.name,
            description = excluded.description, unit_amount = excluded.unit_amount,
            image_url = excluded.image_url, image_media = excluded.image_media,
            is_active = excluded.is_active, updated_at = excluded.updated_at
        where checkout_product.environment = excluded.environment
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
        product.copied_from,
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
    return [product_of(row) for row in rows]


async def lock_product(db: Connection, scope: Scope, product_id: str) -> Product | None:
    """Find a product and keep others from changing it until the block ends."""
    row = await db.fetchrow(
        """
        select * from checkout_product
        where company_id = $1 and environment = $2 and product_id = $3
        for update
        """,
        scope.company_id,
        scope.environment,
        product_id,
    )
    return None if row is None else product_of(row)


async def find_copied_product(db: Connection, scope: Scope, copied_from: str) -> Product | None:
    """Find the product that was copied from another one."""
    row = await db.fetchrow(
        """
        select * from checkout_product
        where company_id = $1 and environment = $2 and copied_from = $3
        """,
        scope.company_id,
        scope.environment,
        copied_from,
    )
    return None if row is None else product_of(row)


async def list_prices(
    db: Connection, scope: Scope, product_id: str, *, rows_max: int
) -> Sequence[tuple[datetime, int]]:
    """What a product has cost and since when, the newest price first."""
    rows = await db.fetch(
        """
        select since, unit_amount from checkout_product_price
        where company_id = $1 and product_id = $2 and environment = $3
        order by since desc limit $4
        """,
        scope.company_id,
        product_id,
        scope.environment,
        rows_max,
    )
    return [(row["since"], row["unit_amount"]) for row in rows]


async def insert_coupon(db: Connection, coupon: Coupon) -> bool:
    """Add a coupon; false when its code or its id is taken."""
    found = await db.fetchval(
        """
        insert into checkout_coupon (
            company_id, coupon_id, environment, code, discount_type, discount_value,
            redemptions_max, starts_at, ends_at, minimum_amount, is_active, created_at, updated_at,
            product_ids, customer_redemptions_max
        ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        on conflict do nothing returning true
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
        list(coupon.product_ids),
        coupon.customer_redemptions_max,
    )
    return bool(found)


async def insert_batch(
    db: Connection, alike: Coupon, *, codes: Sequence[str], coupon_ids: Sequence[str]
) -> int:
    """Add coupons that differ in their codes alone; whoever sends them again adds none."""
    assert alike.batch_id is not None
    rows = await db.fetch(
        """
        insert into checkout_coupon (
            company_id, coupon_id, environment, code, discount_type, discount_value,
            redemptions_max, starts_at, ends_at, minimum_amount, is_active, created_at, updated_at,
            product_ids, customer_redemptions_max, batch_id, batch_number
        )
        select $1::bigint, made.coupon_id, $2::text, made.code, $3::text, $4::bigint, $5::bigint,
            $6::timestamptz, $7::timestamptz, $8::bigint, $9::boolean, $10::timestamptz, $10,
            $11::text[], $12::bigint, $13::text, made.number
        from unnest($14::text[], $15::text[]) with ordinality as made (coupon_id, code, number)
        on conflict do nothing returning coupon_id
        """,
        alike.company_id,
        alike.environment,
        alike.discount_type,
        alike.discount_value,
        alike.redemptions_max,
        alike.starts_at,
        alike.ends_at,
        alike.minimum_amount,
        alike.is_active,
        alike.created_at,
        list(alike.product_ids),
        alike.customer_redemptions_max,
        alike.batch_id,
        list(coupon_ids),
        list(codes),
    )
    return len(rows)


async def list_batch(
    db: Connection, scope: Scope, batch_id: str, *, rows_max: int
) -> Sequence[Coupon]:
    """Coupons that were made at once, in the order in which they were."""
    rows = await db.fetch(
        """
        select * from checkout_coupon
        where company_id = $1 and environment = $2 and batch_id = $3
        order by batch_number limit $4
        """,
        scope.company_id,
        scope.environment,
        batch_id,
        rows_max,
    )
    return [coupon_in(row) for row in rows]


async def update_coupon(db: Connection, coupon: Coupon) -> None:
    """Change a coupon; how often it was redeemed stays, and sessions keep what they have."""
    await db.execute(
        """
        update checkout_coupon set discount_type = $3, discount_value = $4, redemptions_max = $5,
            starts_at = $6, ends_at = $7, minimum_amount = $8, is_active = $9, updated_at = $10,
            product_ids = $11, customer_redemptions_max = $12
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
        list(coupon.product_ids),
        coupon.customer_redemptions_max,
    )


async def find_coupon(db: Connection, scope: Scope, coupon_id: str) -> Coupon | None:
    """Find a coupon."""
    row = await db.fetchrow(
        """
        select * from checkout_coupon
        where company_id = $1 and environment = $2 and coupon_id = $3
        """,
        scope.company_id,
        scope.environment,
        coupon_id,
    )
    return None if row is None else coupon_in(row)


async def lock_coupon(db: Connection, scope: Scope, coupon_id: str) -> Coupon | None:
    """Find a coupon and keep others from changing it until the block ends."""
    row = await db.fetchrow(
        """
        select * from checkout_coupon
        where company_id = $1 and environment = $2 and coupon_id = $3
        for update
        """,
        scope.company_id,
        scope.environment,
        coupon_id,
    )
    return None if row is None else coupon_in(row)


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
    return None if row is None else coupon_in(row)


async def reserve_coupon(
    db: Connection,
    company_id: int,
    coupon_id: str,
    *,
    product_ids: Sequence[str],
    now: datetime,
) -> Coupon | None:
    """Count one more redemption for one of these products, if there is one left."""
    row = await db.fetchrow(
        """
        update checkout_coupon set redemptions = redemptions + 1
        where company_id = $1 and coupon_id = $2 and is_active
            and (redemptions_max is null or redemptions < redemptions_max)
            and (starts_at is null or starts_at <= $3) and (ends_at is null or ends_at > $3)
            and (cardinality(product_ids) = 0 or product_ids && $4)
        returning *
        """,
        company_id,
        coupon_id,
        now,
        list(product_ids),
    )
    return None if row is None else coupon_in(row)


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


async def list_appearances(
    db: Connection, scope: Scope, *, below: int | None, rows_max: int
) -> Sequence[tuple[datetime, Appearance]]:
    """Versions of how pages look and when each was published, the newest first."""
    rows = await db.fetch(
        """
        select * from checkout_appearance
        where company_id = $1 and environment = $2 and ($3::bigint is null or version < $3)
        order by version desc limit $4
        """,
        scope.company_id,
        scope.environment,
        below,
        rows_max,
    )
    return [(row["created_at"], appearance_of(row)) for row in rows]


def product_of(row: Row) -> Product:
    """Read a product from its row."""
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
        copied_from=row["copied_from"],
    )


def coupon_in(row: Row) -> Coupon:
    """Read a coupon from its row."""
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
        product_ids=tuple(row["product_ids"]),
        customer_redemptions_max=row["customer_redemptions_max"],
        batch_id=row["batch_id"],
    )
