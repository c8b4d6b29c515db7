"""What happens to the trail: acts are added, read and checked, and nothing else."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from vintem.runtime.db import Connection, Database
from vintem.runtime.log import REDACTED, redact_secrets
from vintem.trail import store
from vintem.trail.model import GENESIS, Act, ActFilter, Link, hash_of

OPTIONS_MAX: Final = 200
CHECKED_AT_ONCE_MAX: Final = 500
TEXT_CHARACTERS_MAX: Final = 2_000
TARGET_CHARACTERS_MAX: Final = 300
"""Whatever somebody names that is none of ours must fit into the index of targets."""

# What is not kept whatever it looks like, by the name of the field; an id or a last four may be.
SECRET_NAMES: Final = re.compile(
    r"(?i)pass(word|wd|phrase)|senha|secret(?!_?keys?_?id)|token|authorization|cookie|cvv|pepper"
    r"|document|cpf|cnpj|totp|backup_?codes?|pix_?key(?!_?type)|^(api_?)?key$|pan$|card_?number"
    r"|wallet_?address"
)

_JSON: Final = msgspec.json.Encoder(order="deterministic", enc_hook=str)


async def record(block: Connection, act: Act) -> None:
    """Add an act to its company's chain, in the commit of what it tells of.

    It holds the end of the chain until the commit: call it after everything else in the block.
    """
    assert not isinstance(block, Database), "an act belongs in the commit of what it tells of"
    sequence, previous_hash = await store.lock_head(block, act.company_id)
    link = Link(
        company_id=act.company_id,
        sequence=sequence + 1,
        previous_hash=previous_hash,
        environment=act.environment,
        at=act.at,
        actor_kind=act.actor_kind,
        actor_id=act.actor_id,
        actor_name=act.actor_name,
        role=act.role,
        ip=act.ip,
        user_agent=act.user_agent,
        action=act.action,
        target_type=act.target_type,
        target_id=redact_secrets(act.target_id)[:TARGET_CHARACTERS_MAX],
        before=_written(act.before),
        after=_written(act.after),
        reason=redact_secrets(act.reason)[:TEXT_CHARACTERS_MAX],
        request_id=act.request_id,
    )
    await store.append(block, msgspec.structs.replace(link, hash=hash_of(link)))


async def list_older(
    db: Connection, company_id: int, wanted: ActFilter, *, than: int | None = None, rows_max: int
) -> Sequence[Link]:
    """The acts before one, or the last ones of all, the newest first."""
    return await store.list_older(db, company_id, wanted, than=than, rows_max=rows_max)


async def list_newer(
    db: Connection, company_id: int, wanted: ActFilter, *, than: int, rows_max: int
) -> Sequence[Link]:
    """The acts just after one, the newest first."""
    return list(
        reversed(await store.list_newer(db, company_id, wanted, than=than, rows_max=rows_max))
    )


async def find_act(db: Connection, company_id: int, sequence: int) -> Link | None:
    """Find an act by its number."""
    return await store.find_act(db, company_id, sequence)


async def list_actors(db: Connection, company_id: int) -> Sequence[tuple[str, str]]:
    """Who has ever acted: ids and names."""
    return await store.list_actors(db, company_id, rows_max=OPTIONS_MAX)


async def list_actions(db: Connection, company_id: int) -> Sequence[str]:
    """What has ever been done."""
    return await store.list_actions(db, company_id, rows_max=OPTIONS_MAX)


async def verify(db: Connection, company_id: int) -> int | None:
    """Walk a company's whole chain; the answer is the first act that is wrong or missing.

    Acts may be added meanwhile: the chain must reach the end that it had before, and not go
    beyond the end that it has afterwards.
    """
    first_end = await store.find_head(db, company_id)
    sequence, digest = 0, GENESIS
    while acts := await store.list_from(
        db, company_id, after=sequence, rows_max=CHECKED_AT_ONCE_MAX
    ):
        for act in acts:
            is_next = act.sequence == sequence + 1 and act.previous_hash == digest
            if not is_next or act.hash != hash_of(act):
                return sequence + 1
            sequence, digest = act.sequence, act.hash
            if sequence == first_end[0] and digest != first_end[1]:
                return sequence
    last_end = await store.find_head(db, company_id)
    if sequence < first_end[0]:
        return sequence + 1
    return None if sequence <= last_end[0] else last_end[0] + 1


def _written(values: Mapping[str, object]) -> str:
    """Write values as JSON, those that nobody may read again left out."""
    return _JSON.encode(redacted(values)).decode()


def redacted(values: Mapping[str, object]) -> dict[str, object]:
    """Replace secrets and documents, by the names of fields and by what values look like."""
    return {
        name: REDACTED if SECRET_NAMES.search(name) and value not in _NOTHING else _clean(value)
        for name, value in values.items()
    }


_NOTHING: Final = (None, "", False, True)


def _clean(value: object) -> object:
    if isinstance(value, Mapping):
        return redacted({str(name): inner for name, inner in value.items()})
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact_secrets(str(value))[:TEXT_CHARACTERS_MAX]
