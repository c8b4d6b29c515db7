"""From what an integrator asks for to the session that is opened, checked on the way."""

from collections.abc import Sequence
from datetime import timedelta

from vintem.api.body import validation_refusal
from vintem.api.call import Call
from vintem.api.checkout_shapes import PrefillBody, SessionBody, SessionQuery
from vintem.api.metadata import metadata_faults
from vintem.api.paging import read_moment
from vintem.api.postback import check_postback_url
from vintem.api.transaction_order import phone_faults, read_number, scope_of
from vintem.api.transaction_shapes import AddressBody
from vintem.brazil.phone import normalise_any_phone
from vintem.checkout.listing import Filter
from vintem.checkout.model import Buyer, BuyerAddress, is_host_of
from vintem.checkout.service import NewSession, WantedItem
from vintem.companies import service as companies
from vintem.companies.model import Environment
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.money import AMOUNT_CENTS_MAX, Cents
from vintem.kit.urls import UrlFault, WebUrl, is_loopback_host, parse_page_url


async def read_order(call: Call) -> NewSession:
    """Check what is asked for and turn it into the session to be opened."""
    order, caller = call.body_as(SessionBody), call.company
    check_form(order)
    _check_added("shippingAmount", order.shipping_amount)
    _check_added("additionalAmount", order.additional_amount)
    storefront = await companies.get_storefront(call.resources.database, caller.company_id)
    for field, address in (("successUrl", order.success_url), ("cancelUrl", order.cancel_url)):
        check_return_url(address, field, environment=caller.environment, domains=storefront.domains)
    is_test = caller.environment is Environment.TEST
    allows_loopback = call.resources.allows_loopback_webhooks and is_test
    check_postback_url(order.postback_url, allows_loopback=allows_loopback)
    lifetime = None if order.expires_at is None else timedelta(minutes=order.expires_at)
    return NewSession(
        scope=scope_of(call),
        items=_items(order),
        expires_at=None if lifetime is None else call.now + lifetime,
        success_url=order.success_url,
        cancel_url=order.cancel_url,
        buyer=None if order.customer is None else buyer_of(order.customer),
        coupon_code=order.coupon_code,
        shipping_amount=order.shipping_amount,
        additional_amount=order.additional_amount,
        external_ref=order.external_ref,
        postback_url=order.postback_url,
        metadata=order.metadata or {},
        correlation_id=call.correlation_id,
    )


def check_form(order: SessionBody) -> None:
    """Refuse what the declared shape cannot say."""
    faults = metadata_faults(order.metadata)
    if (order.product_id is None) == (order.line_items is None):
        faults.append(("productId", "is required, unless lineItems is given in its place"))
    if order.line_items is not None and order.quantity is not None:
        faults.append(("quantity", "is for productId; each of lineItems has its own"))
    faults += phone_faults(None if order.customer is None else order.customer.phone)
    if faults:
        raise validation_refusal(
            [{"field": field, "message": message} for field, message in faults]
        )


def _check_added(field: str, amount: Cents) -> None:
    if amount < 0:
        details = {"field": field, "minimum": 0}
        raise Refusal(ErrorCode.AMOUNT_BELOW_MINIMUM, details=details)
    if amount > AMOUNT_CENTS_MAX:
        details = {"field": field, "maximum": AMOUNT_CENTS_MAX}
        raise Refusal(ErrorCode.AMOUNT_ABOVE_MAXIMUM, details=details)


def check_return_url(
    address: str | None, field: str, *, environment: str, domains: Sequence[str]
) -> None:
    """Refuse an address that buyers are not sent to: only https, only the company's own hosts."""
    if address is None:
        return
    parsed = parse_page_url(address, allows_loopback=environment == Environment.TEST)
    if isinstance(parsed, UrlFault):
        raise Refusal(ErrorCode.INVALID_URL, parsed, details={"field": field})
    if parsed.scheme != "https" and not is_loopback_host(parsed.host):
        raise Refusal(ErrorCode.INVALID_URL, UrlFault.SCHEME, details={"field": field})
    if domains and not _is_of_company(parsed, domains):
        raise Refusal(
            ErrorCode.INVALID_URL,
            "The host is not one of the company's domains.",
            details={"field": field},
        )


def _is_of_company(address: WebUrl, domains: Sequence[str]) -> bool:
    return is_host_of(address.host, domains) or is_host_of(
        f"{address.host}:{address.port}", domains
    )


def buyer_of(known: PrefillBody) -> Buyer:
    """Read what is known of a buyer."""
    document = known.document
    return Buyer(
        name=known.name or "",
        email=known.email or "",
        document="" if document is None else read_number(document),
        phone="" if known.phone is None else normalise_any_phone(known.phone) or "",
        address=None if known.address is None else buyer_address(known.address),
        external_ref=known.external_ref,
    )


def buyer_address(address: AddressBody) -> BuyerAddress:
    """Read where a buyer lives."""
    return BuyerAddress(
        street=address.street,
        street_number=address.street_number,
        complement=address.complement or "",
        neighborhood=address.neighborhood,
        zip_code=address.zip_code,
        city=address.city,
        state=address.state,
        country=address.country,
    )


def filter_of(call: Call, query: SessionQuery) -> Filter:
    """Turn a list's query into what is looked for."""
    faults: list[dict[str, str]] = []
    created_from = read_moment("startDate", query.start_date, faults, is_end=False)
    created_before = read_moment("endDate", query.end_date, faults, is_end=True)
    if faults:
        raise validation_refusal(faults)
    return Filter(
        scope=scope_of(call),
        status=query.status,
        created_from=created_from,
        created_before=created_before,
        external_ref=query.external_ref,
    )


def _items(order: SessionBody) -> Sequence[WantedItem]:
    if order.line_items is None:
        assert order.product_id is not None, "an order of nothing was refused before"
        return [WantedItem(order.product_id, order.quantity or 1)]
    return [
        WantedItem(
            item.product_id,
            item.quantity,
            place if item.sort_order is None else item.sort_order,
        )
        for place, item in enumerate(order.line_items)
    ]
