"""Intents: fingerprints that tell every two requests apart, and keys of visible ASCII."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vintem.kit import intent

PEPPER = b"pepper"

methods = st.text(max_size=6)
paths = st.text(max_size=12)
bodies = st.binary(max_size=24)
requests = st.tuples(methods, paths, bodies)


def digest(method: str, path: str, body: bytes) -> bytes:
    return intent.fingerprint(pepper=PEPPER, method=method, path=path, body=body)


@given(requests, requests)
def test_two_fingerprints_agree_exactly_when_the_requests_do(
    one: tuple[str, str, bytes], other: tuple[str, str, bytes]
) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


@given(st.text("POST/v1", max_size=12), st.data())
def test_moving_the_borders_between_parts_changes_the_fingerprint(
    joined: str, data: st.DataObject
) -> None:
    cut = st.tuples(st.integers(0, len(joined)), st.integers(0, len(joined))).map(sorted)
    one, other = data.draw(cut), data.draw(cut)

    def cut_at(borders: list[int]) -> bytes:
        first, second = borders
        return digest(joined[:first], joined[first:second], joined[second:].encode())

    assert (cut_at(one) == cut_at(other)) == (one == other)


def test_bytes_that_look_like_the_framing_do_not_collide() -> None:
    framed = (3).to_bytes(8, "big")
    assert digest("a", "b", framed) != digest("a", "b" + framed.decode(), b"")
    assert digest("", "", b"") != digest("", "", b"\0" * 24)


def test_a_fingerprint_is_a_keyed_sha_256_of_lengths_then_parts() -> None:
    framed = b"".join(size.to_bytes(8, "big") for size in (4, 16, 2)) + b"POST/v1/transactions{}"
    expected = hmac.new(PEPPER, framed, hashlib.sha256).digest()
    assert digest("POST", "/v1/transactions", b"{}") == expected


def test_another_pepper_gives_another_fingerprint() -> None:
    other = intent.fingerprint(pepper=b"salt", method="POST", path="/", body=b"")
    assert other != digest("POST", "/", b"")


@pytest.mark.parametrize("text", ["k", "!", "~", "a" * 255, "6b1f5a6e-0a4e-4d0c-9d0e-1f2a3b4c5d6e"])
def test_visible_ascii_up_to_255_characters_is_a_client_key(text: str) -> None:
    assert intent.is_client_key(text)


@pytest.mark.parametrize("text", ["", " ", "a b", "a" * 256, "é", "a\n", "\x7f", "\0", "ａ", "a\t"])
def test_anything_else_is_no_client_key(text: str) -> None:
    assert not intent.is_client_key(text)


@given(st.text(max_size=300))
def test_a_client_key_is_exactly_visible_ascii_within_its_limit(text: str) -> None:
    visible = all(0x21 <= ord(character) <= 0x7E for character in text)
    assert intent.is_client_key(text) == (visible and 1 <= len(text) <= 255)


def test_an_intent_cannot_be_changed() -> None:
    made = intent.Intent(key="k-1", source=intent.IntentSource.CLIENT, fingerprint=b"")
    with pytest.raises(AttributeError):
        made.key = "k-2"  # type: ignore[misc]


def test_the_sources_are_those_of_the_interface() -> None:
    assert [source.value for source in intent.IntentSource] == ["client", "generated", "implicit"]
