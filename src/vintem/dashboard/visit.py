"""One visit of a member: who it is, in which company and environment, and what they may do."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from vintem.api.call import Call
from vintem.companies.model import Environment
from vintem.dashboard.forms import Form, FormT, read_form
from vintem.kit.errors import ErrorCode, Refusal
from vintem.ledger.model import Scope
from vintem.members.model import AGE_MAX, IDLE_MAX, Permission, SignedIn, may
from vintem.resources import Resources
from vintem.runtime.crypto import derive
from vintem.trail.model import Act, ActorKind

ROOT: Final = "/dashboard"
PARAMETERS_MAX: Final = 50
USER_AGENT_CHARACTERS_MAX: Final = 200

AskedT = TypeVar("AskedT", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Visit:
    """A call of somebody who is signed in, on a page of one environment."""

    call: Call
    member: SignedIn
    environment: Environment

    @property
    def resources(self) -> Resources:
        """What lives as long as the process."""
        return self.call.resources

    @property
    def scope(self) -> Scope:
        """Whose records, and in which environment: nothing else is ever read or written."""
        return Scope(self.member.company_id, self.environment)

    @property
    def is_test(self) -> bool:
        """Tell whether no money is real here."""
        return self.environment is Environment.TEST

    @property
    def seconds_left(self) -> int:
        """How long this visit lasts if nothing more is asked for."""
        age_left = self.member.signed_in_at + AGE_MAX - self.call.now
        return int(min(IDLE_MAX, age_left).total_seconds())

    def can(self, permission: Permission | str) -> bool:
        """Say whether the member may do something here."""
        return may(self.member.role, self.environment, Permission(permission))

    def href(self, path: str = "", **query: object) -> str:
        """Give the address of a page of this environment, such as `/transactions`."""
        return address(f"{ROOT}/{self.environment}{path}", **query)

    def asked(self, shape: type[AskedT]) -> AskedT:
        """Read what the address asks for; whatever else it says is ignored."""
        known = shape.__struct_fields__
        asked = query_of(self.call)
        return shape(**{name: text.strip() for name, text in asked.items() if name in known})

    @property
    def csrf(self) -> str:
        """What a form must carry: it fits this browser in this company alone."""
        key = derive(self.resources.pepper, b"forms of the dashboard")
        what = f"{self.member.session_id} {self.member.company_id}"
        return hmac.digest(key, what.encode(), hashlib.sha256).hex()

    async def form(self, shape: type[FormT]) -> FormT:
        """Read the form that was sent, or refuse one that no page of this visit has sent."""
        sent = await read_form(self.call, shape)
        self.check_csrf(sent)
        return sent

    def check_csrf(self, sent: Form) -> None:
        """Refuse a form that no page of this visit has sent."""
        if not hmac.compare_digest(sent.csrf.encode(), self.csrf.encode()):
            raise Refusal(ErrorCode.ORIGIN_NOT_ALLOWED, "The form is of another page.")

    def act(
        self,
        action: str,
        target_type: str,
        target_id: str,
        *,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
        reason: str = "",
    ) -> Act:
        """Say what this member does, for the trail."""
        return act_of(
            self.call,
            company_id=self.member.company_id,
            environment=self.environment,
            person_id=self.member.person_id,
            name=self.member.name,
            role=self.member.role,
            action=action,
            target_type=target_type,
            target_id=target_id,
            before=before,
            after=after,
            reason=reason,
        )


def act_of(
    call: Call,
    *,
    company_id: int,
    person_id: str,
    name: str,
    role: str,
    action: str,
    target_type: str,
    target_id: str,
    environment: str = "",
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    reason: str = "",
) -> Act:
    """Say what a person does at a browser, for the trail of a company; perhaps in neither place."""
    agent = call.headers.get(b"user-agent", b"").decode("latin-1")
    return Act(
        company_id=company_id,
        environment=environment,
        at=call.now,
        actor_kind=ActorKind.PERSON,
        actor_id=person_id,
        actor_name=name,
        role=role,
        ip=call.client_ip,
        user_agent=agent[:USER_AGENT_CHARACTERS_MAX],
        action=action,
        target_type=target_type,
        target_id=target_id,
        before=before or {},
        after=after or {},
        reason=reason,
        request_id=call.request_id,
    )


def query_of(call: Call) -> dict[str, str]:
    """Read the parameters of an address, the last of each name; nothing where they are broken."""
    try:
        return dict(parse_qsl(call.query_string.decode("ascii"), max_num_fields=PARAMETERS_MAX))
    except ValueError:
        return {}


def address(path: str, **query: object) -> str:
    """Write an address of ours; parameters that say nothing are left out."""
    asked = {name: str(value) for name, value in query.items() if value not in {None, ""}}
    written = quote(path, safe="/")
    return f"{written}?{urlencode(asked)}" if asked else written
