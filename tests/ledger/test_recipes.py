"""The recipes: every movement balances, and money goes back to where it was taken from."""

from collections import Counter
from datetime import date

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vintem.ledger import recipes
from vintem.ledger.model import (
    BALANCED,
    Account,
    Capture,
    HoldKind,
    Kind,
    Leg,
    Posting,
    ScheduledRelease,
    Scope,
    Split,
    Taken,
)

SCOPE = Scope(1, "test")
DUE_ON = date(2026, 4, 10)
NOTHING_DUE = {Account.RELEASE: 0, Account.RESERVE: 0}

cents = st.integers(0, 10**12)
some_cents = st.integers(1, 10**12)
sources = st.sampled_from([Account.BANK, Account.RECEIVABLE])
splits = st.builds(Split, cents, cents, cents, cents).filter(lambda split: split.amount > 0)
standing = st.fixed_dictionaries(
    {account: cents for account in BALANCED if account is not Account.DEBT}
)


@st.composite
def captures(draw: st.DrawFn) -> Capture:
    fee, at_once = draw(cents), draw(cents)
    waiting = draw(
        st.lists(
            st.tuples(st.sampled_from([Account.RELEASE, Account.RESERVE]), some_cents),
            min_size=0 if fee + at_once else 1,
            max_size=14,
        )
    )
    return Capture(
        SCOPE,
        "tx_1",
        draw(sources),
        fee + at_once + sum(amount for _, amount in waiting),
        fee,
        [
            ScheduledRelease(SCOPE, "tx_1", account, part, DUE_ON, amount)
            for part, (account, amount) in enumerate(waiting)
        ],
    )


def amounts(posting: Posting) -> Counter[Account]:
    """What a posting does to each account; accounts it leaves alone count as zero."""
    assert sum(leg.amount for leg in posting.legs) == 0
    return Counter({leg.account: leg.amount for leg in posting.legs})


@given(captures())
def test_a_capture_divides_all_that_came_in(payment: Capture) -> None:
    booked = amounts(recipes.capture(payment))
    waiting: Counter[Account] = Counter()
    for release in payment.releases:
        waiting[release.account] += release.amount
    assert booked[payment.source] == -payment.amount
    assert booked[Account.FEE] == payment.fee
    assert booked[Account.RELEASE] == waiting[Account.RELEASE]
    assert booked[Account.RESERVE] == waiting[Account.RESERVE]
    assert booked[Account.AVAILABLE] == payment.amount - payment.fee - waiting.total()
    assert all(booked[account] >= 0 for account in BALANCED)


@given(captures(), some_cents)
def test_a_capture_that_gives_away_more_than_came_in_cannot_be_made(
    payment: Capture, excess: int
) -> None:
    fee = payment.amount + excess
    with pytest.raises(AssertionError):
        recipes.capture(Capture(SCOPE, "tx_1", payment.source, payment.amount, fee))


@pytest.mark.parametrize(
    "payment",
    [
        Capture(SCOPE, "tx_1", Account.BANK, 100, -10),
        Capture(
            SCOPE,
            "tx_1",
            Account.BANK,
            100,
            0,
            [ScheduledRelease(SCOPE, "tx_1", Account.RELEASE, 1, DUE_ON, -10)],
        ),
        Capture(
            SCOPE,
            "tx_1",
            Account.BANK,
            100,
            0,
            [ScheduledRelease(SCOPE, "tx_2", Account.RELEASE, 1, DUE_ON, 10)],
        ),
        Capture(
            SCOPE,
            "tx_1",
            Account.BANK,
            100,
            0,
            [ScheduledRelease(Scope(2, "test"), "tx_1", Account.RELEASE, 1, DUE_ON, 10)],
        ),
    ],
    ids=["negative fee", "negative release", "another transaction's", "another company's"],
)
def test_a_capture_with_a_part_that_cannot_be_is_a_bug(payment: Capture) -> None:
    with pytest.raises(AssertionError):
        recipes.capture(payment)


@given(standing, some_cents, st.sampled_from(HoldKind))
def test_a_waterfall_drains_each_source_before_the_next_and_debt_comes_last(
    balances: dict[Account, int], amount: int, kind: HoldKind
) -> None:
    split = recipes.waterfall(balances, amount, kind.sources)
    parts = {
        Account.AVAILABLE: split.available,
        Account.RELEASE: split.release,
        Account.RESERVE: split.reserve,
    }
    assert split.amount == amount
    assert min(*parts.values(), split.debt) >= 0
    assert all(part <= balances[source] for source, part in parts.items())
    later = [*(parts[source] for source in kind.sources), split.debt]
    for number, source in enumerate(kind.sources):
        if any(later[number + 1 :]):
            assert parts[source] == balances[source]
    assert all(not part for source, part in parts.items() if source not in kind.sources)


def test_a_refund_never_touches_the_reserve_and_a_dispute_and_a_block_do() -> None:
    release_first = (Account.AVAILABLE, Account.RELEASE)
    assert HoldKind.REFUND.sources == release_first
    assert HoldKind.DISPUTE.sources == (*release_first, Account.RESERVE)
    assert HoldKind.BLOCK.sources == (*release_first, Account.RESERVE)


@given(standing, st.integers(max_value=-1))
def test_a_waterfall_of_less_than_nothing_is_a_bug(
    balances: dict[Account, int], amount: int
) -> None:
    with pytest.raises(AssertionError):
        recipes.waterfall(balances, amount, HoldKind.DISPUTE.sources)


@given(splits, st.sampled_from(HoldKind))
def test_a_hold_takes_its_split_aside(split: Split, kind: HoldKind) -> None:
    booked = amounts(recipes.hold(SCOPE, kind, "re_1", split))
    assert booked[kind.account] == split.amount
    assert booked[Account.AVAILABLE] == -split.available
    assert booked[Account.RELEASE] == -split.release
    assert booked[Account.RESERVE] == -split.reserve
    assert booked[Account.DEBT] == -split.debt


@given(splits, st.sampled_from(HoldKind), cents)
def test_putting_back_reverses_a_hold_exactly_when_nothing_happened_in_between(
    split: Split, kind: HoldKind, owed_before: int
) -> None:
    held = amounts(recipes.hold(SCOPE, kind, "re_1", split))
    back = amounts(
        recipes.put_back(
            SCOPE,
            Kind.DISPUTE_WON,
            "re_1",
            out_of=kind.account,
            split=split,
            debt_owed=owed_before + split.debt,
            past_due=NOTHING_DUE,
        )
    )
    assert all(held[account] + back[account] == 0 for account in Account)


@given(splits, cents, st.data())
def test_putting_back_pays_only_the_debt_that_is_owed_and_frees_what_is_past_due(
    split: Split, owed: int, data: st.DataObject
) -> None:
    past_due = {
        Account.RELEASE: data.draw(st.integers(0, split.release)),
        Account.RESERVE: data.draw(st.integers(0, split.reserve)),
    }
    back = amounts(
        recipes.put_back(
            SCOPE,
            Kind.CHARGEBACK_WON,
            "re_1",
            out_of=Account.BANK,
            split=split,
            debt_owed=owed,
            past_due=past_due,
        )
    )
    assert back[Account.DEBT] == min(split.debt, owed)
    assert back[Account.RELEASE] == split.release - past_due[Account.RELEASE]
    assert back[Account.RESERVE] == split.reserve - past_due[Account.RESERVE]
    assert back[Account.BANK] == -split.amount
    assert min(back[account] for account in BALANCED) >= 0


@given(some_cents, splits, sources)
def test_every_other_movement_balances(amount: int, split: Split, outside: Account) -> None:
    assert amounts(recipes.unclaimed(SCOPE, "r", source=outside, amount=amount)) == {
        outside: -amount,
        Account.SUSPENSE: amount,
    }
    for account in (Account.RELEASE, Account.RESERVE):
        assert amounts(recipes.release(SCOPE, "r", account=account, amount=amount)) == {
            account: -amount,
            Account.AVAILABLE: amount,
        }
    assert amounts(recipes.debt_recovery(SCOPE, "r", amount=amount)) == {
        Account.AVAILABLE: -amount,
        Account.DEBT: amount,
    }
    paid = recipes.pay_out(
        SCOPE, Kind.CHARGEBACK, "r", out_of=Account.DISPUTE, to=outside, amount=amount
    )
    assert amounts(paid) == {Account.DISPUTE: -amount, outside: amount}
    charged = Split(available=split.available, debt=split.debt or 1)
    assert amounts(recipes.dispute_fee(SCOPE, "r", charged))[Account.FEE] == charged.amount


@given(st.lists(st.builds(Leg, st.sampled_from(Account), st.integers(-5, 5)), max_size=5))
def test_a_posting_exists_only_if_it_balances_and_names_each_account_once(
    legs: list[Leg],
) -> None:
    accounts = [leg.account for leg in legs]
    is_sound = (
        len(legs) >= 2
        and sum(leg.amount for leg in legs) == 0
        and all(leg.amount != 0 for leg in legs)
        and len(set(accounts)) == len(accounts)
    )
    if is_sound:
        assert Posting(SCOPE, Kind.CAPTURE, "tx_1", legs).legs == legs
    else:
        with pytest.raises(AssertionError):
            Posting(SCOPE, Kind.CAPTURE, "tx_1", legs)


@given(some_cents, st.integers(-(10**12), 10**12).filter(bool))
def test_an_unbalanced_posting_cannot_be_constructed(amount: int, error: int) -> None:
    with pytest.raises(AssertionError, match="adds up to zero"):
        Posting(
            SCOPE,
            Kind.CAPTURE,
            "tx_1",
            [Leg(Account.BANK, -amount), Leg(Account.AVAILABLE, amount + error)],
        )


@given(
    parts=st.tuples(*[st.integers(0, 50)] * 3),
    releases=st.lists(st.integers(1, 20), max_size=4),
    data=st.data(),
)
def test_what_stays_of_held_money_is_the_rest_and_came_from_where_it_was_taken_last(
    parts: tuple[int, int, int], releases: list[int], data: st.DataObject
) -> None:
    available, reserve, debt = parts
    taken = [
        Taken(f"tx_{place}", Account.RELEASE, 1, date(2026, 3, 10), amount)
        for place, amount in enumerate(releases)
    ]
    if reserve:
        taken.append(Taken("tx_r", Account.RESERVE, 1, date(2026, 6, 10), reserve))
    split = Split(available, sum(releases), reserve, debt, taken)
    assume(split.amount >= 2)
    amount = data.draw(st.integers(1, split.amount - 1))
    stays = recipes.leave(split, amount)
    assert stays.amount == split.amount - amount
    for account, whole in ((Account.RELEASE, stays.release), (Account.RESERVE, stays.reserve)):
        assert sum(each.amount for each in stays.taken if each.account is account) == whole
    # A part leaves in the order in which it was taken: nothing of what comes after one that stays.
    before = (split.available, split.release, split.reserve, split.debt)
    after = (stays.available, stays.release, stays.reserve, stays.debt)
    touched = [place for place in range(4) if after[place] < before[place]]
    assert all(after[place] == 0 for place in range(max(touched)))
