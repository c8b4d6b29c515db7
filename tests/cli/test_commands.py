"""The operator's commands, on a running demo where they must take effect, from outside."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from support.api import TEST_PEPPER, Api, HttpReply, Tenant, new_key, pix_order
from support.platform import (
    Running,
    clean_environment,
    client,
    demo,
    fresh_database,
    get_once,
    make_key,
    promised,
    read_key,
    until,
    vintem,
)
from vintem.companies import service as companies
from vintem.companies.model import Environment
from vintem.kit.clock import utc_now
from vintem.kit.ids import Prefix, new_id
from vintem.runtime.db import Database
from vintem.runtime.embedded import ask
from vintem.trail import service as trail
from vintem.trail.model import ActFilter, ActorKind

EFFECT_SECONDS_MAX = 5.0
REPOSITORY = Path(__file__).parents[2]
NO_COMPANY = "cmp_00000000000000000000000000"
NO_KEY = "key_00000000000000000000000000"


@pytest.fixture(scope="module")
async def shop(module_path: Path) -> AsyncIterator[Running]:
    """A demo that these tests share; each makes a company of its own in it."""
    async with demo(module_path / "data") as running:
        yield running


@pytest.fixture
def on_database(database_url: str, database: Database) -> dict[str, str]:
    """The settings that let a command work on this test worker's database."""
    del database
    return {"DATABASE_URL": database_url, "VINTEM_PEPPER": TEST_PEPPER}


async def new_company(shop: Running, name: str = "Loja") -> str:
    said = await vintem("company", "create", name, "--data", str(shop.data))
    assert said.status == 0, said.text
    return said.out.strip()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    database = Database(url)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


async def two_keys_of_two_companies(database: Database) -> tuple[str, str]:
    ids = []
    for name in ("Um", "Dois"):
        company = await companies.create_company(database, name, now=utc_now())
        ids.append((await new_key(database, company.company_id)).record.key_id)
    return ids[0], ids[1]


async def until_answer(shop: Running, key: str, status: int, code: str | None = None) -> None:
    """Wait, no longer than promised, until a key gets a certain answer."""

    async def is_there() -> bool:
        reply = await get_once(shop, "/v1/balance", key=key)
        return reply.status == status and refusal(reply) == code

    await until(is_there, seconds=promised(EFFECT_SECONDS_MAX))


def refusal(reply: HttpReply) -> str | None:
    return None if reply.status < 400 else str(reply.json["error"]["code"])


async def test_new_limits_are_seen_on_the_running_demo_within_5_seconds(shop: Running) -> None:
    company = await new_company(shop)
    _, key = await make_key(company, shop.data)
    async with client(shop) as api:
        before = await api.get("/v1/balance", key=key)
        assert before.headers["X-RateLimit-Limit"] == "60"
        limits = ["--transactions-per-second", "11", "--withdrawals-per-minute", "222"]
        limits += ["--requests-per-minute", "3333", "--data", str(shop.data)]
        said = await vintem("company", "set-limits", company, *limits)
        assert said.status == 0, said.text
        assert said.out.count("\n") == 1

        async def is_changed() -> bool:
            reply = await api.get("/v1/balance", key=key)
            return reply.headers["X-RateLimit-Limit"] == "3333"

        await until(is_changed, seconds=promised(EFFECT_SECONDS_MAX))
    listed = await vintem("company", "list", "--data", str(shop.data))
    (line,) = [line for line in listed.out.splitlines() if company in line]
    assert re.search(r"active\W+11\W+222\W+3333\W", line), line


async def test_limit_that_is_not_given_stays(shop: Running) -> None:
    company = await new_company(shop)
    words = ["company", "set-limits", company, "--requests-per-minute", "7"]
    said = await vintem(*words, "--data", str(shop.data))
    assert "5 transactions per second, 10 withdrawals per minute, 7 other" in said.out


async def test_protection_against_repetitions_is_set_and_taken_back(shop: Running) -> None:
    company = await new_company(shop)
    _, key = await make_key(company, shop.data)
    async with client(shop) as api:
        before = [201, 201]
        for mode, after in (("enforce", [201, 200]), ("off", [201, 201])):
            words = ["company", "set-protection", company, "--mode", mode]
            said = await vintem(*words, "--data", str(shop.data))
            assert said.out == f"{company}: implicit protection is {mode}\n"
            given_until = time.monotonic() + promised(EFFECT_SECONDS_MAX)
            while (statuses := await ordered_twice(api, key)) != after:
                assert statuses == before
                assert time.monotonic() < given_until
            before = after


async def ordered_twice(api: Api, key: str) -> list[int]:
    """How the same order is answered the first time and the second, at a pace that is allowed."""
    order = pix_order(description=new_id(Prefix.TRANSACTION))
    replies = [await api.post("/v1/transactions", key=key, json=order) for _ in range(2)]
    await asyncio.sleep(0.5)
    return [reply.status for reply in replies]


async def test_suspended_company_is_refused_until_it_is_resumed(shop: Running) -> None:
    company = await new_company(shop)
    _, key = await make_key(company, shop.data)
    await until_answer(shop, key, 200)
    assert (await vintem("company", "suspend", company, "--data", str(shop.data))).status == 0
    await until_answer(shop, key, 403, "COMPANY_SUSPENDED")
    listed = await vintem("company", "list", "--data", str(shop.data))
    (line,) = [line for line in listed.out.splitlines() if company in line]
    assert "suspended" in line
    assert (await vintem("company", "resume", company, "--data", str(shop.data))).status == 0
    await until_answer(shop, key, 200)


async def test_new_key_works_at_once_and_its_id_is_listed_whole(shop: Running) -> None:
    company = await new_company(shop)
    kinds = [(kind, place) for kind in ("sk", "ck") for place in ("test", "live")]
    made = await asyncio.gather(
        *(make_key(company, shop.data, kind=kind, environment=place) for kind, place in kinds)
    )
    for (kind, place), (_, key) in zip(kinds, made, strict=True):
        assert key.startswith(f"{kind}_{place}_")
        reply = await get_once(shop, "/v1/balance", key=key)
        expected = None if kind == "sk" else "KEY_TYPE_NOT_ALLOWED"
        assert refusal(reply) == expected
    listed = await vintem("key", "list", company, "--data", str(shop.data))
    for key_id, key in made:
        assert key_id in listed.out
        assert f"{key[:8]}…{key[-4:]}" in listed.out
        assert key not in listed.out


async def test_revoked_key_is_refused_within_5_seconds(shop: Running) -> None:
    company = await new_company(shop)
    key_id, key = await make_key(company, shop.data)
    await until_answer(shop, key, 200)
    assert (await vintem("key", "revoke", key_id, "--data", str(shop.data))).status == 0
    await until_answer(shop, key, 401, "INVALID_API_KEY")
    again = await vintem("key", "rotate", key_id, "--data", str(shop.data))
    assert again.status == 2
    assert f"{key_id} no longer works, so it cannot be rotated." in again.err


async def test_rotated_key_without_overlap_ends_within_5_seconds(shop: Running) -> None:
    company = await new_company(shop)
    key_id, old = await make_key(company, shop.data)
    await until_answer(shop, old, 200)
    words = ["key", "rotate", key_id, "--overlap", "0", "--data", str(shop.data)]
    _, new = read_key(await vintem(*words))
    await until_answer(shop, new, 200)
    await until_answer(shop, old, 401, "INVALID_API_KEY")


async def test_rotated_key_goes_on_working_beside_its_successor(shop: Running) -> None:
    company = await new_company(shop)
    key_id, old = await make_key(company, shop.data)
    _, new = read_key(await vintem("key", "rotate", key_id, "--data", str(shop.data)))
    # Longer than any process trusts what it knew before.
    await asyncio.sleep(EFFECT_SECONDS_MAX)
    for key in (old, new):
        assert (await get_once(shop, "/v1/balance", key=key)).status == 200


@pytest.mark.parametrize(
    ("overlap", "lasts"),
    [
        ("0", timedelta()),
        ("1h", timedelta(hours=1)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        (None, timedelta(hours=24)),
    ],
)
async def test_overlap_decides_when_the_old_key_ends(
    overlap: str | None,
    lasts: timedelta,
    database: Database,
    tenant: Tenant,
    on_database: dict[str, str],
) -> None:
    made = await new_key(database, tenant.company.company_id)
    words = ["key", "rotate", made.record.key_id]
    words += [] if overlap is None else ["--overlap", overlap]
    successor_id, _ = read_key(await vintem(*words, settings=on_database))
    listed = await companies.list_keys(database, tenant.company.public_id)
    records = {key.key_id: key for key in listed}
    successor = records[successor_id]
    assert records[made.record.key_id].expires_at == successor.created_at + lasts
    assert successor.expires_at is None


async def test_other_overlap_is_refused_with_the_allowed_ones(on_database: dict[str, str]) -> None:
    said = await vintem("key", "rotate", NO_KEY, "--overlap", "[2d]", settings=on_database)
    assert said.status == 2
    assert "--overlap is '[2d]'; it must be 0, 1h, 24h or 7d." in said.err


@pytest.mark.parametrize(
    "words",
    [
        ("company", "set-limits", NO_COMPANY, "--requests-per-minute", "5"),
        ("company", "suspend", NO_COMPANY),
        ("company", "resume", NO_COMPANY),
        ("company", "set-fee", NO_COMPANY, "--method", "pix"),
        ("company", "set-terms", NO_COMPANY, "--pix-release-days", "1"),
        ("company", "set-protection", NO_COMPANY, "--mode", "enforce"),
        ("company", "set-document", NO_COMPANY, "529.982.247-25"),
        ("company", "set-interest", NO_COMPANY, "--monthly-basis-points", "299"),
        ("key", "create", NO_COMPANY, "--type", "sk", "--environment", "test"),
        ("key", "list", "[/no] company"),
        ("key", "rotate", NO_KEY),
        ("key", "revoke", NO_KEY),
    ],
    ids=lambda words: " ".join(words[:2]),
)
async def test_unknown_id_is_said_in_a_sentence(
    words: tuple[str, ...], on_database: dict[str, str]
) -> None:
    said = await vintem(*words, settings=on_database)
    assert said.status == 2
    assert said.err == f"vintem: {words[2]} does not exist.\n"
    assert said.out == ""


@pytest.mark.parametrize(
    "words",
    [
        ("company", "set-limits", NO_COMPANY, "--requests-per-minute", "0"),
        ("company", "set-fee", NO_COMPANY, "--method", "pix", "--fixed-cents", "10000000000"),
        ("company", "set-fee", NO_COMPANY, "--method", "pix", "--fixed-cents", "-1"),
        ("company", "set-terms", NO_COMPANY, "--pix-release-days", "366"),
        ("company", "set-terms", NO_COMPANY, "--card-release-days", "-1"),
        ("company", "set-terms", NO_COMPANY, "--reserve-basis-points", "10001"),
        ("company", "set-terms", NO_COMPANY, "--reserve-days", "0"),
        ("company", "set-terms", NO_COMPANY, "--dispute-fee-cents", "10000000000"),
        ("company", "set-protection", NO_COMPANY, "--mode", "on"),
        ("company", "set-interest", NO_COMPANY),
        ("company", "set-interest", NO_COMPANY, "--monthly-basis-points", "-1"),
        ("company", "set-interest", NO_COMPANY, "--monthly-basis-points", "10001"),
        *(
            ("company", "set-interest", NO_COMPANY, "--monthly-basis-points", "1", *words)
            for words in (
                ("--free-installments", "0"),
                ("--installments-max", "13"),
                ("--free-installments", "4", "--installments-max", "3"),
            )
        ),
        ("key", "create", NO_COMPANY, "--type", "pk", "--environment", "test"),
        ("key", "create", NO_COMPANY, "--type", "sk", "--environment", "prod"),
        ("demo", "--port", "65536"),
        ("serve", "--workers", "0"),
        ("launch",),
    ],
    ids=lambda words: " ".join(words[:2]),
)
async def test_wrong_word_is_refused_before_anything_starts(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    said = await vintem(*words, settings={"VINTEM_DATA": str(tmp_path / "data")})
    assert said.status == 2
    assert not (tmp_path / "data").exists()


async def test_interest_is_set_and_shown_for_a_hundred_reais(
    database: Database, tenant: Tenant, on_database: dict[str, str]
) -> None:
    words = ["company", "set-interest", tenant.company.public_id]
    words += ["--monthly-basis-points", "299", "--free-installments", "2"]
    said = await vintem(*words, "--installments-max", "3", settings=on_database)
    assert said.status == 0, said.text
    rows = [re.findall(r"\d+", line) for line in said.out.splitlines()]
    assert [row for row in rows if row] == [
        ["1", "10000", "10000", "0"],
        ["2", "5000", "10000", "0"],
        ["3", "3535", "10605", "4250"],
    ]
    kept = await database.fetchrow(
        """
        select card_interest_basis_points as rate, card_free_installments as free,
            card_installments_max as most
        from company where company_id = $1
        """,
        tenant.company.company_id,
    )
    assert kept is not None
    assert (kept["rate"], kept["free"], kept["most"]) == (299, 2, 3)


async def test_terms_that_are_given_are_set_and_all_are_shown(
    database: Database, tenant: Tenant, on_database: dict[str, str]
) -> None:
    words = ("company", "set-terms", tenant.company.public_id)
    first = ("--pix-release-days", "2", "--reserve-basis-points", "500", "--reserve-days", "60")
    assert (await vintem(*words, *first, settings=on_database)).status == 0
    second = ("--boleto-release-days", "0", "--card-release-days", "14")
    said = await vintem(*words, *second, "--dispute-fee-cents", "3000", settings=on_database)
    assert said.status == 0, said.text
    shown = [found[0] for line in said.out.splitlines() if (found := re.findall(r"\d+", line))]
    assert shown == ["2", "0", "14", "500", "60", "3000"]
    terms = (await companies.find_payee(database, tenant.company.company_id, "test")).terms
    assert (terms.pix_release_days, terms.boleto_release_days) == (2, 0)
    assert (terms.card_release_days, terms.dispute_fee_cents) == (14, 3_000)
    assert (terms.reserve_basis_points, terms.reserve_days) == (500, 60)


async def test_what_an_operator_does_to_a_company_is_in_its_trail(
    database: Database, tenant: Tenant, on_database: dict[str, str]
) -> None:
    company = tenant.company.public_id
    made = await new_key(database, tenant.company.company_id, environment=Environment.LIVE)
    live_key = made.record.key_id
    rules = ("--daily-cents", "70000", "--by", "ana")
    why = ("--reason", "a doubt", "--by")
    done = {
        "limits.changed": ("company", "set-limits", company, "--requests-per-minute", "7"),
        "company.suspended": ("company", "suspend", company),
        "fees.changed": ("company", "set-fee", company, "--method", "pix", "--fixed-cents", "9"),
        "terms.changed": ("company", "set-terms", company, "--reserve-basis-points", "500"),
        "company.changed": ("company", "set-document", company, "529.982.247-25"),
        "key.created": ("key", "create", company, "--type", "sk", "--environment", "live"),
        "key.rotated": ("key", "rotate", live_key, "--overlap", "1h"),
        "withdrawal_rules.changed": ("company", "set-withdrawal-rules", company, *rules),
        "withdrawal_rules.paused": ("company", "pause-withdrawals", company, *why, "ana"),
        "withdrawal_rules.resumed": ("company", "resume-withdrawals", company, *why, "a" * 9_000),
    }
    for words in done.values():
        said = await vintem(*words, settings=on_database)
        assert said.status == 0, said.text
    acts = await trail.list_older(
        database, tenant.company.company_id, ActFilter(environment="live"), rows_max=20
    )
    assert [act.action for act in reversed(acts)] == list(done)
    assert {act.actor_kind for act in acts} == {ActorKind.OPERATOR}
    assert [act.actor_id for act in acts[:3]] == ["a" * 100, "ana", "ana"]
    assert [act.reason for act in acts[:2]] == ["a doubt"] * 2
    written = "".join(act.after for act in acts)
    assert '"requests_per_minute":7' in written
    assert '{"reserve_basis_points":500}' in written
    assert '"daily_cents_max":70000' in written
    assert "52998224725" not in written
    assert "sk_live" not in written
    assert await trail.verify(database, tenant.company.company_id) is None


async def test_fee_beyond_what_can_be_kept_is_refused_with_the_limit(
    on_database: dict[str, str],
) -> None:
    words = ["company", "set-fee", NO_COMPANY, "--method", "pix", "--fixed-cents", "9" * 20]
    said = await vintem(*words, settings={**on_database, "COLUMNS": "200"})
    assert said.status == 2
    assert "9999999999 " in said.err


async def test_name_with_square_brackets_is_kept_as_it_is(on_database: dict[str, str]) -> None:
    name = "Loja [bold] [/nada]"
    said = await vintem("company", "create", name, settings=on_database)
    assert said.status == 0
    listed = await vintem("company", "list", settings=on_database)
    (line,) = [line for line in listed.out.splitlines() if said.out.strip() in line]
    assert name in line


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("11.222.333/0001-81", "11.222.333/0001-81"),
        ("11222333000181", "11.222.333/0001-81"),
        ("12.ABC.345/01DE-35", "12.ABC.345/01DE-35"),
        ("52998224725", "529.982.247-25"),
    ],
)
async def test_company_has_the_document_that_it_was_given(
    written: str, shown: str, on_database: dict[str, str]
) -> None:
    words = ["--document", written, "--legal-name", "Loja Ltda."]
    made = await vintem("company", "create", "Loja", *words, settings=on_database)
    assert made.status == 0, made.text
    bare = await vintem("company", "create", "Loja", settings=on_database)
    listed = await vintem("company", "list", settings=on_database)
    for each, document in ((made, shown), (bare, "–")):
        (line,) = [line for line in listed.out.splitlines() if each.out.strip() in line]
        assert document in line
    later = ["company", "set-document", bare.out.strip(), written]
    said = await vintem(*later, settings=on_database)
    assert said.out == f"{bare.out.strip()}: the document is {shown}\n"


@pytest.mark.parametrize("wrong", ["11.222.333/0001-82", "529.982.247-24", "0" * 14, "", "x"])
async def test_document_with_wrong_check_digits_is_refused(
    wrong: str, database: Database, on_database: dict[str, str]
) -> None:
    before = await database.fetchval("select count(*) from company")
    for words in (["create", "Loja", "--document", wrong], ["set-document", NO_COMPANY, wrong]):
        said = await vintem("company", *words, settings=on_database)
        assert said.status == 2
        assert "is no CPF or CNPJ: its form or its check digits are wrong." in said.err
    assert await database.fetchval("select count(*) from company") == before


async def test_audit_ends_with_0_when_clean_and_with_1_and_the_rows_when_broken() -> None:
    settings = {"DATABASE_URL": await fresh_database()}
    clean = await vintem("audit", settings=settings)
    assert clean.status == 0
    assert "BROKEN" not in clean.out
    assert re.search(r"^\d+ invariants checked, 0 broken\.$", clean.out, re.MULTILINE)
    async with opened(settings["DATABASE_URL"]) as database:
        first, second = await two_keys_of_two_companies(database)
        await database.execute(
            "update api_key set replaced_by = $1, expires_at = now() where key_id = $2",
            first,
            second,
        )
    broken = await vintem("audit", settings=settings)
    assert broken.status == 1
    assert re.search(rf"^BROKEN  K1 .*\n +.*'{second}'.*'{first}'", broken.out, re.MULTILINE)
    assert re.search(r"^\d+ invariants checked, 1 broken\.$", broken.out, re.MULTILINE)


async def test_migrate_says_what_it_applied_and_the_second_time_that_nothing_was_missing() -> None:
    settings = {"DATABASE_URL": await fresh_database()}
    first = await vintem("migrate", settings=settings)
    assert first.status == 0
    assert "applied 0001 " in first.out
    second = await vintem("migrate", settings=settings)
    assert (second.status, second.out) == (0, "The database is current.\n")
    assert await ask(settings["DATABASE_URL"], "select count(*) > 0 from schema_migration") is True


@pytest.mark.parametrize(
    "words",
    [
        ("audit",),
        ("migrate",),
        ("company", "list"),
        ("company", "suspend", NO_COMPANY),
        ("key", "list", NO_COMPANY),
        ("key", "create"),
        ("withdrawal", "list"),
        ("trigger", "transaction.lost"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
async def test_command_says_the_same_whether_it_is_started_or_loaded_before(
    words: tuple[str, ...], on_database: dict[str, str]
) -> None:
    """The other tests run what was loaded before, because it is quicker; this one proves those."""
    started = await vintem(*words, settings=on_database, is_started=True)
    loaded = await vintem(*words, settings=on_database)
    assert started.text
    assert started == loaded


async def test_version_says_which_one_it_is() -> None:
    said = await vintem("version")
    assert said.status == 0
    assert re.fullmatch(r"vintem \d+\.\d+\.\d+ on Python 3\.\d+\.\d+\n", said.out)


async def test_vintem_alone_shows_its_commands() -> None:
    said = await vintem()
    for word in ("Usage", "demo", "serve", "work", "migrate", "audit", "company", "key"):
        assert word in said.text
    # Children are started by their parent only; nobody needs to see their command.
    assert "process" not in said.text


async def test_make_alone_lists_the_targets() -> None:
    process = await asyncio.create_subprocess_exec(
        "make",
        cwd=REPOSITORY,
        env=clean_environment({"MAKEFLAGS": ""}),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    listed = re.findall(r"^\s*(?:\x1b\[\d+m)?([a-z-]+)", out.decode(), re.MULTILINE)
    assert {"help", "setup", "run", "test", "check", "bench"} <= set(listed)
