"""A ``dutycycle`` process under a supervisor that starts it again whenever it ends, as a cluster's does."""

import asyncio
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.processes.commands import STOP_S, catches_sigterm, started
from tests.support.processes.figures import read_page, readiness
from tests.support.waiting import until

_STATE = re.compile(
    r"dutycycle_(\w+_)?(assigned_partitions|unassigned_partitions|consumer_lag_max_records)\{"
)


class Supervised:
    """An async context: one process at a time, until it is left by SIGTERM, which has to end it with 0.

    ``kills`` counts what ``kill`` did, ``failures`` are the exit statuses that nobody asked for.
    """

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self._arguments = arguments
        self._env = env
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._killed: set[int] = set()
        self._over = False
        self._keeping: asyncio.Task[None] | None = None
        self.kills = 0
        self.failures: list[int] = []

    async def __aenter__(self) -> Self:
        await self._start()
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def _start(self) -> None:
        self._process = await started(*self._arguments, env=self._env, log=self._log)

    async def _keep(self) -> None:
        while True:
            process = self.process
            status = await process.wait()
            if self._over:
                return
            if process.pid not in self._killed:
                self.failures.append(status)
            await self._start()

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The process of this moment."""
        assert self._process
        return self._process

    @property
    def log(self) -> str:
        """What all its processes said."""
        return self._log.read_text(errors="replace")

    @property
    def state(self) -> str:
        """What the last of them says of itself now: whether it is ready, what it reads, how far behind."""
        figures = read_page(self._log).splitlines()
        lines = [line for line in figures if _STATE.match(line) and not line.endswith(" 0.0")]
        return "\n".join([readiness(self._log), *lines])

    def kill(self) -> None:
        """SIGKILL."""
        if self.process.returncode is None:
            self._killed.add(self.process.pid)
            self.process.kill()
            self.kills += 1

    def pause(self) -> None:
        """SIGSTOP: it stands still until ``resume``."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """SIGTERM, and nobody starts it again; it has to end with 0 within its bound."""
        self._over = True
        if self.process.returncode is None:
            await until(lambda: catches_sigterm(self.process.pid))
            with suppress(ProcessLookupError):  # it ended by itself in this moment: its status tells
                self.process.terminate()
        status = await asyncio.wait_for(self.process.wait(), STOP_S)
        assert status == 0, f"{self._arguments}: ended with {status}: {self.log}"

    async def __aexit__(self, *error: object) -> None:
        try:
            if error[0] is None and not self._over:
                await self.end()
        finally:
            self._over = True
            if self.process.returncode is None:
                self.process.kill()
                await self.process.wait()
            if self._keeping is not None:
                self._keeping.cancel()
