"""What the fault tests share: stream workers on a broker, a feed, a tap, and the assessment at the end."""

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import TraceRecord
from streams.app import app_id
from tests.support.faults.feed import Feed
from tests.support.faults.oracle import Results, Series, counted, difference, results
from tests.support.faults.supervised import Supervised
from tests.support.faults.tap import Tap
from tests.support.kafka import settings_of
from tests.support.processes.commands import environ, started
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kafka.groups import workers_of
from tests.support.waiting import until

PARTITIONS = "4"
_AFTER_PROGRESS = 0.7
"""So many of the kills; of those in between, some hit a worker that has not done anything yet."""


class Field:
    """An async context on a broker and a prefix of its own. What is begun in it ends with it."""

    def __init__(self, kafka: RunningBroker, prefix: str, folder: Path, seed: int, **settings: str) -> None:
        self.env = environ(
            broker=kafka.url, topic_prefix=prefix, session_timeout=kafka.session_timeout,
            partitions=PARTITIONS, snapshot_interval="500ms", **settings,
        )  # fmt: skip
        self.settings: Settings = settings_of(self.env)
        self.folder = folder
        self.chance = random.Random(seed)  # noqa: S311 - moments, no secrets
        self.tap = Tap(self.settings)
        self.workers: list[Supervised] = []
        self.joins = 0
        self.pauses = 0
        self._seed = seed
        self._admin = kafka.admin()
        self._group = app_id(self.settings)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.tap)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)

    async def worker(self) -> Supervised:
        """One more stream worker."""
        self.joins += 1
        log = self.folder / f"stream-{self.joins}.log"
        one = Supervised(["stream"], self.env, log)
        self.workers.append(await self._stack.enter_async_context(one))
        return one

    @asynccontextmanager
    async def unsupervised(self, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
        """A stream worker that nobody starts again. It is killed if it has not ended."""
        process = await started("stream", env=self.env, log=log)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def feed(self, records: Sequence[TraceRecord], per_s: float) -> Feed:
        """Begin to publish."""
        return await self._stack.enter_async_context(Feed(self.settings, records, per_s))

    async def some_time(self, least_s: float, most_s: float) -> None:
        """Let a random time pass: a fault may come at any moment."""
        await asyncio.sleep(self.chance.uniform(least_s, most_s))

    async def members(self, count: int) -> None:
        """Wait until the group is dealt out among so many workers."""

        async def so_many() -> bool:
            return await asyncio.to_thread(workers_of, self._admin, self._group) == count

        await until(so_many, lambda: f"a group of {count}: {self.logs()}")

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

    def logs(self) -> str:
        """What the workers said, to go with a failure."""
        return "\n".join(
            f"{one.kills} kills, failures {one.failures}: {one.state}\n{one.log}" for one in self.workers
        )

    async def judge(self, expected: Results, leave_out: Collection[Series] = ()) -> str:
        """Wait until the results are the expected ones, end the workers, look again; the report of it.

        ``leave_out``: series that are not compared, as what is in them may depend on more than the log.
        """

        def compared() -> Results:
            return {name: of for name, of in results(self.tap.found).items() if name not in leave_out}

        expected = {name: of for name, of in expected.items() if name not in leave_out}
        await until(
            lambda: compared() == expected,
            lambda: f"{difference(expected, compared())}\n{self.logs()}",
        )
        for one in self.workers:
            await one.end()
        await asyncio.sleep(1)  # what an end might still put out is there
        got = compared()
        assert got == expected, f"an end added something: {difference(expected, got)}"
        return self._report(got)

    def _report(self, got: Results) -> str:
        kills = sum(one.kills for one in self.workers)
        failures = [status for one in self.workers for status in one.failures]
        repeats = self.tap.count - sum(len(set(payloads)) for payloads in self.tap.found.values())
        return (
            f"seed {self._seed}: {kills} kills, {self.joins} workers, {self.pauses} pauses, "
            f"{len(failures)} unasked ends {failures}; {counted(got)}: all equal, {repeats} repeats"
        )
