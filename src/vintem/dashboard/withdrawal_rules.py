"""What the company's withdrawals are held to: shown to all, changed by who runs the company."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.companies import service as companies
from vintem.companies.model import WithdrawalRules
from vintem.dashboard.answers import go, page
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.proof import ProofForm, code_errors, proof_errors
from vintem.dashboard.typed import cents_of, typed_cents
from vintem.dashboard.visit import Visit
from vintem.hosted.words import money
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail
from vintem.withdrawals import service as withdrawals

LIMIT_CENTS_MAX: Final = 100_000_000_000
UNPROCESSABLE: Final = 422

LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "cents_max": ("Limite por saque", "Sem limite"),
    "daily_cents_max": ("Limite por dia", "Sem limite"),
    "automatic_cents_max": ("Aprovação acima de", "Nenhum valor exige aprovação"),
}
"""What is limited, and what is said where it is not."""
CHOICES: Final[Mapping[str, str]] = {
    "approves_new_destinations": "Aprovação para destinos novos",
    "approves_crypto": "Aprovação para cripto",
}


class RulesForm(ProofForm, frozen=True):
    """The rules as they are typed; an empty limit is none."""

    cents_max: str = ""
    daily_cents_max: str = ""
    automatic_cents_max: str = ""
    approves_new_destinations: str = ""
    approves_crypto: str = ""


async def show_rules(visit: Visit) -> Answer:
    """Show the rules, and the form of them to who may change them."""
    rules = await _rules(visit)
    return _rules_page(visit, rules, _typed(rules), {})


async def confirm_rules(visit: Visit) -> Answer:
    """Show what would change."""
    form = await visit.form(RulesForm)
    rules, errors = _read(form)
    before = await _rules(visit)
    if errors:
        return _rules_page(visit, before, form, errors, status=UNPROCESSABLE)
    return _confirm_page(visit, form, before, rules, {})


async def change_rules(visit: Visit) -> Answer:
    """Set the rules, of both environments."""
    form = await visit.form(RulesForm)
    rules, errors = _read(form)
    before = await _rules(visit)
    if errors:
        return _rules_page(visit, before, form, errors, status=UNPROCESSABLE)
    if errors := await _proof_errors(visit, form, before, rules):
        return _confirm_page(visit, form, before, rules, errors, status=UNPROCESSABLE)

    async def witness(block: Connection) -> None:
        act = visit.act(
            "withdrawal_rules.changed",
            "company",
            visit.member.company_public_id,
            before=asdict(before),
            after=asdict(rules),
        )
        await trail.record(block, msgspec.structs.replace(act, environment=""))

    await withdrawals.set_rules(
        visit.resources.database,
        visit.member.company_id,
        rules,
        decided_by=visit.member.person_id,
        now=visit.call.now,
        witness=witness,
    )
    return go(visit.href("/withdrawals/rules", said="withdrawal-rules-saved"))


async def _proof_errors(
    visit: Visit, form: RulesForm, before: WithdrawalRules, rules: WithdrawalRules
) -> Mapping[str, str]:
    """Ask for a code, or for the password of who has none and would loosen the rules.

    Whoever can loosen the rules needs nobody's approval any more.
    """
    if visit.member.has_totp:
        return await code_errors(visit, form.code)
    return await proof_errors(visit, form) if _loosens(before, rules) else {}


def _loosens(before: WithdrawalRules, after: WithdrawalRules) -> bool:
    """Say whether a limit would rise or end, or an approval be asked for no more."""
    for name in LIMITS:
        old, new = getattr(before, name), getattr(after, name)
        if old is not None and (new is None or new > old):
            return True
    return any(getattr(before, name) and not getattr(after, name) for name in CHOICES)


def _confirm_page(
    visit: Visit,
    form: RulesForm,
    before: WithdrawalRules,
    rules: WithdrawalRules,
    errors: Mapping[str, str],
    *,
    status: int = 200,
) -> Answer:
    changes = [
        (name, old, new)
        for (name, old), (_, new) in zip(_words(before), _words(rules), strict=True)
        if old != new
    ]
    return page(
        visit,
        "withdrawal_rules_confirm.html",
        title="Confirmar regras de saque",
        status=status,
        form=form,
        changes=changes,
        is_loosened=_loosens(before, rules),
        errors=errors,
    )


def _rules_page(
    visit: Visit,
    rules: WithdrawalRules,
    form: RulesForm,
    errors: Mapping[str, str],
    *,
    status: int = 200,
) -> Answer:
    return page(
        visit,
        "withdrawal_rules.html",
        title="Regras de saque",
        status=status,
        rules=_words(rules),
        form=form,
        errors=errors,
    )


async def _rules(visit: Visit) -> WithdrawalRules:
    policy = await companies.withdrawal_policy(visit.resources.database, visit.member.company_id)
    return policy.rules


def _read(form: RulesForm) -> tuple[WithdrawalRules, Mapping[str, str]]:
    errors, limits = {}, dict[str, int | None]()
    for name in LIMITS:
        text = getattr(form, name)
        limits[name] = cents = cents_of(text) if text else None
        if text and (cents is None or cents > LIMIT_CENTS_MAX):
            errors[name] = "Digite um valor em reais, como 1.234,56, ou deixe em branco."
    rules = WithdrawalRules(
        cents_max=limits["cents_max"],
        daily_cents_max=limits["daily_cents_max"],
        automatic_cents_max=limits["automatic_cents_max"],
        approves_new_destinations=bool(form.approves_new_destinations),
        approves_crypto=bool(form.approves_crypto),
    )
    return rules, errors


def _typed(rules: WithdrawalRules) -> RulesForm:
    return RulesForm(
        cents_max=typed_cents(rules.cents_max),
        daily_cents_max=typed_cents(rules.daily_cents_max),
        automatic_cents_max=typed_cents(rules.automatic_cents_max),
        approves_new_destinations="1" if rules.approves_new_destinations else "",
        approves_crypto="1" if rules.approves_crypto else "",
    )


def _words(rules: WithdrawalRules) -> list[tuple[str, str]]:
    limits = [
        (words, none if getattr(rules, name) is None else money(getattr(rules, name)))
        for name, (words, none) in LIMITS.items()
    ]
    choices = [(words, "Sim" if getattr(rules, name) else "Não") for name, words in CHOICES.items()]
    return limits + choices


PAGES: Final[tuple[Page, ...]] = (
    shown("/withdrawals/rules", show_rules, Permission.COMPANY_READ, "Regras de saque"),
    sent("/withdrawals/rules/confirm", confirm_rules, Permission.COMPANY, "Confirmar regras"),
    sent("/withdrawals/rules", change_rules, Permission.COMPANY, "Mudar regras de saque"),
)
