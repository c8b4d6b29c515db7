"""Exportações: who took which list away as a file, and the long ones to be fetched."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from vintem.api.call import Answer, Stream
from vintem.dashboard import keyset
from vintem.dashboard.answers import page
from vintem.dashboard.csv_file import MEDIA_TYPE
from vintem.dashboard.exporting import file_headers
from vintem.dashboard.page import Page, shown
from vintem.dashboard.visit import Visit
from vintem.exports import service as exports
from vintem.exports.model import ExportFile, ExportStatus
from vintem.kit.errors import ErrorCode, Refusal
from vintem.members.model import Permission
from vintem.trail import service as trail

STATUS_WORDS: Final[Mapping[ExportStatus, tuple[str, str]]] = {
    ExportStatus.SENT: ("Baixado na hora", ""),
    ExportStatus.WAITING: ("Em preparo", "warn"),
    ExportStatus.READY: ("Pronto", "good"),
    ExportStatus.FAILED: ("Não foi possível", "bad"),
}
EXPIRED_WORDS: Final = ("Prazo encerrado", "")


class AskedPage(msgspec.Struct, frozen=True):
    """Which part of the list."""

    before: str = ""
    after: str = ""


async def show_exports(visit: Visit) -> Answer:
    """List exports: everybody's for whoever sees the whole trail, else one's own."""
    asked = visit.asked(AskedPage)
    database, scope = visit.resources.database, visit.scope
    person_id = None if visit.can(Permission.AUDIT) else visit.member.person_id

    async def older(than: str, rows_max: int) -> Sequence[ExportFile]:
        return await exports.list_older(
            database, scope, person_id=person_id, than=than or None, rows_max=rows_max
        )

    async def newer(than: str, rows_max: int) -> Sequence[ExportFile]:
        return await exports.list_newer(
            database, scope, person_id=person_id, than=than, rows_max=rows_max
        )

    part = await keyset.read_slice(older, newer, before=asked.before, after=asked.after)
    return page(
        visit,
        "exports.html",
        title="Exportações",
        part=part,
        lines=[(export, _words(visit, export), _filter(export)) for export in part.rows],
        may_fetch=lambda export: _may_fetch(visit, export),
    )


async def fetch_export(visit: Visit) -> Answer:
    """Send a file that the worker has made."""
    export = await exports.find(
        visit.resources.database, visit.scope, visit.call.params["exportId"]
    )
    if export is None or not _may_fetch(visit, export):
        raise Refusal(ErrorCode.NOT_FOUND)
    act = visit.act(
        "export.fetched",
        "export",
        export.export_id,
        after={"file": export.file_name, "rows": export.rows},
    )
    async with visit.resources.database.atomic() as block:
        await trail.record(block, act)
    return Stream(
        exports.pieces(visit.resources.database, export),
        export.bytes,
        MEDIA_TYPE,
        file_headers(export.file_name),
    )


def _may_fetch(visit: Visit, export: ExportFile) -> bool:
    """One's own, as long as one is still what one was; everybody's with the whole trail."""
    is_own = export.person_id == visit.member.person_id and export.role == visit.member.role
    return export.is_ready_at(visit.call.now) and (is_own or visit.can(Permission.AUDIT))


def _words(visit: Visit, export: ExportFile) -> tuple[str, str]:
    is_over = export.status is ExportStatus.READY and not export.is_ready_at(visit.call.now)
    return EXPIRED_WORDS if is_over else STATUS_WORDS[export.status]


def _filter(export: ExportFile) -> Mapping[str, object]:
    return msgspec.json.decode(export.asked_shown, type=dict[str, object])


PAGES: Final[tuple[Page, ...]] = (
    shown("/exports", show_exports, Permission.EXPORT, "Exportações"),
    shown("/exports/{exportId}/file", fetch_export, Permission.EXPORT, "Arquivo de exportação"),
)
