"""Products: what a company sells, what it has cost, and which sessions sell it."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from vintem.api.call import Answer
from vintem.checkout import catalogue, catalogue_listing
from vintem.checkout.model import Product
from vintem.checkout.pictures import with_picture
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.offered import (
    PICTURE_FAULT,
    copy_product,
    in_production,
    rehost_of,
    told_product,
)
from vintem.dashboard.page import Page, deny, sent, shown
from vintem.dashboard.shelf import Asked, rows_of, span_of
from vintem.dashboard.typed import cents_of, typed_cents
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id, new_id
from vintem.kit.money import AMOUNT_CENTS_MAX
from vintem.kit.paging import Cursor
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail

NAME_CHARACTERS_MAX: Final = 255
DESCRIPTION_CHARACTERS_MAX: Final = 2_000
PRICES_SHOWN_MAX: Final = 20
SESSIONS_SHOWN_MAX: Final = 10

Errors = dict[str, str]


class ProductForm(Form, frozen=True):
    """A product as it is typed."""

    id: str = ""
    """Whoever sends the form of a new product twice names the same product twice."""
    name: str = ""
    price: str = ""
    description: str = ""
    image_url: str = ""


async def list_products(visit: Visit) -> Answer:
    """List what is sold, and what was."""
    asked = visit.asked(Asked)
    found = await catalogue_listing.list_products(
        visit.resources.database, visit.scope, span_of(asked)
    )
    listed = rows_of(
        visit,
        "/products",
        asked,
        found,
        lambda product: Cursor(product.created_at, product.product_id),
    )
    return page(visit, "products.html", title="Produtos", listed=listed, asked=asked)


async def ask_new(visit: Visit) -> Answer:
    """Show the form of a new product."""
    return _form_page(visit, ProductForm(id=new_id(Prefix.PRODUCT)), {})


async def create(visit: Visit) -> Answer:
    """Add a product."""
    form, now = await visit.form(ProductForm), visit.call.now
    product = Product(
        company_id=visit.scope.company_id,
        product_id=form.id if is_id(form.id, Prefix.PRODUCT) else new_id(Prefix.PRODUCT),
        environment=visit.environment,
        name="",
        unit_amount=0,
        created_at=now,
        updated_at=now,
    )
    typed, errors = _typed(product, form)
    if not errors:
        typed = await _drawn(visit, typed, product, errors)
    if errors:
        return _form_page(visit, form, errors, status=422)

    async def save(block: Connection) -> None:
        if await catalogue.find_product(block, visit.scope, typed.product_id) is not None:
            return
        await catalogue.change_product(block, typed, now=now)
        if await catalogue.find_product(block, visit.scope, typed.product_id) is None:
            # The other environment has a product of that id: nothing is written beside it.
            raise Refusal(ErrorCode.PRODUCT_NOT_FOUND)
        after = told_product(typed)
        await trail.record(
            block, visit.act("product.created", "product", typed.product_id, after=after)
        )

    await visit.resources.database.atomically(save)
    return go(visit.href(f"/products/{typed.product_id}", said="product-created"))


async def show(visit: Visit) -> Answer:
    """Show a product, what it has cost, and the newest sessions that sell it."""
    product = await _find(visit)
    return await _product_page(visit, product, _form_of(product), {})


async def change(visit: Visit) -> Answer:
    """Change a product; sessions that are open keep what they began with."""
    form, product = await visit.form(ProductForm), await _find(visit)
    typed, errors = _typed(product, form)
    if not errors:
        typed = await _drawn(visit, typed, product, errors)
    if errors:
        return await _product_page(visit, product, form, errors, status=422)

    def changed(before: Product) -> Product:
        return replace(
            before,
            name=typed.name,
            unit_amount=typed.unit_amount,
            description=typed.description,
            image_url=typed.image_url,
            image_media=typed.image_media,
        )

    await _save(visit, product.product_id, changed)
    return go(visit.href(f"/products/{product.product_id}", said="product-saved"))


async def ask_archive(visit: Visit) -> Answer:
    """Ask whether a product shall be sold no longer."""
    return page(visit, "product_archive.html", title="Arquivar produto", product=await _find(visit))


async def archive(visit: Visit) -> Answer:
    """Sell a product no longer; it stays to be looked at."""
    return await _switch(visit, is_active=False)


async def restore(visit: Visit) -> Answer:
    """Sell a product again."""
    return await _switch(visit, is_active=True)


async def ask_copy(visit: Visit) -> Answer:
    """Ask whether a product shall be sold in production, too."""
    if in_production(visit, Permission.CATALOGUE) is None:
        return await deny(visit, "page", f"{_ONE}/copy", reason=Permission.CATALOGUE)
    product = await _find(visit)
    return page(
        visit,
        "copy.html",
        title="Copiar para produção",
        what=product.name,
        back=visit.href(f"/products/{product.product_id}"),
        form_action=visit.href(f"/products/{product.product_id}/copy"),
        notes=("O preço, a descrição e a imagem são copiados como estão agora.",),
        errors={},
    )


async def copy(visit: Visit) -> Answer:
    """Have a product in production as it is in test."""
    await visit.form(Form)
    live = in_production(visit, Permission.CATALOGUE)
    if live is None:
        return await deny(visit, "page", f"{_ONE}/copy", reason=Permission.CATALOGUE)
    product = await _find(visit)

    async def save(block: Connection) -> Product:
        return await copy_product(block, live, product)

    copied = await visit.resources.database.atomically(save)
    return go(live.href(f"/products/{copied.product_id}", said="product-copied"))


async def _switch(visit: Visit, *, is_active: bool) -> Answer:
    await visit.form(Form)
    product = await _find(visit)
    await _save(visit, product.product_id, lambda before: replace(before, is_active=is_active))
    said = "product-restored" if is_active else "product-archived"
    return go(visit.href(f"/products/{product.product_id}", said=said))


async def _save(visit: Visit, product_id: str, changed: Callable[[Product], Product]) -> None:
    """Change a product as it is when nobody else does."""

    async def save(block: Connection) -> None:
        before = await catalogue.lock_product(block, visit.scope, product_id)
        assert before is not None, "products are never deleted"
        after = await catalogue.change_product(block, changed(before), now=visit.call.now)
        act = visit.act(
            "product.changed",
            "product",
            product_id,
            before=told_product(before),
            after=told_product(after),
        )
        await trail.record(block, act)

    await visit.resources.database.atomically(save)


def _typed(product: Product, form: ProductForm) -> tuple[Product, Errors]:
    """Read what was typed, and say what is wrong with it."""
    errors: Errors = {}
    price = cents_of(form.price)
    if not 1 <= len(form.name) <= NAME_CHARACTERS_MAX:
        errors["name"] = f"Escreva um nome de até {NAME_CHARACTERS_MAX} letras."
    if price is None or not 1 <= price <= AMOUNT_CENTS_MAX:
        errors["price"] = "Escreva um preço, como 149,90."
    if len(form.description) > DESCRIPTION_CHARACTERS_MAX:
        errors["description"] = f"A descrição passa de {DESCRIPTION_CHARACTERS_MAX} letras."
    typed = replace(
        product,
        name=form.name,
        unit_amount=price or 0,
        description=form.description,
        image_url=form.image_url or None,
    )
    return typed, errors


async def _drawn(visit: Visit, typed: Product, before: Product, errors: Errors) -> Product:
    """Fetch the picture that was named, unless it is the one that we have."""
    if typed.image_url == before.image_url and before.image_media is not None:
        return typed
    try:
        return await with_picture(typed, rehost_of(visit))
    except Refusal as refusal:
        if refusal.code is not ErrorCode.INVALID_URL:
            raise
        errors["image_url"] = PICTURE_FAULT
        return typed


def _form_of(product: Product) -> ProductForm:
    return ProductForm(
        id=product.product_id,
        name=product.name,
        price=typed_cents(product.unit_amount),
        description=product.description,
        image_url=product.image_url or "",
    )


def _form_page(visit: Visit, form: ProductForm, errors: Errors, *, status: int = 200) -> Answer:
    return page(
        visit, "product_new.html", title="Novo produto", form=form, errors=errors, status=status
    )


async def _product_page(
    visit: Visit, product: Product, form: ProductForm, errors: Errors, *, status: int = 200
) -> Answer:
    database, scope = visit.resources.database, visit.scope
    product_id = product.product_id
    return page(
        visit,
        "product.html",
        title=product.name,
        status=status,
        product=product,
        form=form,
        errors=errors,
        prices=await catalogue.list_prices(database, scope, product_id, rows_max=PRICES_SHOWN_MAX),
        sessions=await catalogue_listing.list_sessions_of_product(
            database, scope, product_id, rows_max=SESSIONS_SHOWN_MAX
        ),
        looked_at=catalogue_listing.SESSIONS_LOOKED_AT_MAX,
        may_copy=visit.is_test and in_production(visit, Permission.CATALOGUE) is not None,
    )


async def _find(visit: Visit) -> Product:
    product_id = visit.call.params["productId"]
    product = None
    if is_id(product_id, Prefix.PRODUCT):
        product = await catalogue.find_product(visit.resources.database, visit.scope, product_id)
    if product is None:
        raise Refusal(ErrorCode.PRODUCT_NOT_FOUND)
    return product


_ONE: Final = "/products/{productId}"

PAGES: Final[tuple[Page, ...]] = (
    shown("/products", list_products, Permission.CATALOGUE_READ, "Produtos"),
    sent("/products", create, Permission.CATALOGUE, "Criar um produto"),
    shown("/products/new", ask_new, Permission.CATALOGUE, "Novo produto"),
    shown(_ONE, show, Permission.CATALOGUE_READ, "Um produto"),
    sent(_ONE, change, Permission.CATALOGUE, "Alterar um produto"),
    shown(f"{_ONE}/archive", ask_archive, Permission.CATALOGUE, "Arquivar um produto?"),
    sent(f"{_ONE}/archive", archive, Permission.CATALOGUE, "Arquivar um produto"),
    sent(f"{_ONE}/restore", restore, Permission.CATALOGUE, "Vender um produto de novo"),
    shown(f"{_ONE}/copy", ask_copy, Permission.CATALOGUE, "Copiar um produto para produção?"),
    sent(f"{_ONE}/copy", copy, Permission.CATALOGUE, "Copiar um produto para produção"),
)
