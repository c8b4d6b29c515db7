"""Something that happens between what a call has read and what it writes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from msgspec.structs import replace

from support.storefront import Basket
from vintem.checkout import store
from vintem.checkout.model import Session

T = TypeVar("T")


async def change_meanwhile(
    basket: Basket, call: Coroutine[object, object, T], change: Callable[[Session], Session]
) -> T:
    """Begin a call, change its session when the call has come to lock it, and let it go on."""
    database = basket.store.database
    async with database.atomic() as block:
        session = await store.lock(block, basket.store.shop.scope, basket.session_id)
        assert session is not None
        begun = asyncio.create_task(call)
        while not await block.fetchval(
            """
            select exists (select from pg_stat_activity
                where datname = current_database() and wait_event_type = 'Lock')
            """
        ):
            assert not begun.done(), begun.result()
            await asyncio.sleep(0.01)
        await store.update(block, change(session))
    return await begun


def without_coupon(session: Session) -> Session:
    return replace(
        session,
        coupon=None,
        amounts=replace(session.amounts, discount=0),
        state_version=session.state_version + 1,
    )
