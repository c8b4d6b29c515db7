"""The invariants: each a statement that must return no rows, and the run over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vintem.checkout.invariants import INVARIANTS as CHECKOUT_INVARIANTS
from vintem.kit.invariant import Invariant
from vintem.runtime.db import Connection, Database

ROWS_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """What an invariant's statement returned: nothing, if all is well."""

    invariant: Invariant
    rows: Sequence[str]


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
            count(c.call) as held
        from rate_window w left join rate_call c
            on c.company_id = w.company_id and c.key_id = w.key_id
            and c.group_name = w.group_name and c.call between w.first_call and w.last_call
        group by w.company_id, w.key_id, w.group_name, w.first_call, w.last_call
        having count(c.call) <> w.last_call - w.first_call + 1
        """,
    ),
    Invariant(
        "I1",
        "A posting adds up to zero.",
        """
        select company_id, environment, kind, reference, amounts
        from posting where (select sum(amount) from unnest(amounts) as amount) <> 0
        """,
    ),
    Invariant(
        "I2",
        "The balance of an account is the sum of its legs over all postings.",
        """
        select company_id, environment, code, a.balance, l.total
        from account a full join (
            select company_id, environment, code, sum(amount) as total
            from posting cross join lateral unnest(codes, amounts) as leg (code, amount)
            where code not in ('fee', 'bank', 'receivable', 'suspense', 'fx')
            group by company_id, environment, code
        ) l using (company_id, environment, code)
        where a.balance is null or a.balance <> coalesce(l.total, 0)
        """,
    ),
    Invariant(
        "I3",
        "No balance is below zero but that of debt, which is never above it.",
        """
        select company_id, environment, code, balance
        from account where case code when 'debt' then balance > 0 else balance < 0 end
        """,
    ),
    Invariant(
        "I4",
        "All legs of a company add up to zero in each environment.",
        """
        select company_id, environment, sum(amount) as total
        from posting cross join lateral unnest(amounts) as amount
        group by company_id, environment having sum(amount) <> 0
        """,
    ),
    Invariant(
        "I5",
        "The legs of an account are numbered from 1 to its version, without gap or repeat.",
        """
        select company_id, environment, code, a.version, l.legs, l.different, l.first, l.last
        from account a full join (
            select company_id, environment, code, count(*) as legs,
                count(distinct version) as different, min(version) as first, max(version) as last
            from posting cross join lateral unnest(codes, versions) as leg (code, version)
            where code not in ('fee', 'bank', 'receivable', 'suspense', 'fx')
            group by company_id, environment, code
        ) l using (company_id, environment, code)
        where a.version is distinct from coalesce(l.legs, 0)
            or l.different <> l.legs or l.first <> 1 or l.last <> l.legs
        """,
    ),
    Invariant(
        "I9",
        "What stands in release and in reserve is what the schedule has yet to release.",
        """
        select company_id, environment, account, a.balance, r.waiting
        from (
            select company_id, environment, code as account, balance
            from account where code in ('release', 'reserve')
        ) a full join (
            select company_id, environment, account, sum(open) as waiting
            from release_schedule where released_at is null
            group by company_id, environment, account
        ) r using (company_id, environment, account)
        where coalesce(a.balance, 0) <> coalesce(r.waiting, 0)
        """,
    ),
    Invariant(
        "R1",
        "What waits for a day is what the schedule has yet to release on it.",
        """
        select company_id, environment, account, due_on, d.waiting, r.open
        from release_day d full join (
            select company_id, environment, account, due_on, sum(open) as open
            from release_schedule where released_at is null
            group by company_id, environment, account, due_on
        ) r using (company_id, environment, account, due_on)
        where coalesce(d.waiting, 0) <> coalesce(r.open, 0)
        """,
    ),
    Invariant(
        "I10",
        "What stands in dispute, blocked, refund and payout is the sum of the open holds of that"
        " kind.",
        """
        select company_id, environment, account, a.balance, h.held
        from (
            select company_id, environment, code as account, balance
            from account where code in ('dispute', 'blocked', 'refund', 'payout')
        ) a full join (
            select company_id, environment,
                case kind when 'block' then 'blocked' when 'withdrawal' then 'payout'
                    else kind end as account,
                sum(amount) as held
            from hold where resolution is null
            group by company_id, environment, kind
        ) h using (company_id, environment, account)
        where coalesce(a.balance, 0) <> coalesce(h.held, 0)
        """,
    ),
    Invariant(
        "I8",
        "A withdrawal has one hold of what it debits, open while it may still come to nothing, and"
        " ended as it ended; what left is booked once, what came back too.",
        """
        select company_id, environment, reference, w.status, w.total_debited, h.amount,
            h.resolution, p.paid, p.given
        from (
            select company_id, environment, withdrawal_id as reference, status, total_debited
            from withdrawal
        ) w full join (
            select company_id, environment, reference, amount, resolution
            from hold where kind = 'withdrawal'
        ) h using (company_id, environment, reference)
        full join (
            select company_id, environment, reference,
                -sum(amounts[array_position(codes, 'payout')])
                    filter (where kind = 'withdrawal_paid') as paid,
                -sum(amounts[array_position(codes, 'payout')])
                    filter (where kind = 'withdrawal_returned') as given
            from posting where kind in ('withdrawal_paid', 'withdrawal_returned')
            group by company_id, environment, reference
        ) p using (company_id, environment, reference)
        where w.total_debited is distinct from h.amount
            or h.resolution is distinct from case w.status
                when 'completed' then 'paid_out'
                when 'failed' then 'restored'
                when 'cancelled' then 'restored' end
            or p.paid is distinct from case w.status when 'completed' then w.total_debited end
            or p.given is distinct from case
                when w.status in ('failed', 'cancelled') then w.total_debited end
        """,
    ),
    Invariant(
        "I8a",
        "What a completed crypto withdrawal bought is booked once, in its own unit, for what left"
        " in reais; nothing else is.",
        """
        select company_id, environment, reference, w.asset, w.asset_units, w.net_amount,
            a.asset as booked_asset, a.units, p.changed
        from (
            select company_id, environment, withdrawal_id as reference, asset, asset_units,
                net_amount
            from withdrawal where status = 'completed' and asset is not null
        ) w full join (
            select company_id, environment, reference, asset,
                amounts[array_position(codes, 'crypto')] as units,
                (select sum(amount) from unnest(amounts) as amount) as total
            from asset_posting where kind = 'withdrawal_paid'
        ) a using (company_id, environment, reference)
        full join (
            select company_id, environment, reference,
                amounts[array_position(codes, 'fx')] as changed
            from posting where 'fx' = any(codes)
        ) p using (company_id, environment, reference)
        where w.asset is distinct from a.asset or w.asset_units is distinct from a.units
            or w.net_amount is distinct from p.changed or a.total <> 0
        """,
    ),
    Invariant(
        "W1",
        "A day's total is what the withdrawals made on it debit, those that came to nothing aside.",
        """
        select company_id, environment, day, d.total, w.debited
        from withdrawal_day d full join (
            select company_id, environment,
                (created_at at time zone 'America/Sao_Paulo')::date as day,
                sum(total_debited) as debited
            from withdrawal where status not in ('failed', 'cancelled')
            group by 1, 2, 3
        ) w using (company_id, environment, day)
        where coalesce(d.total, 0) <> coalesce(w.debited, 0)
        """,
    ),
    Invariant(
        "W2",
        "A withdrawal that waited for a second person has one decision, by another than asked.",
        """
        select w.company_id, w.withdrawal_id, w.status, w.requested_by, d.decisions
        from withdrawal w left join (
            select company_id, subject, count(*) as decisions,
                array_agg(decided_by) as deciders, array_agg(decision) as kinds
            from decision_log where decision in ('approved', 'rejected')
            group by company_id, subject
        ) d on d.company_id = w.company_id and d.subject = w.withdrawal_id
        where d.decisions > 1 or w.requested_by = any(d.deciders)
            or (w.status = 'pending_approval' and d.decisions is not null)
            or (w.status <> 'pending_approval' and w.status <> 'cancelled' and d.decisions is null
                and exists (
                    select from withdrawal_history h
                    where h.company_id = w.company_id and h.withdrawal_id = w.withdrawal_id
                        and h.to_status = 'pending_approval'
                ))
        """,
    ),
    Invariant(
        "S1",
        "Each line of a statement is the balance of the line before it and its own amount.",
        """
        select company_id, environment, available_version, before, available_amount, available_after
        from (
            select company_id, environment, available_version, available_amount, available_after,
                lag(available_after, 1, 0::bigint) over (
                    partition by company_id, environment order by available_version
                ) as before
            from posting where available_version is not null
        ) line
        where available_after is distinct from before + available_amount
        """,
    ),
    Invariant(
        "S2",
        "A statement has a line for each leg of available, with its amount and its number.",
        """
        select company_id, environment, kind, reference, codes, amounts, versions,
            available_amount, available_version
        from posting
        where available_amount is distinct from amounts[array_position(codes, 'available')]
            or available_version is distinct from versions[array_position(codes, 'available')]
        """,
    ),
    Invariant(
        "I6",
        "A payment that was made has one capture of its amount, and any other has none.",
        """
        select t.company_id, t.transaction_id, t.status, t.paid_at, t.amount, c.captured
        from transaction t left join (
            select company_id, environment, reference as transaction_id,
                -sum(leg.amount) as captured
            from posting cross join lateral unnest(codes, amounts) as leg (code, amount)
            where kind = 'capture' and leg.code in ('bank', 'receivable')
            group by company_id, environment, reference
        ) c using (company_id, environment, transaction_id)
        where c.captured is distinct from case when t.paid_at is not null then t.amount end
            or (t.paid_at is null
                and t.status in ('paid', 'refunded', 'pre_chargeback', 'chargeback'))
        """,
    ),
    Invariant(
        "I7",
        "The refunds of a payment add up to what it says was given back, and never to more.",
        """
        select company_id, transaction_id, t.status, t.amount, t.refunded_amount, r.total
        from transaction t full join (
            select company_id, transaction_id, sum(amount) as total
            from refund where status <> 'failed'
            group by company_id, transaction_id
        ) r using (company_id, transaction_id)
        where t.refunded_amount is distinct from coalesce(r.total, 0)
            or t.refunded_amount > t.amount
            or (t.status = 'refunded') <> (t.refunded_amount = t.amount)
        """,
    ),
    Invariant(
        "I11",
        "Every status that a payment entered is one row of its history and one event, in a row;"
        " before its first answer there is neither.",
        """
        select company_id, transaction_id, t.status, t.sequence, h.entered, h.last, e.told
        from transaction t full join (
            select company_id, transaction_id, count(*) as entered, bool_and(is_next) as is_chain,
                (array_agg(to_status order by sequence desc))[1] as last
            from (
                select company_id, transaction_id, sequence, to_status,
                    sequence = row_number() over each_payment
                        and from_status is not distinct from lag(to_status) over each_payment
                        as is_next
                from transaction_history
                window each_payment as (
                    partition by company_id, transaction_id order by sequence
                )
            ) step
            group by company_id, transaction_id
        ) h using (company_id, transaction_id)
        full join (
            select e.company_id, e.entity_id as transaction_id, count(*) as told,
                bool_and(e.kind = 'transaction.' || coalesce(h.to_status, '')) as is_true
            from webhook_event e left join transaction_history h
                on h.company_id = e.company_id and h.transaction_id = e.entity_id
                and h.sequence = e.sequence
            where e.kind like 'transaction.%'
            group by e.company_id, e.entity_id
        ) e using (company_id, transaction_id)
        where case t.sequence when 0 then h.entered is not null or e.told is not null
            else t.sequence is null or h.entered is distinct from t.sequence
                or e.told is distinct from t.sequence or h.last <> t.status
                or not h.is_chain or not e.is_true
            end
        """,
    ),
    Invariant(
        "P1",
        "A payment that its provider has not answered is processing, and somebody will ask.",
        """
        select t.company_id, t.transaction_id, t.status, t.paid_at, r.ask_at
        from transaction t left join provider_request r
            on r.company_id = t.company_id and r.transaction_id = t.transaction_id
        where t.sequence = 0
            and (t.status <> 'processing' or t.paid_at is not null or t.answered_at is not null
                or r.ask_at is null)
        """,
    ),
    Invariant(
        "U1",
        "Money in suspense was brought by one callback each, with its amount.",
        """
        select company_id, environment, reference, s.amount, c.amount as told
        from (
            select company_id, environment, reference,
                amounts[array_position(codes, 'suspense')] as amount
            from posting where kind = 'suspense' and 'suspense' = any(codes)
        ) s full join (
            select company_id, environment, provider || '/' || callback_id as reference, amount
            from provider_callback where state = 'unclaimed'
        ) c using (company_id, environment, reference)
        where s.amount is distinct from c.amount
        """,
    ),
    Invariant(
        "I11w",
        "Every status that a withdrawal entered is one row of its history and one event, in a row.",
        """
        select company_id, withdrawal_id, t.status, t.sequence, h.entered, h.last, e.told
        from withdrawal t full join (
            select company_id, withdrawal_id, count(*) as entered, bool_and(is_next) as is_chain,
                (array_agg(to_status order by sequence desc))[1] as last
            from (
                select company_id, withdrawal_id, sequence, to_status,
                    sequence = row_number() over each_withdrawal
                        and from_status is not distinct from lag(to_status) over each_withdrawal
                        as is_next
                from withdrawal_history
                window each_withdrawal as (
                    partition by company_id, withdrawal_id order by sequence
                )
            ) step
            group by company_id, withdrawal_id
        ) h using (company_id, withdrawal_id)
        full join (
            select e.company_id, e.entity_id as withdrawal_id, count(*) as told,
                bool_and(e.kind = 'withdrawal.' || coalesce(h.to_status, '')) as is_true
            from webhook_event e left join withdrawal_history h
                on h.company_id = e.company_id and h.withdrawal_id = e.entity_id
                and h.sequence = e.sequence
            where e.kind like 'withdrawal.%'
            group by e.company_id, e.entity_id
        ) e using (company_id, withdrawal_id)
        where t.sequence is null or h.entered is distinct from t.sequence
            or e.told is distinct from t.sequence or h.last <> t.status
            or not h.is_chain or not e.is_true
        """,
    ),
    Invariant(
        "I12",
        "An idempotency key stands for one payment or one withdrawal, and within a payment for one"
        " refund.",
        """
        select company_id, environment, idempotency_key, count(*) as entities
        from transaction group by company_id, environment, idempotency_key having count(*) > 1
        union all
        select company_id, transaction_id, idempotency_key, count(*)
        from refund group by company_id, transaction_id, idempotency_key having count(*) > 1
        union all
        select company_id, environment, idempotency_key, count(*)
        from withdrawal group by company_id, environment, idempotency_key having count(*) > 1
        """,
    ),
    Invariant(
        "E1",
        "Every event that an endpoint wants has its delivery.",
        # Whoever wrote in the very moment of a registration may not have seen it.
        """
        select e.company_id, e.event_id, p.endpoint_id
        from webhook_endpoint p join webhook_event e on e.company_id = p.company_id
            and e.environment = p.environment and e.kind <> 'ping'
            and p.events && array['*', e.kind] collate "C"
            and e.created_at > p.subscribed_at + interval '10 seconds'
            and e.created_at > now() - interval '89 days'
        left join webhook_delivery d on d.company_id = e.company_id and d.lane = p.endpoint_id
            and d.entity_id = e.entity_id and d.sequence = e.sequence
        where p.is_enabled and d.delivery_id is null
        """,
    ),
    Invariant(
        "E2",
        "The events of every other record, too, are numbered from 1 without a gap.",
        """
        select company_id, entity_id, count(*) as events, max(sequence) as last
        from webhook_event
        where kind not like 'transaction.%' and kind not like 'withdrawal.%'
        group by company_id, entity_id
        having count(*) <> max(sequence) or min(sequence) <> 1
        """,
    ),
    Invariant(
        "E3",
        "A delivery has an event and a lane, and was tried as often as its log says.",
        """
        select d.company_id, d.delivery_id, d.state, d.attempts, a.tried, a.last_status
        from webhook_delivery d
        left join webhook_event e on e.company_id = d.company_id and e.entity_id = d.entity_id
            and e.sequence = d.sequence and e.environment = d.environment
        left join webhook_lane l on l.company_id = d.company_id and l.lane = d.lane
            and l.environment = d.environment
        left join (
            select company_id, delivery_id, count(*) as tried,
                (array_agg(status order by attempt desc))[1] as last_status
            from webhook_attempt group by company_id, delivery_id
        ) a on a.company_id = d.company_id and a.delivery_id = d.delivery_id
        where e.event_id is null or l.lane is null or d.attempts <> coalesce(a.tried, 0)
            or (d.state = 'delivered' and coalesce(a.last_status, 0) not between 200 and 299)
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
    *CHECKOUT_INVARIANTS,
)


async def audit(database: Database) -> Sequence[Finding]:
    """Check every invariant on one consistent view of the database."""
    async with database.patient() as block:
        await block.execute("set transaction isolation level repeatable read read only")
        return [await _check(block, invariant) for invariant in INVARIANTS]


async def _check(block: Connection, invariant: Invariant) -> Finding:
    rows = await block.fetch(invariant.statement)
    return Finding(invariant, [str(dict(row)) for row in rows[:ROWS_SHOWN_MAX]])  # type: ignore[call-overload]
