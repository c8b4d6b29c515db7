"""Cards of a session whose acquirer did not answer: nothing is lost, nothing is charged twice."""

from datetime import timedelta

from checkout.conftest import faulty
from support.api import complaints
from vintem.kit.clock import utc_now
from vintem.providers.faults import Fault
from vintem.runtime.db import Database
from vintem.settings import Settings


async def test_an_answer_that_was_lost_is_asked_for_and_completes_the_session(
    settings: Settings, database: Database
) -> None:
    async with faulty(settings, database, Fault.LOST_ANSWERS) as (store, resources):
        await store.coupon("ONE", redemptions_max=1)
        basket = await store.open(couponCode="ONE")
        reply = await basket.pay_by_card()
        assert (reply.status, reply.data["payment"]["status"]) == (201, "processing")
        assert (await basket.read())["pageState"] == "processing"
        assert await store.redemptions("ONE") == 1
        # Whoever asks again is shown the one that is under way.
        again = await basket.pay()
        assert again.data["transactionId"] == reply.data["transactionId"]
        # Over or not, it is followed to its end.
        await basket.age(timedelta(hours=48))
        await store.work()
        read = await basket.read()
        assert (read["status"], read["pageState"]) == ("EXPIRED", "processing")
        await resources.transactions.finish(now=utc_now() + timedelta(seconds=30))
        read = await basket.read()
        assert (read["status"], read["pageState"]) == ("COMPLETED", "paid")
        assert [kind for _, kind in await store.events(basket.session_id)] == [
            *("checkout.session.open", "checkout.session.awaiting_payment"),
            *("checkout.session.expired", "checkout.session.completed"),
        ]
        assert await store.redemptions("ONE") == 1
        assert await complaints(database) == {}


async def test_a_request_that_was_lost_frees_the_coupon_once_that_is_known(
    settings: Settings, database: Database
) -> None:
    async with faulty(settings, database, Fault.LOST_REQUESTS) as (store, resources):
        await store.coupon("ONE", redemptions_max=1)
        basket = await store.open(couponCode="ONE")
        assert (await basket.pay_by_card()).data["payment"]["status"] == "processing"
        await resources.transactions.finish(now=utc_now() + timedelta(seconds=30))
        assert (await basket.read())["pageState"] == "declined"
        # Nobody has refused it, so it is not one of the five.
        assert (await basket.found()).cards_refused == 0
        assert await store.redemptions("ONE") == 0
        assert (await basket.pay()).status == 201
        assert await complaints(database) == {}
