"""Payment links: what they sell, to how many, and how they are given to buyers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote

import msgspec
from markupsafe import escape
from msgspec.structs import replace

from vintem.api.call import Answer, Content
from vintem.brazil.qr_picture import draw_png, draw_svg
from vintem.checkout import catalogue, catalogue_listing
from vintem.checkout.catalogue_listing import Span
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import Coupon, Product
from vintem.companies import service as companies
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.link_form import (
    Errors,
    LinkForm,
    form_of,
    form_of_twin,
    read_link,
    return_faults,
    told_link,
)
from vintem.dashboard.offered import copy_product, in_production
from vintem.dashboard.page import Page, deny, sent, shown
from vintem.dashboard.shelf import Asked, rows_of, span_of
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id, new_id, new_token
from vintem.kit.paging import Cursor
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail

PRODUCTS_OFFERED_MAX: Final = 100
SESSIONS_SHOWN_MAX: Final = 10
METHODS: Final[Mapping[str, str]] = {
    "pix": "Pix",
    "credit_card": "Cartão de crédito",
    "boleto": "Boleto",
}


class AskedNew(msgspec.Struct, frozen=True):
    """What a new link begins with."""

    twin: str = ""
    product: str = ""


class AskedPicture(msgspec.Struct, frozen=True):
    """Whether a picture is looked at or kept."""

    download: str = ""


async def list_links(visit: Visit) -> Answer:
    """List payment links and what was paid by them."""
    asked, database = visit.asked(Asked), visit.resources.database
    found = await catalogue_listing.list_links(database, visit.scope, span_of(asked))
    listed = rows_of(
        visit, "/links", asked, found, lambda link: Cursor(link.created_at, link.link_id)
    )
    products = await catalogue.find_products(
        database, visit.scope, [link.product_id for link in listed.rows]
    )
    return page(
        visit,
        "links.html",
        title="Links de pagamento",
        listed=listed,
        asked=asked,
        names={product.product_id: product.name for product in products},
        status_of=status_of,
        url_of=lambda link: url_of(visit, link),
    )


async def ask_new(visit: Visit) -> Answer:
    """Show the form of a new link, perhaps filled in as another one."""
    asked, form = visit.asked(AskedNew), LinkForm(id=new_id(Prefix.PAYMENT_LINK))
    if is_id(asked.product, Prefix.PRODUCT):
        form = replace(form, product_id=asked.product)
    if is_id(asked.twin, Prefix.PAYMENT_LINK):
        link = await catalogue.find_link(visit.resources.database, visit.scope, asked.twin)
        form = form if link is None else form_of_twin(link, await _coupon_of(visit, link))
    return await _form_page(visit, form, {})


async def create(visit: Visit) -> Answer:
    """Add a payment link."""
    form, now = await visit.form(LinkForm), visit.call.now
    link = PaymentLink(
        company_id=visit.scope.company_id,
        link_id=form.id if is_id(form.id, Prefix.PAYMENT_LINK) else new_id(Prefix.PAYMENT_LINK),
        environment=visit.environment,
        public_token=new_token(),
        name="",
        product_id="",
        created_at=now,
        updated_at=now,
    )
    typed, errors = await _read(visit, link, form)
    if errors:
        return await _form_page(visit, form, errors, status=422)

    async def save(block: Connection) -> None:
        if await catalogue.find_link(block, visit.scope, typed.link_id) is not None:
            return
        await catalogue.change_link(block, typed, now=now)
        if await catalogue.find_link(block, visit.scope, typed.link_id) is None:
            # The other environment has a link of that id: nothing is written beside it.
            raise Refusal(ErrorCode.PAYMENT_LINK_NOT_FOUND)
        act = visit.act("link.created", "link", typed.link_id, after=told_link(typed))
        await trail.record(block, act)

    await visit.resources.database.atomically(save)
    return go(visit.href(f"/links/{typed.link_id}", said="link-created"))


async def show(visit: Visit) -> Answer:
    """Show a link, how to give it to buyers, and the newest sessions that came by it."""
    link = await _find(visit)
    return await _link_page(visit, link, form_of(link, await _coupon_of(visit, link)), {})


async def change(visit: Visit) -> Answer:
    """Change a link; its address stays, and so do sessions that were opened by it."""
    form, link = await visit.form(LinkForm), await _find(visit)
    typed, errors = await _read(visit, link, form)
    if errors:
        return await _link_page(visit, link, form, errors, status=422)
    await _save(visit, link.link_id, lambda before: replace(typed, is_active=before.is_active))
    return go(visit.href(f"/links/{link.link_id}", said="link-saved"))


async def pause(visit: Visit) -> Answer:
    """Let nobody else come by a link for a while."""
    return await _switch(visit, is_active=False)


async def resume(visit: Visit) -> Answer:
    """Let buyers come by a link again."""
    return await _switch(visit, is_active=True)


async def show_svg(visit: Visit) -> Answer:
    """Draw a link's address as a QR code, in vectors."""
    link = await _find(visit)
    return await _picture(visit, link, "svg")


async def show_png(visit: Visit) -> Answer:
    """Draw a link's address as a QR code, in pixels."""
    link = await _find(visit)
    return await _picture(visit, link, "png")


async def ask_copy(visit: Visit) -> Answer:
    """Ask whether a link shall be made in production, too."""
    if in_production(visit, Permission.CATALOGUE) is None:
        return await deny(visit, "page", f"{_ONE}/copy", reason=Permission.CATALOGUE)
    return _copy_page(visit, await _find(visit), {})


async def copy(visit: Visit) -> Answer:
    """Have a link in production as it is in test, and what it sells."""
    await visit.form(Form)
    live = in_production(visit, Permission.CATALOGUE)
    if live is None:
        return await deny(visit, "page", f"{_ONE}/copy", reason=Permission.CATALOGUE)
    link = await _find(visit)
    now, domains = visit.call.now, await _domains(visit)
    wanted = replace(
        link,
        link_id=new_id(Prefix.PAYMENT_LINK),
        environment=live.environment,
        public_token=new_token(),
        coupon_id=None,
        created_at=now,
        payments_held=0,
        payments_made=0,
        revenue=0,
        is_active=True,
        copied_from=link.link_id,
    )
    errors = return_faults(wanted, domains=domains)
    product = await catalogue.find_product(visit.resources.database, visit.scope, link.product_id)
    if product is None or not product.is_active:
        errors[""] = "O produto deste link está arquivado."
    if errors or product is None:
        return _copy_page(visit, link, errors, status=422)

    async def save(block: Connection) -> PaymentLink:
        known = await catalogue.find_copied_link(block, live.scope, link.link_id)
        if known is not None:
            return known
        sold = await copy_product(block, live, product)
        made = replace(wanted, product_id=sold.product_id)
        await catalogue.change_link(block, made, now=now)
        await trail.record(
            block, live.act("link.copied", "link", made.link_id, after=told_link(made))
        )
        return made

    copied = await visit.resources.database.atomically(save)
    return go(live.href(f"/links/{copied.link_id}", said="link-copied"))


def status_of(link: PaymentLink, now: datetime) -> tuple[str, str]:
    """Say in a word whether buyers may come by a link, and how good that is."""
    if not link.is_active:
        return "Pausado", "warn"
    if link.ends_at is not None and link.ends_at <= now:
        return "Encerrado", ""
    if link.payments_max is not None and link.payments_made >= link.payments_max:
        return "Limite atingido", ""
    if not link.has_place:
        return "Últimos pagamentos em curso", "warn"
    return "Ativo", "good"


def url_of(visit: Visit, link: PaymentLink) -> str:
    """The address that buyers are given."""
    return f"{visit.resources.public_url}/l/{link.public_token}"


def button_of(url: str) -> str:
    """A button for the merchant's own pages."""
    look = (
        "display:inline-block;padding:14px 24px;border-radius:8px;background:#0b6b57;color:#fff;"
        "font:600 16px sans-serif;text-decoration:none"
    )
    return f'<a href="{escape(url)}" target="_blank" rel="noopener" style="{look}">Pagar agora</a>'


async def _picture(visit: Visit, link: PaymentLink, form: str) -> Answer:
    draw, media_type = (draw_svg, "image/svg+xml") if form == "svg" else (draw_png, "image/png")
    loop = asyncio.get_running_loop()
    picture = await loop.run_in_executor(None, draw, url_of(visit, link))
    kind = "attachment" if visit.asked(AskedPicture).download else "inline"
    headers = (
        (b"cache-control", b"private, max-age=3600"),
        (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
        (b"content-disposition", f'{kind}; filename="link-{link.link_id}.{form}"'.encode()),
    )
    return Content(picture, media_type, headers=headers)


async def _read(visit: Visit, link: PaymentLink, form: LinkForm) -> tuple[PaymentLink, Errors]:
    """Read what was typed, and look up what it names."""
    database, scope = visit.resources.database, visit.scope
    typed, errors = read_link(link, form, domains=await _domains(visit))
    product = None
    if is_id(form.product_id, Prefix.PRODUCT):
        product = await catalogue.find_product(database, scope, form.product_id)
    is_kept = form.product_id == link.product_id
    if product is None or not (product.is_active or is_kept):
        errors["product_id"] = "Escolha um produto da lista."
    coupon = None
    if form.coupon_code:
        coupon = await catalogue.find_coupon(database, scope, form.coupon_code)
        if coupon is None:
            errors["coupon_code"] = "Nenhum cupom tem este código."
        elif coupon.product_ids and form.product_id not in coupon.product_ids:
            errors["coupon_code"] = "Este cupom não vale para este produto."
    coupon_id = None if coupon is None else coupon.coupon_id
    return replace(typed, coupon_id=coupon_id), errors


async def _switch(visit: Visit, *, is_active: bool) -> Answer:
    await visit.form(Form)
    link = await _find(visit)
    await _save(visit, link.link_id, lambda before: replace(before, is_active=is_active))
    said = "link-resumed" if is_active else "link-paused"
    return go(visit.href(f"/links/{link.link_id}", said=said))


async def _save(visit: Visit, link_id: str, changed: Callable[[PaymentLink], PaymentLink]) -> None:
    """Change a link as it is when nobody else does."""

    async def save(block: Connection) -> None:
        before = await catalogue.lock_link(block, visit.scope, link_id)
        assert before is not None, "links are never deleted"
        after = await catalogue.change_link(block, changed(before), now=visit.call.now)
        act = visit.act(
            "link.changed",
            "link",
            link_id,
            before=told_link(before),
            after=told_link(after),
        )
        await trail.record(block, act)

    await visit.resources.database.atomically(save)


async def _products(visit: Visit, chosen: str) -> Sequence[Product]:
    database, span = visit.resources.database, Span(rows_max=PRODUCTS_OFFERED_MAX, is_active=True)
    products = list(await catalogue_listing.list_products(database, visit.scope, span))
    if chosen not in {product.product_id for product in products}:
        products += await catalogue.find_products(database, visit.scope, [chosen])
    return products


async def _coupon_of(visit: Visit, link: PaymentLink) -> Coupon | None:
    if link.coupon_id is None:
        return None
    return await catalogue.find_coupon_by_id(visit.resources.database, visit.scope, link.coupon_id)


async def _domains(visit: Visit) -> Sequence[str]:
    storefront = await companies.get_storefront(visit.resources.database, visit.scope.company_id)
    return storefront.domains


async def _form_page(visit: Visit, form: LinkForm, errors: Errors, *, status: int = 200) -> Answer:
    return page(
        visit,
        "link_new.html",
        title="Novo link",
        status=status,
        form=form,
        errors=errors,
        methods=METHODS,
        products=await _products(visit, form.product_id),
    )


async def _link_page(
    visit: Visit, link: PaymentLink, form: LinkForm, errors: Errors, *, status: int = 200
) -> Answer:
    database, url = visit.resources.database, url_of(visit, link)
    product = await catalogue.find_product(database, visit.scope, link.product_id)
    return page(
        visit,
        "link.html",
        title=link.name,
        status=status,
        link=link,
        product=product,
        coupon=await _coupon_of(visit, link),
        form=form,
        errors=errors,
        methods=METHODS,
        products=await _products(visit, form.product_id),
        standing=status_of(link, visit.call.now),
        url=url,
        whatsapp=f"https://wa.me/?text={quote(f'{link.name}: {url}', safe='')}",
        button=button_of(url),
        sessions=await catalogue_listing.list_sessions_of_link(
            database, visit.scope, link.link_id, rows_max=SESSIONS_SHOWN_MAX
        ),
        may_copy=visit.is_test and in_production(visit, Permission.CATALOGUE) is not None,
    )


def _copy_page(visit: Visit, link: PaymentLink, errors: Errors, *, status: int = 200) -> Answer:
    return page(
        visit,
        "copy.html",
        title="Copiar para produção",
        status=status,
        what=link.name,
        back=visit.href(f"/links/{link.link_id}"),
        form_action=visit.href(f"/links/{link.link_id}/copy"),
        notes=(
            "O produto dele também é copiado, se ainda não foi.",
            "O link de produção tem outro endereço, e começa sem pagamentos.",
            "O cupom não é copiado.",
        ),
        errors=errors,
    )


async def _find(visit: Visit) -> PaymentLink:
    link_id, link = visit.call.params["linkId"], None
    if is_id(link_id, Prefix.PAYMENT_LINK):
        link = await catalogue.find_link(visit.resources.database, visit.scope, link_id)
    if link is None:
        raise Refusal(ErrorCode.PAYMENT_LINK_NOT_FOUND)
    return link


_ONE: Final = "/links/{linkId}"

PAGES: Final[tuple[Page, ...]] = (
    shown("/links", list_links, Permission.CATALOGUE_READ, "Links de pagamento"),
    sent("/links", create, Permission.CATALOGUE, "Criar um link"),
    shown("/links/new", ask_new, Permission.CATALOGUE, "Novo link"),
    shown(_ONE, show, Permission.CATALOGUE_READ, "Um link"),
    sent(_ONE, change, Permission.CATALOGUE, "Alterar um link"),
    sent(f"{_ONE}/pause", pause, Permission.CATALOGUE, "Pausar um link"),
    sent(f"{_ONE}/resume", resume, Permission.CATALOGUE, "Reativar um link"),
    shown(f"{_ONE}/qr.svg", show_svg, Permission.CATALOGUE_READ, "QR code de um link, SVG"),
    shown(f"{_ONE}/qr.png", show_png, Permission.CATALOGUE_READ, "QR code de um link, PNG"),
    shown(f"{_ONE}/copy", ask_copy, Permission.CATALOGUE, "Copiar um link para produção?"),
    sent(f"{_ONE}/copy", copy, Permission.CATALOGUE, "Copiar um link para produção"),
)
