"""From a list to its file: at once when it is short, by the worker when it is long."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from vintem.api.call import Answer, Content
from vintem.dashboard.answers import HEADERS, go
from vintem.dashboard.csv_file import MEDIA_TYPE, AnyExport, Source, file_name, head, line
from vintem.dashboard.masks import mask_email
from vintem.dashboard.page import Page, count_visit, deny
from vintem.dashboard.visit import Visit
from vintem.exports import service as exports
from vintem.exports.model import ExportFile, ExportStatus
from vintem.kit.clock import utc_now
from vintem.kit.ids import Prefix, new_id
from vintem.ledger.model import Scope
from vintem.members.model import Permission, Role
from vintem.resources import Resources
from vintem.trail import service as trail
from vintem.trail.model import Act, ActorKind

ROWS_AT_ONCE_MAX: Final = 10_000
# What the usual spreadsheet opens, without the line of the header.
FILE_ROWS_MAX: Final = 1_048_575
PIECE_BYTES: Final = 1024 * 1024
EXPORTS_PER_MINUTE: Final = 10
PURPOSE: Final = b"filter of an export"
PERSONAL: Final = frozenset({"who"})
"""The fields of filters that name a buyer."""


def exported(path: str, export: AnyExport) -> Page:
    """Declare that a list can be had as a file, at an address that takes the filter of its page."""

    async def answer(visit: Visit) -> Answer:
        if not visit.can(export.permission):
            return await deny(visit, "page", path, reason=export.permission)
        # Nobody takes lists faster than this by hand.
        count_visit(visit, "exports", per_minute=EXPORTS_PER_MINUTE)
        return await _export(visit, export)

    return Page(
        method="GET",
        path=path,
        handler=answer,
        permission=Permission.EXPORT,
        summary=f"{export.label} (CSV)",
        export=export,
    )


async def _export(visit: Visit, export: AnyExport) -> Answer:
    asked = visit.asked(export.asked)
    source = Source(visit.resources, visit.scope, visit.member.role, visit.call.now)
    written = await _short_file(export, export.rows(source, asked))
    note = _note(visit, export, asked, written)
    act = visit.act(
        "export.requested" if written is None else "export.made",
        "export",
        note.export_id,
        after={"file": note.file_name, "filter": _said(asked), "rows": note.rows},
    )
    async with visit.resources.database.atomic() as block:
        await exports.note(block, note)
        await trail.record(block, act)
    if written is None:
        return go(visit.href("/exports", said="export-waiting"))
    return Content(b"".join(written), MEDIA_TYPE, headers=file_headers(note.file_name))


async def make_waiting(
    resources: Resources, known: Mapping[str, AnyExport], *, now: datetime
) -> int:
    """Make the file that waits longest; meant for the worker."""
    waiting = await exports.claim(resources.database, now=now)
    if waiting is None:
        return 0
    export = known.get(waiting.what)
    plain = resources.sealer.open(waiting.asked_sealed, purpose=PURPOSE)
    if export is None or plain is None or waiting.fence > exports.ATTEMPTS_MAX:
        await _give_up(resources, waiting, now=now)
        return 1
    scope = Scope(waiting.company_id, waiting.environment)
    source = Source(resources, scope, Role(waiting.role), now)
    rows = export.rows(source, msgspec.json.decode(plain, type=export.asked))
    try:
        await _write_file(resources, waiting, export, rows)
    except TooLongError:
        await _give_up(resources, waiting, now=now)
    return 1


class TooLongError(Exception):
    """No spreadsheet opens a file of so many rows."""


async def _write_file(
    resources: Resources, waiting: ExportFile, export: AnyExport, rows: AsyncIterator[Sequence[Any]]
) -> None:
    piece, number, count, size = bytearray(head(export)), 1, 0, 0
    async for cells in rows:
        if count == FILE_ROWS_MAX:
            raise TooLongError
        piece += line(export, cells)
        count += 1
        if len(piece) >= PIECE_BYTES:
            await _keep(resources, waiting, number, bytes(piece))
            size, number = size + len(piece), number + 1
            piece.clear()
    if piece:
        await _keep(resources, waiting, number, bytes(piece))
        size += len(piece)
    now = utc_now()
    async with resources.database.atomic() as block:
        await exports.finish(block, waiting, rows=count, size=size, now=now)
        await trail.record(block, _act(waiting, "export.made", {"rows": count}, now=now))


async def _keep(resources: Resources, waiting: ExportFile, number: int, piece: bytes) -> None:
    await exports.write_piece(
        resources.database, waiting, number=number, content=piece, now=utc_now()
    )


async def _give_up(resources: Resources, waiting: ExportFile, *, now: datetime) -> None:
    async with resources.database.atomic() as block:
        await exports.give_up(block, waiting, now=now)
        await trail.record(block, _act(waiting, "export.failed", {}, now=now))


def _act(waiting: ExportFile, action: str, after: Mapping[str, object], *, now: datetime) -> Act:
    return Act(
        company_id=waiting.company_id,
        environment=waiting.environment,
        at=now,
        actor_kind=ActorKind.SYSTEM,
        actor_id="worker",
        actor_name="Vintém",
        role="",
        ip="",
        user_agent="",
        action=action,
        target_type="export",
        target_id=waiting.export_id,
        after={"file": waiting.file_name, **after},
    )


async def _short_file(export: AnyExport, rows: AsyncIterator[Sequence[Any]]) -> list[bytes] | None:
    """Write a list that is short enough to be sent at once; nothing of one that is not."""
    written = [head(export)]
    async for cells in rows:
        if len(written) > ROWS_AT_ONCE_MAX:
            return None
        written.append(line(export, cells))
    return written


def _note(
    visit: Visit, export: AnyExport, asked: msgspec.Struct, written: list[bytes] | None
) -> ExportFile:
    sealed = visit.resources.sealer.seal(msgspec.json.encode(asked), purpose=PURPOSE)
    return ExportFile(
        company_id=visit.scope.company_id,
        export_id=new_id(Prefix.EXPORT),
        environment=visit.environment,
        what=export.what,
        file_name=file_name(export, asked, environment=visit.environment, now=visit.call.now),
        person_id=visit.member.person_id,
        person_name=visit.member.name,
        role=visit.member.role,
        asked_sealed=sealed,
        asked_shown=msgspec.json.encode(trail.redacted(_said(asked))).decode(),
        status=ExportStatus.WAITING if written is None else ExportStatus.SENT,
        rows=0 if written is None else len(written) - 1,
        created_at=visit.call.now,
    )


def _said(asked: msgspec.Struct) -> dict[str, object]:
    """Give what a filter says, without what it leaves open."""
    said = {name: value for name, value in msgspec.structs.asdict(asked).items() if value}
    # The trail keeps what it is told for ever: not whom somebody has looked for.
    return said | {name: mask_email(said[name]) for name in PERSONAL & said.keys()}


def file_headers(name: str) -> tuple[tuple[bytes, bytes], ...]:
    """Say that an answer is a file to be kept, for this browser alone."""
    assert name.isascii()
    return (*HEADERS, (b"content-disposition", f'attachment; filename="{name}"'.encode()))
