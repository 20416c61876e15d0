"""What every stage is fed: the trace of a small cluster with a few troubles, passed on from stage to stage.

Made once for each shape, and shared by all checks of a process.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

import orjson
import pytest

from bench.cluster_trace import START_MS, Shape, records
from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.processes import Loop, Process, ProcessSample
from dutycycle.contract.records.samples import CgroupSample, CudaPod, CudaSample
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import TraceRecord
from streams.local import LocalPipeline
from streams.operators.base import Emission, Operator, Stage
from streams.state.codec import from_bytes, to_bytes
from streams.topology import stages
from tests.support.data.gpu_events import made_event

STAGES = stages(Settings())
SMALL = Shape(nodes=5, gpus=2, seconds=200)
"""Two jobs: the first has four pods, the second one."""
LONG = Shape(nodes=1, gpus=1, seconds=900)
_LATE_S, _LATE_BY_S, _AHEAD_S = 40, 30, 97
"""Of each node one tick comes late, and one is an hour ahead."""
_SETTLE_EVERY = 4
"""Records of a key."""


def _name(stage: Stage) -> str:
    return stage.name


every_stage = pytest.mark.parametrize("stage", STAGES, ids=_name)
every_stage_with_state = pytest.mark.parametrize("stage", [s for s in STAGES if not s.stateless], ids=_name)
every_stage_without_state = pytest.mark.parametrize("stage", [s for s in STAGES if s.stateless], ids=_name)


@cache
def feed(shape: Shape) -> dict[str, list[ConsumerRecord]]:
    """By topic without prefix: every record that was read or sent, in order."""
    pipeline, found = LocalPipeline(STAGES), defaultdict[str, list[ConsumerRecord]](list)

    def note(sent: list[ProducerRecord]) -> None:
        for out in sent:
            log = found[out.topic]
            log.append(ConsumerRecord(out.topic, 0, len(log), out.key, out.value, out.ts_ms))

    for record in _troubled(shape):
        found[record.topic].append(record)
        note(pipeline.feed(record))
    note(pipeline.flush())
    return dict(found)


def _troubled(shape: Shape) -> Iterator[ConsumerRecord]:
    """The trace with a late tick and one ahead of its node; at the end the first pod is removed."""
    late: list[ConsumerRecord] = []
    ts_ms = 0
    for offset, one in enumerate(_with_cuda(records(shape))):
        topic, ts_ms = one.topic.removeprefix("dutycycle."), one.ts_ms or 0
        record = ConsumerRecord(topic, 0, offset, one.key, one.payload, ts_ms)
        second = (ts_ms - START_MS) // 1000
        if second == _LATE_S + _LATE_BY_S:
            yield from late
            late.clear()
        if topic != "pods" and second == _LATE_S:
            late.append(record)
        elif second == _AHEAD_S:
            ahead = orjson.loads(one.payload or b"") | {"ts_ms": ts_ms + 3_600_000}
            yield ConsumerRecord(topic, 0, offset, one.key, orjson.dumps(ahead), ts_ms)
        else:
            yield record
    yield ConsumerRecord("pods", 0, 10**9, next(records(shape)).key, None, ts_ms)


def _with_cuda(trace: Iterable[TraceRecord]) -> Iterator[TraceRecord]:
    """The trace, and for each ``cgroup-samples`` record the CUDA calls of its pods, and the steps of one."""
    for one in trace:
        yield one
        if one.topic.endswith("cgroup-samples"):
            sample = decode(CgroupSample, one.payload or b"", "cgroup-samples")
            pods = tuple(
                CudaPod(uid=pod.uid, kernel_launches_per_s=sample.seq % 50 * 100, cuda_mem_used_bytes=2**30)
                for pod in sample.pods
            )
            calls = CudaSample(
                node=sample.node, collector=sample.collector, seq=sample.seq, ts_ms=sample.ts_ms,
                interval_ms=sample.interval_ms, pods=pods,
            )  # fmt: skip
            yield replace(one, topic="dutycycle.cuda-samples", payload=encode(calls))
            steps = ProcessSample(
                node=sample.node, collector=sample.collector, seq=sample.seq, ts_ms=sample.ts_ms,
                interval_ms=sample.interval_ms,
                processes=tuple(
                    Process(pid=7, pod_uid=pod.uid, loop=Loop(loop="pytorch", steps=2, seconds=1))
                    for pod in sample.pods[:1]
                ),
            )  # fmt: skip
            yield replace(one, topic="dutycycle.processes", payload=encode(steps))
            event = made_event(
                node=sample.node, collector=sample.collector, seq=sample.seq, ts_ms=sample.ts_ms,
                kind="xid", code=(13, 31, 63, 79)[sample.seq % 4],
            )  # fmt: skip
            yield replace(one, topic="dutycycle.gpu-events", payload=encode(event))


def keys_of(stage: Stage, shape: Shape = SMALL) -> list[str]:
    """The keys of a stage, in the order in which they appear."""
    return list(dict.fromkeys(one.key or "" for one in feed(shape)[stage.source]))


def inputs(stage: Stage, key: str, shape: Shape = SMALL) -> list[ConsumerRecord]:
    """What a stage reads of ``key``."""
    return [one for one in feed(shape)[stage.source] if one.key == key]


def run(operator: Operator, records: list[ConsumerRecord]) -> list[Emission]:
    """All emissions of ``operator`` for ``records``, flushed every now and then."""
    emissions: list[Emission] = []
    for count, one in enumerate(records, 1):
        emissions += operator.update(one)
        if count % _SETTLE_EVERY == 0:
            emissions += operator.flush()
    return emissions


def outs(emissions: list[Emission]) -> list[ProducerRecord]:
    """The records among ``emissions``."""
    return [one for one in emissions if isinstance(one, ProducerRecord)]


def stored(operator: Operator) -> bytes:
    """The state as it is stored."""
    return to_bytes(operator.snapshot())


def resumed(stage: Stage, key: str, state: bytes) -> Operator:
    """An operator that goes on from a stored state."""
    return stage.build(key, from_bytes(state))


EMPTY = {stage.name: stored(stage.build("new", None)) for stage in STAGES}
"""The state of a key of each stage that nothing came of, before anything came of any other."""
