"""What the pages of the catalogue share: pictures that are fetched, and copies for production."""

from typing import Final

from msgspec.structs import replace

from vintem.checkout import catalogue
from vintem.checkout.model import Product
from vintem.checkout.pictures import Rehost, rehosting
from vintem.companies.model import Environment
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.media import service as media
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail

PICTURE_FAULT: Final = (
    "Não conseguimos buscar uma imagem neste endereço. Use um endereço https público de um PNG,"
    " JPEG, WebP ou GIF de até 2 MB."
)


def rehost_of(visit: Visit) -> Rehost:
    """Fetch pictures for a visit's company; from this machine itself only where that is allowed."""
    return rehosting(
        visit.resources.database,
        visit.resources.outbound,
        visit.scope,
        now=visit.call.now,
        allows_loopback=visit.resources.allows_loopback_webhooks and visit.is_test,
    )


def in_production(visit: Visit, permission: Permission) -> Visit | None:
    """The same member in production; nothing where they may not do this there."""
    if not visit.is_test:
        # What is there already is not copied there.
        raise Refusal(ErrorCode.NOT_FOUND)
    live = Visit(visit.call, visit.member, Environment.LIVE)
    return live if live.can(permission) else None


async def copy_product(block: Connection, live: Visit, product: Product) -> Product:
    """Have a product in production as it is in test; the one that was copied before stays."""
    known = await catalogue.find_copied_product(block, live.scope, product.product_id)
    if known is not None:
        return known
    now = live.call.now
    copied = replace(
        product,
        product_id=new_id(Prefix.PRODUCT),
        environment=live.environment,
        created_at=now,
        is_active=True,
        copied_from=product.product_id,
    )
    if copied.image_media is not None:
        await copy_picture(block, live, copied.image_media)
    copied = await catalogue.change_product(block, copied, now=now)
    act = live.act("product.copied", "product", copied.product_id, after=told_product(copied))
    await trail.record(block, act)
    return copied


async def copy_picture(block: Connection, live: Visit, name: str) -> None:
    """Keep a picture of the test environment in production, too."""
    await media.copy(
        block,
        name,
        company_id=live.member.company_id,
        source=Environment.TEST,
        target=live.environment,
        now=live.call.now,
    )


def told_product(product: Product) -> dict[str, object]:
    """What the trail keeps of a product."""
    return {
        "name": product.name,
        "unit_amount": product.unit_amount,
        "description": product.description,
        "image_url": product.image_url,
        "is_active": product.is_active,
        "copied_from": product.copied_from,
    }
