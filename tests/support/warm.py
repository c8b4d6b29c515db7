"""Commands without their start: a process that has imported them becomes each in a copy of itself.

`python -m support.warm 7` takes its orders from the socket that it inherited as descriptor 7.
"""

import asyncio
import atexit
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

ORDER_BYTES_MAX = 1 << 16
TESTS = Path(__file__).parents[1]


class Warm:
    """A process that waits for words, and for each of them does what `vintem` would do."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._orders, theirs = socket.socketpair()
        with theirs:
            # It ends with the last of those who could give it an order, which is this process.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.warm", str(theirs.fileno())],
                env=dict(environment),
                cwd=TESTS,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self._end)

    async def run(
        self, words: Sequence[str], *, environment: Mapping[str, str], folder: Path, seconds: float
    ) -> tuple[int, str, str]:
        """Run one command to its end: its status, its output and its complaints."""
        order = {"words": words, "environment": dict(environment), "folder": str(folder)}
        answer, theirs = socket.socketpair()
        with answer, TemporaryFile() as out, TemporaryFile() as err:
            with theirs:
                handed = [theirs.fileno(), out.fileno(), err.fileno()]
                socket.send_fds(self._orders, [json.dumps(order).encode()], handed)
            answer.setblocking(False)
            status = await self._hear(answer, seconds)
            assert status is not None, f"{words} died without a word"
            return status, _content(out.fileno()), _content(err.fileno())

    async def _hear(self, answer: socket.socket, seconds: float) -> int | None:
        """The exit status; it comes after the number of the process, which may have to be ended."""
        heard, loop = b"", asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                while said := await loop.sock_recv(answer, 64):
                    heard += said
        except BaseException:
            for number in heard.split()[:1]:
                with suppress(ProcessLookupError):
                    os.kill(int(number), signal.SIGKILL)
            raise
        _, _, status = heard.partition(b"\n")
        return int(status) if status else None

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


def _content(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()


@cache
def warm_process(environment: tuple[tuple[str, str], ...]) -> Warm:
    """The one of this test process, started when it is needed first."""
    return Warm(dict(environment))


def serve(orders: socket.socket, main: Callable[[], None]) -> None:
    """Become a command in a copy of this process, for each order, until nobody can give one."""
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, 3)
        if not order:
            return
        if os.fork() == 0:
            orders.close()
            obey(main, json.loads(order), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def obey(
    main: Callable[[], None], order: Mapping[str, Any], answer: int, out: int, err: int
) -> NoReturn:
    """Be the command that was ordered, from its first word to its exit status."""
    os.write(answer, b"%d\n" % os.getpid())
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    random.seed()
    # Who complains about words names itself by these, as `python -m vintem` would.
    sys.modules["__main__"] = sys.modules[main.__module__]
    sys.argv = [str(sys.modules[main.__module__].__file__), *order["words"]]
    status: object = 0
    try:
        main()
    except SystemExit as end:
        status = end.code or 0
    except BaseException as fault:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(type(fault), fault, fault.__traceback__)
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(answer, b"%d" % (status if isinstance(status, int) else 1))
    os._exit(0)


if __name__ == "__main__":
    from vintem.__main__ import main as run_command

    serve(socket.socket(fileno=int(sys.argv[1])), run_command)
