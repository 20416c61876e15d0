"""Runs the real commands as processes, and reads what they wrote as any Kafka client would."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from dutycycle.contract.settings.groups import PREFIX, Settings
from dutycycle.contract.topics import full_name, short_name
from dutycycle.kafka.consumer import Consumer
from tests.support.processes.warm import command
from tests.support.waiting import DEADLINE_S, wait_until

STOP_S = 120.0
"""An end takes a few seconds, and on a busy machine many times that."""
ANEW = (sys.executable, "-m", "dutycycle")
"""A process that makes its imports itself: where it is about its start, or its own pid."""
_READ_AT_THE_START = ("LD_LIBRARY_PATH", "PYTHONPATH")
Derived = dict[tuple[str, str], list[bytes]]
"""Payloads in order, by (topic without prefix, key)."""


def environ(**settings: str) -> dict[str, str]:
    """The environment of a command: that of the tests, and ``settings`` by field name.

    Its ``/metrics`` are on a free port, unless ``listen`` says otherwise.
    """
    given = {"listen": "127.0.0.1:0"} | settings
    return os.environ | {PREFIX + name.upper(): value for name, value in given.items()}


def beginning(env: Mapping[str, str]) -> Sequence[str]:
    """What a command begins with: ``ANEW`` where its environment brings other libraries or modules."""
    own = {name: os.environ.get(name) for name in _READ_AT_THE_START}
    return command() if own == {name: env.get(name) for name in own} else ANEW


def run_to_end(
    *arguments: str | Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever that is."""
    env = environ() if env is None else env
    return subprocess.run(
        [*beginning(env), *map(str, arguments)], env=env,
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


def dutycycle(
    *arguments: str | Path, env: Mapping[str, str] | None = None, status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command, which has to end with ``status`` and without a traceback."""
    done = run_to_end(*arguments, env=env)
    assert done.returncode == status, f"{arguments}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


@contextmanager
def running(
    *arguments: str, env: Mapping[str, str], log: Path, number: signal.Signals = signal.SIGTERM,
    start: Sequence[str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:  # fmt: skip
    """A long-lived command. At the end it gets the signal ``number``, and has to end with 0 in seconds.

    ``start`` may be ``ANEW``.
    """
    begin = start or beginning(env)
    with log.open("wb") as out:
        process = subprocess.Popen([*begin, *arguments], env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield process
            wait_until(lambda: process.poll() is not None or catches_sigterm(process.pid), log.read_text)
            process.send_signal(number)
            assert process.wait(STOP_S) == 0, f"{arguments}: {log.read_text()}"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


@contextmanager
def mortal(
    *arguments: str, env: Mapping[str, str], log: Path, start: Sequence[str] = ANEW
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that ends by SIGKILL, unless it has ended before; what it says is added to ``log``."""
    with log.open("ab") as out:
        process = subprocess.Popen([*start, *arguments], env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


async def started(*arguments: str, env: Mapping[str, str], log: Path) -> asyncio.subprocess.Process:
    """The process of a command, just begun; what it says is added to ``log``."""
    with log.open("ab") as out:
        return await asyncio.create_subprocess_exec(*ANEW, *arguments, env=env, stdout=out, stderr=out)


@asynccontextmanager
async def begun(
    *arguments: str, env: Mapping[str, str], log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """``started``; it is killed at the end if it has not ended."""
    process = await started(*arguments, env=env, log=log)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def catches_sigterm(pid: int) -> bool:
    """Whether the interpreter has come as far as our first line, or has ended; nobody can catch a signal
    before."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has ended, and was waited for
        return True
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "SigCgt: ffffffff")
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


async def derived(settings: Settings, topics: Iterable[str]) -> Derived:
    """What lies on ``topics`` (without prefix) now."""
    found: Derived = defaultdict(list)
    names = [full_name(settings.topic_prefix, topic) for topic in topics]
    consumer = Consumer(settings, "test", names, "beginning")
    await consumer.start()
    try:
        ends = await consumer.ends()
        while not await consumer.reached(ends):
            for message in await consumer.take(0.5):
                topic = short_name(settings.topic_prefix, message.topic) or ""
                found[topic, message.key or ""].append(message.value or b"")
    finally:
        await consumer.stop()
    return found


def read_now(settings: Settings, topics: Iterable[str]) -> Derived:
    """``derived`` for tests that are not asynchronous."""
    return asyncio.run(derived(settings, topics))
