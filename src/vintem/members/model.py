"""People, their roles and what each role may do, without input or output."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Final

import msgspec

from vintem.companies.model import Environment

NAME_CHARACTERS_MAX: Final = 120
EMAIL_CHARACTERS_MAX: Final = 254
IDLE_MAX: Final = timedelta(minutes=30)
"""How long a browser may be left alone."""
AGE_MAX: Final = timedelta(hours=12)
"""How long a browser stays signed in, however busy."""
TEAM_MAX: Final = 100
"""People and open invitations of one company."""

_EMAIL: Final = re.compile(
    r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[a-z0-9-]{1,63}\.)+[a-z0-9-]{2,63}"
)


class Verdict(Enum):
    """What became of a try to prove who one is."""

    RIGHT = "right"
    WRONG = "wrong"
    TOO_MANY = "too many"


class Role(StrEnum):
    """What a person is in a company."""

    OWNER = "owner"
    ADMIN = "admin"
    FINANCE = "finance"
    DEVELOPER = "developer"
    SUPPORT = "support"


class Permission(StrEnum):
    """Something that a page shows or a form does."""

    SIGNED_IN = "signed-in"
    """What everybody may who has signed in: their own security, signing out."""
    SALES_READ = "sales.read"
    PERSONAL_READ = "personal.read"
    """Names, documents and addresses of buyers without a mask."""
    PERSONAL_REVEAL = "personal.reveal"
    """The same of one buyer at a time, each time written into the trail."""
    REFUND = "refund"
    TRANSACTION_CANCEL = "transaction.cancel"
    SESSION_MANAGE = "session.manage"
    SUPPORT = "support"
    CATALOGUE_READ = "catalogue.read"
    CATALOGUE = "catalogue"
    APPEARANCE = "appearance"
    BALANCE_READ = "balance.read"
    WITHDRAW = "withdrawal.create"
    APPROVE = "withdrawal.approve"
    KEYS_READ = "keys.read"
    CHECKOUT_KEYS = "keys.checkout"
    SECRET_KEYS = "keys.secret"  # noqa: S105 - the name of a permission
    WEBHOOKS_READ = "webhooks.read"
    WEBHOOKS = "webhooks"
    RESEND = "webhook.resend"
    LOGS = "logs"
    SIMULATE = "simulate"
    COMPANY_READ = "company.read"
    COMPANY = "company"
    TEAM = "team"
    EXPORT = "export"
    AUDIT_READ = "audit.read"
    """The part of the trail that concerns the role."""
    AUDIT = "audit"
    """The whole of the trail."""
    OWNERSHIP = "ownership"


_EVERYBODY: Final = frozenset(
    {Permission.SIGNED_IN, Permission.SALES_READ, Permission.CATALOGUE_READ}
)
_FINANCE: Final = _EVERYBODY | {
    Permission.PERSONAL_READ,
    Permission.REFUND,
    Permission.SUPPORT,
    Permission.BALANCE_READ,
    Permission.WITHDRAW,
    Permission.APPROVE,
    Permission.COMPANY_READ,
    Permission.EXPORT,
    Permission.AUDIT_READ,
}
_DEVELOPER: Final = _EVERYBODY | {
    Permission.PERSONAL_READ,
    Permission.APPEARANCE,
    Permission.KEYS_READ,
    Permission.CHECKOUT_KEYS,
    Permission.WEBHOOKS_READ,
    Permission.WEBHOOKS,
    Permission.RESEND,
    Permission.LOGS,
    Permission.COMPANY_READ,
    Permission.AUDIT_READ,
}
# Where no money is real a developer tries everything that moves it.
_DEVELOPER_IN_TEST: Final = _DEVELOPER | {
    Permission.REFUND,
    Permission.TRANSACTION_CANCEL,
    Permission.SESSION_MANAGE,
    Permission.CATALOGUE,
    Permission.BALANCE_READ,
    Permission.WITHDRAW,
    Permission.APPROVE,
    Permission.SECRET_KEYS,
    Permission.SIMULATE,
    Permission.EXPORT,
}
_SUPPORT: Final = _EVERYBODY | {
    Permission.PERSONAL_REVEAL,
    Permission.TRANSACTION_CANCEL,
    Permission.SESSION_MANAGE,
    Permission.SUPPORT,
    Permission.WEBHOOKS_READ,
    Permission.RESEND,
    Permission.LOGS,
}
_OWNER_IN_TEST: Final = frozenset(Permission)
_OWNER: Final = _OWNER_IN_TEST - {Permission.SIMULATE}
_ADMIN_IN_TEST: Final = _OWNER_IN_TEST - {Permission.OWNERSHIP}
_ADMIN: Final = _ADMIN_IN_TEST - {Permission.SIMULATE}

ROLE_PERMISSIONS: Final[Mapping[Role, Mapping[Environment, frozenset[Permission]]]] = {
    Role.OWNER: {Environment.LIVE: _OWNER, Environment.TEST: _OWNER_IN_TEST},
    Role.ADMIN: {Environment.LIVE: _ADMIN, Environment.TEST: _ADMIN_IN_TEST},
    Role.FINANCE: {Environment.LIVE: _FINANCE, Environment.TEST: _FINANCE},
    Role.DEVELOPER: {Environment.LIVE: _DEVELOPER, Environment.TEST: _DEVELOPER_IN_TEST},
    Role.SUPPORT: {Environment.LIVE: _SUPPORT, Environment.TEST: _SUPPORT},
}
"""Who may do what, and where: routes, templates and tests read this table and no other."""


def may(role: Role, environment: Environment, permission: Permission) -> bool:
    """Say whether a role may do something in an environment."""
    return permission in ROLE_PERMISSIONS[role][environment]


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A person at a browser, in one of their companies."""

    session_id: str
    person_id: str
    email: str
    name: str
    company_id: int
    company_public_id: str
    company_name: str
    is_company_suspended: bool
    role: Role
    has_totp: bool
    signed_in_at: datetime
    companies: tuple[tuple[str, str], ...] = ()
    """The public id and the name of every company that the person may change to."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who signs in, and what proves that it is them."""

    person_id: str
    email: str
    name: str
    password_hash: str | None
    totp_sealed: bytes | None
    totp_last_step: int | None

    @property
    def has_totp(self) -> bool:
        """Tell whether a code is asked for after the password."""
        return self.totp_sealed is not None


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A person in a company, as its team sees them."""

    person_id: str
    email: str
    name: str
    role: Role
    has_totp: bool
    joined_at: datetime
    signed_in_at: datetime | None


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who was asked to join a company."""

    invitation_id: str
    company_id: int
    company_name: str
    email: str
    role: Role
    invited_by: str
    """The name of who asked; empty for an operator of the platform."""
    created_at: datetime
    expires_at: datetime


class Browser(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a person is signed in."""

    session_id: str
    company_name: str
    ip: str
    user_agent: str
    created_at: datetime
    last_seen_at: datetime


def email_of(text: str) -> str | None:
    """Read an e-mail as it is kept, in small letters; or nothing, when it is none."""
    email = text.strip().lower()
    is_one = len(email) <= EMAIL_CHARACTERS_MAX and _EMAIL.fullmatch(email) is not None
    return email if is_one else None


def may_touch(actor: SignedIn, person_id: str, role: Role) -> bool:
    """Say whether a member may change what another is: never the owner, and never oneself."""
    return role is not Role.OWNER and person_id != actor.person_id
