"""Equipe: who works for the company, as what, who was asked to, and who owns it."""

from typing import Final

from vintem.api.call import Answer
from vintem.dashboard import next_page
from vintem.dashboard.answers import go, page
from vintem.dashboard.forms import Form
from vintem.dashboard.mails import invitation_link, send_invitation
from vintem.dashboard.page import Page, deny, sent, shown
from vintem.dashboard.proof import ProofForm, proof_errors
from vintem.dashboard.roles import GIVEN_ROLES, ROLE_NAMES, role_options
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members import service as members
from vintem.members import team
from vintem.members.model import Member, Permission, Role, email_of, may_touch
from vintem.members.team import AlreadyMemberError, NotTheirsError, TeamFullError
from vintem.trail import service as trail

_PLACE: Final = "invitation"


class InviteForm(Form, frozen=True):
    """Whom to ask to join, and as what."""

    email: str = ""
    role: str = ""


class RoleForm(Form, frozen=True):
    """What a member is from now on."""

    role: str = ""


class TransferForm(ProofForm, frozen=True):
    """Who owns the company from now on, and the proof that it is the owner who says so."""

    person: str = ""


async def show_team(visit: Visit) -> Answer:
    """Show the team and the open invitations."""
    return await _team_page(visit)


async def invite(visit: Visit) -> Answer:
    """Ask somebody to join; the link goes by mail or, where there is none, to the inviter."""
    form = await visit.form(InviteForm)
    email, role = email_of(form.email), _role_of(form.role)
    errors = {}
    if email is None:
        errors["email"] = "Esse não é um e-mail válido."
    if role is None:
        errors["role"] = "Escolha uma função."
    if email is None or role is None:
        return await _team_page(visit, form=form, errors=errors, status=422)
    try:
        await _ask_to_join(visit, email, role, action="invitation.sent")
    except AlreadyMemberError:
        errors["email"] = "Essa pessoa já faz parte da equipe."
    except TeamFullError:
        errors["email"] = "A equipe está completa: remova alguém ou revogue um convite antes."
    if errors:
        return await _team_page(visit, form=form, errors=errors, status=422)
    return go(visit.href("/team", said="invitation-sent"))


async def resend(visit: Visit) -> Answer:
    """Ask the same person again, by a new link; the old one ends."""
    await visit.form(Form)
    kept = await team.get_invitation(
        visit.resources.database, visit.scope.company_id, visit.call.params["id"]
    )
    try:
        await _ask_to_join(visit, kept.email, kept.role, action="invitation.resent")
    except (AlreadyMemberError, TeamFullError):
        raise Refusal(ErrorCode.INVALID_STATE) from None
    return go(visit.href("/team", said="invitation-sent"))


async def revoke(visit: Visit) -> Answer:
    """End an invitation."""
    await visit.form(Form)
    company_id, invitation_id = visit.scope.company_id, visit.call.params["id"]
    async with visit.resources.database.atomic() as block:
        kept = await team.get_invitation(block, company_id, invitation_id)
        await team.revoke_invitation(block, company_id, invitation_id, now=visit.call.now)
        before = {"email": kept.email, "role": kept.role}
        act = visit.act("invitation.revoked", "invitation", invitation_id, before=before)
        await trail.record(block, act)
    return go(visit.href("/team", said="invitation-revoked"))


async def change_role(visit: Visit) -> Answer:
    """Make a member something else."""
    form = await visit.form(RoleForm)
    person_id, role = visit.call.params["id"], _role_of(form.role)
    if role is None:
        return await deny(visit, "person", person_id, reason=f"role {form.role[:20]}")
    try:
        async with visit.resources.database.atomic() as block:
            before = await team.change_role(
                block, visit.member, person_id, role, now=visit.call.now
            )
            act = visit.act(
                "member.role-changed",
                "person",
                person_id,
                before={"role": before},
                after={"role": role},
            )
            await trail.record(block, act)
    except NotTheirsError:
        return await deny(visit, "person", person_id, reason=f"role {role}")
    return go(visit.href("/team", said="role-changed"))


async def show_remove(visit: Visit) -> Answer:
    """Ask whether a member shall leave."""
    member = await _member_of(visit)
    if not may_touch(visit.member, member.person_id, member.role):
        return await deny(visit, "person", member.person_id, reason="remove")
    return page(
        visit,
        "team_remove.html",
        title="Remover da equipe",
        member=member,
        role_names=ROLE_NAMES,
    )


async def remove(visit: Visit) -> Answer:
    """Take a member out of the company, at once."""
    await visit.form(Form)
    person_id = visit.call.params["id"]
    try:
        async with visit.resources.database.atomic() as block:
            before = await team.remove(block, visit.member, person_id, now=visit.call.now)
            act = visit.act("member.removed", "person", person_id, before={"role": before})
            await trail.record(block, act)
    except NotTheirsError:
        return await deny(visit, "person", person_id, reason="remove")
    return go(visit.href("/team", said="member-removed"))


async def show_transfer(visit: Visit) -> Answer:
    """Ask who shall own the company."""
    return await _transfer_page(visit, TransferForm(), {})


async def transfer(visit: Visit) -> Answer:
    """Give the company to another member; its owner becomes an admin."""
    form = await visit.form(TransferForm)
    errors = {} if form.person else {"person": "Escolha quem vai ser o novo proprietário."}
    errors = errors or await proof_errors(visit, form)
    if errors:
        return await _transfer_page(visit, form, errors, status=422)
    try:
        async with visit.resources.database.atomic() as block:
            before = await team.transfer(block, visit.member, form.person)
            act = visit.act(
                "ownership.transferred",
                "person",
                form.person,
                before={"role": before, "owner": visit.member.person_id},
                after={"role": Role.OWNER, "owner": form.person},
            )
            await trail.record(block, act)
    except NotTheirsError:
        return await deny(visit, "person", form.person, reason="transfer")
    return go(visit.href("/team", said="ownership-transferred"))


async def _ask_to_join(visit: Visit, email: str, role: Role, *, action: str) -> None:
    async with visit.resources.database.atomic() as block:
        made = await team.invite(
            block,
            visit.scope.company_id,
            email=email,
            role=role,
            invited_by=visit.member.person_id,
            now=visit.call.now,
        )
        if not visit.resources.mail.has_server:
            link = invitation_link(visit.call, made.token)
            await next_page.leave(visit, link, place=_PLACE, block=block)
        after = {"email": email, "role": role}
        await trail.record(block, visit.act(action, "invitation", made.invitation_id, after=after))
    send_invitation(
        visit.call,
        email=email,
        inviter=visit.member.name,
        company=visit.member.company_name,
        role=ROLE_NAMES[role],
        token=made.token,
    )


async def _team_page(
    visit: Visit,
    *,
    form: InviteForm | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Answer:
    database, company_id = visit.resources.database, visit.scope.company_id
    return page(
        visit,
        "team.html",
        title="Equipe",
        status=status,
        team=await members.list_members(database, company_id),
        invitations=await team.list_invitations(database, company_id),
        link=await next_page.take(visit, place=_PLACE),
        role_names=ROLE_NAMES,
        options=role_options(),
        form=form or InviteForm(role=Role.SUPPORT),
        errors=errors or {},
        may_touch=may_touch,
        now=visit.call.now,
    )


async def _transfer_page(
    visit: Visit, form: TransferForm, errors: dict[str, str], *, status: int = 200
) -> Answer:
    everybody = await members.list_members(visit.resources.database, visit.scope.company_id)
    others = [one for one in everybody if one.person_id != visit.member.person_id]
    return page(
        visit,
        "team_transfer.html",
        title="Transferir a empresa",
        status=status,
        options=[
            ("", "Escolha"),
            *((one.person_id, f"{one.name} ({one.email})") for one in others),
        ],
        form=form,
        errors=errors,
    )


async def _member_of(visit: Visit) -> Member:
    team_now = await members.list_members(visit.resources.database, visit.scope.company_id)
    for one in team_now:
        if one.person_id == visit.call.params["id"]:
            return one
    raise Refusal(ErrorCode.NOT_FOUND)


def _role_of(text: str) -> Role | None:
    return next((role for role in GIVEN_ROLES if role == text), None)


PAGES: Final[tuple[Page, ...]] = (
    shown("/team", show_team, Permission.TEAM, "Equipe"),
    sent("/team/invitations", invite, Permission.TEAM, "Convidar"),
    sent("/team/invitations/{id}/resend", resend, Permission.TEAM, "Reenviar convite"),
    sent("/team/invitations/{id}/revoke", revoke, Permission.TEAM, "Revogar convite"),
    sent("/team/members/{id}/role", change_role, Permission.TEAM, "Mudar função"),
    shown("/team/members/{id}/remove", show_remove, Permission.TEAM, "Remover da equipe?"),
    sent("/team/members/{id}/remove", remove, Permission.TEAM, "Remover da equipe"),
    shown("/team/transfer", show_transfer, Permission.OWNERSHIP, "Transferir a empresa?"),
    sent("/team/transfer", transfer, Permission.OWNERSHIP, "Transferir a empresa"),
)
