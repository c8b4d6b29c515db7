"""Lists of sessions read what they show, however many sessions there are."""

from datetime import timedelta

from support.plans import rows_read
from support.storefront import Storefront
from vintem.checkout.listing import Filter, count_statement, page_statement
from vintem.checkout.model import SessionStatus
from vintem.kit.clock import utc_now
from vintem.kit.paging import Cursor

SESSIONS = 3_000
PAGE_ROWS = 21


async def test_a_page_of_one_status_reads_no_others(store: Storefront) -> None:
    basket = await store.open(externalRef="x")
    await store.database.execute(
        """
        insert into checkout_session
        select (jsonb_populate_record(s, jsonb_build_object(
            'session_id', s.session_id || number, 'idempotency_key', s.session_id || number,
            'status', case when number % 500 = 0 then 'EXPIRED' else 'OPEN' end,
            'external_ref', case when number % 500 = 0 then 'y' else 'x' end,
            'due_at', case when number % 500 = 0 then null else s.due_at end,
            'created_at', s.created_at - make_interval(secs => number),
            'token_digest', '\\x' || encode(sha256((s.session_id || number)::bytea), 'hex')))).*
        from checkout_session s, generate_series(2, $3::int) number
        where s.company_id = $1 and s.session_id = $2
        """,
        store.company_id,
        basket.session_id,
        SESSIONS,
    )
    await store.database.execute("analyze checkout_session")
    now, scope = utc_now(), store.shop.scope
    middle = Cursor(now - timedelta(seconds=SESSIONS / 2), "cs_x")
    walks = {
        Filter(scope): 1,
        Filter(scope, status=SessionStatus.OPEN): 1,
        Filter(scope, status=SessionStatus.EXPIRED): 2,
        Filter(scope, status=SessionStatus.COMPLETED): 1,
        Filter(scope, external_ref="y"): 1,
        Filter(scope, created_before=now - timedelta(seconds=SESSIONS - 5)): 1,
    }
    for wanted, count in walks.items():
        for cursor in (None, middle):
            page = page_statement(wanted, cursor=cursor, offset=0, rows_max=PAGE_ROWS, now=now)
            # A few of another status may lie between.
            assert await rows_read(store.database, *page) <= PAGE_ROWS * (count + 1), wanted
    expired = count_statement(Filter(scope, status=SessionStatus.EXPIRED), now=now)
    assert await rows_read(store.database, *expired) <= SESSIONS / 500
    # They were written without all that belongs to a session.
    await store.database.execute(
        "delete from checkout_session where company_id = $1 and session_id <> $2",
        store.company_id,
        basket.session_id,
    )
