"""Who works for a company: invitations, roles, leaving, another owner."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from vintem.companies.model import Environment
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, new_id, new_token
from vintem.members import proof_store, store
from vintem.members.model import (
    TEAM_MAX,
    Invitation,
    Permission,
    Person,
    Role,
    SignedIn,
    may,
    may_touch,
)
from vintem.members.recovery import FIRST_LINK_LIFETIME, make_link
from vintem.members.service import create_person
from vintem.runtime.db import Connection

INVITATION_LIFETIME: Final = timedelta(days=7)


class NotTheirsError(Exception):
    """Nobody may do that to this member: the owner stays, and nobody changes what they are."""


class AlreadyMemberError(Exception):
    """Whoever has that e-mail works for the company already."""


class TeamFullError(Exception):
    """The company has as many people and invitations as it may."""


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """An invitation just made, and the secret part of its link, not known here afterwards."""

    invitation_id: str
    email: str
    role: Role
    token: str


async def make_owner(
    block: Connection, company_id: int, *, email: str, name: str, now: datetime
) -> str | None:
    """Give a new company its owner; the secret part of a link, where they have no password yet."""
    person = await store.find_person(block, email)
    if person is not None:
        await store.insert_member(
            block, company_id=company_id, person_id=person.person_id, role=Role.OWNER, now=now
        )
        return None
    person_id = await create_person(
        block,
        company_id,
        email=email,
        name=name,
        password_hash=None,
        role=Role.OWNER,
        now=now,
    )
    return await make_link(block, person_id, lifetime=FIRST_LINK_LIFETIME, now=now)


async def list_invitations(db: Connection, company_id: int) -> Sequence[Invitation]:
    """A company's invitations that nobody has answered, the newest first."""
    return await proof_store.list_invitations(db, company_id)


async def invite(
    block: Connection,
    company_id: int,
    *,
    email: str,
    role: Role,
    invited_by: str | None,
    now: datetime,
) -> NewInvitation:
    """Ask somebody to join; whoever was asked before is asked anew, and the old link ends."""
    if role is Role.OWNER:
        raise NotTheirsError
    team = await store.lock_roles(block, company_id)
    person = await store.find_person(block, email)
    if person is not None and person.person_id in team:
        raise AlreadyMemberError
    others = [
        one
        for one in await proof_store.list_invitations(block, company_id)
        if one.email != email and one.expires_at > now
    ]
    if len(team) + len(others) >= TEAM_MAX:
        raise TeamFullError
    made = NewInvitation(new_id(Prefix.INVITATION), email, role, new_token())
    await proof_store.insert_invitation(
        block,
        invitation_id=made.invitation_id,
        digest=_digest(made.token),
        company_id=company_id,
        email=email,
        role=role,
        invited_by=invited_by,
        lifetime=INVITATION_LIFETIME,
        now=now,
    )
    return made


async def get_invitation(db: Connection, company_id: int, invitation_id: str) -> Invitation:
    """Find an invitation of a company that nobody has answered, or refuse."""
    found = await proof_store.find_open_invitation(db, company_id, invitation_id)
    if found is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    return found


async def revoke_invitation(
    block: Connection, company_id: int, invitation_id: str, *, now: datetime
) -> None:
    """End an invitation, or refuse where there is none."""
    if not await proof_store.revoke_invitation(block, company_id, invitation_id, now=now):
        raise Refusal(ErrorCode.NOT_FOUND)


async def find_by_link(db: Connection, token: str, *, now: datetime) -> Invitation | None:
    """Find the invitation that a link stands for, if it still works."""
    return await proof_store.find_invitation(db, _digest(token), now=now)


async def accept_as_newcomer(
    block: Connection,
    invitation: Invitation,
    token: str,
    *,
    name: str,
    password_hash: str,
    now: datetime,
) -> Person | None:
    """Let somebody in whom nobody knew; nothing when the link was used meanwhile."""
    if not await proof_store.accept_invitation(block, _digest(token), now=now):
        return None
    person_id = await create_person(
        block,
        invitation.company_id,
        email=invitation.email,
        name=name,
        password_hash=password_hash,
        role=invitation.role,
        now=now,
    )
    return await store.find_person_by_id(block, person_id)


async def accept_as(
    block: Connection, invitation: Invitation, token: str, member: SignedIn, *, now: datetime
) -> bool:
    """Let a person join who signs in already; no, when the link was used meanwhile."""
    assert member.email == invitation.email, "an invitation is for one person"
    if not await proof_store.accept_invitation(block, _digest(token), now=now):
        return False
    await store.insert_member(
        block,
        company_id=invitation.company_id,
        person_id=member.person_id,
        role=invitation.role,
        now=now,
    )
    return True


async def change_role(
    block: Connection, actor: SignedIn, person_id: str, role: Role, *, now: datetime
) -> Role:
    """Make a member something else than the owner; the answer is what they were."""
    before = await _touched(block, actor, person_id)
    if role is Role.OWNER:
        raise NotTheirsError
    await store.set_role(block, actor.company_id, person_id, role)
    if not _leads(role):
        await proof_store.revoke_invitations_by(block, actor.company_id, person_id, now=now)
    return before


async def remove(block: Connection, actor: SignedIn, person_id: str, *, now: datetime) -> Role:
    """Take a member out of the company: their browsers there are signed out, and whom they asked
    to join is not asked any more.
    """
    before = await _touched(block, actor, person_id)
    await store.delete_member(block, actor.company_id, person_id)
    await store.end_sign_ins(block, person_id, company_id=actor.company_id, now=now)
    await proof_store.revoke_invitations_by(block, actor.company_id, person_id, now=now)
    return before


async def transfer(block: Connection, actor: SignedIn, person_id: str) -> Role:
    """Give the company to another member; the owner becomes an admin."""
    team = await store.lock_roles(block, actor.company_id)
    before = team.get(person_id)
    if before is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    if team.get(actor.person_id) is not Role.OWNER or person_id == actor.person_id:
        raise NotTheirsError
    await store.set_role(block, actor.company_id, actor.person_id, Role.ADMIN)
    await store.set_role(block, actor.company_id, person_id, Role.OWNER)
    return before


async def _touched(block: Connection, actor: SignedIn, person_id: str) -> Role:
    """Hold the team, and find what a member is whom the actor may change."""
    team = await store.lock_roles(block, actor.company_id)
    before = team.get(person_id)
    if before is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    # Who has lost the right meanwhile has lost it.
    if not _leads(team.get(actor.person_id)) or not may_touch(actor, person_id, before):
        raise NotTheirsError
    return before


def _leads(role: Role | None) -> bool:
    return role is not None and may(role, Environment.LIVE, Permission.TEAM)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
