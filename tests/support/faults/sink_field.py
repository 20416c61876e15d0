"""What the fault tests of the sink share: workers on a database, and the assessment of what is in SQL."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from confluent_kafka import ConsumerGroupTopicPartitions
from sqlalchemy import create_engine, exc, text

from dutycycle.contract.topics import SAMPLE_TOPICS, full_name
from sinks.app import app_id
from tests.support.faults.sink_lives import Rows, Sent, difference, newest, stored
from tests.support.faults.workers import Workers
from tests.support.kafka import PUBLIC, make_topics
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until


class SinkField(Workers):
    """Workers of ``dutycycle sink``, which write records and no annotations."""

    def __init__(self, kafka: RunningBroker, prefix: str, url: str, folder: Path, seed: int = 0) -> None:
        super().__init__("sink", app_id, kafka, prefix, folder, seed, records=url, annotations="off")
        self._engine = create_engine(url)

    async def __aenter__(self) -> Self:
        derived = [name for name in PUBLIC if name not in SAMPLE_TOPICS]
        await make_topics(self.settings, SAMPLE_TOPICS, outputs=derived)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await super().__aexit__(*error)
        self._engine.dispose()

    def written(self) -> int:
        """How many records of pods are in the database, those included that were superseded there."""
        with self._engine.connect() as connection:
            return int(connection.scalar(text("SELECT coalesce(sum(samples), 0) FROM pod_peaks")) or 0)

    def committed(self) -> int:
        """How many records of pods the group has acknowledged."""
        (answer,) = self.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self.group)]
        ).values()
        topic = full_name(self.settings.topic_prefix, "pod-peaks")
        places = answer.result(10).topic_partitions
        return sum(max(place.offset, 0) for place in places if place.topic == topic)

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

    async def judge(self, sent: Sequence[Sent]) -> str:
        """Wait until every row is the newest of its key, end the workers, look again; the report of it."""
        expected = newest(sent)
        got: Rows = {}

        async def is_whole() -> bool:
            nonlocal got
            got = await self._stored()
            return got == expected

        await until(is_whole, lambda: f"{difference(expected, got)}\n{self.logs()}")
        ends = await self.end()
        after = await self._stored()
        assert after == expected, f"an end changed something: {difference(expected, after)}"
        assert await asyncio.to_thread(self.committed) == sum(one.topic == "pod-peaks" for one in sent)
        assert "Traceback" not in self.logs()
        return (
            f"{ends}; {len(sent)} records, {len(expected)} rows, "
            "each column for column the newest of its key, none more, none doubled"
        )

    async def _stored(self) -> Rows:
        try:
            return await asyncio.to_thread(stored, self._engine)
        except exc.SQLAlchemyError:
            return {}
