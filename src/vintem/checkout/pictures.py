"""Merchants' pictures on the checkout: what is saved with an address is kept as we drew it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec.structs import replace

from vintem.checkout.model import Appearance, Product
from vintem.ledger.model import Scope
from vintem.media import service as media
from vintem.media.model import Picture, Use
from vintem.runtime.db import Connection
from vintem.runtime.outbound import Outbound

Rehost = Callable[[str, Use], Awaitable[Picture]]


def rehosting(
    db: Connection,
    outbound: Outbound,
    scope: Scope,
    *,
    now: datetime,
    allows_loopback: bool = False,
) -> Rehost:
    """Say for whom pictures are fetched and kept."""

    async def rehost(url: str, use: Use) -> Picture:
        return await media.rehost(
            db,
            outbound,
            url,
            use=use,
            company_id=scope.company_id,
            environment=scope.environment,
            now=now,
            allows_loopback=allows_loopback,
        )

    return rehost


async def with_picture(product: Product, rehost: Rehost) -> Product:
    """Fetch the picture of a product that is about to be saved; refused if it is none."""
    if product.image_url is None:
        return replace(product, image_media=None)
    picture = await rehost(product.image_url, Use.PRODUCT)
    return replace(product, image_media=picture.name)


async def with_pictures(appearance: Appearance, rehost: Rehost) -> Appearance:
    """Fetch the pictures of an appearance that is about to be published, all at once."""
    urls = [banner.image_url for banner in appearance.banners]
    drawn = await asyncio.gather(*(rehost(url, Use.BANNER) for url in urls))
    banners = tuple(
        replace(banner, image_media=picture.name)
        for banner, picture in zip(appearance.banners, drawn, strict=True)
    )
    logo = None
    if appearance.logo_url is not None:
        logo = (await rehost(appearance.logo_url, Use.LOGO)).name
    return replace(appearance, banners=banners, logo_media=logo)
