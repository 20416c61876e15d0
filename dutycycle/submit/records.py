"""Collects what was measured of a run from the topics, while it runs, into a trace."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.derived import Cycle
from dutycycle.contract.records.insights import ProfileVerdict
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import ProcessSample
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TICK_TOPICS, full_name
from dutycycle.contract.trace import TraceWriter
from dutycycle.kafka.reachability import wait_for_broker
from dutycycle.kafka.topics import topics_there
from dutycycle.kube.references import KubeObject
from dutycycle.submit.objects import CannotRunError
from dutycycle.telemetry.events import Telemetry
from dutycycle.traces.record import trace_record
from dutycycle.view.reader import TopicReader

_TOPICS = (*TICK_TOPICS, "pods", "cycles", "profiles")
_TAKE_S = 0.5
_BROKER_S = 15.0
_UNKNOWN = 10_000
"""So many records of pods are kept that are not known to be ours: the API server may tell us later."""
_STEP = "gpu_util_pct"


class Records:
    """Reads from ``start`` to ``stop``. ``pods``: those of the run, by uid, as they are known now."""

    def __init__(
        self,
        settings: Settings,
        trace: Path,
        pods: Callable[[], Mapping[str, KubeObject]],
        patience_s: float = _BROKER_S,
    ) -> None:
        """Collect from the brokers of ``settings`` into ``trace``. ``patience_s``: how long a broker is
        waited for at the start."""
        self._settings = settings
        self._patience_s = patience_s
        self._path = trace
        self._pods = pods
        self._unknown: dict[str, ConsumerRecord] = {}
        self._finished: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._reader: TopicReader | None = None
        self.samples = 0
        self.periods_s: dict[str, float] = {}
        """The shortest cycle of GPU utilization, by uid of a pod; where its training reports it, its step."""
        self._reporting: set[str] = set()

    @property
    def away(self) -> str:
        """Return why nothing is read just now; empty while it is, and before ``start``."""
        return self._reader.away if self._reader is not None else ""

    async def start(self) -> None:
        """Be at the ends of the topics. Raises ``DutycycleError``, also where there are no samples."""
        try:
            async with asyncio.timeout(self._patience_s):
                await wait_for_broker(self._settings, Telemetry("run"))
        except TimeoutError as error:
            broker = f"DUTYCYCLE_BROKER={self._settings.broker}"
            raise CannotRunError(
                f"no broker answered within {self._patience_s:g} s at {broker}; without it there is no report"
            ) from error
        prefix = self._settings.topic_prefix
        there = await topics_there(self._settings, [full_name(prefix, topic) for topic in _TOPICS])
        topics = [topic for topic in _TOPICS if full_name(prefix, topic) in there]
        if not {*TICK_TOPICS} & {*topics}:
            raise CannotRunError(
                f"no topic {full_name(prefix, TICK_TOPICS[0])} on {self._settings.broker}: "
                "is DUTYCYCLE_TOPIC_PREFIX right, and does a collector run?"
            )
        answered = asyncio.Event()
        self._task = asyncio.create_task(self._read(topics, answered))
        try:
            async with asyncio.timeout(self._patience_s):
                await answered.wait()
        except TimeoutError as error:
            self._task.cancel()
            raise CannotRunError(f"the topics cannot be read: {self.away or 'no answer'}") from error

    async def stop(self, patience_s: float) -> None:
        """Read on until the ends of all pods that ran are on the topic, for ``patience_s`` at most."""
        if self._task is None:
            return
        for _ in range(round(patience_s / _TAKE_S)):
            begun = [uid for uid, pod in self._pods().items() if pod["spec"].get("nodeName")]
            if self._task.done() or self._finished.issuperset(begun):
                break
            await asyncio.sleep(_TAKE_S)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _read(self, topics: list[str], answered: asyncio.Event) -> None:
        with TraceWriter(str(self._path)) as trace:
            self._reader = TopicReader(
                self._settings, "dutycycle-run", topics, lambda _: "end",
                lambda topic, message: self._feed(topic, message, trace),
            )  # fmt: skip
            try:
                await self._reader.follow(answered.set)
            finally:
                self._write_known(trace)

    def _write_known(self, trace: TraceWriter) -> None:
        """Write the records of pods of which the API server has told since that they are ours."""
        for uid in self._unknown.keys() & self._pods().keys():
            trace.write(trace_record(self._unknown.pop(uid)))

    def _feed(self, topic: str, message: ConsumerRecord, trace: TraceWriter) -> None:
        self._write_known(trace)
        if message.value is None:
            return
        nodes = {pod["spec"].get("nodeName") for pod in self._pods().values()}
        if topic in TICK_TOPICS and message.key in nodes:
            trace.write(trace_record(message))
            self.samples += 1
        with suppress(DecodeError):  # the streams make a dead letter of it
            if topic == "processes":
                self._steps(decode(ProcessSample, message.value, topic))
            elif topic == "pods":
                pod = decode(Pod, message.value, topic)
                if pod.finished:
                    self._finished.add(pod.uid)
                if pod.uid in self._pods():
                    trace.write(trace_record(message))
                elif len(self._unknown) < _UNKNOWN:
                    self._unknown[pod.uid] = message
            elif topic == "profiles" and decode(ProfileVerdict, message.value, topic).pod.uid in self._pods():
                trace.write(trace_record(message))
            elif topic == "cycles":
                self._cycle(decode(Cycle, message.value, topic))

    def _steps(self, sample: ProcessSample) -> None:
        for process in sample.processes:
            if process.pod_uid in self._pods() and process.loop is not None and process.loop.steps:
                self._reporting.add(process.pod_uid)
                self.periods_s[process.pod_uid] = process.loop.seconds / process.loop.steps

    def _cycle(self, cycle: Cycle) -> None:
        uid, step_cycle = cycle.subject.pod_uid, cycle.metrics.get(_STEP)
        if uid is None or uid not in self._pods() or uid in self._reporting or step_cycle is None:
            return
        self.periods_s.pop(uid, None)
        if step_cycle.period_s:
            self.periods_s[uid] = min(
                [step_cycle.period_s, *(rhythm.period_s for rhythm in step_cycle.others or ())]
            )
