"""Ids: well formed, in order and never twice."""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.kit import ids

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def millisecond_of(identifier: str) -> int:
    millisecond = 0
    for character in identifier.partition("_")[2][:10]:
        millisecond = millisecond * 32 + CROCKFORD.index(character)
    return millisecond


@pytest.mark.parametrize("prefix", ids.Prefix)
def test_an_id_is_its_prefix_and_26_crockford_characters(prefix: ids.Prefix) -> None:
    identifier = ids.new_id(prefix)
    assert re.fullmatch(rf"{prefix.value}_[{CROCKFORD}]{{26}}", identifier)
    assert ids.is_id(identifier, prefix)
    assert type(identifier) is str


def test_the_prefixes_are_those_of_the_interface() -> None:
    expected = "tx wd cs prod cpn pl whk dlv rf card cmp evt key idem dec usr sgn inv act exp note"
    assert [prefix.value for prefix in ids.Prefix] == expected.split()


def test_200_000_ids_are_distinct_and_in_order() -> None:
    made = [ids.new_id(ids.Prefix.TRANSACTION) for _ in range(200_000)]
    assert len(set(made)) == len(made)
    assert made == sorted(made)


def test_ids_made_by_many_threads_are_distinct() -> None:
    def make(_: int) -> list[str]:
        return [ids.new_id(ids.Prefix.EVENT) for _ in range(5_000)]

    with ThreadPoolExecutor(8) as threads:
        made = [identifier for batch in threads.map(make, range(8)) for identifier in batch]
    assert len(set(made)) == 40_000


def test_an_id_carries_the_millisecond_of_its_making() -> None:
    before = time.time_ns() // 1_000_000
    identifier = ids.new_id(ids.Prefix.TRANSACTION)
    after = time.time_ns() // 1_000_000
    assert before <= millisecond_of(identifier) <= after


@given(st.lists(st.integers(0, 2**48 - 2), min_size=2, max_size=50))
def test_numbers_grow_whatever_the_clock_does(milliseconds: list[int]) -> None:
    sequence = ids.UlidSequence()
    values = [sequence.next_value(millisecond) for millisecond in milliseconds]
    assert all(earlier < later for earlier, later in pairwise(values))


def test_the_same_millisecond_adds_one() -> None:
    sequence = ids.UlidSequence()
    first = sequence.next_value(1_000)
    assert sequence.next_value(1_000) == first + 1


def test_a_clock_gone_back_keeps_the_last_millisecond() -> None:
    sequence = ids.UlidSequence()
    first = sequence.next_value(1_000)
    assert sequence.next_value(400) == first + 1
    assert sequence.next_value(1_001) >> 80 == 1_001


def test_two_sequences_at_the_same_millisecond_differ() -> None:
    values = {ids.UlidSequence().next_value(1_000) for _ in range(10_000)}
    assert len(values) == 10_000


@given(st.integers(0, 2**128 - 1))
def test_the_text_of_a_number_is_its_crockford_base32(value: int) -> None:
    digits = [CROCKFORD[value >> 5 * place & 31] for place in reversed(range(26))]
    assert ids._ulid_text(value) == "".join(digits)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tx_",
        "01jcpz0000000000000000000a",
        "wd_01jcpz0000000000000000000a",
        "tx_01jcpz0000000000000000000",
        "tx_01jcpz0000000000000000000ab",
        "tx_01JCPZ0000000000000000000A",
        "tx_81jcpz0000000000000000000a",
        "tx_01jcpz000000000000000000il",
        "tx_01jcpz000000000000000000ou",
        "tx_01jcpz0000000000000000000a\n",
        " tx_01jcpz0000000000000000000a",
        "tx-01jcpz0000000000000000000a",
        "tx_٠1jcpz0000000000000000000a",
    ],
)
def test_a_text_of_another_form_is_no_transaction_id(text: str) -> None:
    assert not ids.is_id(text, ids.Prefix.TRANSACTION)


def test_a_request_id_carries_its_millisecond_and_nine_base36_characters() -> None:
    for _ in range(10_000):
        assert re.fullmatch(r"req_1763171000123_[0-9a-z]{9}", ids.new_request_id(1_763_171_000_123))


def test_request_ids_of_one_millisecond_are_distinct() -> None:
    made = {ids.new_request_id(1) for _ in range(100_000)}
    assert len(made) == 100_000


def test_every_place_of_a_request_id_takes_every_character() -> None:
    suffixes = [ids.new_request_id(1)[-9:] for _ in range(5_000)]
    assert all(len(set(place)) == 36 for place in zip(*suffixes, strict=True))


def test_forked_processes_share_no_id() -> None:
    program = """
import os
from vintem.kit import ids

ids.new_request_id(1)
last = ids._ulids.next_value(1 << 47)
children = []
for _ in range(4):
    reader, writer = os.pipe()
    if os.fork() == 0:
        made = [ids.new_request_id(1), str(ids._ulids.next_value(1 << 47))]
        os.write(writer, " ".join(made).encode())
        os._exit(0)
    os.close(writer)
    children.append(reader)
made = [ids.new_request_id(1), str(ids._ulids.next_value(1 << 47))]
for reader in children:
    made += os.read(reader, 1000).decode().split()
print(len(set(made)))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "10"


def test_secret_ids_have_the_form_of_ids_and_nothing_in_common() -> None:
    made = [ids.new_secret_id(ids.Prefix.CARD) for _ in range(1_000)]
    assert all(ids.is_id(identifier, ids.Prefix.CARD) for identifier in made)
    # Every character of them is drawn: each place has seen all that may stand there.
    places = [{one[place] for one in made} for place in range(len("card_"), len(made[0]))]
    assert len(places[0]) == 8
    assert all(len(place) == 32 for place in places[1:])
    assert made != sorted(made)


def test_a_card_token_is_not_among_the_ids_that_anybody_may_read() -> None:
    assert ids.ANY_ID.fullmatch(ids.new_secret_id(ids.Prefix.CARD)) is None
    others = [prefix for prefix in ids.Prefix if prefix is not ids.Prefix.CARD]
    assert all(ids.ANY_ID.fullmatch(ids.new_id(prefix)) for prefix in others)


def test_tokens_carry_256_bits_and_differ() -> None:
    tokens = {ids.new_token() for _ in range(1_000)}
    assert len(tokens) == 1_000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", token) for token in tokens)
