"""One visit of a buyer: whose page it is, in which language, and the page as the answer."""

import re
import secrets
import zlib
from collections import OrderedDict
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from vintem.api.call import Call, Content, Header
from vintem.api.checkout_payment import price_mark
from vintem.checkout import service as checkout
from vintem.checkout.model import PageState, PublicSession, Session
from vintem.hosted.context import NOTHING_TOLD, Told, Visit, code_to_draw, page_of
from vintem.hosted.headers import HTML, new_style_nonce, page_headers, see_other
from vintem.hosted.language import choose_language
from vintem.hosted.moulds import Mould, mould_of_session
from vintem.hosted.qr import pictures
from vintem.hosted.render import render_fragment, render_page, render_plain_page
from vintem.hosted.static import accepts_gzip
from vintem.hosted.views import Language, Page, PlainPage
from vintem.kit.errors import ErrorCode, Refusal

TOKEN: Final = re.compile(r"[0-9A-Za-z_-]{43}")
OVER: Final = frozenset({PageState.EXPIRED, PageState.CANCELLED})
NOT_FOUND: Final = 404
RECEIPT: Final = "receipt.pdf"
PARAMETERS_MAX: Final = 20
FORMS_KEPT_MAX: Final = 1_000
ZIP_LEVEL: Final = 4
ZIP_WINDOW_BITS: Final = 31  # the form of gzip files

_ZIPPED: Final[tuple[Header, ...]] = (
    (b"content-encoding", b"gzip"),
    (b"vary", b"accept-encoding"),
)


class Asked(msgspec.Struct, frozen=True):
    """What the address of a page asks for besides the page; whatever else it says is ignored."""

    lang: str = ""
    f: str = ""
    check: str = ""
    coupon: str = ""
    simulated: str = ""


_NOTHING_ASKED: Final = Asked()


def asked_of(call: Call) -> Asked:
    """Read what the address asks for."""
    if not call.query_string:
        return _NOTHING_ASKED
    try:
        pairs = parse_qsl(call.query_string.decode("ascii"), max_num_fields=PARAMETERS_MAX)
    except ValueError:
        return _NOTHING_ASKED
    known = Asked.__struct_fields__
    return Asked(**{name: text for name, text in pairs if name in known})


def language_of(call: Call) -> Language:
    """Choose the language of the answer."""
    return choose_language(asked_of(call).lang, call.headers.get(b"accept-language", b""))


async def find_session(call: Call) -> PublicSession:
    """Read the session of a page; a token that cannot be one is never looked up."""
    token = call.params["token"]
    public = None
    if TOKEN.fullmatch(token):
        public = await call.resources.sessions.read(token, call.now)
    if public is None:
        raise Refusal(ErrorCode.SESSION_NOT_FOUND)
    return public


async def page_answer(
    call: Call,
    public: PublicSession,
    *,
    told: Told = NOTHING_TOLD,
    status: int | None = None,
    is_fragment: bool = False,
    headers: tuple[Header, ...] = (),
    code: ErrorCode | None = None,
) -> Content:
    """Show the page of a session; one that is over says so by its status too."""
    state, style_nonce = public.page_state, new_style_nonce()
    is_plain_form = state is PageState.OPEN and told is NOTHING_TOLD and not is_fragment
    if is_plain_form:
        content = _form_of(call, public, style_nonce)
    else:
        drawn = code_to_draw(public)
        qr_svg = "" if drawn is None else await pictures.picture_of(drawn)
        page = _page_of(call, public, style_nonce, qr_svg=qr_svg, told=told)
        content = render_fragment(page) if is_fragment else render_page(page)
    if status is None:
        # A script that asks for the new part of its page has found what it asked for.
        status = 410 if state in OVER and not is_fragment else 200
    answer = html_answer(call, content, style_nonce, status=status, headers=headers)
    return answer if code is None else replace(answer, code=code)


def _page_of(
    call: Call,
    public: PublicSession,
    style_nonce: str,
    *,
    qr_svg: str = "",
    told: Told = NOTHING_TOLD,
) -> Page:
    token, language = call.params["token"], language_of(call)
    visit = Visit(
        here=f"/s/{token}",
        receipt_url=f"/s/{token}/{RECEIPT}?lang={language}",
        poll_url=f"/v1/checkout/sessions/{token}?poll=1",
        language=language,
        style_nonce=style_nonce,
        form_nonce=new_form_nonce(public),
    )
    # What a merchant gave is filled in. What a buyer typed is not handed to whoever has the link.
    is_typed = public.session.payments_tried > 0
    buyer = None if is_typed else checkout.open_buyer(call.resources.sealer, public.session)
    return page_of(public, visit, buyer=buyer, qr_svg=qr_svg, told=told)


class KeptForm(msgspec.Struct, frozen=True):
    """The form of a session as it was drawn last, and what it was drawn from."""

    session: Session
    mould: Mould


_forms: Final[OrderedDict[tuple[str, Language], KeptForm]] = OrderedDict()


def _form_of(call: Call, public: PublicSession, style_nonce: str) -> bytes:
    """Show the form; drawn anew only when anything that was read of the session has changed."""
    key = public.session.session_id, language_of(call)
    kept = _forms.get(key)
    # Whatever is read anew is another record, although it may be equal.
    if kept is None or kept.session is not public.session:
        page = _page_of(call, public, style_nonce)
        kept = _forms[key] = KeptForm(public.session, mould_of_session(page, render_page))
        if len(_forms) > FORMS_KEPT_MAX:
            _forms.popitem(last=False)
    return kept.mould.filled(
        nonce=style_nonce,
        form_nonce=new_form_nonce(public),
        expires_in_seconds=public.expires_in_seconds,
    )


def new_form_nonce(public: PublicSession) -> str:
    """Name one showing of the payment form, and the price that was shown with it."""
    return f"{secrets.token_urlsafe(16)}.{price_mark(public)}"


def html_answer(
    call: Call,
    content: bytes,
    style_nonce: str,
    *,
    status: int = 200,
    headers: tuple[Header, ...] = (),
) -> Content:
    """Send a page with the headers of all pages, packed for a browser that unpacks it."""
    headers = (*page_headers(style_nonce), *headers)
    if accepts_gzip(call):
        content = zlib.compress(content, ZIP_LEVEL, ZIP_WINDOW_BITS)
        headers += _ZIPPED
    return Content(content, HTML, status, headers)


def to_page(call: Call, token: str, *, also: str = "") -> Content:
    """Send the browser to the page of a session, in the language that was asked for."""
    lang = asked_of(call).lang
    parts = [f"lang={language_of(call)}" if lang else "", also]
    query = "&".join(part for part in parts if part)
    return see_other(f"/s/{token}{'?' if query else ''}{query}#c")


def show_refusal(call: Call, refusal: Refusal, status: int) -> Content:
    """Tell people that there is no such page, or that something went wrong and what to quote."""
    style_nonce = new_style_nonce()
    page = PlainPage(
        nonce=style_nonce,
        language=language_of(call),
        here=own_page_of(call.path),
        request_id=None if status == NOT_FOUND else call.request_id,
    )
    return html_answer(call, render_plain_page(page), style_nonce, status=status)


def own_page_of(path: str) -> str:
    """The page that an address belongs to, to be tried again; never another site's."""
    parts = path.split("/")
    kind, token = parts[1], parts[2] if len(parts) > 2 else ""
    return f"/{kind}/{token}" if kind in {"s", "l"} and TOKEN.fullmatch(token) else "/"
