"""What every test stands on: one PostgreSQL a run, one database a worker, one real server."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import asyncpg
import hypothesis
import pytest

from support.api import TEST_PEPPER, Api, Tenant, new_tenant
from support.routes import TEST_ROUTES
from vintem.api import reference
from vintem.api.pipeline import Pipeline
from vintem.api.routes import TABLE
from vintem.app import PAGES, REFUSAL_PAGES
from vintem.resources import Resources, open_resources
from vintem.runtime import log as logs
from vintem.runtime.db import Database
from vintem.runtime.embedded import ask
from vintem.runtime.listening import listen
from vintem.runtime.migrations import migrate
from vintem.server import make_server, run_server
from vintem.settings import Settings, read_settings

CLUSTER_URL = "TEST_CLUSTER_URL"
LOG_FOLDER = "TEST_LOG_FOLDER"

# Whether an example holds does not depend on how busy the machine is.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


class Cluster:
    """The PostgreSQL of this run, in a process of its own, and the folder of its logs."""

    def __init__(self, kind: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="vintem-tests-")
        folder = Path(self._folder.name)
        self.logs = folder / "logs"
        self.logs.mkdir()
        with (self.logs / "cluster.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.cluster", kind, str(folder / "data")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).parent,
            )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self._process.stdout.close()
        assert self.url, (self.logs / "cluster.log").read_text()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._folder.cleanup()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--postgres",
        default="embedded",
        choices=["embedded", "15"],
        help="the server to test on: the embedded one, or Debian's PostgreSQL 15",
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    cluster = Cluster(config.getoption("--postgres"))
    os.environ[CLUSTER_URL] = cluster.url
    os.environ[LOG_FOLDER] = str(cluster.logs)
    config.add_cleanup(cluster.stop)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The whole run's log must not hold a single secret."""
    if hasattr(session.config, "workerinput"):
        return
    from support.secrets import find_secrets

    found = find_secrets(Path(os.environ[LOG_FOLDER]))
    if found:
        sys.stderr.write("\nsecrets in the log of this run:\n" + "\n".join(found) + "\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def _log(worker_id: str) -> Iterator[None]:
    with (Path(os.environ[LOG_FOLDER]) / f"{worker_id}.log").open("w") as stream:
        logs.configure(is_json=True, level="debug", stream=stream)
        yield


@pytest.fixture(scope="session")
async def database_url(worker_id: str) -> str:
    """An empty database of this worker."""
    url = await new_database(f"test_{worker_id}")
    # What survives a crash is proven on databases of its own; here nothing waits for the disk.
    await ask(url, f"alter database test_{worker_id} set synchronous_commit = off")
    return url


async def new_database(name: str) -> str:
    url = os.environ[CLUSTER_URL]
    connection = await asyncpg.connect(url)
    try:
        # A worker may come back to a module, and make what is the module's once more.
        await connection.execute(f"drop database if exists {name.partition(' ')[0]} with (force)")
        await connection.execute(f"create database {name}")
    finally:
        await connection.close()
    return url.replace("/vintem?", f"/{name}?")


@pytest.fixture(scope="session")
async def database(database_url: str) -> AsyncIterator[Database]:
    """The worker's database with every migration."""
    opened = Database(database_url)
    await opened.open()
    await migrate(opened)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def settings(database_url: str, database: Database) -> Settings:
    del database
    return read_settings(
        {
            "DATABASE_URL": database_url,
            "VINTEM_PEPPER": TEST_PEPPER,
            # All tests sign in from one address; those of the limit set their own.
            "VINTEM_PUBLIC_SIGN_INS_PER_MINUTE": "100000",
        }
    )


@asynccontextmanager
async def running_api(settings: Settings, *, shared_limits: bool = False) -> AsyncIterator[Api]:
    """A real server in this process, with the real routes and those of the tests."""
    async with (
        open_resources(settings, shared_limits=shared_limits) as resources,
        serving(resources) as base_url,
        client() as session,
    ):
        yield Api(base_url, session)


@asynccontextmanager
async def serving(resources: Resources) -> AsyncIterator[str]:
    app = Pipeline(
        resources,
        (*TABLE, *reference.routes(TABLE), *PAGES, *TEST_ROUTES),
        refusal_pages=REFUSAL_PAGES,
    )
    listener = listen("127.0.0.1", 0)
    server = make_server(app, drain_seconds=1)
    task = asyncio.create_task(run_server(server, [listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    await task


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=30), connector=aiohttp.TCPConnector(limit=0)
    ) as session:
        yield session


@pytest.fixture(scope="session")
async def api(settings: Settings) -> AsyncIterator[Api]:
    """The server that most tests share."""
    async with running_api(settings) as running:
        yield running


@pytest.fixture
async def tenant(database: Database) -> Tenant:
    """A fresh company with its keys."""
    return await new_tenant(database)
