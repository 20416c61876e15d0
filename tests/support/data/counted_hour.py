"""An hour of one node, with the true counters that its samples were made from: the kernel's CPU time of each
pod and of the host, and the driver's energy of each GPU. Ticks jitter, and some are missing."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from collectors.rates import Rate, rounded_pct
from dutycycle.contract.trace import TraceRecord

START_MS = 1_790_002_800_000
"""The beginning of an hour."""
SECONDS = 3600
STEP_S = 2
GPUS = 2
_NS_PER_PCT = 10_000_000
_RESET_S = 2000
"""When the driver was loaded again: its counters began anew."""
# uid: (GPU, from second, to second)
PODS = {"pod-a": (0, 0, SECONDS + 100), "pod-b": (1, 0, 1500), "pod-c": (1, 1200, 3000)}


@dataclass(slots=True)
class Counters:
    """What was really used within the hour: CPU seconds by pod (empty: the host), joules by GPU."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    energy_j: dict[int, float] = field(default_factory=dict)


class CountedHour:
    """``records`` of the hour and the minute after it; ``used`` is filled while they are made."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - a simulation
        self.used = Counters()
        self._cpu_ns = dict.fromkeys(("", *PODS), 0)
        self._rates = {uid: Rate() for uid in ("", *PODS)}
        self._energy_mj = dict.fromkeys(range(GPUS), 10_000_000)

    def records(self) -> Iterator[TraceRecord]:
        """The samples, tick by tick."""
        for uid in PODS:
            pod = {"v": 1, "uid": uid, "namespace": "ml", "name": uid, "node": "gpu-a", "phase": "Running"}
            yield _record("pods", uid, pod, START_MS)
        before_ms = 0
        for seq, second in enumerate(range(0, SECONDS + 62, STEP_S)):
            at_ms = second * 1000 + (self._chance.randrange(200) if second else 0)
            self._run(before_ms, at_ms)
            before_ms = at_ms
            if self._chance.random() < 0.01 and second:
                continue  # the collector was busy
            head = {"v": 1, "node": "gpu-a", "collector": "c", "seq": seq, "ts_ms": START_MS + at_ms,
                    "interval_ms": STEP_S * 1000}  # fmt: skip
            there = [uid for uid, (_, begin, end) in PODS.items() if begin <= second < end]
            yield _record("nvml-samples", "gpu-a", head | {"gpus": self._gpus(there)}, START_MS + at_ms)
            yield _record("cgroup-samples", "gpu-a", head | self._cgroups(there, at_ms), START_MS + at_ms)

    def _run(self, before_ms: int, at_ms: int) -> None:
        """The machine works until ``at_ms``: its counters grow by what is different each time."""
        step_ms = at_ms - before_ms
        counts = before_ms < SECONDS * 1000
        for uid, (_, begin, end) in PODS.items():
            if begin * 1000 <= at_ms and before_ms < end * 1000:
                self._cpu(uid, round(self._chance.uniform(0.5, 4) * step_ms * 1e6), counts=counts)
        self._cpu("", round(self._chance.uniform(0, 1) * step_ms * 1e6), counts=counts)
        for gpu in self._energy_mj:
            if before_ms < _RESET_S * 1000 <= at_ms:
                self._energy_mj[gpu] = 1  # at 0 it would not be read
                continue  # what was used in between no counter says
            millijoules = round(self._chance.uniform(80, 700) * step_ms)
            self._energy_mj[gpu] += millijoules
            if counts:
                self.used.energy_j[gpu] = self.used.energy_j.get(gpu, 0.0) + millijoules / 1000

    def _cpu(self, uid: str, ns: int, *, counts: bool) -> None:
        for one in {uid, ""}:
            self._cpu_ns[one] += ns
            if counts:
                self.used.cpu_s[one] = self.used.cpu_s.get(one, 0.0) + ns / 1e9

    def _gpus(self, there: list[str]) -> list[dict[str, Any]]:
        return [
            {
                "uuid": f"GPU-{index}", "index": index, "model": "NVIDIA H200",
                "gpu_util_pct": self._chance.randrange(101), "energy_j": self._energy_mj[index] / 1000,
                "processes": [
                    {"pid": at, "pod_uid": uid, "gpu_util_pct": self._chance.randrange(50)}
                    for at, uid in enumerate(there)
                    if PODS[uid][0] == index
                ],
            }
            for index in range(GPUS)
        ]  # fmt: skip

    def _cgroups(self, there: list[str], at_ms: int) -> dict[str, Any]:
        """As the collector makes them: a rate over the time that really passed."""
        found = {uid: self._rates[uid].per_s(self._cpu_ns[uid], at_ms / 1000) for uid in ("", *there)}
        pct = {uid: None if rate is None else rounded_pct(rate / _NS_PER_PCT) for uid, rate in found.items()}
        pods = [
            {
                "uid": uid,
                "containers": [{"id": uid} | ({} if pct[uid] is None else {"cpu_util_pct": pct[uid]})],
            }
            for uid in there
        ]
        return {"host": {} if pct[""] is None else {"cpu_util_pct": pct[""]}, "pods": pods}


def _record(topic: str, key: str, plain: dict[str, Any], ts_ms: int) -> TraceRecord:
    return TraceRecord(topic=f"dutycycle.{topic}", key=key, payload=orjson.dumps(plain), ts_ms=ts_ms)
