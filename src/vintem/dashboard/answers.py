"""The answers of the dashboard: a page, the way to another page, a refusal in words."""

import zlib
from dataclasses import replace
from typing import Final

from vintem.api.call import Call, Content, Header
from vintem.api.envelope import STATUS
from vintem.dashboard.menu import menu_path
from vintem.dashboard.render import render
from vintem.dashboard.said import SAID
from vintem.dashboard.visit import ROOT, Visit, address, query_of
from vintem.hosted.headers import HTML
from vintem.hosted.static import accepts_gzip
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members.model import ROLE_PERMISSIONS

ZIP_LEVEL: Final = 4
ZIP_WINDOW_BITS: Final = 31  # the form of gzip files

_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    b" form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_FRAMES_TOO: Final = b"; frame-src 'self'"
HEADERS: Final[tuple[Header, ...]] = (
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"strict-transport-security", b"max-age=31536000"),
    (b"x-frame-options", b"DENY"),
    (b"x-robots-tag", b"noindex, nofollow"),
)
_ZIPPED: Final[tuple[Header, ...]] = (
    (b"content-encoding", b"gzip"),
    (b"vary", b"accept-encoding"),
)
_WHY: Final = {
    404: "Não encontramos o que você procurava. Talvez o endereço esteja errado.",
    403: "Você não tem permissão para isso. Peça a quem administra a equipe.",
    429: "Foram tentativas demais em pouco tempo. Espere alguns minutos e tente de novo.",
}
_TITLES: Final = {404: "Página não encontrada", 429: "Tentativas demais"}
_TITLE: Final = "Não deu certo"
_WHY_NOT: Final = "Não foi possível concluir. Nada foi alterado."
_SUSPENDED: Final = "Esta empresa está suspensa. Nada foi alterado."


def page(
    visit: Visit,
    template: str,
    *,
    title: str,
    status: int = 200,
    shows_frames: bool = False,
    **context: object,
) -> Content:
    """Show a page inside the frame, with the menu of what the member may see."""
    context |= {
        "visit": visit,
        "title": title,
        "said": SAID.get(query_of(visit.call).get("said", ""), ""),
        "permissions": ROLE_PERMISSIONS[visit.member.role][visit.environment],
        "here": menu_path(visit.call.path.removeprefix(f"{ROOT}/{visit.environment}")),
    }
    content = html(visit.call, render(template, **context), status=status)
    if not shows_frames:
        return content
    policy = (b"content-security-policy", _POLICY + _FRAMES_TOO)
    return replace(content, headers=(policy, *content.headers[1:]))


def bare_page(
    call: Call,
    template: str,
    *,
    title: str,
    status: int = 200,
    headers: tuple[Header, ...] = (),
    **context: object,
) -> Content:
    """Show a page outside the frame, to somebody who is not signed in."""
    return html(call, render(template, title=title, **context), status=status, headers=headers)


def html(
    call: Call, written: str, *, status: int = 200, headers: tuple[Header, ...] = ()
) -> Content:
    """Send a page with the headers of all pages, packed for a browser that unpacks it."""
    content = written.encode()
    headers = (*HEADERS, *headers)
    if accepts_gzip(call):
        content = zlib.compress(content, ZIP_LEVEL, ZIP_WINDOW_BITS)
        headers += _ZIPPED
    return Content(content, HTML, status, headers)


def go(location: str, *, headers: tuple[Header, ...] = ()) -> Content:
    """Send a browser that has sent a form to a page of ours, so that it is not sent again."""
    assert location.startswith(ROOT), "a form leads to our own pages only"
    assert location.isascii(), "a header is ASCII"
    assert location.isprintable(), "a header is one line"
    return Content(b"", HTML, 303, ((b"location", location.encode()), *HEADERS, *headers))


def to_sign_in(call: Call) -> Content:
    """Send somebody who is not signed in to the form for it, and back afterwards."""
    is_read = call.method == "GET" and call.path.startswith(ROOT + "/")
    return go(address(f"{ROOT}/sign-in", next=call.path if is_read else ""))


def forbidden(visit: Visit) -> Content:
    """Say to a member that somebody else may do this."""
    return page(visit, "refusal.html", title="Sem permissão", status=403, why=_WHY[403])


def refusal_page(visit: Visit, refusal: Refusal) -> Content:
    """Say to a member why something was not done."""
    status = STATUS[refusal.code]
    why = _WHY.get(status, _WHY_NOT)
    if refusal.code is ErrorCode.COMPANY_SUSPENDED:
        why = _SUSPENDED
    title = _TITLES.get(status, _TITLE)
    return page(visit, "refusal.html", title=title, status=status, why=why)


def show_refusal(call: Call, refusal: Refusal, status: int) -> Content:
    """Say the same where nobody is known yet."""
    return bare_page(
        call,
        "bare_refusal.html",
        title=_TITLES.get(status, _TITLE),
        status=status,
        why=_WHY.get(status, _WHY_NOT),
        request_id=call.request_id if status != STATUS[ErrorCode.NOT_FOUND] else "",
    )
