"""Workers of one command that share a broker and a group, and what is published for them meanwhile."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from confluent_kafka import ConsumerGroupState, KafkaException

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import TraceRecord
from tests.support.faults.feed import Feed
from tests.support.faults.sink_lives import Sent
from tests.support.faults.supervised import Supervised
from tests.support.kafka import settings_of
from tests.support.processes.commands import environ
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until

PARTITIONS = "4"


class Workers:
    """An async context on a broker and a prefix of its own. What is begun in it ends with it."""

    def __init__(
        self, command: str, group_of: Callable[[Settings], str], kafka: RunningBroker, prefix: str,
        folder: Path, seed: int, **settings: str,
    ) -> None:  # fmt: skip
        self.env = environ(
            broker=kafka.url, topic_prefix=prefix, session_timeout=kafka.session_timeout,
            partitions=PARTITIONS, **settings,
        )  # fmt: skip
        self.settings: Settings = settings_of(self.env)
        self.folder = folder
        self.chance = random.Random(seed)  # noqa: S311 - moments, no secrets
        self.seed = seed
        self.workers: list[Supervised] = []
        self.admin = kafka.admin()
        self.group = group_of(self.settings)
        self._command = command
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)

    async def worker(self) -> Supervised:
        """One more of them."""
        log = self.folder / f"{self._command}-{len(self.workers) + 1}.log"
        self.workers.append(await self._stack.enter_async_context(Supervised([self._command], self.env, log)))
        return self.workers[-1]

    async def feed(self, records: Sequence[TraceRecord | Sent], per_s: float) -> Feed:
        """Begin to publish."""
        return await self._stack.enter_async_context(Feed(self.settings, records, per_s))

    async def members(self, count: int) -> None:
        """Wait until the group is dealt out among so many workers."""
        await until(
            lambda: asyncio.to_thread(self._has_members, count), lambda: f"a group of {count}: {self.logs()}"
        )

    def _has_members(self, count: int) -> bool:
        """Tell whether so many have partitions; not while these are dealt out anew."""
        (answer,) = self.admin.describe_consumer_groups([self.group]).values()
        try:
            found = answer.result(10)
        except (KafkaException, TimeoutError):  # the broker has just started, or is busy
            return False
        holders = sum(bool(member.assignment.topic_partitions) for member in found.members)
        return found.state == ConsumerGroupState.STABLE and holders == count

    async def end(self) -> str:
        """End them, each in good order; how often they were killed, and ended unasked."""
        for worker in self.workers:
            await worker.end()
        failures = [status for worker in self.workers for status in worker.failures]
        kills = sum(worker.kills for worker in self.workers)
        return f"{kills} kills, {len(self.workers)} workers, {len(failures)} unasked ends {failures}"

    def logs(self) -> str:
        """What the workers said, to go with a failure."""
        return "\n".join(
            f"{worker.kills} kills, failures {worker.failures}: {worker.state}\n{worker.log}"
            for worker in self.workers
        )
