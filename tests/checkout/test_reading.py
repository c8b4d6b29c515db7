"""Sessions read for many pages at once."""

import asyncio
import re

from support.storefront import Storefront
from vintem.checkout.public_store import FIND_PUBLIC
from vintem.checkout.reading import SessionReader
from vintem.kit.clock import utc_now
from vintem.kit.ids import new_token
from vintem.runtime.group_commit import FLUSHER_SETTINGS

INDEX = re.compile(r"using (\w+) on (?:checkout_session|transaction)\b")


async def test_a_session_is_found_by_its_key_before_anything_is_known_of_its_table(
    store: Storefront,
) -> None:
    connection = await store.database.connect(**FLUSHER_SETTINGS)
    try:
        plan = await connection.fetch(f"explain {FIND_PUBLIC}", [1], ["cs_x"])
    finally:
        connection.terminate()
    used = INDEX.findall("\n".join(line["QUERY PLAN"] for line in plan))
    assert sorted(used) == ["checkout_session_pkey", "transaction_pkey"]


async def test_each_reader_gets_its_session_and_an_unchanged_one_is_the_same_record(
    store: Storefront,
) -> None:
    baskets = [await store.open() for _ in range(3)]
    reader = SessionReader(store.database)
    try:
        tokens = [*(basket.token for basket in baskets), new_token()] * 5
        found = await asyncio.gather(*(reader.read(token, utc_now()) for token in tokens))
        expected = [*(basket.session_id for basket in baskets), None] * 5
        assert [one and one.session.session_id for one in found] == expected
        first, again = found[0], await reader.read(baskets[0].token, utc_now())
        assert first is not None
        assert again is not None
        assert again.session is first.session
        await baskets[0].paid_by()
        paid = await reader.read(baskets[0].token, utc_now())
        assert paid is not None
        assert paid.session is not first.session
        assert paid.payment is not None
        assert paid.state_version > first.state_version
    finally:
        await reader.close()
