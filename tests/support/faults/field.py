"""What the fault tests of the streams share: workers, a tap, and the assessment at the end."""

import asyncio
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Self

from streams.app import app_id
from tests.support.faults.oracle import Results, Series, counted, difference, results
from tests.support.faults.tap import Tap
from tests.support.faults.workers import Workers
from tests.support.processes.commands import begun
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until

_AFTER_PROGRESS = 0.7
"""So many of the kills; of those in between, some hit a worker that has not done anything yet."""


class Field(Workers):
    """Stream workers, and what they put out."""

    def __init__(self, kafka: RunningBroker, prefix: str, folder: Path, seed: int, **settings: str) -> None:
        super().__init__("stream", app_id, kafka, prefix, folder, seed, snapshot_interval="500ms", **settings)
        self.tap = Tap(self.settings)
        self.pauses = 0

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.tap)
        return self

    def unsupervised(self, log: Path) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """A stream worker that nobody starts again."""
        return begun("stream", env=self.env, log=log)

    async def some_time(self, least_s: float, most_s: float) -> None:
        """Let a random time pass: a fault may come at any moment."""
        await asyncio.sleep(self.chance.uniform(least_s, most_s))

    async def kill_again_and_again(self, kills: int) -> None:
        """Kill one of the workers, after something came out or at any moment of start, join and recovery."""
        for _ in range(kills):
            if self.chance.random() < _AFTER_PROGRESS:
                await self.progress()
                await self.some_time(0, 1.5)
            else:
                await self.some_time(0, 5)
            self.chance.choice(self.workers).kill()

    async def progress(self) -> None:
        """Wait until something new came out."""
        await self.tap.more(self.logs)

    async def judge(self, expected: Results, leave_out: Collection[Series] = ()) -> str:
        """Wait until the results are the expected ones, end the workers, look again; the report of it.

        ``leave_out``: series that are not compared, as what is in them may depend on more than the log.
        """

        def compared() -> Results:
            return {name: of for name, of in results(self.tap.found).items() if name not in leave_out}

        expected = {name: of for name, of in expected.items() if name not in leave_out}
        await until(
            lambda: compared() == expected, lambda: f"{difference(expected, compared())}\n{self.logs()}"
        )
        ends = await self.end()
        await asyncio.sleep(1)  # what an end might still put out is there
        got = compared()
        assert got == expected, f"an end added something: {difference(expected, got)}"
        repeats = self.tap.count - sum(len(set(payloads)) for payloads in self.tap.found.values())
        return f"seed {self.seed}: {ends}, {self.pauses} pauses; {counted(got)}: all equal, {repeats} repeats"
