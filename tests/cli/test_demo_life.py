"""The demo's starts, ends and deaths: clean, complete and by itself."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from support.api import HttpReply, assert_refused
from support.platform import (
    Running,
    client,
    copy_used_folder,
    demo,
    leftovers,
    promised,
    ready_file,
    starting_demo,
    try_once,
    until,
    vintem,
)
from vintem.kit.errors import ErrorCode
from vintem.runtime.embedded import read_pid

SECOND_START_SECONDS_MAX = 5.0
STOP_SECONDS_MAX = 5.0
RECOVERY_SECONDS_MAX = 5.0
CALL_SECONDS_MAX = 6.0


@pytest.fixture(scope="module")
async def used(module_path: Path) -> Path:
    """A data folder that a demo has used before; not in use when a test begins."""
    data = module_path / "data"
    await copy_used_folder(data)
    return data


def interrupt(running: Running) -> None:
    running.process.send_signal(signal.SIGINT)


def interrupt_group(running: Running) -> None:
    # A terminal sends Ctrl-C to everybody in the foreground, not to the parent alone.
    os.killpg(os.getpgid(running.pid), signal.SIGINT)


def terminate(running: Running) -> None:
    running.process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("end", [interrupt, interrupt_group, terminate])
async def test_demo_stops_completely_and_starts_again_quickly_with_the_same_data(
    used: Path, end: Callable[[Running], None]
) -> None:
    kept = json.loads((used / "demo.json").read_text())
    # It may have another port each time.
    del kept["baseUrl"]
    owner = kept.pop("dashboard")
    async with demo(used) as running:
        assert running.start_seconds < promised(SECOND_START_SECONDS_MAX)
        assert {name: running.ready[name] for name in kept} == kept
        assert running.ready["dashboard"]["password"] == owner["password"]
        reply = await try_once(running, "/v1/balance", key=kept["testSecretKey"])
        assert reply is not None
        assert reply.status == 200
        began = time.monotonic()
        end(running)
        assert await running.ended() == 0
        assert time.monotonic() - began < promised(STOP_SECONDS_MAX)
        assert not leftovers(running)
        assert "Everything is stopped" in running.out
        assert "Traceback" not in running.log
        assert "ended by itself" not in running.log


async def test_company_made_in_one_run_is_there_in_the_next(used: Path) -> None:
    async with demo(used) as running:
        made = await vintem("company", "create", "Padaria Sol", "--data", str(used))
        assert made.status == 0
        assert await running.stop(signal.SIGTERM) == 0
    listed = await vintem("company", "list", "--data", str(used))
    assert made.out.strip() in listed.out


@pytest.mark.parametrize(
    "stage", ["Starting PostgreSQL", "Preparing the database", "Starting the API"]
)
async def test_ctrl_c_while_starting_is_clean(tmp_path: Path, stage: str) -> None:
    async with starting_demo(tmp_path / "data") as running:
        await until(lambda: stage in running.out, seconds=30)
        began = time.monotonic()
        interrupt_group(running)
        assert await running.ended() == 0
        assert time.monotonic() - began < promised(STOP_SECONDS_MAX)
        assert not leftovers(running)
        assert "Traceback" not in running.log + running.out
        assert not ready_file(running.data).exists()
        # What was begun does not stand in the way of the next start.
        for word in ("migrate", "audit"):
            said = await vintem(word, "--data", str(running.data))
            assert said.status == 0, said.text


async def test_second_signal_ends_a_demo_that_takes_its_time(used: Path) -> None:
    async with demo(used, settings={"VINTEM_DRAIN_NOTICE_SECONDS": "60"}) as running:
        terminate(running)
        await until(lambda: "stopping: no new calls" in running.log, seconds=10)
        assert running.process.returncode is None
        terminate(running)
        assert await running.ended(seconds=5) == -signal.SIGTERM


async def test_killed_parent_leaves_no_process_behind(used: Path) -> None:
    async with demo(used) as running:
        assert len(leftovers(running)) >= 4
        running.process.kill()
        await running.ended()
        await until(lambda: not leftovers(running), seconds=promised(RECOVERY_SECONDS_MAX))


async def test_parent_killed_while_its_children_start_leaves_no_process_behind(used: Path) -> None:
    async with starting_demo(used) as running:
        await until(lambda: running.children("api") and running.children("worker"), seconds=30)
        running.process.kill()
        await running.ended()
        await until(lambda: not leftovers(running), seconds=promised(RECOVERY_SECONDS_MAX))


async def test_killed_api_process_is_replaced_and_answers_again(used: Path) -> None:
    async with demo(used) as running:
        killed = running.children("api")[0]
        killed.kill()
        await until(lambda: not killed.is_running() or is_zombie(killed), seconds=5)
        key = running.ready["testSecretKey"]

        async def answers() -> bool:
            reply = await try_once(running, "/v1/balance", key=key)
            return reply is not None and reply.status == 200

        await until(answers, seconds=promised(RECOVERY_SECONDS_MAX))
        assert [child.pid for child in running.children("api")] != [killed.pid]
        assert await running.stop() == 0
        assert not leftovers(running)


async def test_killed_worker_is_replaced(used: Path) -> None:
    async with demo(used) as running:
        killed = running.children("worker")[0]
        killed.kill()
        await until(
            lambda: [p for p in running.children("worker") if p.pid != killed.pid],
            seconds=promised(RECOVERY_SECONDS_MAX),
        )


async def test_killed_postmaster_is_replaced_while_calls_get_an_answer(used: Path) -> None:
    # Counted in PostgreSQL, no call can be answered without it.
    async with demo(used, settings={"VINTEM_SHARED_LIMITS": "1"}) as running:
        company = running.ready["companyId"]
        words = ["company", "set-limits", company, "--requests-per-minute", "100000"]
        assert (await vintem(*words, "--data", str(used))).status == 0
        postmaster = read_pid(used / "postgres/postmaster.pid")
        assert postmaster is not None
        replies: list[HttpReply] = []
        async with client(running) as api:
            key = running.ready["testSecretKey"]

            async def is_wide() -> bool:
                reply = await api.get("/v1/balance", key=key)
                return reply.headers["X-RateLimit-Limit"] == "100000"

            await until(is_wide, seconds=promised(5))
            os.kill(postmaster, signal.SIGKILL)
            killed_at = time.monotonic()
            good = 0
            while good < 20:
                assert time.monotonic() - killed_at < promised(15)
                async with asyncio.timeout(CALL_SECONDS_MAX):
                    replies.append(await api.get("/v1/balance", key=key))
                good = good + 1 if replies[-1].status == 200 else 0
                await asyncio.sleep(0.02)
        for reply in [reply for reply in replies if reply.status != 200]:
            assert_refused(reply, ErrorCode.SERVICE_UNAVAILABLE, status=503)
            assert int(reply.headers["Retry-After"]) >= 1
        assert len(running.children("api")) == 1
        assert "ended by itself" not in running.log
        assert await running.stop() == 0
        assert not leftovers(running)


def is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
