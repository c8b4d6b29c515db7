"""What happens to companies and keys."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from vintem.brazil.installments import CardInterest
from vintem.companies import key_store, keys, store
from vintem.companies.model import (
    ApiKey,
    Caller,
    Company,
    CompanyTerms,
    Environment,
    Fee,
    FeePlan,
    ImplicitProtection,
    KeyType,
    Limits,
    Network,
    Storefront,
    TermsChange,
    WithdrawalPolicy,
    WithdrawalRules,
)
from vintem.kit.ids import Prefix, new_id
from vintem.runtime.db import Connection

RecordT = TypeVar("RecordT")


class UnknownRecordError(Exception):
    """No company or key has that id."""


class KeyEndedError(Exception):
    """The key no longer works, so it cannot be rotated."""


class KeyReplacedError(Exception):
    """The key has a successor, which is the one to rotate."""

    def __init__(self, key_id: str, replaced_by: str) -> None:
        super().__init__(key_id, replaced_by)
        self.key_id = key_id
        self.replaced_by = replaced_by


NAME_CHARACTERS_MAX: Final = 120
KEYS_LISTED_MAX: Final = 200

OVERLAPS: Final = {
    "0": timedelta(),
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
"""For how long a rotated key may go on working beside its successor."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made: its record, and the key itself, shown this once."""

    record: ApiKey
    key: str


async def create_company(
    db: Connection,
    name: str,
    *,
    now: datetime,
    public_id: str | None = None,
    document: str | None = None,
    legal_name: str | None = None,
) -> Company:
    """Add a company with the default limits and no fees; its document comes without the mask."""
    return await store.insert_company(
        db,
        public_id=public_id or new_id(Prefix.COMPANY),
        name=name,
        document=document,
        legal_name=legal_name,
        limits=Limits(),
        now=now,
    )


async def set_identity(
    db: Connection, public_id: str, *, document: str, legal_name: str | None
) -> Company:
    """Set who a company is to the tax office; a name that is not given stays."""
    changed = await store.update_identity(db, public_id, document=document, legal_name=legal_name)
    return _known(changed, public_id)


async def find_company(db: Connection, public_id: str) -> Company | None:
    """Find a company by the id the world knows."""
    return await store.find_company(db, public_id)


async def list_companies(db: Connection) -> Sequence[Company]:
    """All companies, the oldest first."""
    return await store.list_companies(db)


async def get_company(db: Connection, public_id: str) -> Company:
    """Find a company, or raise UnknownRecordError."""
    return _known(await store.find_company(db, public_id), public_id)


async def lock_company(block: Connection, public_id: str) -> Company:
    """Read a company that nobody else changes until the block ends, or raise UnknownRecordError."""
    return _known(await store.lock_company(block, public_id), public_id)


async def set_limits(
    db: Connection,
    public_id: str,
    *,
    transactions_per_second: int | None = None,
    withdrawals_per_minute: int | None = None,
    requests_per_minute: int | None = None,
) -> Company:
    """Change the limits that are given; running processes follow within 5 s."""
    company = await store.update_limits(
        db,
        public_id,
        transactions_per_second=transactions_per_second,
        withdrawals_per_minute=withdrawals_per_minute,
        requests_per_minute=requests_per_minute,
    )
    return _known(company, public_id)


async def set_suspended(db: Connection, public_id: str, *, is_suspended: bool) -> Company:
    """Suspend a company or let it work again; running processes follow within 5 s."""
    return _known(await store.update_status(db, public_id, is_suspended=is_suspended), public_id)


async def set_implicit_protection(
    db: Connection, public_id: str, protection: ImplicitProtection
) -> Company:
    """Decide about repeated requests without a key; running processes follow within 5 s."""
    return _known(await store.update_implicit_protection(db, public_id, protection), public_id)


async def set_card_interest(db: Connection, public_id: str, interest: CardInterest) -> Company:
    """Set what buyers pay for installments; running processes follow within 5 s."""
    return _known(await store.update_card_interest(db, public_id, interest), public_id)


async def get_storefront(db: Connection, company_id: int) -> Storefront:
    """How a company shows itself to buyers and lets them pay."""
    return await store.find_storefront(db, company_id)


async def set_storefront(db: Connection, company_id: int, storefront: Storefront) -> Storefront:
    """Set all of how a company shows itself to buyers; the next page follows it."""
    kept = replace(storefront, domains=[domain.lower() for domain in storefront.domains])
    await store.update_storefront(db, company_id, kept)
    return kept


async def find_payee(db: Connection, company_id: int, environment: str) -> Caller:
    """Read a company that a buyer pays, as if it made the call itself."""
    return await store.find_payee(db, company_id, Environment(environment))


async def set_fee(db: Connection, public_id: str, fee: Fee) -> FeePlan:
    """Set one fee and return the plan with it."""
    company = await get_company(db, public_id)
    await store.upsert_fee(db, company.company_id, fee)
    return await fee_plan(db, company.company_id)


async def set_terms(db: Connection, public_id: str, change: TermsChange) -> CompanyTerms:
    """Change what is agreed about payments to come; running processes follow within 5 s."""
    company = _known(await store.update_terms(db, public_id, change), public_id)
    return (await store.find_payee(db, company.company_id, Environment.LIVE)).terms


async def fee_plan(db: Connection, company_id: int) -> FeePlan:
    """What a company pays."""
    return FeePlan(await store.list_fees(db, company_id))


async def withdrawal_policy(db: Connection, company_id: int) -> WithdrawalPolicy:
    """What a company's withdrawals are held to at this moment, its own pause and everybody's."""
    return await store.find_withdrawal_policy(db, company_id)


async def set_withdrawal_rules(
    db: Connection, company_id: int, rules: WithdrawalRules
) -> WithdrawalRules:
    """Set all rules of a company's withdrawals; the next one is held to them."""
    await store.update_withdrawal_rules(db, company_id, rules)
    return rules


async def pause_withdrawals(db: Connection, company_id: int, *, is_paused: bool) -> None:
    """Stop a company's withdrawals at once, or let them go on."""
    await store.update_withdrawals_paused(db, company_id, is_paused=is_paused)


async def pause_all_withdrawals(db: Connection, *, is_paused: bool) -> None:
    """Stop everybody's withdrawals at once, or let them go on."""
    await store.upsert_all_withdrawals_paused(db, is_paused=is_paused)


async def create_key(
    db: Connection,
    company_id: int,
    *,
    key_type: KeyType,
    environment: Environment,
    pepper: bytes,
    now: datetime,
    label: str = "",
    allowed_networks: Sequence[Network] = (),
    key: str | None = None,
    created_by: str = "",
) -> NewKey:
    """Make a key, or take one made by keys.new_key(), and keep its digest."""
    key = key or keys.new_key(key_type, environment)
    record = ApiKey(
        key_id=new_id(Prefix.API_KEY),
        company_id=company_id,
        type=key_type,
        environment=environment,
        last_four=key[-4:],
        label=label,
        allowed_networks=tuple(allowed_networks),
        created_at=now,
        expires_at=None,
        revoked_at=None,
        last_used_at=None,
        created_by=created_by,
    )
    await key_store.insert_key(db, record, digest=keys.digest(key.encode(), pepper=pepper))
    return NewKey(record, key)


async def is_working_key(db: Connection, key: str, *, pepper: bytes, now: datetime) -> bool:
    """Say whether a key opens anything now."""
    digest = keys.digest(key.encode(), pepper=pepper)
    return digest in await store.find_callers(db, [digest], now=now)


async def list_keys(db: Connection, public_id: str) -> Sequence[ApiKey]:
    """All keys of a company, the oldest first."""
    company = await get_company(db, public_id)
    return await key_store.list_keys(db, company.company_id)


async def list_keys_of(
    db: Connection, company_id: int, environment: Environment
) -> Sequence[ApiKey]:
    """The last keys of a company in an environment, the newest first."""
    return await key_store.list_keys_of(db, company_id, environment, rows_max=KEYS_LISTED_MAX)


async def find_key(
    db: Connection, company_id: int, environment: Environment, key_id: str
) -> ApiKey | None:
    """Find a key of a company in an environment."""
    return await key_store.find_key(db, company_id, environment, key_id)


async def rotate_key(
    block: Connection,
    key_id: str,
    *,
    overlap: timedelta,
    pepper: bytes,
    now: datetime,
    created_by: str = "",
) -> NewKey:
    """Make a key's successor and let the old one end after the overlap, in an atomic block."""
    old = _known(await key_store.lock_key(block, key_id), key_id)
    if old.replaced_by is not None:
        raise KeyReplacedError(key_id, old.replaced_by)
    if not old.works_at(now):
        raise KeyEndedError(key_id)
    successor = await create_key(
        block,
        old.company_id,
        key_type=old.type,
        environment=old.environment,
        pepper=pepper,
        now=now,
        label=old.label,
        allowed_networks=old.allowed_networks,
        created_by=created_by,
    )
    await key_store.replace_key(
        block, key_id, replaced_by=successor.record.key_id, expires_at=now + overlap
    )
    return successor


async def change_key(
    db: Connection, key_id: str, *, label: str, allowed_networks: Sequence[Network]
) -> ApiKey:
    """Set what a key is called, and from where it may call; processes follow within 5 s."""
    changed = await key_store.update_key(db, key_id, label=label, allowed_networks=allowed_networks)
    return _known(changed, key_id)


async def revoke_key(db: Connection, key_id: str, *, now: datetime) -> ApiKey:
    """End a key now; running processes refuse it within 5 s."""
    return _known(await key_store.revoke_key(db, key_id, now=now), key_id)


def _known(record: RecordT | None, record_id: str) -> RecordT:
    if record is None:
        raise UnknownRecordError(record_id)
    return record
