"""One function for each business movement: which accounts, and how much of each."""

from collections.abc import Sequence
from dataclasses import replace

from vintem.ledger.model import (
    Account,
    Balances,
    Capture,
    HoldKind,
    Kind,
    Leg,
    Payout,
    Posting,
    Scope,
    Split,
)


def capture(payment: Capture) -> Posting:
    """Book money that came in: the fee is ours, the rest waits or is available."""
    waiting = dict.fromkeys((Account.RELEASE, Account.RESERVE), 0)
    for release in payment.releases:
        owner = (release.scope, release.transaction_id)
        assert owner == (payment.scope, payment.transaction_id), "what waits is of the payment"
        assert release.amount > 0, "what waits is something"
        waiting[release.account] += release.amount
    assert payment.fee >= 0, "a fee is never paid to the company"
    at_once = payment.amount - payment.fee - sum(waiting.values())
    assert at_once >= 0, "no more waits than came in"
    return _posting(
        payment.scope,
        Kind.CAPTURE,
        payment.transaction_id,
        {
            payment.source: -payment.amount,
            Account.AVAILABLE: at_once,
            Account.FEE: payment.fee,
            **waiting,
        },
    )


def unclaimed(scope: Scope, reference: str, *, source: Account, amount: int) -> Posting:
    """Book money that came in for nothing we can pay it to; below zero, money that left."""
    return _posting(scope, Kind.SUSPENSE, reference, {source: -amount, Account.SUSPENSE: amount})


def given_back(scope: Scope, reference: str, *, to: Account, amount: int) -> Posting:
    """Book that money in suspense has gone; below zero, that what had left has come back."""
    return _posting(scope, Kind.SUSPENSE_ENDED, reference, {Account.SUSPENSE: -amount, to: amount})


def credited(scope: Scope, reference: str, *, amount: int) -> Posting:
    """Give money in suspense to the company."""
    return given_back(scope, reference, to=Account.AVAILABLE, amount=amount)


def charged(scope: Scope, reference: str, split: Split) -> Posting:
    """Let the company bear what left and was nobody's, from what is available or as debt."""
    return _charge(scope, Kind.SUSPENSE_ENDED, reference, split, to=Account.SUSPENSE)


def release(scope: Scope, reference: str, *, account: Account, amount: int) -> Posting:
    """Make waiting money available."""
    kind = Kind.RELEASE if account is Account.RELEASE else Kind.RESERVE_RELEASE
    return _posting(scope, kind, reference, {account: -amount, Account.AVAILABLE: amount})


def debt_recovery(scope: Scope, reference: str, *, amount: int) -> Posting:
    """Pay debt off with what has become available."""
    return _posting(
        scope, Kind.DEBT_RECOVERY, reference, {Account.AVAILABLE: -amount, Account.DEBT: amount}
    )


def waterfall(balances: Balances, amount: int, sources: Sequence[Account]) -> Split:
    """Say what is taken from where: each source as far as it goes, and the rest as debt."""
    assert amount >= 0, "nothing flows upwards"
    left = amount
    parts = dict.fromkeys((Account.AVAILABLE, Account.RELEASE, Account.RESERVE), 0)
    for source in sources:
        parts[source] = min(left, balances[source])
        left -= parts[source]
    return Split(
        available=parts[Account.AVAILABLE],
        release=parts[Account.RELEASE],
        reserve=parts[Account.RESERVE],
        debt=left,
    )


def leave(split: Split, amount: int) -> Split:
    """Say where the rest of held money came from once a part has left, what was taken first."""
    assert 0 < amount < split.amount, "a part leaves, and a part stays"
    left = amount
    stays, goes = {}, {}
    for source, part in (
        (Account.AVAILABLE, split.available),
        (Account.RELEASE, split.release),
        (Account.RESERVE, split.reserve),
        (Account.DEBT, split.debt),
    ):
        goes[source] = min(left, part)
        stays[source] = part - goes[source]
        left -= goes[source]
    taken = []
    for each in split.taken:
        gone = min(goes[each.account], each.amount)
        goes[each.account] -= gone
        if gone < each.amount:
            taken.append(replace(each, amount=each.amount - gone))
    return Split(
        available=stays[Account.AVAILABLE],
        release=stays[Account.RELEASE],
        reserve=stays[Account.RESERVE],
        debt=stays[Account.DEBT],
        taken=taken,
    )


HOLD_KINDS = {
    HoldKind.REFUND: Kind.REFUND,
    HoldKind.BLOCK: Kind.BLOCK,
    HoldKind.DISPUTE: Kind.DISPUTE,
}


def hold(scope: Scope, kind: HoldKind, reference: str, split: Split) -> Posting:
    """Take money aside."""
    return _posting(
        scope,
        HOLD_KINDS[kind],
        reference,
        {
            Account.AVAILABLE: -split.available,
            Account.RELEASE: -split.release,
            Account.RESERVE: -split.reserve,
            Account.DEBT: -split.debt,
            kind.account: split.amount,
        },
    )


def put_back(
    scope: Scope,
    kind: Kind,
    reference: str,
    *,
    out_of: Account,
    split: Split,
    debt_owed: int,
    past_due: Balances,
) -> Posting:
    """Return money to where it was taken from.

    Debt is reduced by no more than is still owed, and what waited for a day that has passed
    meanwhile is available at once.
    """
    debt = min(split.debt, debt_owed)
    release_due, reserve_due = past_due[Account.RELEASE], past_due[Account.RESERVE]
    return _posting(
        scope,
        kind,
        reference,
        {
            out_of: -split.amount,
            Account.DEBT: debt,
            Account.RELEASE: split.release - release_due,
            Account.RESERVE: split.reserve - reserve_due,
            Account.AVAILABLE: split.available + split.debt - debt + release_due + reserve_due,
        },
    )


def pay_out(
    scope: Scope, kind: Kind, reference: str, *, out_of: Account, to: Account, amount: int
) -> Posting:
    """Let held money leave."""
    return _posting(scope, kind, reference, {out_of: -amount, to: amount})


def dispute_fee(scope: Scope, reference: str, split: Split) -> Posting:
    """Charge for a lost dispute, from what is available or as debt."""
    return _charge(scope, Kind.CHARGEBACK_FEE, reference, split, to=Account.FEE)


def _charge(scope: Scope, kind: Kind, reference: str, split: Split, *, to: Account) -> Posting:
    legs = {Account.AVAILABLE: -split.available, Account.DEBT: -split.debt, to: split.amount}
    return _posting(scope, kind, reference, legs)


def payout_paid(payout: Payout) -> Posting:
    """Let a withdrawal leave: to the bank, or into what is bought with it; the fee is ours."""
    to = Account.BANK if payout.bought is None else Account.FX
    return _posting(
        payout.scope,
        Kind.WITHDRAWAL_PAID,
        payout.withdrawal_id,
        {Account.PAYOUT: -payout.total, to: payout.net_amount, Account.FEE: payout.fee},
    )


def payout_returned(payout: Payout) -> Posting:
    """Give all that was held for a withdrawal back."""
    return _posting(
        payout.scope,
        Kind.WITHDRAWAL_RETURNED,
        payout.withdrawal_id,
        {Account.PAYOUT: -payout.total, Account.AVAILABLE: payout.total},
    )


def _posting(scope: Scope, kind: Kind, reference: str, amounts: dict[Account, int]) -> Posting:
    legs = [Leg(account, amount) for account, amount in amounts.items() if amount]
    return Posting(scope, kind, reference, legs)
