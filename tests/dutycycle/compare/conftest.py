"""Runs of one job that differ in nothing but chance, or in one known thing."""

import random
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from dutycycle.compare.comparison import NamedRun
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.measures.figures import measures_of
from dutycycle.report.build import gather, report_of

SECONDS = 900
START_MS = 1_700_000_000_000
GIB = 1024**3


def job(
    seed: int,
    *,
    step_s: float = 12.0,
    power: float = 1.0,
    seconds: int = SECONDS,
    reported: tuple[float, ...] = (),
) -> Iterator[TraceRecord]:
    """A job of the same number of steps each time: the longer a step, the longer the run. ``power``: by how
    much more its GPUs draw. ``reported``: the seconds of the steps that its training reports, in turn."""
    chance, energy, wander = random.Random(seed), [0.0, 0.0], 0.0  # noqa: S311 - a simulation
    pod = {"v": 1, "uid": "p", "namespace": "ml", "name": "bert-0", "node": "a", "phase": "Running"}
    yield _record("pods", "p", pod, START_MS)
    for seq in range(round(60 + (seconds - 60) * step_s / 12)):
        ts_ms = START_MS + 1000 * seq
        wander = 0.8 * wander + chance.gauss(0, 1)
        works = seq >= 60 and (seq - 60) % step_s < 0.75 * step_s
        head = {"v": 1, "node": "a", "collector": "c", "seq": seq, "ts_ms": ts_ms, "interval_ms": 1000}
        gpus = []
        for index in range(2):
            util = min(
                100, max(0, round((92 if works else 8 if seq >= 60 else 0) + wander + chance.gauss(0, 1)))
            )
            watts = power * (90 + 5 * util + chance.gauss(0, 4))
            energy[index] += watts
            gpus.append({
                "uuid": f"GPU-{index}", "index": index, "model": "NVIDIA H200", "gpu_util_pct": util,
                "power_w": round(watts, 1), "energy_j": round(energy[index], 1), "temp_c": 60 + util // 5,
                "mem_used_bytes": 60 * GIB, "processes": [{"pid": 7 + index, "pod_uid": "p"}],
            })  # fmt: skip
        yield _record("nvml-samples", "a", {**head, "gpus": gpus}, ts_ms)
        use = round(380 * chance.uniform(0.9, 1.1), 1)
        container = {"id": "c", "cpu_util_pct": use, "mem_used_bytes": 48 * GIB}
        pods = [{"uid": "p", "qos": "burstable", "containers": [container]}]
        yield _record("cgroup-samples", "a", {**head, "host": {}, "pods": pods}, ts_ms)
        if reported and seq >= 60:
            took_s = reported[seq % len(reported)] * chance.uniform(0.99, 1.01)
            loop = {"loop": "pytorch", "steps": 1, "seconds": took_s, "samples": 8}
            process = {"pid": 7, "pod_uid": "p", "loop": loop}
            yield _record("processes", "a", {**head, "processes": [process]}, ts_ms)


def _record(topic: str, key: str, plain: object, ts_ms: int) -> TraceRecord:
    return TraceRecord(topic=f"dutycycle.{topic}", key=key, payload=orjson.dumps(plain), ts_ms=ts_ms)


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files by name: ``once`` and ``again`` differ by chance alone."""
    folder = tmp_path_factory.mktemp("runs")
    jobs = {
        "once": job(1), "again": job(2), "slow": job(3, step_s=13.0), "hungry": job(4, power=1.05),
        "half": job(5, seconds=480), "even": job(6, reported=(0.9,)),
        "uneven": job(7, seconds=480, reported=(0.5, 0.5, 0.5, 0.5, 3.0)), "as-even": job(8, reported=(0.9,)),
    }  # fmt: skip
    for name, records in jobs.items():
        with TraceWriter(str(folder / f"{name}.jsonl.zst")) as trace:
            for one in records:
                trace.write(one)
    return {name: folder / f"{name}.jsonl.zst" for name in jobs}


@pytest.fixture(scope="session")
def runs(traces: dict[str, Path]) -> dict[str, NamedRun]:
    """What is known of each."""
    settings = Settings(price_gpu_hour=3.0)
    found = {}
    for name, path in traces.items():
        report = report_of(gather([str(path)], settings), settings, name, pod="bert-0")
        found[name] = NamedRun(name, report, measures_of(report))
    return found
