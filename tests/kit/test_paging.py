"""Paging: limits on numbered pages, and cursors that only we write."""

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.kit import paging
from vintem.kit.ids import Prefix, new_id
from vintem.kit.paging import Cursor, LongLists, PageFault, PageRequest

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

cursors = st.builds(
    Cursor,
    created_at=st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999).map(
        lambda microseconds: EPOCH + timedelta(microseconds=microseconds)
    ),
    id=st.from_regex(r"[0-9A-Za-z_]{1,64}", fullmatch=True),
)


def opaque(plain: bytes) -> str:
    return base64.urlsafe_b64encode(plain).rstrip(b"=").decode()


@given(cursors)
def test_a_cursor_reads_back_as_it_was(cursor: Cursor) -> None:
    assert paging.decode_cursor(cursor.encode()) == cursor


def test_a_cursor_keeps_microseconds_and_the_id() -> None:
    moment = datetime(2026, 11, 15, 2, 30, 0, 123_457, tzinfo=UTC)
    cursor = Cursor(moment, new_id(Prefix.TRANSACTION))
    read = paging.decode_cursor(cursor.encode())
    assert (read.created_at, read.id) == (moment, cursor.id)
    assert read.created_at.tzinfo is UTC


def test_a_cursor_is_the_same_text_from_whatever_zone() -> None:
    moment = datetime(2026, 11, 15, 2, 30, tzinfo=UTC)
    elsewhere = moment.astimezone(timezone(timedelta(hours=9)))
    assert Cursor(elsewhere, "tx_1").encode() == Cursor(moment, "tx_1").encode()


@given(cursors)
def test_a_cursor_fits_in_a_url_and_in_its_limit(cursor: Cursor) -> None:
    text = cursor.encode()
    assert set(text) <= set(ALPHABET)
    assert len(text) <= paging.CURSOR_CHARACTERS_MAX


@pytest.mark.parametrize("identifier", ["", "a b", "tx:1", "é", "x" * 65, "a\n", "\0"])
def test_an_id_that_a_cursor_cannot_carry_is_a_bug(identifier: str) -> None:
    with pytest.raises(AssertionError):
        Cursor(EPOCH, identifier).encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        "A",
        "junk",
        "10",
        "é",
        "A" * 1_000_000,
        Cursor(EPOCH, "tx_1").encode() + "=",
        Cursor(EPOCH, "tx_1").encode() + "\n",
        " " + Cursor(EPOCH, "tx_1").encode(),
        opaque(b":tx_1"),
        opaque(b"1:"),
        opaque(b"1"),
        opaque(b"01:tx_1"),
        opaque(b"-0:tx_1"),
        opaque(b"+1:tx_1"),
        opaque(b"1_0:tx_1"),
        opaque(b"1.5:tx_1"),
        opaque(b"999999999999999999:tx_1"),
        opaque(b"-999999999999999999:tx_1"),
        opaque(b"1:tx_1\0"),
        opaque(b"1:tx_1\n"),
        opaque(b"1:tx'1"),
        opaque("١:tx_1".encode()),
        opaque(b"1:\xff"),
    ],
)
def test_a_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        paging.decode_cursor(text)


def test_stray_final_bits_of_a_cursor_are_refused() -> None:
    text = Cursor(EPOCH, "tx_12").encode()
    assert len(text) % 4
    stray = text[:-1] + ALPHABET[ALPHABET.index(text[-1]) + 1]
    with pytest.raises(ValueError):
        paging.decode_cursor(stray)


@given(st.text() | st.text(ALPHABET, max_size=140) | st.binary(max_size=90).map(opaque))
def test_any_text_is_refused_or_the_only_text_of_its_cursor(text: str) -> None:
    try:
        cursor = paging.decode_cursor(text)
    except ValueError:
        return
    assert cursor.encode() == text


def test_nothing_asked_is_the_first_page_of_20() -> None:
    assert paging.page_request() == PageRequest(page=1, page_size=20, cursor=None)


@given(st.integers(-5, 20_000), st.integers(-5, 200))
def test_a_numbered_page_is_accepted_exactly_within_its_limits(page: int, page_size: int) -> None:
    request = paging.page_request(page=page, page_size=page_size)
    within = page >= 1 and 1 <= page_size <= 100 and page * page_size <= 10_000
    assert isinstance(request, PageRequest) == within


@pytest.mark.parametrize(
    ("page", "page_size", "fault"),
    [
        (0, 20, PageFault.PAGE_OUT_OF_RANGE),
        (-1, 20, PageFault.PAGE_OUT_OF_RANGE),
        (1, 0, PageFault.PAGE_SIZE_OUT_OF_RANGE),
        (1, 101, PageFault.PAGE_SIZE_OUT_OF_RANGE),
        (501, 20, PageFault.TOO_DEEP),
        (101, 100, PageFault.TOO_DEEP),
        (10**30, 1, PageFault.TOO_DEEP),
    ],
)
def test_a_page_outside_its_limits_names_its_fault(
    page: int, page_size: int, fault: PageFault
) -> None:
    assert paging.page_request(page=page, page_size=page_size) is fault


def test_the_deepest_page_skips_all_but_its_own_rows() -> None:
    request = paging.page_request(page=100, page_size=100)
    assert isinstance(request, PageRequest)
    assert request.offset == 9_900


def test_a_cursor_takes_the_place_of_the_page_number() -> None:
    cursor = Cursor(EPOCH, "tx_1")
    request = paging.page_request(cursor=cursor.encode(), page_size=50)
    assert request == PageRequest(page=None, page_size=50, cursor=cursor)
    assert request.offset == 0


def test_a_page_number_beside_a_cursor_is_refused() -> None:
    text = Cursor(EPOCH, "tx_1").encode()
    assert paging.page_request(page=1, cursor=text) is PageFault.PAGE_AND_CURSOR


@pytest.mark.parametrize("text", ["", "junk"])
def test_junk_for_a_cursor_is_refused(text: str) -> None:
    assert paging.page_request(cursor=text) is PageFault.CURSOR_INVALID


def test_a_page_request_outside_its_limits_cannot_be_made() -> None:
    for page, page_size, cursor in (
        (0, 20, None),
        (1, 101, None),
        (501, 20, None),
        (None, 20, None),
        (1, 20, Cursor(EPOCH, "tx_1")),
    ):
        with pytest.raises(AssertionError):
            PageRequest(page=page, page_size=page_size, cursor=cursor)


@pytest.mark.parametrize(
    ("counted_rows", "total", "total_pages", "total_capped"),
    [
        (0, 0, 0, False),
        (1, 1, 1, False),
        (20, 20, 1, False),
        (21, 21, 2, False),
        (10_000, 10_000, 500, False),
        (10_001, 10_000, 500, True),
    ],
)
def test_the_total_is_exact_up_to_ten_thousand_and_capped_above(
    counted_rows: int, total: int, total_pages: int, *, total_capped: bool
) -> None:
    request = PageRequest(page=1, page_size=20, cursor=None)
    made = paging.pagination(request, counted_rows=counted_rows, next_cursor=None)
    assert (made.total, made.total_pages, made.total_capped) == (total, total_pages, total_capped)


def test_the_count_limit_tells_a_full_list_from_a_longer_one() -> None:
    request = PageRequest(page=1, page_size=20, cursor=None)
    counted_rows = paging.COUNTED_ROWS_MAX
    made = paging.pagination(request, counted_rows=counted_rows, next_cursor=None)
    assert made.total_capped


def test_the_next_cursor_is_given_as_its_text() -> None:
    request = PageRequest(page=2, page_size=20, cursor=None)
    cursor = Cursor(EPOCH, "tx_1")
    made = paging.pagination(request, counted_rows=60, next_cursor=cursor)
    assert (made.page, made.page_size, made.next_cursor) == (2, 20, cursor.encode())


def test_a_page_after_a_cursor_has_no_number() -> None:
    request = PageRequest(page=None, page_size=20, cursor=Cursor(EPOCH, "tx_1"))
    assert paging.pagination(request, counted_rows=60, next_cursor=None).page is None


def test_a_long_list_is_known_until_its_moment() -> None:
    lists = LongLists[str]()
    assert not lists.knows("a", EPOCH)
    lists.remember("a", until=EPOCH + timedelta(seconds=5))
    assert lists.knows("a", EPOCH + timedelta(seconds=5, microseconds=-1))
    assert not lists.knows("a", EPOCH + timedelta(seconds=5))
    assert not lists.knows("b", EPOCH)


def test_a_list_that_only_grows_is_known_for_ever() -> None:
    lists = LongLists[str]()
    lists.remember("a", until=None)
    assert lists.knows("a", EPOCH + timedelta(days=100_000))


def test_the_list_remembered_longest_ago_is_forgotten_first() -> None:
    lists = LongLists[str](lists_max=2)
    for name in ("a", "b", "a", "c"):
        lists.remember(name, until=None)
    assert [lists.knows(name, EPOCH) for name in ("a", "b", "c")] == [True, False, True]
