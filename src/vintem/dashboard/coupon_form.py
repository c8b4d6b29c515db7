"""The form of a coupon: what is typed, what is wrong with it, and the coupon that it stands for."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from vintem.checkout.model import Coupon, DiscountType, normal_code
from vintem.dashboard.forms import Form
from vintem.dashboard.typed import (
    cents_of,
    moment_of,
    percent_of,
    typed_cents,
    typed_moment,
    typed_percent,
    typed_whole,
    whole_of,
)
from vintem.kit.ids import Prefix, new_id
from vintem.kit.money import AMOUNT_CENTS_MAX

PERCENT_MAX: Final = 10_000
REDEMPTIONS_MAX: Final = 1_000_000_000
PRODUCTS_MAX: Final = 50

Errors = dict[str, str]


class CouponForm(Form, frozen=True):
    """A coupon as it is typed; `code` is of one, `prefix` and `count` of many."""

    id: str = ""
    code: str = ""
    prefix: str = ""
    count: str = ""
    discount_type: str = DiscountType.PERCENTAGE
    discount: str = ""
    redemptions_max: str = ""
    customer_redemptions_max: str = ""
    starts_at: str = ""
    ends_at: str = ""
    minimum: str = ""
    product_ids: tuple[str, ...] = ()


def form_of(coupon: Coupon) -> CouponForm:
    """Fill the form in with a coupon as it is."""
    is_percentage = coupon.discount_type is DiscountType.PERCENTAGE
    value = coupon.discount_value
    return CouponForm(
        id=coupon.coupon_id,
        code=coupon.code,
        discount_type=coupon.discount_type,
        discount=typed_percent(value) if is_percentage else typed_cents(value),
        redemptions_max=typed_whole(coupon.redemptions_max),
        customer_redemptions_max=typed_whole(coupon.customer_redemptions_max),
        starts_at=typed_moment(coupon.starts_at),
        ends_at=typed_moment(coupon.ends_at),
        minimum=typed_cents(coupon.minimum_amount) if coupon.minimum_amount else "",
        product_ids=tuple(coupon.product_ids),
    )


def form_of_twin(coupon: Coupon) -> CouponForm:
    """Fill the form in with all of a coupon but its code."""
    return replace(form_of(coupon), id=new_id(Prefix.COUPON), code="")


def read_coupon(
    coupon: Coupon, form: CouponForm, *, sold: Collection[str]
) -> tuple[Coupon, Errors]:
    """Read what was typed; products must be among those that are offered to choose from."""
    errors: Errors = {}
    discount_type = _discount_type(form, errors)
    discount_value = _discount(form, errors)
    starts_at = _moment(form.starts_at, "starts_at", errors)
    ends_at = _moment(form.ends_at, "ends_at", errors)
    if starts_at and ends_at and ends_at <= starts_at:
        errors["ends_at"] = "O fim precisa ser depois do começo."
    minimum = cents_of(form.minimum) if form.minimum else 0
    if minimum is None or minimum > AMOUNT_CENTS_MAX:
        errors["minimum"] = "Escreva um valor, como 100,00, ou deixe em branco."
    if len(form.product_ids) > PRODUCTS_MAX or not set(form.product_ids) <= set(sold):
        errors["product_ids"] = f"Escolha até {PRODUCTS_MAX} produtos da lista."
    typed = replace(
        coupon,
        discount_type=discount_type,
        discount_value=discount_value,
        redemptions_max=_whole(form.redemptions_max, "redemptions_max", errors),
        customer_redemptions_max=_whole(
            form.customer_redemptions_max, "customer_redemptions_max", errors
        ),
        starts_at=starts_at,
        ends_at=ends_at,
        minimum_amount=minimum or 0,
        product_ids=tuple(dict.fromkeys(form.product_ids)),
    )
    return typed, errors


def read_code(form: CouponForm, errors: Errors) -> str:
    """Read the code of one coupon."""
    code = normal_code(form.code)
    if code is None:
        errors["code"] = (
            "Um código tem de 3 a 32 letras, números ou sinais, sem espaços ou acentos."
        )
    return code or ""


def told_coupon(coupon: Coupon) -> dict[str, object]:
    """What the trail keeps of a coupon."""
    return {
        "code": coupon.code,
        "discount_type": coupon.discount_type,
        "discount_value": coupon.discount_value,
        "redemptions_max": coupon.redemptions_max,
        "customer_redemptions_max": coupon.customer_redemptions_max,
        "starts_at": coupon.starts_at,
        "ends_at": coupon.ends_at,
        "minimum_amount": coupon.minimum_amount,
        "product_ids": list(coupon.product_ids),
        "is_active": coupon.is_active,
    }


def status_of(coupon: Coupon, now: datetime) -> tuple[str, str]:
    """Say in a word whether a coupon can be used, and how good that is."""
    if not coupon.is_active:
        return "Pausado", "warn"
    if coupon.ends_at is not None and coupon.ends_at <= now:
        return "Encerrado", ""
    if coupon.redemptions_max is not None and coupon.redemptions >= coupon.redemptions_max:
        return "Esgotado", ""
    if coupon.starts_at is not None and now < coupon.starts_at:
        return "Agendado", "warn"
    return "Ativo", "good"


def _discount_type(form: CouponForm, errors: Errors) -> DiscountType:
    if form.discount_type in set(DiscountType):
        return DiscountType(form.discount_type)
    errors["discount_type"] = "Escolha porcentagem ou valor em reais."
    return DiscountType.PERCENTAGE


def _discount(form: CouponForm, errors: Errors) -> int:
    if form.discount_type == DiscountType.FIXED:
        value, most = cents_of(form.discount), AMOUNT_CENTS_MAX
    else:
        value, most = percent_of(form.discount), PERCENT_MAX
    if value is not None and 1 <= value <= most:
        return value
    errors["discount"] = (
        "Escreva um valor em reais, como 20,00."
        if form.discount_type == DiscountType.FIXED
        else "Escreva uma porcentagem maior que 0 e até 100, como 12,5."
    )
    return 1


def _moment(text: str, field: str, errors: Errors) -> datetime | None:
    moment = moment_of(text) if text else None
    if text and moment is None:
        errors[field] = "Escreva dia e hora, como 31/12/2026 23:59, ou deixe em branco."
    return moment


def _whole(text: str, field: str, errors: Errors) -> int | None:
    if not text:
        return None
    number = whole_of(text)
    if number is not None and 1 <= number <= REDEMPTIONS_MAX:
        return number
    errors[field] = "Escreva um número inteiro a partir de 1, ou deixe em branco."
    return None
