"""Segurança: where one is signed in, one's password, and the second step."""

import asyncio
from typing import Final

from markupsafe import Markup

from vintem.api.call import Answer
from vintem.brazil.qr_picture import draw_svg
from vintem.dashboard import next_page
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.mails import tell_changed
from vintem.dashboard.new_password import HINT, password_errors
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.proof import ProofForm, code_errors, proof_errors
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members import recovery, second_factor, totp
from vintem.members import service as members
from vintem.members.model import Permission
from vintem.members.passwords import hashing
from vintem.trail import service as trail

_PLACE: Final = "backup codes"
_WRONG_CODE: Final = "O código não confere. Confira a hora do celular e use o código da vez."


class PasswordForm(ProofForm, frozen=True):
    """Another password, and the proof that it is oneself who changes it."""

    password: str = ""
    again: str = ""


class CodeForm(Form, frozen=True):
    """A code of the authenticator."""

    code: str = ""


async def show_security(visit: Visit) -> Answer:
    """Show how one's own account is protected; new backup codes, once."""
    return await _security_page(visit)


async def change_password(visit: Visit) -> Answer:
    """Set another password; every other browser is signed out."""
    form = await visit.form(PasswordForm)
    member = visit.member
    names = (member.email, member.name, member.company_name)
    errors = password_errors(form.password, form.again, names=names)
    errors = errors or await proof_errors(visit, form)
    if errors:
        return await _security_page(visit, errors=errors, wrong="password")
    password_hash = await hashing.hash(form.password)
    async with visit.resources.database.atomic() as block:
        await recovery.change_password(block, member, password_hash, now=visit.call.now)
        await trail.record(block, visit.act("password.changed", "person", member.person_id))
    tell_changed(visit.call, name=member.name, email=member.email)
    return go(visit.href("/security", said="password-changed"))


async def end_browser(visit: Visit) -> Answer:
    """Sign out one of one's own browsers."""
    await visit.form(Form)
    session_id, person_id = visit.call.params["id"], visit.member.person_id
    async with visit.resources.database.atomic() as block:
        if not await members.end_browser(block, person_id, session_id, now=visit.call.now):
            raise Refusal(ErrorCode.NOT_FOUND)
        await trail.record(block, visit.act("browser.ended", "browser", session_id))
    return go(visit.href("/security", said="browser-ended"))


async def end_other_browsers(visit: Visit) -> Answer:
    """Sign out all of one's own browsers but this one."""
    await visit.form(Form)
    async with visit.resources.database.atomic() as block:
        await members.end_other_browsers(block, visit.member, now=visit.call.now)
        act = visit.act("browsers.ended", "person", visit.member.person_id)
        await trail.record(block, act)
    return go(visit.href("/security", said="browser-ended"))


async def offer_totp(visit: Visit) -> Answer:
    """Make a secret for an authenticator; the next page shows it."""
    form = await visit.form(ProofForm)
    _refuse_enrolled(visit)
    errors = await proof_errors(visit, form)
    if errors:
        return await _security_page(visit, errors=errors, wrong="totp")
    await second_factor.offer(
        visit.resources.database,
        visit.resources.sealer,
        visit.member.person_id,
        now=visit.call.now,
    )
    return go(visit.href("/security/totp"))


async def show_totp(visit: Visit) -> Answer:
    """Show the secret as a picture and as letters, until a code proves that it has arrived."""
    return await _totp_page(visit, {})


async def confirm_totp(visit: Visit) -> Answer:
    """Begin to ask for codes; the ones to keep on paper are shown once."""
    form = await visit.form(CodeForm)
    _refuse_enrolled(visit)
    person_id = visit.member.person_id
    async with visit.resources.database.atomic() as block:
        codes = await second_factor.enrol(
            block, visit.resources.sealer, person_id, form.code, now=visit.call.now
        )
        if codes is not None:
            await next_page.leave(visit, "\n".join(codes), place=_PLACE, block=block)
            await trail.record(block, visit.act("second-step.begun", "person", person_id))
    if codes is None:
        return await _totp_page(visit, {"code": _WRONG_CODE}, status=422)
    return go(visit.href("/security", said="totp-on"))


async def renew_backup_codes(visit: Visit) -> Answer:
    """Make new codes to keep on paper, and show them once."""
    form = await visit.form(CodeForm)
    if not visit.member.has_totp:
        raise Refusal(ErrorCode.NOT_FOUND)
    errors = await code_errors(visit, form.code)
    if errors:
        return await _security_page(visit, errors=errors, wrong="codes")
    person_id = visit.member.person_id
    async with visit.resources.database.atomic() as block:
        codes = await second_factor.renew_backup_codes(block, visit.resources.sealer, person_id)
        await next_page.leave(visit, "\n".join(codes), place=_PLACE, block=block)
        await trail.record(block, visit.act("second-step.codes-renewed", "person", person_id))
    return go(visit.href("/security"))


async def show_end_totp(visit: Visit) -> Answer:
    """Ask whether the second step shall end."""
    return _end_totp_page(visit, {})


async def end_totp(visit: Visit) -> Answer:
    """Ask for no code any more; it takes the password and a last code."""
    form = await visit.form(ProofForm)
    if not visit.member.has_totp:
        raise Refusal(ErrorCode.NOT_FOUND)
    errors = await proof_errors(visit, form)
    if errors:
        return _end_totp_page(visit, errors, status=422)
    person_id = visit.member.person_id
    async with visit.resources.database.atomic() as block:
        await second_factor.end(block, person_id)
        await trail.record(block, visit.act("second-step.ended", "person", person_id))
    return go(visit.href("/security", said="totp-off"))


def _refuse_enrolled(visit: Visit) -> None:
    """Refuse a second authenticator: the first one ends before, by its own code."""
    if visit.member.has_totp:
        raise Refusal(ErrorCode.INVALID_STATE)


async def _security_page(
    visit: Visit, *, errors: dict[str, str] | None = None, wrong: str = ""
) -> Answer:
    database, person_id = visit.resources.database, visit.member.person_id
    codes = await next_page.take(visit, place=_PLACE)
    return page(
        visit,
        "security.html",
        title="Segurança",
        status=422 if errors else 200,
        browsers=await members.list_browsers(database, person_id, now=visit.call.now),
        codes=codes.split("\n") if codes else (),
        codes_left=await second_factor.count_backup_codes(database, person_id),
        hint=HINT,
        errors=errors or {},
        wrong=wrong,
    )


async def _totp_page(visit: Visit, errors: dict[str, str], *, status: int = 200) -> Answer:
    secret = await second_factor.find_offered(
        visit.resources.database,
        visit.resources.sealer,
        visit.member.person_id,
        now=visit.call.now,
    )
    if secret is None or visit.member.has_totp:
        return go(visit.href("/security"))
    # A drawing takes tens of milliseconds, for which no other call shall wait.
    drawn = await asyncio.to_thread(draw_svg, totp.setup_uri(secret, visit.member.email))
    return page(
        visit,
        "security_totp.html",
        title="Verificação em duas etapas",
        status=status,
        # Drawn by us, of squares alone.
        picture=Markup(drawn.decode()),  # noqa: S704
        secret=" ".join(secret[place : place + 4] for place in range(0, len(secret), 4)),
        errors=errors,
    )


def _end_totp_page(visit: Visit, errors: dict[str, str], *, status: int = 200) -> Answer:
    if not visit.member.has_totp:
        return go(visit.href("/security"))
    return page(
        visit,
        "security_totp_end.html",
        title="Desativar a verificação em duas etapas",
        status=status,
        errors=errors,
    )


PAGES: Final[tuple[Page, ...]] = (
    shown("/security", show_security, Permission.SIGNED_IN, "Segurança"),
    sent("/security/password", change_password, Permission.SIGNED_IN, "Mudar senha"),
    sent(
        "/security/browsers/{id}/end", end_browser, Permission.SIGNED_IN, "Desconectar um aparelho"
    ),
    sent(
        "/security/browsers/end-others",
        end_other_browsers,
        Permission.SIGNED_IN,
        "Desconectar os outros aparelhos",
    ),
    sent("/security/totp", offer_totp, Permission.SIGNED_IN, "Ativar a segunda etapa"),
    shown("/security/totp", show_totp, Permission.SIGNED_IN, "Ativar a segunda etapa?"),
    sent("/security/totp/confirm", confirm_totp, Permission.SIGNED_IN, "Confirmar a segunda etapa"),
    sent(
        "/security/totp/backup-codes",
        renew_backup_codes,
        Permission.SIGNED_IN,
        "Novos códigos de reserva",
    ),
    shown("/security/totp/end", show_end_totp, Permission.SIGNED_IN, "Desativar a segunda etapa?"),
    sent("/security/totp/end", end_totp, Permission.SIGNED_IN, "Desativar a segunda etapa"),
)
