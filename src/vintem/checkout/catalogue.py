"""What a company keeps for its checkout: products, coupons, links and how its pages look."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from vintem.checkout import catalogue_store as store
from vintem.checkout import link_store
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import (
    BANNERS_MAX,
    COLOR,
    Appearance,
    Coupon,
    DiscountType,
    Product,
    normal_code,
)
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id, new_token
from vintem.kit.urls import UrlFault, parse_web_url
from vintem.ledger.model import Scope
from vintem.runtime.db import Connection
from vintem.transactions.model import PaymentMethod

BATCH_COUPONS_MAX: Final = 1_000
CODE_LETTERS: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Thirty-two that nobody takes for one another."""
CODE_CHARACTERS_MIN: Final = 8
PREFIX_CHARACTERS_MAX: Final = 16


class CodeTakenError(Exception):
    """Another coupon of the company has that code."""


async def create_product(
    db: Connection,
    scope: Scope,
    *,
    name: str,
    unit_amount: int,
    now: datetime,
    description: str = "",
    image_url: str | None = None,
    product_id: str = "",
) -> Product:
    """Add something that is sold; whoever names its id adds it once, however often they ask."""
    product = Product(
        company_id=scope.company_id,
        product_id=product_id or new_id(Prefix.PRODUCT),
        environment=scope.environment,
        name=name,
        unit_amount=unit_amount,
        created_at=now,
        updated_at=now,
        description=description,
        image_url=image_url,
    )
    await change_product(db, product, now=now)
    return product


async def change_product(db: Connection, product: Product, *, now: datetime) -> Product:
    """Write a product as it shall be; sessions keep the names and prices they began with."""
    # Where we keep a copy, the address was judged by whoever fetched it.
    if product.image_media is None:
        _check_address(product.image_url, "imageUrl")
    changed = replace(product, updated_at=now)
    await store.upsert_product(db, changed)
    return changed


async def find_product(db: Connection, scope: Scope, product_id: str) -> Product | None:
    """Find a product, sold or not."""
    found = await store.find_products(db, scope, [product_id])
    return found[0] if found else None


async def find_products(
    db: Connection, scope: Scope, product_ids: Sequence[str]
) -> Sequence[Product]:
    """Find those of these products that exist, sold or not."""
    return await store.find_products(db, scope, product_ids)


async def lock_product(db: Connection, scope: Scope, product_id: str) -> Product | None:
    """Find a product that is about to be changed."""
    return await store.lock_product(db, scope, product_id)


async def find_copied_product(db: Connection, scope: Scope, copied_from: str) -> Product | None:
    """Find what a product of the test environment was copied to."""
    return await store.find_copied_product(db, scope, copied_from)


async def list_prices(
    db: Connection, scope: Scope, product_id: str, *, rows_max: int
) -> Sequence[tuple[datetime, int]]:
    """What a product has cost and since when, the newest price first."""
    return await store.list_prices(db, scope, product_id, rows_max=rows_max)


async def create_coupon(
    db: Connection,
    scope: Scope,
    code: str,
    discount_type: DiscountType,
    discount_value: int,
    *,
    now: datetime,
    redemptions_max: int | None = None,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    minimum_amount: int = 0,
    product_ids: Sequence[str] = (),
    customer_redemptions_max: int | None = None,
    coupon_id: str = "",
) -> Coupon:
    """Add a coupon, or raise CodeTakenError."""
    kept_code = normal_code(code)
    if kept_code is None:
        raise Refusal(ErrorCode.COUPON_INVALID, "A code has 3 to 32 visible characters.")
    coupon = Coupon(
        company_id=scope.company_id,
        coupon_id=coupon_id or new_id(Prefix.COUPON),
        environment=scope.environment,
        code=kept_code,
        discount_type=discount_type,
        discount_value=discount_value,
        created_at=now,
        updated_at=now,
        redemptions_max=redemptions_max,
        starts_at=starts_at,
        ends_at=ends_at,
        minimum_amount=minimum_amount,
        product_ids=product_ids,
        customer_redemptions_max=customer_redemptions_max,
    )
    if not await add_coupon(db, coupon):
        raise CodeTakenError(kept_code)
    return coupon


async def add_coupon(db: Connection, coupon: Coupon) -> bool:
    """Add a coupon; false when another one has its code."""
    assert normal_code(coupon.code) == coupon.code
    return await store.insert_coupon(db, coupon)


async def change_coupon(db: Connection, coupon: Coupon, *, now: datetime) -> Coupon:
    """Write a coupon as it shall be; its code and its redemptions stay."""
    changed = replace(coupon, updated_at=now)
    await store.update_coupon(db, changed)
    return changed


async def create_batch(
    db: Connection, alike: Coupon, *, count: int, prefix: str = "", now: datetime
) -> int:
    """Make many coupons that differ in their codes alone; a batch is made once."""
    assert 1 <= count <= BATCH_COUPONS_MAX
    assert alike.batch_id is not None
    codes = [prefix + _random_code() for _ in range(count)]
    ids = [new_id(Prefix.COUPON) for _ in codes]
    made = replace(alike, created_at=now, updated_at=now)
    return await store.insert_batch(db, made, codes=codes, coupon_ids=ids)


def _random_code() -> str:
    # Long enough that nobody guesses one, and that no two of a batch are the same.
    return "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_CHARACTERS_MIN + 2))


async def list_batch(db: Connection, scope: Scope, batch_id: str) -> Sequence[Coupon]:
    """Coupons that were made at once."""
    return await store.list_batch(db, scope, batch_id, rows_max=BATCH_COUPONS_MAX)


async def find_coupon_by_id(db: Connection, scope: Scope, coupon_id: str) -> Coupon | None:
    """Find a coupon, usable or not."""
    return await store.find_coupon(db, scope, coupon_id)


async def lock_coupon(db: Connection, scope: Scope, coupon_id: str) -> Coupon | None:
    """Find a coupon that is about to be changed."""
    return await store.lock_coupon(db, scope, coupon_id)


async def find_coupon(db: Connection, scope: Scope, code: str) -> Coupon | None:
    """Find a coupon by its code, usable or not."""
    kept_code = normal_code(code)
    return None if kept_code is None else await store.find_coupon_by_code(db, scope, kept_code)


async def create_link(
    db: Connection,
    scope: Scope,
    *,
    name: str,
    product_id: str,
    now: datetime,
    quantity: int = 1,
    success_url: str | None = None,
    cancel_url: str | None = None,
    inactive_message: str = "",
    ends_at: datetime | None = None,
    message: str = "",
    payment_methods: Sequence[PaymentMethod] = (),
    installments_max: int | None = None,
    coupon_id: str | None = None,
    payments_max: int | None = None,
) -> PaymentLink:
    """Add an address that any number of buyers may come by."""
    link = PaymentLink(
        company_id=scope.company_id,
        link_id=new_id(Prefix.PAYMENT_LINK),
        environment=scope.environment,
        public_token=new_token(),
        name=name,
        product_id=product_id,
        created_at=now,
        updated_at=now,
        quantity=quantity,
        success_url=success_url,
        cancel_url=cancel_url,
        inactive_message=inactive_message,
        ends_at=ends_at,
        message=message,
        payment_methods=payment_methods,
        installments_max=installments_max,
        coupon_id=coupon_id,
        payments_max=payments_max,
    )
    return await change_link(db, link, now=now)


async def change_link(db: Connection, link: PaymentLink, *, now: datetime) -> PaymentLink:
    """Write a link as it shall be; its address stays, and what was paid by it."""
    changed = replace(link, updated_at=now)
    await link_store.upsert_link(db, changed)
    return changed


async def find_link(db: Connection, scope: Scope, link_id: str) -> PaymentLink | None:
    """Find a payment link, active or not."""
    return await link_store.find_link(db, scope, link_id)


async def lock_link(db: Connection, scope: Scope, link_id: str) -> PaymentLink | None:
    """Find a payment link that is about to be changed."""
    return await link_store.lock_link(db, scope, link_id)


async def find_copied_link(db: Connection, scope: Scope, copied_from: str) -> PaymentLink | None:
    """Find what a link of the test environment was copied to."""
    return await link_store.find_copied_link(db, scope, copied_from)


async def publish_appearance(
    db: Connection, scope: Scope, wanted: Appearance, *, now: datetime
) -> Appearance:
    """Let pages look so from now on; sessions keep the version they were opened with."""
    check_appearance(wanted)
    while True:
        newest = await store.find_newest_appearance(db, scope)
        numbered = replace(
            wanted,
            version=1 if newest is None else newest.version + 1,
            primary_color=wanted.primary_color.lower(),
            background_color=wanted.background_color.lower(),
        )
        # Another may have published meanwhile: the next number is tried.
        if await store.insert_appearance(db, scope, numbered, now=now):
            return numbered


async def find_appearance(db: Connection, scope: Scope) -> Appearance | None:
    """Find how the pages of a company look today, where it has said."""
    return await store.find_newest_appearance(db, scope)


async def list_appearances(
    db: Connection, scope: Scope, *, below: int | None = None, rows_max: int
) -> Sequence[tuple[datetime, Appearance]]:
    """Versions of how the pages look and when each was published, the newest first."""
    return await store.list_appearances(db, scope, below=below, rows_max=rows_max)


def check_appearance(wanted: Appearance) -> None:
    """Refuse what would not be safe or readable on a page."""
    faults = [
        {"field": field, "message": "must be a colour such as #1652f0"}
        for field, color in (
            ("primaryColor", wanted.primary_color),
            ("backgroundColor", wanted.background_color),
        )
        if COLOR.fullmatch(color) is None
    ]
    if len(wanted.banners) > BANNERS_MAX:
        faults.append({"field": "banners", "message": f"has more than {BANNERS_MAX} banners"})
    if faults:
        raise Refusal(ErrorCode.VALIDATION_ERROR, details={"errors": faults})
    # Where we keep a copy, the address was judged by whoever fetched it.
    if wanted.logo_media is None:
        _check_address(wanted.logo_url, "logoUrl")
    for number, banner in enumerate(wanted.banners):
        if banner.image_media is None:
            _check_address(banner.image_url, f"banners[{number}].imageUrl")
        _check_address(banner.href, f"banners[{number}].href")


def _check_address(address: str | None, field: str) -> None:
    if address is None:
        return
    parsed = parse_web_url(address, allows_loopback=False)
    if isinstance(parsed, UrlFault):
        raise Refusal(ErrorCode.INVALID_URL, parsed, details={"field": field})
