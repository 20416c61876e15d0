"""What a worker makes of a source that was deleted and created again."""

from types import SimpleNamespace
from typing import Any, cast

from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.load import load
from streams.source_logs import SourceLogs
from streams.state.partition_clock import PartitionClock
from streams.state.record import clock_key, offset_of

SOURCE, STAGE = "dutycycle.nvml-samples", "nvml"
PLACE = TopicPartition(SOURCE, 0)


class Table:
    """The clock of a partition, as its changelog has it."""

    def __init__(self, offset: int, topic_id: str) -> None:
        self.stored_values: dict[bytes, bytes] = {}
        self.put(offset, topic_id)

    def put(self, offset: int, topic_id: str) -> None:
        key, value = PartitionClock(1000, confirm=10, offset=offset).stored(0, topic_id)
        self.stored_values[key] = value

    def stored(self, key: bytes) -> bytes | None:
        return self.stored_values.get(key)

    def everything(self) -> Any:
        return self.stored_values.items()

    def discard(self, partition: int) -> None:
        self.stored_values.clear()

    def seen_to(self, partition: int) -> int:
        return offset_of(self.stored(clock_key(partition))) + 1


class Worker:
    """Its sources and states, without Kafka. ``ids``: what a broker says that the sources are."""

    def __init__(self, table: Table) -> None:
        self.ids = {SOURCE: "new"}
        self.asked = 0
        self.failures: list[str] = []
        consumer = SimpleNamespace(assignment=lambda: {PLACE})
        self.app: Any = SimpleNamespace(
            consumer=consumer, exact_consumer=SimpleNamespace(topic_ids=self.topic_ids),
            telemetry=SimpleNamespace(emit=lambda *about, **labels: None), conf=SimpleNamespace(id="group"),
        )  # fmt: skip
        coordinator: Any = SimpleNamespace(fail=self.failures.append)
        tables: Any = {STAGE: table}
        settings = load({"DUTYCYCLE_LOST_STATE": "begin-anew"})
        port: Any = SimpleNamespace()
        self.logs = SourceLogs(
            cast("Any", self.app), coordinator, {STAGE: SOURCE}, tables, port, settings, {}
        )

    async def topic_ids(self, names: object) -> dict[str, str]:
        self.asked += 1
        return dict(self.ids)


async def test_a_partition_is_begun_anew_once_and_not_at_each_assignment() -> None:
    table = Table(99, "old")
    worker = Worker(table)
    await worker.logs.verify_states()
    assert await worker.logs.begins_anew(PLACE, 100)
    table.put(499, "new")
    await worker.logs.verify_states()
    assert not await worker.logs.begins_anew(PLACE, 500)
    worker.ids[SOURCE] = "third"
    await worker.logs.verify_sources()
    assert len(worker.failures) == 1
    assert "its id was new, is third" in worker.failures[0]


async def test_nothing_is_asked_before_the_first_recovery() -> None:
    worker = Worker(Table(99, "new"))
    await worker.logs.verify_sources()
    assert worker.asked == 0
