"""An export as a record, without input or output."""

from datetime import datetime
from enum import StrEnum

import msgspec


class ExportStatus(StrEnum):
    """What became of an export."""

    SENT = "sent"
    """It went straight to the browser and is not kept."""
    WAITING = "waiting"
    READY = "ready"
    FAILED = "failed"


class ExportFile(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody takes a list away."""

    company_id: int
    export_id: str
    environment: str
    what: str
    file_name: str
    person_id: str
    person_name: str
    role: str
    asked_sealed: bytes
    asked_shown: str
    """The filter as JSON, without what nobody may read again."""
    status: ExportStatus
    rows: int
    created_at: datetime
    bytes: int = 0
    fence: int = 0
    finished_at: datetime | None = None
    expires_at: datetime | None = None

    def is_ready_at(self, now: datetime) -> bool:
        """Say whether the file can be fetched."""
        return (
            self.status is ExportStatus.READY
            and self.expires_at is not None
            and now < self.expires_at
        )
