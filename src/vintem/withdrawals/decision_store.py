"""The SQL of what people decided about withdrawals, and of what providers told of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from vintem.kit.ids import Prefix, new_id
from vintem.runtime.db import Connection, Row
from vintem.withdrawals.model import (
    Decision,
    DecisionKind,
    Entry,
    NoticeOutcome,
    PayoutNotice,
    Withdrawal,
)


async def insert_decision(db: Connection, decision: Decision) -> None:
    """Write down who decided what."""
    await db.execute(
        """
        insert into decision_log (
            company_id, decision_id, subject, decision, decided_by, reason, created_at
        ) values ($1, $2, $3, $4, $5, $6, $7)
        """,
        decision.company_id,
        new_id(Prefix.DECISION),
        decision.subject,
        decision.kind,
        decision.decided_by,
        decision.reason,
        decision.at,
    )


async def find_approval_reasons(
    db: Connection, wanted: Sequence[Withdrawal]
) -> Mapping[tuple[int, str], str]:
    """Why withdrawals needed a second person, by company and id; those that needed none aside."""
    rows = await db.fetch(
        """
        select d.company_id, d.subject, d.reason
        from unnest($1::bigint[], $2::text[]) as w (company_id, withdrawal_id)
        join decision_log d on d.company_id = w.company_id and d.subject = w.withdrawal_id
        where d.decision = 'approval_required'
        """,
        [each.company_id for each in wanted],
        [each.withdrawal_id for each in wanted],
    )
    return {(row["company_id"], row["subject"]): row["reason"] for row in rows}


async def list_decisions(
    db: Connection, company_id: int, subjects: Sequence[str]
) -> Sequence[Decision]:
    """All that was decided about some of a company's withdrawals, the oldest first."""
    rows = await db.fetch(
        """
        select * from decision_log where company_id = $1 and subject = any($2::text[])
        order by created_at, decision_id
        """,
        company_id,
        list(subjects),
    )
    return [_decision(row) for row in rows]


async def find_last_switch(db: Connection, company_id: int, subject: str) -> Decision | None:
    """Find who stopped withdrawals, or let them go on, last."""
    row = await db.fetchrow(
        """
        select * from decision_log
        where company_id = $1 and subject = $2 and decision in ('paused', 'resumed')
        order by created_at desc, decision_id desc limit 1
        """,
        company_id,
        subject,
    )
    return None if row is None else _decision(row)


async def list_entries(db: Connection, withdrawal: Withdrawal) -> Sequence[Entry]:
    """All that happened to a withdrawal, the oldest first."""
    rows = await db.fetch(
        """
        select created_at as at, 1 as place, to_status as what, '' as by, '' as note
        from withdrawal_history where company_id = $1 and withdrawal_id = $2
        union all
        select created_at, 2, decision, decided_by, reason
        from decision_log where company_id = $1 and subject = $2
        union all
        select received_at, 0, coalesce(kind, 'notice'), notice_id,
            concat_ws(', ', amount || ' cents', outcome)
        from payout_notice where company_id = $1 and request_id = $3
        order by at, place, what
        """,
        withdrawal.company_id,
        withdrawal.withdrawal_id,
        withdrawal.request_id,
    )
    return [Entry(row["at"], row["what"], row["by"], row["note"]) for row in rows]


async def insert_notice(
    db: Connection, notice: PayoutNotice, outcome: NoticeOutcome, *, now: datetime
) -> bool:
    """Note a provider's word and what it does; false when it was told before."""
    found = await db.fetchval(
        """
        insert into payout_notice (
            company_id, notice_id, environment, request_id, kind, amount, outcome, received_at
        ) values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing returning true
        """,
        notice.scope.company_id,
        notice.notice_id,
        notice.scope.environment,
        notice.request_id,
        notice.kind,
        notice.amount,
        outcome,
        now,
    )
    return bool(found)


def _decision(row: Row) -> Decision:
    return Decision(
        company_id=row["company_id"],
        subject=row["subject"],
        kind=DecisionKind(row["decision"]),
        decided_by=row["decided_by"],
        reason=row["reason"],
        at=row["created_at"],
    )
