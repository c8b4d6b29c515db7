"""Coupons: one by one, or many at once whose codes are had as a file."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from vintem.api.call import Answer, Content
from vintem.checkout import catalogue, catalogue_listing
from vintem.checkout.catalogue_listing import Span
from vintem.checkout.model import Coupon, DiscountType, Product
from vintem.dashboard import csv_file
from vintem.dashboard.answers import go, page
from vintem.dashboard.coupon_form import (
    CouponForm,
    Errors,
    form_of,
    form_of_twin,
    read_code,
    read_coupon,
    status_of,
    told_coupon,
)
from vintem.dashboard.csv_file import Cell, Export, Source
from vintem.dashboard.forms import Form
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.shelf import Asked, rows_of, span_of
from vintem.dashboard.typed import typed_percent, whole_of
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id, new_id
from vintem.kit.paging import Cursor
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail

PRODUCTS_OFFERED_MAX: Final = 100
CODES_SHOWN_MAX: Final = 20

_PREFIX: Final = re.compile(rf"[A-Z0-9-]{{0,{catalogue.PREFIX_CHARACTERS_MAX}}}")


class AskedCoupons(Asked, frozen=True):
    """What the address of the list says; a code leads to its coupon."""

    code: str = ""


class AskedNew(msgspec.Struct, frozen=True):
    """Which coupon a new one begins as."""

    twin: str = ""


class AskedBatch(msgspec.Struct, frozen=True):
    """Which coupons a file has."""

    batch: str = ""


async def list_coupons(visit: Visit) -> Answer:
    """List coupons, or go to the one whose code is asked for."""
    asked, database = visit.asked(AskedCoupons), visit.resources.database
    if asked.code:
        coupon = await catalogue.find_coupon(database, visit.scope, asked.code)
        if coupon is not None:
            return go(visit.href(f"/coupons/{coupon.coupon_id}"))
    found = (
        []
        if asked.code
        else await catalogue_listing.list_coupons(database, visit.scope, span_of(asked))
    )
    listed = rows_of(
        visit,
        "/coupons",
        asked,
        found,
        lambda coupon: Cursor(coupon.created_at, coupon.coupon_id),
    )
    return page(
        visit,
        "coupons.html",
        title="Cupons",
        listed=listed,
        asked=asked,
        status_of=status_of,
        off=off,
    )


async def ask_new(visit: Visit) -> Answer:
    """Show the form of a new coupon, perhaps filled in as another one."""
    form = CouponForm(id=new_id(Prefix.COUPON))
    twin = visit.asked(AskedNew).twin
    if is_id(twin, Prefix.COUPON):
        coupon = await catalogue.find_coupon_by_id(visit.resources.database, visit.scope, twin)
        form = form if coupon is None else form_of_twin(coupon)
    return await _form_page(visit, form, {})


async def create(visit: Visit) -> Answer:
    """Add a coupon."""
    form = await visit.form(CouponForm)
    coupon_id = form.id if is_id(form.id, Prefix.COUPON) else new_id(Prefix.COUPON)
    products = await _products(visit, form.product_ids)
    typed, errors = read_coupon(_blank(visit, coupon_id), form, sold=_ids(products))
    typed = replace(typed, code=read_code(form, errors))
    if errors:
        return await _form_page(visit, form, errors, status=422)

    async def save(block: Connection) -> bool:
        if not await catalogue.add_coupon(block, typed):
            # The form was sent before, unless it is another coupon that has the code.
            known = await catalogue.find_coupon_by_id(block, visit.scope, coupon_id)
            return known is not None
        act = visit.act("coupon.created", "coupon", coupon_id, after=told_coupon(typed))
        await trail.record(block, act)
        return True

    if not await visit.resources.database.atomically(save):
        errors["code"] = "Outro cupom já tem este código."
        return await _form_page(visit, form, errors, status=422)
    return go(visit.href(f"/coupons/{coupon_id}", said="coupon-created"))


async def show(visit: Visit) -> Answer:
    """Show a coupon and how often it was used."""
    coupon = await _find(visit)
    return await _coupon_page(visit, coupon, form_of(coupon), {})


async def change(visit: Visit) -> Answer:
    """Change a coupon; its code and its uses stay."""
    form, coupon = await visit.form(CouponForm), await _find(visit)
    sold = {*_ids(await _products(visit, form.product_ids)), *coupon.product_ids}
    typed, errors = read_coupon(coupon, form, sold=sold)
    if errors:
        return await _coupon_page(visit, coupon, form, errors, status=422)
    await _save(visit, typed)
    return go(visit.href(f"/coupons/{coupon.coupon_id}", said="coupon-saved"))


async def pause(visit: Visit) -> Answer:
    """Let nobody use a coupon for a while."""
    return await _switch(visit, is_active=False)


async def resume(visit: Visit) -> Answer:
    """Let a coupon be used again."""
    return await _switch(visit, is_active=True)


async def ask_batch(visit: Visit) -> Answer:
    """Show the form of many coupons."""
    form = CouponForm(id=new_id(Prefix.COUPON), count="100", redemptions_max="1")
    return await _form_page(visit, form, {}, is_batch=True)


async def create_batch(visit: Visit) -> Answer:
    """Make many coupons that differ in their codes alone; the form makes them once."""
    form, now = await visit.form(CouponForm), visit.call.now
    batch_id = form.id if is_id(form.id, Prefix.COUPON) else new_id(Prefix.COUPON)
    products = await _products(visit, form.product_ids)
    typed, errors = read_coupon(_blank(visit, batch_id), form, sold=_ids(products))
    count, prefix = whole_of(form.count), form.prefix.upper()
    if count is None or not 1 <= count <= catalogue.BATCH_COUPONS_MAX:
        errors["count"] = "Escreva quantos cupons, de 1 a 1.000."
    if _PREFIX.fullmatch(prefix) is None:
        errors["prefix"] = "Use até 16 letras sem acento, números ou hífens."
    if errors or count is None:
        return await _form_page(visit, form, errors, is_batch=True, status=422)
    alike = replace(typed, batch_id=batch_id)

    async def save(block: Connection) -> None:
        made = await catalogue.create_batch(block, alike, count=count, prefix=prefix, now=now)
        if made:
            after = {**told_coupon(alike), "code": f"{prefix}…", "count": made}
            await trail.record(block, visit.act("coupon.batch", "coupon", batch_id, after=after))

    await visit.resources.database.atomically(save)
    return go(visit.href(f"/coupons/batches/{batch_id}", said="coupons-made"))


async def show_batch(visit: Visit) -> Answer:
    """Show coupons that were made at once, and where their codes are had."""
    coupons = await _find_batch(visit)
    return page(
        visit,
        "coupon_batch.html",
        title="Cupons gerados",
        batch_id=visit.call.params["batchId"],
        coupons=coupons[:CODES_SHOWN_MAX],
        count=len(coupons),
        off=off,
    )


async def download_batch(visit: Visit) -> Answer:
    """Give the codes of coupons that were made at once as a file."""
    await _find_batch(visit)
    asked = AskedBatch(visit.call.params["batchId"])
    source = Source(visit.resources, visit.scope, visit.member.role, visit.call.now)
    lines = [csv_file.head(CODES)]
    async for cells in CODES.rows(source, asked):
        lines.append(csv_file.line(CODES, cells))  # noqa: PERF401 - the list is begun above
    name = csv_file.file_name(CODES, asked, environment=visit.environment, now=visit.call.now)
    headers = (
        (b"content-disposition", f'attachment; filename="{name}"'.encode()),
        (b"cache-control", b"no-store"),
    )
    return Content(b"".join(lines), csv_file.MEDIA_TYPE, headers=headers)


def off(coupon: Coupon) -> str:
    """Write what a coupon takes off."""
    if coupon.discount_type is DiscountType.PERCENTAGE:
        return f"{typed_percent(coupon.discount_value)}%"
    return ""


async def _switch(visit: Visit, *, is_active: bool) -> Answer:
    await visit.form(Form)
    coupon = await _find(visit)
    await _save(visit, replace(coupon, is_active=is_active))
    said = "coupon-resumed" if is_active else "coupon-paused"
    return go(visit.href(f"/coupons/{coupon.coupon_id}", said=said))


async def _save(visit: Visit, wanted: Coupon) -> None:
    async def save(block: Connection) -> None:
        before = await catalogue.lock_coupon(block, visit.scope, wanted.coupon_id)
        assert before is not None, "coupons are never deleted"
        after = await catalogue.change_coupon(block, wanted, now=visit.call.now)
        act = visit.act(
            "coupon.changed",
            "coupon",
            wanted.coupon_id,
            before=told_coupon(before),
            after=told_coupon(after),
        )
        await trail.record(block, act)

    await visit.resources.database.atomically(save)


def _blank(visit: Visit, coupon_id: str) -> Coupon:
    return Coupon(
        company_id=visit.scope.company_id,
        coupon_id=coupon_id,
        environment=visit.environment,
        code="",
        discount_type=DiscountType.PERCENTAGE,
        discount_value=1,
        created_at=visit.call.now,
        updated_at=visit.call.now,
    )


async def _products(visit: Visit, chosen: Sequence[str]) -> Sequence[Product]:
    """The products that a coupon may be for: the newest that are sold, and those that it is for."""
    database, scope = visit.resources.database, visit.scope
    span = Span(rows_max=PRODUCTS_OFFERED_MAX, is_active=True)
    offered = list(await catalogue_listing.list_products(database, scope, span))
    known = _ids(offered)
    missing = [
        product_id for product_id in chosen[:PRODUCTS_OFFERED_MAX] if product_id not in known
    ]
    if missing:
        offered += await catalogue.find_products(database, scope, missing)
    return offered


def _ids(products: Sequence[Product]) -> set[str]:
    return {product.product_id for product in products}


async def _form_page(
    visit: Visit, form: CouponForm, errors: Errors, *, is_batch: bool = False, status: int = 200
) -> Answer:
    return page(
        visit,
        "coupon_new.html",
        title="Gerar cupons" if is_batch else "Novo cupom",
        status=status,
        form=form,
        errors=errors,
        is_batch=is_batch,
        is_new=True,
        products=await _products(visit, form.product_ids),
    )


async def _coupon_page(
    visit: Visit, coupon: Coupon, form: CouponForm, errors: Errors, *, status: int = 200
) -> Answer:
    products = await _products(visit, (*coupon.product_ids, *form.product_ids))
    names = {product.product_id: product.name for product in products}
    return page(
        visit,
        "coupon.html",
        title=f"Cupom {coupon.code}",
        status=status,
        coupon=coupon,
        form=form,
        errors=errors,
        is_batch=False,
        is_new=False,
        products=products,
        product_names=[names.get(each, each) for each in coupon.product_ids],
        standing=status_of(coupon, visit.call.now),
        off=off,
    )


async def _find(visit: Visit) -> Coupon:
    coupon_id, coupon = visit.call.params["couponId"], None
    if is_id(coupon_id, Prefix.COUPON):
        coupon = await catalogue.find_coupon_by_id(visit.resources.database, visit.scope, coupon_id)
    if coupon is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    return coupon


async def _find_batch(visit: Visit) -> Sequence[Coupon]:
    coupons = await catalogue.list_batch(
        visit.resources.database, visit.scope, visit.call.params["batchId"]
    )
    if not coupons:
        raise Refusal(ErrorCode.NOT_FOUND)
    return coupons


async def _code_rows(source: Source, asked: AskedBatch) -> AsyncIterator[Sequence[Cell]]:
    for coupon in await catalogue.list_batch(source.resources.database, source.scope, asked.batch):
        is_fixed = coupon.discount_type is DiscountType.FIXED
        yield (
            coupon.code,
            off(coupon) or None,
            coupon.discount_value if is_fixed else None,
            coupon.redemptions_max,
            coupon.starts_at,
            coupon.ends_at,
        )


CODES: Final = Export(
    what="cupons",
    label="Cupons gerados",
    header=(
        "codigo",
        "desconto_percentual",
        csv_file.Money("desconto"),
        "usos_maximos",
        "comeca_em",
        "termina_em",
    ),
    asked=AskedBatch,
    rows=_code_rows,
    permission=Permission.CATALOGUE,
)

_ONE: Final = "/coupons/{couponId}"
_BATCH: Final = "/coupons/batches/{batchId}"

PAGES: Final[tuple[Page, ...]] = (
    shown("/coupons", list_coupons, Permission.CATALOGUE_READ, "Cupons"),
    sent("/coupons", create, Permission.CATALOGUE, "Criar um cupom"),
    shown("/coupons/new", ask_new, Permission.CATALOGUE, "Novo cupom"),
    shown("/coupons/bulk", ask_batch, Permission.CATALOGUE, "Gerar muitos cupons?"),
    sent("/coupons/bulk", create_batch, Permission.CATALOGUE, "Gerar muitos cupons"),
    shown(_BATCH, show_batch, Permission.CATALOGUE, "Cupons gerados de uma vez"),
    shown(f"{_BATCH}/codes.csv", download_batch, Permission.CATALOGUE, "Códigos de cupons"),
    shown(_ONE, show, Permission.CATALOGUE_READ, "Um cupom"),
    sent(_ONE, change, Permission.CATALOGUE, "Alterar um cupom"),
    sent(f"{_ONE}/pause", pause, Permission.CATALOGUE, "Pausar um cupom"),
    sent(f"{_ONE}/resume", resume, Permission.CATALOGUE, "Reativar um cupom"),
)
