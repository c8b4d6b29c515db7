"""What an invitation's link leads to: joining a company, as somebody new or as oneself."""

from typing import Final

from vintem.api.call import Answer, Call, Content, Route
from vintem.companies.model import Environment
from vintem.dashboard.answers import bare_page, go
from vintem.dashboard.forms import Form, read_form
from vintem.dashboard.new_password import HINT, password_errors
from vintem.dashboard.page import find_member, open_sent, open_shown
from vintem.dashboard.sign_in import check_same_site, enter, note_person
from vintem.dashboard.visit import ROOT, Visit, act_of
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members import service as members
from vintem.members import team
from vintem.members.model import NAME_CHARACTERS_MAX, Invitation, SignedIn
from vintem.members.passwords import hashing
from vintem.trail import service as trail

_JOINED: Final = "invitation.accepted"


class JoinForm(Form, frozen=True):
    """What somebody new says of themselves; empty from somebody who is known."""

    name: str = ""
    password: str = ""
    again: str = ""


async def show_invitation(call: Call) -> Answer:
    """Show who asks whom to join what, and the form for it."""
    invitation = await _invitation_of(call)
    if invitation is None:
        return _ended(call)
    return await _page(call, invitation)


async def accept(call: Call) -> Answer:
    """Join the company: a new person with a password, a known one who is signed in."""
    check_same_site(call)
    form = await read_form(call, JoinForm)
    invitation = await _invitation_of(call)
    if invitation is None:
        return _ended(call)
    person = await members.find_person(call.resources.database, invitation.email)
    if person is None:
        return await _join_as_newcomer(call, invitation, form)
    member = await find_member(call)
    if member is None or member.email != invitation.email:
        return await _page(call, invitation, status=403)
    return await _join_as(call, invitation, member, form)


async def _join_as_newcomer(call: Call, invitation: Invitation, form: JoinForm) -> Answer:
    names = (invitation.email, form.name, invitation.company_name)
    errors = password_errors(form.password, form.again, names=names)
    if not 1 <= len(form.name) <= NAME_CHARACTERS_MAX:
        errors = {"name": f"Diga seu nome, em até {NAME_CHARACTERS_MAX} caracteres.", **errors}
    if errors:
        return await _page(call, invitation, name=form.name, errors=errors, status=422)
    password_hash = await hashing.hash(form.password)
    try:
        async with call.resources.database.atomic() as block:
            person = await team.accept_as_newcomer(
                block,
                invitation,
                call.params["token"],
                name=form.name,
                password_hash=password_hash,
                now=call.now,
            )
            if person is not None:
                company_id = invitation.company_id
                await note_person(call, block, person, _JOINED, company_id=company_id)
    except members.EmailTakenError:
        # The same person has joined another company a moment ago.
        return await _page(call, invitation, status=403)
    if person is None:
        return _ended(call)
    return await enter(call, person)


async def _join_as(call: Call, invitation: Invitation, member: SignedIn, form: JoinForm) -> Answer:
    visit = Visit(call, member, Environment.TEST)
    visit.check_csrf(form)
    async with call.resources.database.atomic() as block:
        if not await team.accept_as(block, invitation, call.params["token"], member, now=call.now):
            raise Refusal(ErrorCode.NOT_FOUND)
        await members.enter_company(block, member, invitation.company_id, now=call.now)
        act = act_of(
            call,
            company_id=invitation.company_id,
            person_id=member.person_id,
            name=member.name,
            role=invitation.role,
            action=_JOINED,
            target_type="person",
            target_id=member.person_id,
        )
        await trail.record(block, act)
    return go(f"{ROOT}/test")


async def _invitation_of(call: Call) -> Invitation | None:
    return await team.find_by_link(call.resources.database, call.params["token"], now=call.now)


async def _page(
    call: Call,
    invitation: Invitation,
    *,
    name: str = "",
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Content:
    known = await members.find_person(call.resources.database, invitation.email)
    member = await find_member(call)
    is_here = member is not None and member.email == invitation.email
    csrf = Visit(call, member, Environment.TEST).csrf if member is not None and is_here else ""
    return bare_page(
        call,
        "invitation.html",
        title=f"Convite de {invitation.company_name}",
        status=status,
        invitation=invitation,
        token=call.params["token"],
        is_known=known is not None,
        is_here=is_here,
        stranger=member.email if member is not None and not is_here else "",
        csrf=csrf,
        name=name,
        hint=HINT,
        errors=errors or {},
    )


def _ended(call: Call) -> Content:
    return bare_page(
        call,
        "link_ended.html",
        title="Este convite não vale mais",
        status=404,
        why="Cada convite funciona uma vez só e vale por 7 dias. Peça outro a quem convidou você.",
        href=f"{ROOT}/sign-in",
        label="Ir para a entrada",
    )


ROUTES: Final[tuple[Route, ...]] = (
    open_shown("/invitation/{token}", show_invitation, "The page of an invitation"),
    open_sent("/invitation/{token}", accept, "Accepting an invitation"),
)
