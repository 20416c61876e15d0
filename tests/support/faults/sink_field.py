"""Sink workers on a broker and a database, records at a pace, and the assessment of what is in SQL."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from confluent_kafka import ConsumerGroupTopicPartitions
from sqlalchemy import Engine, create_engine, exc, text

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import SAMPLE_TOPICS, full_name
from dutycycle.kafka.producer import Delivery, Producer
from sinks.app import app_id
from tests.support.faults.feed import BEAT_S, dues
from tests.support.faults.sink_lives import Rows, Sent, difference, newest, stored
from tests.support.faults.supervised import Supervised
from tests.support.kafka import PUBLIC, make_topics, settings_of
from tests.support.processes.commands import environ
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kafka.groups import workers_of
from tests.support.sinks.recording import unix_ms
from tests.support.waiting import until

PARTITIONS = "4"


class SinkField:
    """An async context. What is begun in it ends with it; ``sent`` is what the broker has."""

    def __init__(self, kafka: RunningBroker, prefix: str, url: str, folder: Path, seed: int = 0) -> None:
        self.env = environ(
            broker=kafka.url, records=url, topic_prefix=prefix, partitions=PARTITIONS, annotations="off",
            session_timeout=kafka.session_timeout,
        )  # fmt: skip
        self.settings: Settings = settings_of(self.env)
        self.chance = random.Random(seed)  # noqa: S311 - moments, no secrets
        self.workers: list[Supervised] = []
        self.sent: list[Sent] = []
        self.engine: Engine = create_engine(url)
        self._folder = folder
        self._admin = kafka.admin()
        self._stack = AsyncExitStack()
        self._producer = Producer(self.settings, "feed", linger_ms=5)
        self._feeding: asyncio.Task[None] | None = None
        self._hurried = asyncio.Event()

    async def __aenter__(self) -> Self:
        derived = [name for name in PUBLIC if name not in SAMPLE_TOPICS]
        await make_topics(self.settings, SAMPLE_TOPICS, outputs=derived)
        await self._producer.start()
        return self

    async def __aexit__(self, *error: Any) -> None:
        if self._feeding:
            self._feeding.cancel()
            await asyncio.wait([self._feeding])
        await self._producer.abort()
        await self._stack.__aexit__(*error)
        self.engine.dispose()

    async def worker(self) -> Supervised:
        """One more ``dutycycle sink``."""
        log = self._folder / f"sink-{len(self.workers) + 1}.log"
        one = Supervised(["sink"], self.env, log)
        self.workers.append(await self._stack.enter_async_context(one))
        return one

    def feed(self, records: Sequence[Sent], per_s: float) -> None:
        """Begin to publish, ``per_s`` a second at first and ever slower."""
        self._hurried.clear()
        self._feeding = asyncio.create_task(self._feed(records, dues(len(records), per_s)))

    async def _feed(self, records: Sequence[Sent], due: Iterator[int]) -> None:
        done = 0
        while done < len(records):
            until = len(records) if self._hurried.is_set() else next(due)
            some, done = records[done:until], until
            await self._producer.settle([await self._post(one) for one in some])
            self.sent += some
            await asyncio.sleep(0 if self._hurried.is_set() else BEAT_S)

    async def _post(self, one: Sent) -> Delivery:
        topic = full_name(self.settings.topic_prefix, one.topic)
        return await self._producer.send(topic, one.key, one.payload, unix_ms(one.row["last_at"]))

    @property
    def flows(self) -> bool:
        """Whether there is more to come."""
        return self._feeding is not None and not self._feeding.done()

    async def until_sent(self, records: int) -> None:
        """Wait until so many are published; somebody who is away holds up nobody who publishes."""
        await until(lambda: len(self.sent) >= records, self.logs)

    async def all_sent(self) -> None:
        """Publish the rest at once."""
        self._hurried.set()
        assert self._feeding
        await self._feeding

    def written(self) -> int:
        """How many records of pods are in the database, those included that were superseded there."""
        with self.engine.connect() as connection:
            return int(connection.scalar(text("SELECT coalesce(sum(samples), 0) FROM pod_peaks")) or 0)

    def committed(self) -> int:
        """How many records of pods the group has acknowledged."""
        group = ConsumerGroupTopicPartitions(app_id(self.settings))
        (answer,) = self._admin.list_consumer_group_offsets([group]).values()
        topic = full_name(self.settings.topic_prefix, "pod-peaks")
        places = answer.result(10).topic_partitions
        return sum(max(one.offset, 0) for one in places if one.topic == topic)

    async def progress(self) -> None:
        """Wait until the database has something new."""
        before = await self.look()
        await self.until_look(lambda found: found > before, "something new in the database")

    async def look(self) -> int:
        """``written``; 0 where there is no table yet."""
        try:
            return await asyncio.to_thread(self.written)
        except exc.SQLAlchemyError:
            return 0

    async def until_look(self, is_so: Callable[[int], bool], what: str) -> None:
        """Wait until what is written is so."""

        async def is_written() -> bool:
            return is_so(await self.look())

        await until(is_written, lambda: f"{what}: {self.logs()}")

    async def members(self, count: int) -> None:
        """Wait until the group is dealt out among so many workers."""

        async def so_many() -> bool:
            return await asyncio.to_thread(workers_of, self._admin, app_id(self.settings)) == count

        await until(so_many, lambda: f"a group of {count}: {self.logs()}")

    def logs(self) -> str:
        """What the workers said, to go with a failure."""
        return "\n".join(f"{one.kills} kills, failures {one.failures}: {one.log}" for one in self.workers)[
            -6000:
        ]

    async def judge(self) -> str:
        """Wait until every row is the newest of its key, end the workers, look again; the report of it."""
        expected = newest(self.sent)
        got: Rows = {}

        async def is_whole() -> bool:
            nonlocal got
            got = await self._stored()
            return got == expected

        await until(is_whole, lambda: f"{difference(expected, got)}\n{self.logs()}")
        for one in self.workers:
            await one.end()
        after = await self._stored()
        assert after == expected, f"an end changed something: {difference(expected, after)}"
        assert await asyncio.to_thread(self.committed) == sum(one.topic == "pod-peaks" for one in self.sent)
        assert "Traceback" not in self.logs()
        kills = sum(one.kills for one in self.workers)
        failures = [status for one in self.workers for status in one.failures]
        return (
            f"{kills} kills, {len(failures)} unasked ends {failures}; {len(self.sent)} records, "
            f"{len(expected)} rows, each column for column the newest of its key, none more, none doubled"
        )

    async def _stored(self) -> Rows:
        try:
            return await asyncio.to_thread(stored, self.engine)
        except exc.SQLAlchemyError:
            return {}
