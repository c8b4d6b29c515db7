"""The way in and out: the sign-in form, its second step, signing out, another company."""

import asyncio
import re
from typing import Final

from vintem.api.access import address_block
from vintem.api.call import Answer, Call, Content, Route
from vintem.api.checkout_gate import own_origin
from vintem.dashboard.answers import bare_page, go
from vintem.dashboard.cookies import cookie_of, given, taken_back
from vintem.dashboard.forms import Form, read_form
from vintem.dashboard.page import Page, find_member, open_sent, open_shown, sent, shown
from vintem.dashboard.said import SAID
from vintem.dashboard.visit import ROOT, Visit, act_of, address, query_of
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members import entry, second_factor
from vintem.members import service as members
from vintem.members.model import EMAIL_CHARACTERS_MAX, Permission, Person, Verdict
from vintem.members.passwords import CHARACTERS_MAX
from vintem.runtime.db import Connection
from vintem.trail import service as trail

FIRST_PAGE: Final = f"{ROOT}/test"
REFUSAL_SECONDS_MIN: Final = 0.4
"""Every refusal takes as long: what happens meanwhile tells nobody whether an account exists."""

_OWN_PATH: Final = re.compile(
    rf"{ROOT}/(?:(?:live|test)(?:/[A-Za-z0-9_-]+)*|invitation/[A-Za-z0-9_-]{{43}})"
)
_WRONG: Final = "E-mail ou senha incorretos."
_WRONG_CODE: Final = "O código não confere ou já foi usado. Espere o próximo e tente de novo."
_TOO_MANY: Final = (
    "Foram tentativas demais. Espere 15 minutos, ou crie uma nova senha pelo link abaixo."
)
_NO_COMPANY: Final = (
    "Sua conta não faz parte de nenhuma empresa. Peça um convite a quem administra a equipe."
)
_TOO_LATE: Final = "Passou tempo demais desde a senha. Entre de novo."


class SignInForm(Form, frozen=True):
    """Who comes, and the page that they wanted."""

    email: str = ""
    password: str = ""
    next: str = ""


class CodeForm(Form, frozen=True):
    """The second step, with what the first one has proved."""

    promise: str = ""
    code: str = ""
    next: str = ""


class CompanyForm(Form, frozen=True):
    """The company to change to."""

    company: str = ""


async def show_form(call: Call) -> Answer:
    """Show the sign-in form, or the pages to whoever is signed in."""
    asked = query_of(call)
    wanted = own_path(asked.get("next", ""))
    if await find_member(call) is not None:
        return go(wanted or FIRST_PAGE)
    return _form(call, wanted=wanted, said=SAID.get(asked.get("said", ""), ""))


async def sign_in(call: Call) -> Answer:
    """Check an e-mail and a password, and go on to the second step or to the pages."""
    check_same_site(call)
    refuse_at = asyncio.get_running_loop().time() + REFUSAL_SECONDS_MIN
    form = await read_form(call, SignInForm)
    wanted = own_path(form.next)
    knock = await entry.knock(
        call.resources.database,
        call.resources.sealer,
        email=form.email.lower()[:EMAIL_CHARACTERS_MAX],
        password=form.password[: CHARACTERS_MAX + 1],
        address=address_block(call.client_ip),
        block_of=address_block,
        now=call.now,
    )
    if knock.verdict is not Verdict.RIGHT:
        is_wrong = knock.verdict is Verdict.WRONG
        if is_wrong and knock.person is not None:
            await _note_refused(call, knock.person, reason="wrong password")
        await asyncio.sleep(refuse_at - asyncio.get_running_loop().time())
        return _form(
            call,
            wanted=wanted,
            email=form.email,
            error=_WRONG if is_wrong else _TOO_MANY,
            status=422 if is_wrong else 429,
        )
    assert knock.person is not None
    if knock.person.has_totp:
        promise = entry.promise(call.resources.sealer, knock.person, now=call.now)
        return _code_form(call, promise=promise, wanted=wanted)
    return await enter(call, knock.person, wanted=wanted)


async def give_code(call: Call) -> Answer:
    """Check the code of the second step."""
    check_same_site(call)
    form = await read_form(call, CodeForm)
    database, sealer = call.resources.database, call.resources.sealer
    wanted = own_path(form.next)
    person = await entry.keep_promise(database, sealer, form.promise, now=call.now)
    if person is None:
        return _form(call, wanted=wanted, error=_TOO_LATE, status=422)
    verdict = await second_factor.check_code(
        database,
        sealer,
        person,
        form.code,
        address=address_block(call.client_ip),
        now=call.now,
    )
    if verdict is Verdict.TOO_MANY:
        return _form(call, wanted=wanted, error=_TOO_MANY, status=429)
    if verdict is Verdict.WRONG:
        await _note_refused(call, person, reason="wrong code")
        return _code_form(call, promise=form.promise, wanted=wanted, error=_WRONG_CODE, status=422)
    return await enter(call, person, wanted=wanted)


async def enter(call: Call, person: Person, *, wanted: str = "") -> Answer:
    """Sign a browser in under a new cookie; whatever cookie it came with is signed out."""
    database = call.resources.database
    company_id = await members.company_to_enter(database, person.person_id)
    if company_id is None:
        return _form(call, email=person.email, error=_NO_COMPANY, status=422)
    async with database.atomic() as block:
        if before := cookie_of(call):
            await members.end(block, before, now=call.now)
        token = await members.begin(
            block,
            person_id=person.person_id,
            company_id=company_id,
            ip=call.client_ip,
            user_agent=call.headers.get(b"user-agent", b"").decode("latin-1"),
            now=call.now,
        )
        await note_person(call, block, person, "sign-in.done", company_id=company_id)
    return go(wanted or FIRST_PAGE, headers=(given(call, token),))


async def _note_refused(call: Call, person: Person, *, reason: str) -> None:
    """Write that a person, or somebody else in their name, did not come in."""
    async with call.resources.database.atomic() as block:
        await note_person(call, block, person, "sign-in.refused", reason=reason)


async def note_person(
    call: Call,
    block: Connection,
    person: Person,
    action: str,
    *,
    company_id: int | None = None,
    reason: str = "",
) -> None:
    """Write what a person who is not signed in does into the trail of their company."""
    if company_id is None:
        company_id = await members.company_to_enter(block, person.person_id)
    if company_id is None:
        return
    role = await members.find_role(block, company_id, person.person_id)
    act = act_of(
        call,
        company_id=company_id,
        person_id=person.person_id,
        name=person.name,
        role=role or "",
        action=action,
        target_type="person",
        target_id=person.person_id,
        reason=reason,
    )
    await trail.record(block, act)


async def sign_out(visit: Visit) -> Answer:
    """Sign this browser out."""
    await visit.form(Form)
    database = visit.resources.database
    async with database.atomic() as block:
        await members.end(block, cookie_of(visit.call), now=visit.call.now)
        await trail.record(block, visit.act("sign-in.ended", "person", visit.member.person_id))
    return go(address(f"{ROOT}/sign-in", said="signed-out"), headers=(taken_back(visit.call),))


async def change_company(visit: Visit) -> Answer:
    """Take this browser to another company of the same person."""
    form = await visit.form(CompanyForm)
    async with visit.resources.database.atomic() as block:
        company_id = await members.change_company(
            block, visit.member, form.company, now=visit.call.now
        )
        if company_id is None:
            raise Refusal(ErrorCode.NOT_FOUND)
        role = await members.find_role(block, company_id, visit.member.person_id)
        act = act_of(
            visit.call,
            company_id=company_id,
            person_id=visit.member.person_id,
            name=visit.member.name,
            role=role or "",
            action="sign-in.changed-company",
            target_type="person",
            target_id=visit.member.person_id,
        )
        await trail.record(block, act)
    return go(visit.href())


async def stay(visit: Visit) -> Answer:
    """Say to a page how long the visit lasts; asking is enough to make it longer."""
    return Content(
        str(visit.seconds_left).encode(),
        "text/plain; charset=utf-8",
        headers=((b"cache-control", b"no-store"),),
    )


def own_path(text: str) -> str:
    """Take the page that somebody wanted if it is one of ours, and nothing else."""
    return text if _OWN_PATH.fullmatch(text) else ""


def check_same_site(call: Call) -> None:
    """Refuse a form that another site's page has sent."""
    site = call.headers.get(b"sec-fetch-site")
    origin = call.headers.get(b"origin")
    resources = call.resources
    own = {own_origin(resources.public_url).encode()}
    if not resources.is_public_url_given:
        host = call.headers.get(b"host", b"").lower()
        own |= {b"http://" + host, b"https://" + host}
    if site == b"same-origin":
        # A page that tells nobody where it is says so even to us; its browser knows.
        own.add(b"null")
    if site not in {None, b"same-origin", b"none"} or not (origin is None or origin in own):
        raise Refusal(ErrorCode.ORIGIN_NOT_ALLOWED)


def _form(
    call: Call,
    *,
    wanted: str = "",
    email: str = "",
    error: str = "",
    said: str = "",
    status: int = 200,
) -> Content:
    return bare_page(
        call,
        "sign_in.html",
        title="Entrar",
        status=status,
        wanted=wanted,
        email=email,
        error=error,
        said=said,
    )


def _code_form(
    call: Call, *, promise: str, wanted: str, error: str = "", status: int = 200
) -> Content:
    return bare_page(
        call,
        "sign_in_code.html",
        title="Verificação em duas etapas",
        status=status,
        promise=promise,
        wanted=wanted,
        error=error,
    )


ROUTES: Final[tuple[Route, ...]] = (
    open_shown("/sign-in", show_form, "The sign-in form"),
    open_sent("/sign-in", sign_in, "Signing in"),
    open_sent("/sign-in/code", give_code, "The second step of signing in"),
)

PAGES: Final[tuple[Page, ...]] = (
    sent("/sign-out", sign_out, Permission.SIGNED_IN, "Sair"),
    sent("/change-company", change_company, Permission.SIGNED_IN, "Mudar de empresa"),
    shown("/stay", stay, Permission.SIGNED_IN, "Continuar conectado"),
)
