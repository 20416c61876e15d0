"""Dirty samples: repeats, disorder, lateness, clocks that jump, two collectors of one node; with kills.

Each node of one trace has a dirt of its own. What comes out is what a replay makes of the same trace; and
against the clean trace it is what each dirt may change, and no more.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from bench.cluster_trace import GIB, START_MS
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.contract.trace import TraceRecord
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.data.traces import write_trace
from tests.support.faults import dirt
from tests.support.faults.field import Field
from tests.support.faults.oracle import Results, replayed
from tests.support.faults.world import Turn, World, records
from tests.support.servers.kafka.broker import RunningBroker

SEED = 61
KILLS = 4
PER_S = 55.0
WAKES = 140
"""The second after which the whole cluster was suspended for an hour."""
REPEATED, DISORDERED, LATE, JUMPED, JUMPED_LONG, CLAIMED = (f"gpu-{number:03d}" for number in range(6))
JUMP = range(60, 65)
LONG_JUMP = range(60, 75)
LATE_SECONDS = range(40, 50)
PEAK_BYTES = 140 * GIB
"""More than anything else in the trace; the late samples have it."""

Windows = dict[tuple[int, int, str, str], dict[str, float]]
"""Of one node's GPUs: by length (s), start (s of the trace), GPU and metric."""


def _asleep_again(some: dirt.Records) -> dirt.Records:
    """``asleep``, but for the samples that were an hour ahead already."""
    return [one if dirt.second_of(one) > dirt.HOUR_S else dirt.asleep([one], WAKES)[0] for one in some]


def _is_late(one: TraceRecord) -> bool:
    return dirt.is_sample(one, "nvml-samples", LATE) and dirt.second_of(one) in LATE_SECONDS


def _with_peak(one: TraceRecord) -> TraceRecord:
    gpus = orjson.loads(one.payload or b"")["gpus"]
    for gpu in gpus:
        gpu["processes"][0]["mem_used_bytes"] = PEAK_BYTES
    return dirt.changed(one, gpus=gpus)


def counted(some: dirt.Records) -> Counter[str]:
    """What a replay counts."""
    pipeline = LocalPipeline(stages(load({})))
    for offset, one in enumerate(some):
        topic = one.topic.removeprefix(DEFAULT_PREFIX)
        pipeline.feed(ConsumerRecord(topic, 0, offset, one.key, one.payload, one.ts_ms or 0))
    return pipeline.happened


def windows(found: Results, node: str) -> Windows:
    """The windows of a node's GPUs."""
    plain = [
        orjson.loads(payload)
        for (topic, key, _), payloads in found.items()
        if topic == "window-aggregates" and key.startswith(f"gpu/{node}/")
        for payload in payloads
    ]
    return {
        (one["size_ms"] // 1000, (one["start_ms"] - START_MS) // 1000, one["subject"]["gpu"], metric): figures
        for one in plain
        for metric, figures in one["metrics"].items()
    }


def differing(clean: Windows, got: Windows) -> set[tuple[int, int]]:
    """(length, start) of the windows whose gauges are not the same, or not in both; all in seconds."""
    names = (name for name in clean.keys() | got.keys() if name[3] != "energy_j")
    return {name[:2] for name in names if clean.get(name) != got.get(name)}


def counts_of(found: Windows, size: int, start: int) -> set[float]:
    """How many ticks the GPUs' windows of this length and start hold, by their gauges. Of a counter that two
    collectors report alike the second value is not read: it stands still while power is drawn."""
    return {
        figures["count"]
        for name, figures in found.items()
        if name[:2] == (size, start) and name[3] != "energy_j"
    }


def energy_j(found: Windows, size: int) -> float:
    """What all windows of this length say together."""
    return sum(one["increase"] for name, one in found.items() if name[0] == size and name[3] == "energy_j")


def assert_no_more_than_it_may(clean: Results, got: Results) -> None:
    """Against the clean trace, each dirt changed what it may change."""
    was, now = ({node: windows(of, node) for node in NODES} for of in (clean, got))
    assert not differing(was[REPEATED], now[REPEATED]), "a tick seen twice counts once"
    assert not differing(was[DISORDERED], now[DISORDERED]), "disorder within the lateness changes nothing"
    for node in (LATE, JUMPED):  # what a window misses is in the one after it
        for size in (10, 60):
            assert energy_j(now[node], size) == pytest.approx(energy_j(was[node], size))
    assert differing(was[LATE], now[LATE]) == {(10, 40)}, "too late for 10 s, in time for 60"
    assert differing(was[JUMPED], now[JUMPED]) == {(10, 60), (60, 40)}, "a short jump costs its own ticks"
    assert counts_of(now[JUMPED], 10, 60) == {5}
    assert counts_of(now[JUMPED], 60, 40) == {55}
    long = now[JUMPED_LONG]
    unlike = differing(was[JUMPED_LONG], long)
    assert all(start >= LONG_JUMP.start or size == 60 for size, start in unlike), "what was before stands"
    after = {start for _, start in unlike if LONG_JUMP.stop + 60 < start < dirt.HOUR_S}
    assert not after, "a minute after the clock was set back all is right"
    assert all(start < dirt.HOUR_S + WAKES for _, start in unlike)
    assert counts_of(long, 10, dirt.HOUR_S + 60) == {10}, "a clock that stays ahead is believed"
    assert counts_of(now[CLAIMED], 10, 50) == {20}, "two collectors, twice the ticks, none taken for another"


NODES = (REPEATED, DISORDERED, LATE, JUMPED, JUMPED_LONG, CLAIMED)


async def test_dirt_and_kills(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - no secrets
    clean = list(records(World(seed=SEED)))
    one, repeats = dirt.repeated(clean, REPEATED, 0.3, chance)
    one, _ = dirt.delayed(one, DISORDERED, range(20, 120, 3), 5)
    one = [_with_peak(each) if _is_late(each) else each for each in one]
    one, late = dirt.delayed(one, LATE, LATE_SECONDS, 25)
    one, _ = dirt.claimed_by_another(one, CLAIMED)
    one = dirt.without_pods(one, DISORDERED, range(WAKES, WAKES + 30))
    one = dirt.jumped(dirt.jumped(one, JUMPED, JUMP), JUMPED_LONG, LONG_JUMP)
    counts = Counter(sample_duplicate=repeats, sample_late=late, clock_jump=len(JUMP), clock_set_back=1)
    clean, dirty, wanted = dirt.asleep(clean, WAKES), _asleep_again(one), counts
    assert {name: counted(dirty)[name] for name in wanted} == wanted
    expected = replayed(write_trace(tmp_path / "dirty.jsonl", dirty), tmp_path)
    assert_no_more_than_it_may(replayed(write_trace(tmp_path / "clean.jsonl", clean), tmp_path), expected)
    # The peak of the late node's pod is that of the samples that no window took.
    pod = f"00000000-0000-4000-8000-{NODES.index(LATE):012d}"
    (payload,) = expected["pod-peaks", pod, ""]
    peak = orjson.loads(payload)["metrics"]["gpu_mem_used_bytes"]
    assert peak["max"] == 2 * PEAK_BYTES
    assert (peak["at_ms"] - START_MS) // 1000 in LATE_SECONDS
    async with Field(kafka, topic_prefix, tmp_path, SEED) as field:
        feed = await field.feed(dirty, PER_S)
        await field.worker()
        await field.kill_again_and_again(KILLS)
        await feed.finish()
        # Figures of GPU and CPU come by two logs; which of them tells first that a node's clock was set back
        # depends on how they are read: see docs/exactness.md.
        turns = [Turn(NODES.index(JUMPED_LONG), turn, World(seed=SEED)) for turn in range(3)]
        keys = [key for turn in turns for key in (f"pod/{turn.pod_uid}", f"job/job-{turn.job}")]
        report = await field.judge(expected, {("insights", key, "") for key in keys})
        said = field.workers[0].log
    assert all(name in said for name in wanted), said
    tell(f"{dict(wanted)}; {report}")
