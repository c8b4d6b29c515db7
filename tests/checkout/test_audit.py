"""Each invariant of the checkout complains of its own breach."""

from contextlib import suppress

import pytest

from support.api import complaints
from support.storefront import Storefront
from vintem.audit.checkout import INVARIANTS
from vintem.checkout import catalogue
from vintem.kit.clock import utc_now


class _UndoError(Exception):
    """Ends a block whose changes must not stay."""


BREACHES = {
    "C1": "update checkout_session set transaction_id = 'tx_other' where company_id = $1"
    " and status = 'COMPLETED'",
    "C2": "update checkout_payment set session_id = 'cs_other' where company_id = $1",
    "C3": "update checkout_coupon set redemptions = redemptions + 1 where company_id = $1",
    "C4": "update checkout_session set sequence = sequence + 1 where company_id = $1",
    "C5": "update transaction set amount = amount + 1 where company_id = $1 and status = 'pending'",
    "C7": "update transaction set amount = amount + 1 where company_id = $1 and status = 'paid'",
    "C8": "update checkout_link set payments_made = payments_made + 1 where company_id = $1",
    "C6": "update checkout_session set line_items = '[]' where company_id = $1",
}


async def test_every_invariant_has_a_breach() -> None:
    assert BREACHES.keys() == {invariant.name for invariant in INVARIANTS}


@pytest.mark.parametrize("name", BREACHES)
async def test_a_breach_is_noticed(store: Storefront, name: str) -> None:
    await store.coupon("TEN")
    await catalogue.create_link(
        store.database,
        store.shop.scope,
        name="Curso",
        product_id=store.product.product_id,
        now=utc_now(),
    )
    paid = await store.open(couponCode="TEN")
    await store.shop.move((await paid.paid_by())["transactionId"], "paid")
    await (await store.open(couponCode="TEN")).paid_by()
    assert await complaints(store.database) == {}
    invariant = next(one for one in INVARIANTS if one.name == name)
    with suppress(_UndoError):
        async with store.database.atomic() as block:
            await block.execute(BREACHES[name], store.company_id)
            rows = await block.fetch(invariant.statement)
            assert any(row["company_id"] == store.company_id for row in rows)
            raise _UndoError
