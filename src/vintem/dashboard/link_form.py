"""The form of a payment link: what is typed, what is wrong with it, and the link it stands for."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from vintem.api.checkout_order import check_return_url
from vintem.brazil.cards import INSTALLMENTS_MAX
from vintem.checkout.link import PaymentLink
from vintem.checkout.model import QUANTITY_MAX, Coupon
from vintem.dashboard.forms import Form
from vintem.dashboard.typed import moment_of, typed_moment, typed_whole, whole_of
from vintem.kit.errors import Refusal
from vintem.kit.ids import Prefix, new_id
from vintem.transactions.model import PaymentMethod

NAME_CHARACTERS_MAX: Final = 120
MESSAGE_CHARACTERS_MAX: Final = 500
PAYMENTS_MAX: Final = 1_000_000_000
RETURN_FAULT: Final = "Use um endereço https, de um dos domínios da empresa se ela tiver domínios."

Errors = dict[str, str]


class LinkForm(Form, frozen=True):
    """A payment link as it is typed."""

    id: str = ""
    name: str = ""
    product_id: str = ""
    quantity: str = "1"
    methods: tuple[str, ...] = ()
    installments_max: str = ""
    coupon_code: str = ""
    payments_max: str = ""
    ends_at: str = ""
    success_url: str = ""
    cancel_url: str = ""
    message: str = ""
    inactive_message: str = ""


def form_of(link: PaymentLink, coupon: Coupon | None) -> LinkForm:
    """Fill the form in with a link as it is."""
    return LinkForm(
        id=link.link_id,
        name=link.name,
        product_id=link.product_id,
        quantity=typed_whole(link.quantity),
        methods=tuple(link.payment_methods),
        installments_max=typed_whole(link.installments_max),
        coupon_code="" if coupon is None else coupon.code,
        payments_max=typed_whole(link.payments_max),
        ends_at=typed_moment(link.ends_at),
        success_url=link.success_url or "",
        cancel_url=link.cancel_url or "",
        message=link.message,
        inactive_message=link.inactive_message,
    )


def form_of_twin(link: PaymentLink, coupon: Coupon | None) -> LinkForm:
    """Fill the form in as another link, to make one more like it."""
    name = f"{link.name} (cópia)"[:NAME_CHARACTERS_MAX]
    return replace(form_of(link, coupon), id=new_id(Prefix.PAYMENT_LINK), name=name)


def read_link(
    link: PaymentLink, form: LinkForm, *, domains: Sequence[str]
) -> tuple[PaymentLink, Errors]:
    """Read what was typed; the product and the coupon are looked up by whoever saves it."""
    errors: Errors = {}
    if not 1 <= len(form.name) <= NAME_CHARACTERS_MAX:
        errors["name"] = f"Escreva um nome de até {NAME_CHARACTERS_MAX} letras."
    for field, text in (("message", form.message), ("inactive_message", form.inactive_message)):
        if len(text) > MESSAGE_CHARACTERS_MAX:
            errors[field] = f"A mensagem passa de {MESSAGE_CHARACTERS_MAX} letras."
    quantity = whole_of(form.quantity)
    if quantity is None or not 1 <= quantity <= QUANTITY_MAX:
        errors["quantity"] = "Escreva uma quantidade de 1 a 1.000."
    if not set(form.methods) <= set(PaymentMethod):
        errors["methods"] = "Escolha entre as formas da lista."
    ends_at = moment_of(form.ends_at) if form.ends_at else None
    if form.ends_at and ends_at is None:
        errors["ends_at"] = "Escreva dia e hora, como 31/12/2026 23:59, ou deixe em branco."
    typed = replace(
        link,
        name=form.name,
        product_id=form.product_id,
        quantity=quantity or 1,
        payment_methods=tuple(each for each in PaymentMethod if each in form.methods),
        installments_max=_whole(
            form.installments_max, "installments_max", INSTALLMENTS_MAX, errors
        ),
        payments_max=_whole(form.payments_max, "payments_max", PAYMENTS_MAX, errors),
        ends_at=ends_at,
        success_url=form.success_url or None,
        cancel_url=form.cancel_url or None,
        message=form.message,
        inactive_message=form.inactive_message,
    )
    errors |= return_faults(typed, domains=domains)
    return typed, errors


def return_faults(link: PaymentLink, *, domains: Sequence[str]) -> Errors:
    """Say which of the addresses that buyers are sent to are not allowed where the link is."""
    errors: Errors = {}
    for field, url in (("success_url", link.success_url), ("cancel_url", link.cancel_url)):
        try:
            check_return_url(url, field, environment=link.environment, domains=domains)
        except Refusal:
            errors[field] = RETURN_FAULT
    return errors


def told_link(link: PaymentLink) -> dict[str, object]:
    """What the trail keeps of a payment link."""
    return {
        "name": link.name,
        "product_id": link.product_id,
        "quantity": link.quantity,
        "payment_methods": list(link.payment_methods),
        "installments_max": link.installments_max,
        "coupon_id": link.coupon_id,
        "payments_max": link.payments_max,
        "ends_at": link.ends_at,
        "success_url": link.success_url,
        "cancel_url": link.cancel_url,
        "message": link.message,
        "inactive_message": link.inactive_message,
        "is_active": link.is_active,
        "copied_from": link.copied_from,
    }


def _whole(text: str, field: str, most: int, errors: Errors) -> int | None:
    if not text:
        return None
    number = whole_of(text)
    if number is not None and 1 <= number <= most:
        return number
    errors[field] = (
        "Escreva um número inteiro a partir de 1, ou deixe em branco."
        if most == PAYMENTS_MAX
        else f"Escolha de 1 a {most} parcelas."
    )
    return None
