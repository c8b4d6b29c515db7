"""What must be true of companies, their keys, limits and requests."""

from collections.abc import Sequence
from typing import Final

from vintem.audit.invariant import Invariant

INVARIANTS: Final[Sequence[Invariant]] = (
    Invariant(
        "K1",
        "A key that was replaced has an end, and its successor belongs to the same company.",
        """
        select k.key_id, k.replaced_by
        from api_key k left join api_key s on s.key_id = k.replaced_by
        where k.replaced_by is not null
            and (k.expires_at is null or s.company_id is distinct from k.company_id
                or s.type <> k.type or s.environment <> k.environment)
        """,
    ),
    Invariant(
        "L1",
        "A shared rate window holds exactly the calls between its first and its last.",
        """
        select w.company_id, w.key_id, w.group_name, w.first_call, w.last_call,
            sum(c.calls) as held
        from rate_window w left join rate_call c
            on c.company_id = w.company_id and c.key_id = w.key_id
            and c.group_name = w.group_name and c.call >= w.first_call
        group by w.company_id, w.key_id, w.group_name, w.first_call, w.last_call
        having coalesce(sum(c.calls), 0) <> w.last_call - w.first_call + 1
            or max(c.call) <> w.last_call
        """,
    ),
    Invariant(
        "G1",
        "What a request without a key has made, and is remembered for, exists.",
        """
        select i.company_id, i.environment, i.entity_id
        from implicit_intent i left join transaction t
            on t.company_id = i.company_id and t.transaction_id = i.entity_id
            and t.environment = i.environment and t.fingerprint = i.fingerprint
        where i.operation = 'transaction' and t.transaction_id is null
        union all
        select i.company_id, i.environment, i.entity_id
        from implicit_intent i left join withdrawal w
            on w.company_id = i.company_id and w.withdrawal_id = i.entity_id
            and w.environment = i.environment
        where i.operation = 'withdrawal' and w.withdrawal_id is null
        """,
    ),
)
