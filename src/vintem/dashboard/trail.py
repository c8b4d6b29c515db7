"""Auditoria: who did what in the company, when and from where."""

from collections.abc import AsyncIterator, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

import msgspec

from vintem.api.call import Answer
from vintem.companies.model import Environment
from vintem.dashboard import keyset
from vintem.dashboard.answers import page
from vintem.dashboard.csv_file import Cell, Export, Source
from vintem.dashboard.exporting import exported
from vintem.dashboard.page import Page, count_visit, shown
from vintem.dashboard.roles import ROLE_NAMES
from vintem.dashboard.subjects import WHOLE, is_seen, subjects_of, words_of
from vintem.dashboard.typed import day_of
from vintem.dashboard.visit import Visit
from vintem.kit.clock import start_of_business_day
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members.model import Permission, Role, may
from vintem.trail import service as trail
from vintem.trail.model import ActFilter, Link

ROWS_AT_ONCE: Final = 500
VERIFICATIONS_PER_MINUTE: Final = 5
ONE_DAY: Final = timedelta(days=1)


class Asked(msgspec.Struct, frozen=True):
    """Which acts are asked for, as the address says it."""

    actor: str = ""
    action: str = ""
    target: str = ""
    since: str = ""
    until: str = ""


class AskedPage(Asked, frozen=True):
    """The same, and which part of the list."""

    before: str = ""
    after: str = ""
    verify: str = ""


class Change(NamedTuple):
    """One line of what an act has changed."""

    name: str
    before: str
    after: str

    @property
    def is_change(self) -> bool:
        """Tell whether the field has another value now."""
        return self.before != self.after


async def show_trail(visit: Visit) -> Answer:
    """List the acts that the member may see."""
    asked = visit.asked(AskedPage)
    database, company_id = visit.resources.database, visit.scope.company_id
    wanted = _wanted(asked, visit.environment, visit.member.role)

    async def older(than: str, rows_max: int) -> Sequence[Link]:
        number = _number(than)
        return await trail.list_older(database, company_id, wanted, than=number, rows_max=rows_max)

    async def newer(than: str, rows_max: int) -> Sequence[Link]:
        number = _number(than) or 0
        return await trail.list_newer(database, company_id, wanted, than=number, rows_max=rows_max)

    shown_part = await keyset.read_slice(older, newer, before=asked.before, after=asked.after)
    is_whole = visit.can(WHOLE)
    is_verified = is_whole and bool(asked.verify)
    if is_verified:
        # The whole chain is read for it.
        count_visit(visit, "verifications", per_minute=VERIFICATIONS_PER_MINUTE)
    return page(
        visit,
        "trail.html",
        title="Auditoria",
        asked=asked,
        filters=_filters(asked),
        part=shown_part,
        actors=await trail.list_actors(database, company_id) if is_whole else (),
        actions=[
            (action, words_of(action))
            for action in await trail.list_actions(database, company_id)
            if is_seen(action, visit.member.role, may_see_all=is_whole)
        ],
        words_of=words_of,
        role_names=ROLE_NAMES,
        is_verified=is_verified,
        broken=await trail.verify(database, company_id) if is_verified else None,
    )


async def show_act(visit: Visit) -> Answer:
    """Show one act with what it has changed."""
    number = _number(visit.call.params["sequence"])
    act = await trail.find_act(
        visit.resources.database, visit.scope.company_id, -1 if number is None else number
    )
    if act is None or act.environment not in {visit.environment, ""}:
        raise Refusal(ErrorCode.NOT_FOUND)
    if not is_seen(act.action, visit.member.role, may_see_all=visit.can(WHOLE)):
        raise Refusal(ErrorCode.NOT_FOUND)
    return page(
        visit,
        "act.html",
        title=words_of(act.action),
        act=act,
        changes=_changes(act),
        role_names=ROLE_NAMES,
    )


async def _rows(source: Source, asked: Asked) -> AsyncIterator[Sequence[Cell]]:
    wanted = _wanted(asked, Environment(source.scope.environment), source.role)
    than: int | None = None
    while True:
        acts = await trail.list_older(
            source.resources.database,
            source.scope.company_id,
            wanted,
            than=than,
            rows_max=ROWS_AT_ONCE,
        )
        for act in acts:
            yield _cells(act)
        if len(acts) < ROWS_AT_ONCE:
            return
        than = acts[-1].sequence


def _cells(act: Link) -> Sequence[Cell]:
    return (
        act.sequence,
        act.at,
        act.actor_name,
        act.actor_id,
        ROLE_NAMES[Role(act.role)] if act.role in set(Role) else act.role,
        act.ip,
        act.environment,
        act.action,
        words_of(act.action),
        act.target_type,
        act.target_id,
        act.before,
        act.after,
        act.reason,
        act.request_id,
        act.hash.hex(),
    )


EXPORT: Final = Export(
    what="auditoria",
    label="Auditoria",
    header=(
        "numero",
        "data",
        "quem",
        "quem_id",
        "papel",
        "ip",
        "ambiente",
        "acao",
        "descricao",
        "alvo_tipo",
        "alvo_id",
        "antes",
        "depois",
        "motivo",
        "requisicao",
        "hash",
    ),
    asked=Asked,
    rows=_rows,
    permission=Permission.AUDIT_READ,
)


def _wanted(asked: Asked, environment: Environment, role: Role) -> ActFilter:
    first, last = day_of(asked.since), day_of(asked.until)
    return ActFilter(
        environment=environment,
        subjects=subjects_of(role, may_see_all=may(role, environment, WHOLE)),
        actor_id=asked.actor,
        action=asked.action,
        target=asked.target,
        since=None if first is None else start_of_business_day(first),
        until=None if last is None or last == date.max else start_of_business_day(last + ONE_DAY),
    )


def _filters(asked: Asked) -> dict[str, str]:
    return {name: getattr(asked, name) for name in Asked.__struct_fields__}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _changes(act: Link) -> list[Change]:
    before, after = msgspec.json.decode(act.before), msgspec.json.decode(act.after)
    names = [*after, *(name for name in before if name not in after)]
    return [Change(name, _said(before, name), _said(after, name)) for name in names]


def _said(values: dict[str, object], name: str) -> str:
    return _words_for(values.get(name))


def _words_for(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "sim" if value else "não"
    if isinstance(value, list):
        return ", ".join(_words_for(one) for one in value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


PAGES: Final[tuple[Page, ...]] = (
    shown("/trail", show_trail, Permission.AUDIT_READ, "Auditoria"),
    exported("/trail.csv", EXPORT),
    shown("/trail/{sequence}", show_act, Permission.AUDIT_READ, "Um ato da auditoria"),
)
