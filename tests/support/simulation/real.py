"""Runs of the real stages: some nodes with GPUs, pods and jobs, a hundred ticks or so."""

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import orjson

from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.settings.load import load
from streams.local import LocalPipeline
from streams.operators.base import Operator, Stage
from streams.operators.node.operator import NodeOperator
from streams.operators.node.watermark import CONFIRMING_TICKS, SEEN_BLOCKS
from streams.topology import stages
from tests.support.simulation.feed import Sent
from tests.support.simulation.plan import Plan
from tests.support.simulation.profile import Name, Profile
from tests.support.simulation.real_feed import feed
from tests.support.simulation.shadow import Digest, Shadow

_SIZE_MS = 10_000
_MERGED = ("pod-peaks", "job-peaks")
_FATES = ("dead_letter", "sample_duplicate", "clock_jump", "sample_late")


_EVICT_MS = {
    "nvml": 80_000, "cgroup": 80_000, "cuda": 80_000, "pod-peaks": 100_000, "job-peaks": 120_000,
    "insights": 100_000, "job-insights": 120_000,
}  # fmt: skip


@cache
def _stages(*, evict: bool) -> tuple[Stage, ...]:
    every = stages(load({}))
    return tuple(replace(one, evict_ms=_EVICT_MS.get(one.name)) if evict else one for one in every)


def profile(plan: Plan) -> Profile:
    """See ``Profile``."""
    every = _stages(evict=plan.has("evict"))
    moment = _newest_last if plan.has("jump") and not plan.has_zombies() else _newness
    digests: dict[str, Digest] = {stage.name: _nothing for stage in every} | {
        "nvml": digest,
        "cgroup": digest,
    }
    return Profile(
        stages=list(every), feed=feed, digests=digests, piece_bytes=6_000,
        names={} if plan.has("evict") else {
            "window-aggregates": lambda of: (of["source"], of["size_ms"], of["start_ms"]),
            "trends": _moment,
            "cycles": _moment,
            "pod-parts": _name_of_part,
        },
        versions={
            "pod-parts": lambda of: (of.get("samples", 0),),
            "node-parts": moment,
            "pod-peaks": lambda of: (of["samples"],),
            "job-parts": lambda of: (of["samples"],),
            "job-peaks": _newest_last if moment is _newest_last else lambda of: (of["last_ms"],),
            "trends": moment,
            "cycles": moment,
            "insights": moment,
            "job-insights": lambda of: moment(of["insight"]),
        },
        ordered=frozenset({"job-insights"} if plan.has_zombies() else ()),
        subjects={
            "pod-parts": _source_of_part, "job-parts": lambda of: (of["pod_uid"],), "trends": _of_job,
            "cycles": _of_job, "insights": _of_job,
        },
        lasting=_without_peaks if plan.has("jump") else _without_published,
        account=account, whole=whole,
    )  # fmt: skip


def _moment(of: Any) -> Name:
    """What is said of a node, a pod or a GPU at one moment is one thing; of a job it depends on which of its
    pods were heard of."""
    return (of["ts_ms"],) if _of_job(of) is None else ("job", orjson.dumps(of))


def _of_job(of: Any) -> Name | None:
    """None for what is sent at once, not coalesced."""
    return () if of["subject"]["kind"] == "job" else None


def _newest_last(_of: Any) -> tuple[Any, ...]:
    """Where clocks are set back the last is the newest, whatever its moment."""
    return ()


def _newness(of: Any) -> tuple[Any, ...]:
    """Of two of one moment the later counts: a job may have got or lost a pod since."""
    return (of["ts_ms"],)


def _name_of_part(of: Any) -> Name:
    if of["source"] == "pods":
        return ("pods", orjson.dumps(of))
    return (of["source"], of.get("node"), of["opened_ms"], of["samples"])


def _source_of_part(of: Any) -> Name | None:
    """None for an identity, which is forwarded at once."""
    return None if of["source"] == "pods" else (of["source"], of.get("node"), of["opened_ms"])


def _without_peaks(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Pods that are gone for long are forgotten once all that they have to tell was sent: when, is chance."""
    return {name: value for name, value in _without_published(snapshot).items() if name != "peaks"}


def _without_published(snapshot: dict[str, Any]) -> dict[str, Any]:
    """What a job published last depends on when it was flushed: the newest is compared where it is sent."""
    return {name: value for name, value in snapshot.items() if name not in ("published", "changed", "said")}


def _nothing(_operator: Operator) -> None:
    """Their states are compared at the end."""


def digest(operator: Operator) -> tuple[Any, ...]:
    """Where a node's time is, and how much it holds; asserts that this is bounded."""
    assert isinstance(operator, NodeOperator)
    operator.snapshot()  # so that no ticks wait
    timeline, windows = operator._timeline, operator._windows
    assert len({waiting.tick.ts_ms for waiting in timeline.held}) < CONFIRMING_TICKS
    assert len(timeline._seen) <= SEEN_BLOCKS
    return (
        timeline.watermark_ms, operator._last_ms, len(operator._index), windows.bank._used,
        len(timeline.held),
    )  # fmt: skip


def account(shadow: Shadow, sent: list[Sent]) -> None:
    """Every sample is in a window, late, a duplicate, dropped, held, or a dead letter."""
    for stage, topic, metric in (
        ("nvml", "nvml-samples", "gpu_util_pct"),
        ("cgroup", "cgroup-samples", "cpu_util_pct"),
    ):
        fates = Counter[str]()
        for (name, event), count in shadow.happened.items():
            if name == stage and event in _FATES:
                fates[event] += count
        outs = [
            out
            for at in shadow.applied.items()
            if at[0][0] == topic
            for one in at[1].values()
            for out in one.outs
        ]
        for key in (*shadow.gone, *shadow.keys.values()):
            if isinstance(key.operator, NodeOperator) and key.stage.name == stage:
                fates["held"] += len(key.operator._timeline.held)
        for key in shadow.keys.values():
            if key.stage.name == stage:
                outs += key.leaving or [
                    one for one in key.operator.close() if isinstance(one, ProducerRecord)
                ]
        fates["windowed"] = sum(_ticks(out, metric) for out in outs if out.topic == "window-aggregates")
        total = sum(one.topic == topic for one in sent)
        assert sum(fates.values()) == total, f"{topic}: {total} records, but {dict(fates)}"


def _ticks(out: ProducerRecord, metric: str) -> int:
    """The ticks in a shortest window of the series that every tick has: the host's, or the first GPU's."""
    of = orjson.loads(out.value or b"")
    subject = of["subject"]
    always = subject["kind"] == "node" or str(subject.get("gpu", "")).endswith("-0")
    return int(of["metrics"][metric]["count"]) if always and of["size_ms"] == _SIZE_MS else 0


def whole(shadow: Shadow, sent: list[Sent], newest: dict[tuple[str, str], ProducerRecord]) -> None:
    """The peaks of pods and jobs, and the last trends and cycles of each job, are those of a replay.

    So it is as long as no key has left, and without the end of a replay, which evaluates a last time.

    A replay has one clock for all partitions: a key may leave there, and stay here.
    """
    if any(key.left is not None for key in (*shadow.gone, *shadow.keys.values())):
        return
    local = LocalPipeline(_stages(evict=False))
    outs: list[ProducerRecord] = []
    for offset, one in enumerate(sent):
        outs += local.feed(ConsumerRecord(one.topic, 0, offset, one.key, one.value, one.ts_ms))
    outs += local.flush()
    wanted = {(out.topic, out.key): out.value for out in outs if _is_merged(out)}
    found = {slot: out.value for slot, out in newest.items() if _is_merged(out)}
    for slot in found | wanted:
        assert found.get(slot) == wanted.get(slot), (
            f"{slot}: {found.get(slot)!r:.600}, but a replay says {wanted.get(slot)!r:.600}"
        )


def _is_merged(out: ProducerRecord) -> bool:
    """Tell whether a record is made of the newest parts of many, so that only the last one is exact."""
    if out.topic in _MERGED:
        return True
    return out.topic in ("trends", "cycles") and _of_job(orjson.loads(out.value or b"")) is not None
