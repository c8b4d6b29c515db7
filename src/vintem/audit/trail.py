"""What must be true of the trail: each company's acts are a whole chain."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant

# Each act is hashed again by the server itself, in the way that the model writes it.
_BROKEN: Final = """
    select company_id, sequence, at, action, is_altered, is_torn
    from (
        select company_id, sequence, at, action,
            hash <> sha256(convert_to((
                select string_agg(
                    octet_length(convert_to(field, 'UTF8')) || ':' || field || ',', ''
                    order by place
                )
                from unnest(array[
                    company_id::text, sequence::text, encode(previous_hash, 'hex'), environment,
                    to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), actor_kind,
                    actor_id, actor_name, role, ip, user_agent, action, target_type, target_id,
                    before, after, reason, request_id
                ]) with ordinality as written (field, place)
            ), 'UTF8')) as is_altered,
            sequence <> coalesce(lag(sequence) over chain, 0) + 1
                or previous_hash <> coalesce(
                    lag(hash) over chain, decode(repeat('00', 32), 'hex')
                ) as is_torn
        from act
        window chain as (partition by company_id order by sequence)
    ) as checked
    where is_altered or is_torn
"""
"""Acts that are not as they were written, and acts whose predecessor is not the one they name."""

_LOST_ENDS: Final = """
    select company_id, head.sequence as head, last.sequence as last
    from trail_head as head
    full join (
        select distinct on (company_id) company_id, sequence, hash
        from act order by company_id, sequence desc
    ) as last using (company_id)
    where head.sequence is distinct from coalesce(last.sequence, 0)
        or last.sequence is not null and head.hash is distinct from last.hash
"""
"""Chains that do not end where their head says."""

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "T1",
        "An act of the trail is as it was written, and follows the one whose hash it names.",
        f"""
        select distinct on (company_id) * from ({_BROKEN}) as broken
        order by company_id, sequence
        """,  # noqa: S608 - a constant
    ),
    Invariant(
        "T2",
        "A company's trail ends with the act that its head names.",
        _LOST_ENDS,
    ),
)
