"""The trail of a company: whole, in order, without secrets, and broken only visibly."""

import asyncio
from contextlib import suppress

import msgspec
import pytest

from support.api import Tenant, complaints, new_tenant
from support.cards import VISA
from vintem.audit.trail import INVARIANTS
from vintem.kit.clock import utc_now
from vintem.runtime.db import Connection, Database
from vintem.trail import service as trail
from vintem.trail.model import Act, ActFilter, ActorKind, hash_of

EVERYTHING = ActFilter(environment="test")


class _UndoError(Exception):
    """Ends a block whose changes must not stay."""


def an_act(tenant: Tenant, **fields: object) -> Act:
    act = Act(
        company_id=tenant.company.company_id,
        environment="test",
        at=utc_now(),
        actor_kind=ActorKind.PERSON,
        actor_id="person_1",
        actor_name="Ação: João, 5:çã,🙂",
        role="owner",
        ip="203.0.113.9",
        user_agent="Mozilla/5.0 \u00ff",
        action="product.changed",
        target_type="product",
        target_id="prod_1",
        before={"price": 100, "name": "Café"},
        after={"price": 200, "name": "Açaí"},
        reason="",
        request_id="req_1",
    )
    return msgspec.structs.replace(act, **fields)


async def write(database: Database, *acts: Act) -> None:
    for act in acts:
        async with database.atomic() as block:
            await trail.record(block, act)


async def test_acts_are_numbered_without_a_gap_whoever_writes_them_at_once(
    database: Database, tenant: Tenant
) -> None:
    await asyncio.gather(*(write(database, an_act(tenant)) for _ in range(8)))
    acts = await trail.list_older(database, tenant.company.company_id, EVERYTHING, rows_max=50)
    assert [act.sequence for act in acts] == list(range(8, 0, -1))
    assert await trail.verify(database, tenant.company.company_id) is None
    assert await complaints(database) == {}


async def test_an_act_is_undone_with_what_it_tells_of(database: Database, tenant: Tenant) -> None:
    await write(database, an_act(tenant))
    with suppress(_UndoError):
        async with database.atomic() as block:
            await trail.record(block, an_act(tenant))
            raise _UndoError
    await write(database, an_act(tenant))
    acts = await trail.list_older(database, tenant.company.company_id, EVERYTHING, rows_max=50)
    assert [act.sequence for act in acts] == [2, 1]
    assert await complaints(database) == {}


async def test_an_act_outside_a_commit_is_a_bug(database: Database, tenant: Tenant) -> None:
    with pytest.raises(AssertionError):
        await trail.record(database, an_act(tenant))


@pytest.mark.parametrize(
    "statement",
    [
        "update act set action = 'x.y' where company_id = $1",
        "delete from act where company_id = $1",
    ],
)
async def test_the_database_refuses_to_change_an_act(
    database: Database, tenant: Tenant, statement: str
) -> None:
    await write(database, an_act(tenant))
    with pytest.raises(Exception, match="acts are never changed"):
        await database.execute(statement, tenant.company.company_id)
    with pytest.raises(Exception, match="acts are never changed"):
        await database.execute("truncate act")


ROW = "company_id = $1 and sequence = 3"
COPY = """
    insert into act
    select (jsonb_populate_record(a, '{"sequence": 6}')).* from act a
    where company_id = $1 and sequence = 5
"""
ALTERED = [
    f"update act set {change} where {ROW}"
    for change in (
        "environment = ''",
        "at = at + interval '1 microsecond'",
        "actor_kind = 'system'",
        "actor_id = 'person_2'",
        "actor_name = 'Maria'",
        "role = 'admin'",
        "ip = '203.0.113.8'",
        "user_agent = ''",
        "action = 'product.removed'",
        "target_type = 'coupon'",
        "target_id = 'prod_2'",
        "before = '{}'",
        "after = '{}'",
        "reason = 'x'",
        "request_id = 'req_2'",
        "previous_hash = sha256('')",
        "hash = sha256('')",
        # What stands at the end of one field moves to the start of the next.
        "target_type = 'produc', target_id = 'tprod_1'",
    )
]
BREACHES = {
    **dict.fromkeys(ALTERED, 3),
    f"delete from act where {ROW}": 3,
    "delete from act where company_id = $1 and sequence = 1": 1,
    "delete from act where company_id = $1 and sequence = 5": 5,
    "delete from act where company_id = $1": 1,
    "delete from trail_head where company_id = $1": 1,
    "update trail_head set sequence = 4 where company_id = $1": 4,
    "update trail_head set hash = sha256('') where company_id = $1": 5,
    COPY: 6,
}


@pytest.fixture
async def five(database: Database) -> int:
    """A company with five acts."""
    tenant = await new_tenant(database)
    await write(database, *(an_act(tenant) for _ in range(5)))
    return tenant.company.company_id


@pytest.mark.parametrize("breach", BREACHES)
async def test_whoever_changes_the_trail_by_hand_is_found(
    database: Database, five: int, breach: str
) -> None:
    with suppress(_UndoError):
        async with database.atomic() as block:
            await block.execute("alter table act disable trigger user")
            await block.execute(breach, five)
            assert await trail.verify(block, five) == BREACHES[breach]
            assert await broken_rows(block, five) != []
            raise _UndoError
    assert await trail.verify(database, five) is None


async def test_a_row_put_in_between_with_a_right_hash_is_found(
    database: Database, five: int
) -> None:
    """Who knows how hashes are made can forge a row, but not the row after it."""
    with suppress(_UndoError):
        async with database.atomic() as block:
            await block.execute("alter table act disable trigger user")
            tenant_act = await trail.find_act(block, five, 3)
            assert tenant_act is not None
            forged = msgspec.structs.replace(tenant_act, actor_name="Maria")
            await block.execute(
                f"update act set actor_name = 'Maria', hash = $2 where {ROW}", five, hash_of(forged)
            )
            assert await trail.verify(block, five) == 4
            assert [row["sequence"] for row in await broken_rows(block, five)] == [4]
            raise _UndoError


async def broken_rows(block: Connection, company_id: int) -> list[dict[str, object]]:
    return [
        dict(row)  # type: ignore[call-overload]
        for invariant in INVARIANTS
        for row in await block.fetch(invariant.statement)
        if row["company_id"] == company_id
    ]


SECRETS = {
    "password": "hunter2 hunter2",
    "newSecret": "abc",
    "totp_secret": "JBSWY3DPEHPK3PXP",
    "token": "abc",
    "document": "39053344705",
    "customerDocument": "39053344705",
    "pixKey": "loja@example.com",
    "pix_key": "+5511988887777",
    "key": "sk_live_abc",
    "said": "the key is sk_test_0123456789abcdefghijABCDEFGHIJ01aaaaaa",
    "note": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "card": VISA,
    "who": "390.533.447-05",
    "company": "11.222.333/0001-81",
}


@pytest.mark.parametrize("name", SECRETS)
async def test_secrets_and_documents_do_not_reach_the_trail(
    database: Database, tenant: Tenant, name: str
) -> None:
    secret = SECRETS[name]
    await write(
        database,
        an_act(tenant, before={name: secret, "deep": [{name: secret}]}, after={name: secret}),
    )
    [act] = await trail.list_older(database, tenant.company.company_id, EVERYTHING, rows_max=50)
    assert secret not in act.before + act.after
    assert "[redacted]" in act.before
    assert "[redacted]" in act.after


async def test_what_is_no_secret_is_kept(database: Database, tenant: Tenant) -> None:
    kept = {
        "key_id": "key_1",
        "last_four": "a1b2",
        "pixKeyType": "cpf",
        "price": 1_990,
        "code": "NATAL10",
        "support_email": "ajuda@loja.example",
        "has_totp": True,
        "domains": ["loja.example"],
        "endsAt": None,
    }
    await write(database, an_act(tenant, before={}, after=kept))
    [act] = await trail.list_older(database, tenant.company.company_id, EVERYTHING, rows_max=50)
    assert msgspec.json.decode(act.after) == kept


async def test_acts_are_found_by_who_what_whom_and_when(database: Database, tenant: Tenant) -> None:
    company_id = tenant.company.company_id
    await write(
        database,
        an_act(tenant),
        an_act(tenant, actor_id="person_2"),
        an_act(tenant, action="key.created", target_id="key_1"),
        an_act(tenant, environment="live"),
        an_act(tenant, environment="", action="member.invited"),
    )

    async def found(**wanted: object) -> list[int]:
        which = msgspec.structs.replace(EVERYTHING, **wanted)
        return [
            act.sequence for act in await trail.list_older(database, company_id, which, rows_max=9)
        ]

    assert await found() == [5, 3, 2, 1]
    assert await found(environment="live") == [5, 4]
    assert await found(actor_id="person_2") == [2]
    assert await found(action="key.created") == [3]
    assert await found(target="key_1") == [3]
    assert await found(subjects=["key", "member"]) == [5, 3]
    assert await found(since=utc_now()) == []
    assert await found(until=utc_now()) == [5, 3, 2, 1]
    newer = await trail.list_newer(database, company_id, EVERYTHING, than=1, rows_max=2)
    assert [act.sequence for act in newer] == [3, 2]
    assert sorted(await trail.list_actors(database, company_id)) == [
        ("person_1", "Ação: João, 5:çã,🙂"),
        ("person_2", "Ação: João, 5:çã,🙂"),
    ]
    assert await trail.list_actions(database, company_id) == [
        "key.created",
        "member.invited",
        "product.changed",
    ]
    other = await new_tenant(database)
    assert await trail.list_actions(database, other.company.company_id) == []
