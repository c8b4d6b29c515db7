"""Measures durable PIX creates and confirmations against pgbench writing the same rows."""

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg

from disk import Disk
from pipeline import VINTEM, free_port
from vintem.companies import service as companies
from vintem.companies.model import Environment, Fee, KeyType, Method, TermsChange
from vintem.kit.clock import utc_now
from vintem.runtime.db import Database
from vintem.runtime.embedded import EmbeddedPostgres, installation

COMPANIES: Final = 50
CONNECTIONS: Final = 64
PGBENCH_CLIENTS: Final = 32
WARM_UP_SECONDS: Final = 20
# Before each turn, after the pause in which the baseline was measured.
TURN_WARM_UP_SECONDS: Final = 2
LOG_MEGABYTES: Final = 4_000
ROUNDS: Final = 3
CREATE_BAR: Final = 0.55
CONFIRM_BAR: Final = 1.0
ONE_MERCHANT_BAR: Final = 3.0
TAIL_BAR: Final = 2.0
BASELINE_PER_SECOND_MAX: Final = 6_000
CONFIRMED_PER_SECOND_MAX: Final = 8_000
# A fee of 0.99 % and the rest on the next business day: a confirmation books and schedules both.
AMOUNT: Final = 12_345
FEE: Final = 122
FEE_BASIS_POINTS: Final = 99
RELEASE_DAYS: Final = 1

CREATE_LUA: Final = """
local keys = {}
for line in io.lines(os.getenv("BENCH_KEYS")) do keys[#keys + 1] = line end
local run, number = os.getenv("BENCH_RUN"), tonumber(os.getenv("BENCH_SKIP"))
local body = [[{"paymentMethod":"pix","amount":12345,"externalRef":"order","description":"Compra",
"customer":{"name":"Cliente de Teste","email":"cliente@example.com",
"document":{"type":"cpf","number":"52998224725"},"phone":"11987654321"},
"items":[{"title":"Produto","unitPrice":12345,"quantity":1}],"metadata":{"loja":"1"}}]]
function request()
    number = number + 1
    return wrk.format("POST", "/v1/transactions", {
        ["x-api-key"] = keys[number % #keys + 1], ["content-type"] = "application/json",
        ["x-idempotency-key"] = run .. "-" .. number}, body)
end
"""

CONFIRM_LUA: Final = """
local work, number = {}, tonumber(os.getenv("BENCH_SKIP"))
for line in io.lines(os.getenv("BENCH_WORK")) do work[#work + 1] = line end
function request()
    number = number + 1
    -- Used up they come again, and are refused: then there were too few.
    local key, id = work[(number - 1) % #work + 1]:match("(%S+) (%S+)")
    return wrk.format("POST", "/v1/sandbox/transactions/" .. id .. "/simulate", {
        ["x-api-key"] = key, ["content-type"] = "application/json"}, '{"status":"paid"}')
end
"""

FILL_LOG: Final = f"""
select count(pg_logical_emit_message(false, '', repeat('x', 1024 * 1024)))
from generate_series(1, {LOG_MEGABYTES})
"""


@dataclass(frozen=True)
class Rate:
    """What wrk saw."""

    per_second: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Sample:
    """What one of our own payments is kept as, to be written by the baseline too."""

    details: str
    terms: str
    event: str


@dataclass(frozen=True)
class Demo:
    """A running platform, the keys of its companies and what it stands on."""

    base_url: str
    keys: Sequence[str]
    database: str
    folder: Path
    disk: Disk


def main() -> None:
    """Print creates and confirmations as ratios, for one and two API processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="length of one turn")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2])
    arguments = parser.parse_args()
    is_good = True
    for processes in arguments.processes:
        with tempfile.TemporaryDirectory() as name, platform(Path(name), processes) as demo:
            is_good &= measure_all(demo, arguments.seconds, processes)
    sys.exit(0 if is_good else 1)


def measure_all(demo: Demo, seconds: int, processes: int) -> bool:
    """Measure one platform; says whether every bar was reached."""
    print(f"\nAPI processes: {processes}, {ROUNDS} turns of {seconds} s and as many of pgbench")
    # A new database first makes the files of its log; one that has worked for a while has them.
    asyncio.run(execute(demo.database, FILL_LOG))
    create(demo, demo.keys, WARM_UP_SECONDS)
    sample = asyncio.run(read_sample(demo.database))
    many, one = demo.keys, demo.keys[:1]
    is_good = in_turns(
        "creates",
        demo,
        lambda: create(demo, many, seconds),
        lambda: pgbench(demo, create_sql(sample), seconds),
        CREATE_BAR,
    )
    is_good &= in_turns(
        "confirmations",
        demo,
        lambda: confirm(demo, many, seconds),
        lambda: confirm_baseline(demo, sample, f"1 + :number % {COMPANIES}", seconds),
        CONFIRM_BAR,
    )
    assert asyncio.run(count_releases(demo.database)), "no confirmation has scheduled a release"
    is_good &= in_turns(
        "confirmations of one merchant",
        demo,
        lambda: confirm(demo, one, seconds),
        lambda: confirm_baseline(demo, sample, "1", seconds),
        ONE_MERCHANT_BAR,
    )
    print(f"turns measured again because the disk had stood still: {demo.disk.repeated}")
    return is_good


def in_turns(
    what: str,
    demo: Demo,
    measure: Callable[[], Rate],
    measure_baseline: Callable[[], float],
    bar: float,
) -> bool:
    """Measure us and the baseline by turns, because the machine's speed changes by the minute."""
    rates, baselines = [], []
    for _ in range(ROUNDS):
        rates.append(demo.disk.undisturbed(measure))
        baselines.append(demo.disk.undisturbed(measure_baseline))
    rate = Rate(
        statistics.mean(one.per_second for one in rates),
        statistics.median(one.p50_ms for one in rates),
        statistics.median(one.p99_ms for one in rates),
    )
    return show(what, rate, statistics.mean(baselines), bar)


def show(what: str, rate: Rate, baseline: float, bar: float) -> bool:
    """Print one line of the result; says whether its bars were reached."""
    ratio, tail = rate.per_second / baseline, rate.p99_ms / rate.p50_ms
    print(
        f"{what:<30} {rate.per_second:6.0f}/s   pgbench {baseline:6.0f}/s"
        f"   ratio {ratio:.2f} (at least {bar})   p50 {rate.p50_ms:5.1f} ms"
        f"   p99 {rate.p99_ms:5.1f} ms, {tail:.1f} times that (at most {TAIL_BAR:.0f})",
        flush=True,
    )
    return ratio >= bar and tail <= TAIL_BAR


async def read_sample(url: str) -> Sample:
    """Read what we keep of a payment and of its event."""
    connection = await asyncpg.connect(url)
    row = await connection.fetchrow(
        """
        select t.details, t.terms, e.body from transaction t
        join webhook_event e on e.company_id = t.company_id and e.entity_id = t.transaction_id
        limit 1
        """
    )
    await connection.close()
    return Sample(*(literal(text) for text in row))


def literal(text: str) -> str:
    """Write a text so that SQL reads it as it is and pgbench finds no variable in it."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace(":", "\\x3a")
    return f"E'{escaped}'"


def settle(demo: Demo) -> None:
    """Let nothing that was measured before be paid for by what is measured next."""
    asyncio.run(execute(demo.database, "checkpoint"))


async def execute(url: str, statement: str) -> None:
    """Run a statement of any length."""
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


async def count_releases(url: str) -> int:
    """How many releases our own confirmations have scheduled."""
    connection = await asyncpg.connect(url)
    count: int = await connection.fetchval(
        "select count(*) from release_schedule where transaction_id < 'tx_1'"
    )
    await connection.close()
    return count


def confirm_baseline(demo: Demo, sample: Sample, company: str, seconds: int) -> float:
    """Confirmations a second that PostgreSQL writes when asked directly, each row found by its id.

    Each client has pending rows of its own, more than it can use up.
    """
    rows, turn = seconds * BASELINE_PER_SECOND_MAX // PGBENCH_CLIENTS, uuid.uuid4().hex
    fill = fill_sql(sample, company.replace(":number", "number"), rows, turn)
    asyncio.run(execute(demo.database, fill))
    rate = pgbench(demo, confirm_sql(sample, company, turn), seconds)
    assert rate < BASELINE_PER_SECOND_MAX, "the baseline ran out of rows"
    return rate


def create(demo: Demo, keys: Sequence[str], seconds: int) -> Rate:
    """Create PIX payments with unique keys for so long."""
    (demo.folder / "keys").write_text("\n".join(keys) + "\n")
    known = {"BENCH_KEYS": str(demo.folder / "keys"), "BENCH_RUN": uuid.uuid4().hex}
    return wrk(demo, CREATE_LUA, seconds, known)


def confirm(demo: Demo, keys: Sequence[str], seconds: int) -> Rate:
    """Confirm pending payments of these companies for so long; first make as many as that needs."""
    enough = CONFIRMED_PER_SECOND_MAX * (seconds + TURN_WARM_UP_SECONDS)
    while len(work := asyncio.run(pending(demo.database, keys))) < enough:
        create(demo, keys, seconds)
    (demo.folder / "work").write_text("\n".join(work) + "\n")
    return wrk(demo, CONFIRM_LUA, seconds, {"BENCH_WORK": str(demo.folder / "work")})


async def pending(url: str, keys: Sequence[str]) -> list[str]:
    """List pending payments as lines of key and id, in the order in which they were made."""
    connection = await asyncpg.connect(url)
    rows = await connection.fetch(
        """
        select k.last_four, t.transaction_id from transaction t
        join api_key k on k.company_id = t.company_id and k.environment = t.environment
            and k.type = 'sk'
        where t.status = 'pending' and t.transaction_id < 'tx_1' order by t.created_at
        """
    )
    await connection.close()
    by_end = {key[-4:]: key for key in keys}
    return [
        f"{by_end[row['last_four']]} {row['transaction_id']}"
        for row in rows
        if row["last_four"] in by_end
    ]


def wrk(demo: Demo, script: str, seconds: int, known: Mapping[str, str]) -> Rate:
    """Run wrk, warm, and read its word; any answer that is not 2xx is an error.

    It counts a stop for every call that would have been made meanwhile: one of a fifth of a second
    is the 99th percentile of 20 s.
    """
    settle(demo)
    (demo.folder / "script.lua").write_text(script)
    warm_up = run_wrk(demo, TURN_WARM_UP_SECONDS, {**known, "BENCH_SKIP": "0"})
    made = re.search(r"(\d+) requests in", warm_up)
    assert made is not None, warm_up
    # Those that were on their way at the end are not in its count.
    skip = int(made[1]) + 2 * CONNECTIONS
    with demo.disk.watched():
        said = run_wrk(demo, seconds, {**known, "BENCH_SKIP": str(skip)})
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert rate is not None
    return Rate(float(rate[1]), percentile(said, "50"), percentile(said, "99"))


def run_wrk(demo: Demo, seconds: int, environment: Mapping[str, str]) -> str:
    """What wrk says after so many seconds of the folder's script."""
    said = subprocess.run(
        ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s",
         str(demo.folder / "script.lua"), demo.base_url],
        check=True, capture_output=True, text=True, env=environment,
    ).stdout  # fmt: skip
    if "Non-2xx" in said:
        sys.exit(f"not every call was answered well:\n{said}")
    return said


def percentile(said: str, which: str) -> float:
    """A percentile of wrk's latency, in milliseconds."""
    found = re.search(rf"{which}%\s+([\d.]+)(us|ms|s)", said)
    assert found is not None, said
    return float(found[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[found[2]]


def pgbench(demo: Demo, script: str, seconds: int) -> float:
    """Rows a second that PostgreSQL writes when asked directly, one prepared statement a commit."""
    settle(demo)
    (demo.folder / "pgbench.sql").write_text(script)
    with demo.disk.watched():
        done = subprocess.run(
            [installation() / "bin/pgbench", "-n", "-M", "prepared", "-c", str(PGBENCH_CLIENTS),
             "-j", "2", "-T", str(seconds), "-D", "number=0",
             "-f", str(demo.folder / "pgbench.sql"), demo.database],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    if done.returncode or found is None:
        sys.exit(f"pgbench failed:\n{done.stdout}{done.stderr}")
    return float(found[1])


@contextmanager
def platform(folder: Path, processes: int) -> Iterator[Demo]:
    """A platform with many companies whose limits the load cannot reach."""
    data = folder / "data"
    port = free_port()
    with (folder / "log").open("w") as log:
        words = ["serve", "--workers", str(processes), "--port", str(port), "--data", str(data)]
        server = subprocess.Popen([VINTEM, *words], stdout=log, stderr=log)
    try:
        base_url = f"http://127.0.0.1:{port}"
        wait_until_ready(base_url, server, folder / "log")
        keys = asyncio.run(make_companies(data))
        time.sleep(1)
        yield Demo(base_url, keys, EmbeddedPostgres(data).url, folder, Disk(folder))
    finally:
        server.terminate()
        server.wait(30)


def wait_until_ready(base_url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the platform answers."""
    while True:
        if server.poll() is not None:
            sys.exit(log.read_text())
        asked = subprocess.run(
            ["curl", "-sf", f"{base_url}/readyz"], capture_output=True, check=False
        )
        if asked.returncode == 0:
            return
        time.sleep(0.1)


async def make_companies(data: Path) -> list[str]:
    """Make companies with one secret test key each, limits raised and not removed."""
    pepper = json.loads((data / "secrets.json").read_text())["pepper"].encode()
    database = Database(EmbeddedPostgres(data).url)
    await database.open()
    keys = []
    for number in range(COMPANIES):
        company = await companies.create_company(database, f"Loja {number}", now=utc_now())
        await companies.set_limits(
            database,
            company.public_id,
            transactions_per_second=1_000_000,
            requests_per_minute=10_000_000,
        )
        fee = Fee(Method.PIX, fixed_cents=0, percent_basis_points=FEE_BASIS_POINTS)
        await companies.set_fee(database, company.public_id, fee)
        await companies.set_terms(
            database, company.public_id, TermsChange(pix_release_days=RELEASE_DAYS)
        )
        made = await companies.create_key(
            database,
            company.company_id,
            key_type=KeyType.SECRET,
            environment=Environment.TEST,
            pepper=pepper,
            now=utc_now(),
        )
        keys.append(made.key)
    await database.close()
    return keys


def create_sql(sample: Sample) -> str:
    """One create as one statement: the payment, its history and its event."""
    return f"""
\\set company random(1, {COMPANIES})
with d as (
    select :company::bigint as company_id,
        'tx_base_' || md5(random()::text || clock_timestamp()) as id,
        {sample.details} as details, {sample.event} as body
),
t as (
    insert into transaction (company_id, transaction_id, environment, status, payment_method,
        amount, fee, installments, external_ref, document_digest, document_sealed, idempotency_key,
        fingerprint, sequence, details, terms, created_at, updated_at, expires_at, due_at)
    select company_id, id, 'test', 'pending', 'pix', {AMOUNT}, {FEE}, 1, 'order', sha256('d'),
        sha256('d'), id, sha256('f'), 1, details, {sample.terms}, now(), now(),
        now() + interval '1 hour', now() + interval '1 hour' from d
    on conflict do nothing returning company_id, transaction_id
),
h as (
    insert into transaction_history (company_id, transaction_id, sequence, to_status, created_at)
    select company_id, transaction_id, 1, 'pending', now() from t
)
insert into webhook_event (company_id, entity_id, sequence, event_id, kind, environment, body,
    created_at)
select d.company_id, d.id, 1, 'tx:' || d.id || chr(58) || 'PENDING', 'transaction.pending', 'test',
    d.body,
    now() from d join t on t.transaction_id = d.id;
"""


def fill_sql(sample: Sample, company: str, rows: int, turn: str) -> str:
    """Pending payments for each client of pgbench, made anew."""
    return f"""
set synchronous_commit = off;
delete from transaction where transaction_id like 'tx_bench%';
insert into transaction (company_id, transaction_id, environment, status, payment_method,
    amount, fee, installments, external_ref, document_digest, document_sealed, idempotency_key,
    fingerprint, sequence, details, terms, created_at, updated_at, expires_at, due_at)
select {company}, id, 'test', 'pending', 'pix', {AMOUNT}, {FEE}, 1, 'order', sha256('d'),
    sha256('d'), id, sha256('f'), 1, {sample.details}, {sample.terms}, now(), now(),
    now() + interval '1 hour', now() + interval '1 hour'
from generate_series(0, {PGBENCH_CLIENTS - 1}) as client, generate_series(1, {rows}) as number,
    lateral (select 'tx_bench_{turn}' || client || '_' || number as id) as named
"""


def confirm_sql(sample: Sample, company: str, turn: str) -> str:
    """One confirmation as one statement: status, history, event, posting, balance and release."""
    return f"""
\\set number :number + 1
\\set company {company}
with t as (
    update transaction t set status = 'paid', sequence = 2, paid_at = now(), updated_at = now(),
        due_at = null
    where t.company_id = :company and t.transaction_id =
        'tx_bench_{turn}' || :client_id || '_' || :number
        and status = 'pending' and sequence = 1
    returning t.company_id, t.transaction_id
),
h as (
    insert into transaction_history (company_id, transaction_id, sequence, from_status, to_status,
        created_at)
    select company_id, transaction_id, 2, 'pending', 'paid', now() from t
),
e as (
    insert into webhook_event (company_id, entity_id, sequence, event_id, kind, environment, body,
        created_at)
    select company_id, transaction_id, 2, 'tx:' || transaction_id || chr(58) || 'PAID',
        'transaction.paid',
        'test', {sample.event}, now() from t
),
a as (
    update account a set balance = a.balance + {AMOUNT - FEE}, version = a.version + 1 from t
    where a.company_id = t.company_id and a.environment = 'test' and a.code = 'release'
    returning a.company_id, a.version
),
p as (
    insert into posting (company_id, environment, kind, reference, codes, amounts, versions,
        created_at)
    select t.company_id, 'test', 'capture', t.transaction_id, array['bank', 'fee', 'release'],
        array[-{AMOUNT}, {FEE}, {AMOUNT - FEE}], array[0, 0, a.version], now()
    from t join a on a.company_id = t.company_id
),
s as (
    insert into release_schedule (company_id, environment, transaction_id, account, part, due_on,
        amount, open)
    select company_id, 'test', transaction_id, 'release', 1, current_date + {RELEASE_DAYS},
        {AMOUNT - FEE}, {AMOUNT - FEE} from t
)
insert into release_day (company_id, environment, account, due_on, waiting)
select company_id, 'test', 'release', current_date + {RELEASE_DAYS}, {AMOUNT - FEE} from a
on conflict (company_id, environment, account, due_on)
    do update set waiting = release_day.waiting + excluded.waiting;
"""


if __name__ == "__main__":
    main()
