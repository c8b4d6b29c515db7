"""Pages kept with holes in them: what differs from visit to visit is poured in at the end.

The form is what every buyer sees first, and sessions of one product show the same one. Drawing it
takes several times as long as reading the session, so it is drawn once for all of them.
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from markupsafe import escape

from vintem.hosted.views import Frame, Open, Page

MOULDS_MAX: Final = 256

_MARK_BYTES: Final = 12
_MARK_BITS: Final = 62


class Mould:
    """A drawn page, cut wherever a visit has something of its own."""

    __slots__ = ("_holes", "_pieces")

    def __init__(self, drawn: bytes) -> None:
        self._pieces = _ANY_MARK.split(drawn)
        self._holes = tuple(
            (place, piece) for place, piece in enumerate(self._pieces) if piece in _MARKS
        )

    def filled_for(self, page: Page) -> bytes:
        """Pour in what is the visit's own."""
        return self._filled_with(_values_of(page))

    def filled(self, *, nonce: str, form_nonce: str, expires_in_seconds: int) -> bytes:
        """Pour in all that differs between two visits to one session."""
        return self._filled_with(
            {
                _NONCE.encode(): nonce.encode(),
                _FORM_NONCE.encode(): form_nonce.encode(),
                str(_SECONDS).encode(): b"%d" % expires_in_seconds,
            }
        )

    def _filled_with(self, values: Mapping[bytes, bytes]) -> bytes:
        pieces = self._pieces.copy()
        for place, mark in self._holes:
            pieces[place] = values[mark]
        return b"".join(pieces)


def mould_of_session(page: Page, draw: Callable[[Page], bytes]) -> Mould:
    """Keep the form of one session, with holes only for what each visit has of its own."""
    assert isinstance(page.state, Open), "only the form is looked at again and again"
    assert page.frame.poll is not None, "a form is watched"
    replace = msgspec.structs.replace
    watched = replace(page.frame.poll, expires_in_seconds=_SECONDS)
    frame: Frame = replace(page.frame, nonce=_NONCE, poll=watched)
    return Mould(
        draw(replace(page, frame=frame, state=replace(page.state, form_nonce=_FORM_NONCE)))
    )


class Moulds:
    """The pages that were asked for last."""

    def __init__(self, *, moulds_max: int) -> None:
        self._moulds_max = moulds_max
        self._kept: OrderedDict[bytes, Mould] = OrderedDict()

    def fill(self, name: str, page: Page, draw: Callable[[Page], bytes]) -> bytes:
        """Give a page as a template of this name draws it, drawn anew only when it is new."""
        emptied = _emptied(page)
        key = _encode((name, emptied))
        mould = self._kept.get(key)
        if mould is None:
            mould = self._kept[key] = Mould(draw(emptied))
            if len(self._kept) > self._moulds_max:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return mould.filled_for(page)


# Nobody who writes text for a page can know them, so no text is ever taken for a hole.
_NONCE, _HERE, _FORM_NONCE, _POLL_URL, _REFERENCE = (
    secrets.token_hex(_MARK_BYTES) for _ in range(5)
)
_VERSION, _SECONDS = (secrets.randbits(_MARK_BITS) | 1 << _MARK_BITS for _ in range(2))
_MARKS: Final = frozenset(
    str(mark).encode()
    for mark in (_NONCE, _HERE, _FORM_NONCE, _POLL_URL, _REFERENCE, _VERSION, _SECONDS)
)
_ANY_MARK: Final = re.compile(b"(" + b"|".join(sorted(_MARKS)) + b")")
_encode: Final = msgspec.msgpack.Encoder().encode


def _emptied(page: Page) -> Page:
    """Give the page as it is for everybody."""
    assert isinstance(page.state, Open), "only the form is shared by many"
    replace = msgspec.structs.replace
    frame: Frame = replace(page.frame, nonce=_NONCE, here=_HERE)
    if frame.order_reference is not None:
        frame = replace(frame, order_reference=_REFERENCE)
    if frame.poll is not None:
        watched = replace(
            frame.poll, url=_POLL_URL, state_version=_VERSION, expires_in_seconds=_SECONDS
        )
        frame = replace(frame, poll=watched)
    return replace(page, frame=frame, state=replace(page.state, form_nonce=_FORM_NONCE))


def _values_of(page: Page) -> dict[bytes, bytes]:
    assert isinstance(page.state, Open), "only the form is shared by many"
    frame, poll = page.frame, page.frame.poll
    values: dict[object, object] = {
        _NONCE: frame.nonce,
        _HERE: frame.here,
        _FORM_NONCE: page.state.form_nonce,
        _REFERENCE: frame.order_reference,
    }
    if poll is not None:
        values |= {
            _POLL_URL: poll.url,
            _VERSION: poll.state_version,
            _SECONDS: poll.expires_in_seconds,
        }
    return {str(mark).encode(): escape(value).encode() for mark, value in values.items()}
