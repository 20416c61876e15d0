"""The annotations sink without its queues, for tests and benches: it writes what is due at a given time."""

from dutycycle.contract.log import TopicPartition
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.core.desired import Annotations, Record
from sinks.annotations.core.schedule import WritePlan, WritePolicy
from sinks.annotations.forbidden import Refusals
from sinks.annotations.writer import AnnotationWriter

_PLACE = TopicPartition("any", 0)


class QueuelessSink:
    """Decides and writes as the sink does. Times are seconds of any clock."""

    def __init__(self, server: ApiServer, policy: WritePolicy) -> None:
        telemetry = Telemetry("test")
        self._annotations = Annotations(policy.prefix)
        self._plan = WritePlan(policy.interval_s, policy.most)
        self._now_s = 0.0
        refusals = Refusals(telemetry, self._clock)
        self._writer = AnnotationWriter(
            server, policy.prefix, self._annotations, refusals, telemetry, self._clock
        )

    def _clock(self) -> float:
        return self._now_s

    def take(self, record: Record, second: int) -> None:
        """Take a record of an object that there is."""
        target = self._annotations.take(record)
        assert target is not None
        self._plan.touch(target, _PLACE, second, final=getattr(record, "final", None), now=second)

    async def write(self, second: int) -> None:
        """Write all that is due."""
        self._now_s = second
        while (due := self._plan.next_due(second)) is not None:
            target = due.target
            if target.kind == "node" and not self._annotations.knows_gpus_of(target.name):
                self._plan.failed(due.target, second + 30)
                continue
            written = await self._writer.write(due)
            if written is None:
                self._plan.skipped(due.target, second)
            else:
                self._plan.written(due.target, second, written.changed)
