"""Samples of nodes whose GPUs, pods, clocks and collectors have their troubles."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import orjson

from streams.operators.node.watermark import CONFIRMING_TICKS
from tests.support.simulation.feed import Sent, disturbed
from tests.support.simulation.plan import Plan

TICK_S = 0.15
START_MS = 1_700_000_000_000
_RUBBISH = (b"rubbish", None, b"[]", b'{"v":9}', b'{"v":1}', b'{"v":1,"node":"elsewhere"}')


def feed(plan: Plan) -> list[Sent]:
    """Everything that the collectors of all nodes send."""
    records = [one for number in range(plan.keys) for one in _Node(plan, number).sent()]
    return disturbed(plan, records, TICK_S)


@dataclass(frozen=True, slots=True)
class _Pod:
    uid: str
    job: str | None
    since: int
    until: int
    gpu: int


class _Node:
    def __init__(self, plan: Plan, number: int) -> None:
        self._plan = plan
        self._name = f"n{number}"
        self._dice = plan.chance(f"node {number}")
        self._skew_ms = self._dice.randint(-7_200_000, 7_200_000) if plan.has("skew") else 0
        self._jumps = dict(self._clock_jumps(plan.chance(f"jump {number}"))) if plan.has("jump") else {}
        self._reborn = self._dice.randint(1, plan.ticks) if plan.has("reborn") else plan.ticks + 1
        self._period = self._dice.choice((6, 8, 11.5))
        self._churns, self._is_bad = plan.has("churn"), plan.has("bad")
        self._step_ms = 1000 if not plan.has("evict") else 4000  # so that keys become idle within the run
        self._off = (self._churns or plan.has("evict")) and number == 1  # switched off half of the time
        self._pods = list(self._live_pods(number))

    def _clock_jumps(self, dice: Random) -> Iterator[tuple[int, tuple[int, int]]]:
        """From a tick on, for so many ticks, so far off. Where somebody may write late, no clock is set back
        so far, for so long, that an epoch begins, not by several jumps either: nothing tells his records
        from newer ones."""
        far = () if self._plan.has_zombies() else (310_000, 3_600_000)
        for _ in range(dice.randint(1, 3)):
            length = dice.choice((1, 5, dice.randint(9, 40)))
            yield (dice.randrange(self._plan.ticks), (length, dice.choice((-250_000, -30_000, *far))))

    def _live_pods(self, number: int) -> Iterator[_Pod]:
        churns, ticks = self._churns, self._plan.ticks
        for index in range(self._dice.randint(0, 4) if churns else 2):
            since = self._dice.randrange(ticks) if churns else 0
            until = self._dice.randint(since + 1, ticks) if churns else ticks
            job = self._dice.choice((None, "job-a", "job-b"))
            yield _Pod(f"pod-{number}-{index}", job, since, until, index % 2)

    def sent(self) -> Iterator[Sent]:
        for tick in range(self._plan.ticks):
            if self._off and tick % 60 > 20:
                continue
            ts_ms = START_MS + self._step_ms * tick + self._skew_ms + self._off_ms(tick)
            at_s = TICK_S * (tick + self._dice.random())
            for pod in self._pods:
                if tick in (pod.since, pod.until):
                    yield Sent(at_s, "pods", pod.uid, self._identity(pod, gone=tick == pod.until), ts_ms)
            yield self._bad(Sent(at_s, "nvml-samples", self._name, self._nvml(tick, ts_ms), ts_ms), tick)
            yield self._bad(Sent(at_s, "cgroup-samples", self._name, self._cgroup(tick, ts_ms), ts_ms), tick)

    def _off_ms(self, tick: int) -> int:
        off = [(length, by) for since, (length, by) in self._jumps.items() if since <= tick < since + length]
        long_ms = sum(by for length, by in off if length >= CONFIRMING_TICKS - 1)
        if self._plan.has_zombies():
            long_ms = max(long_ms, -250_000)
        return long_ms + sum(by for length, by in off if length < CONFIRMING_TICKS - 1)

    def _bad(self, one: Sent, tick: int) -> Sent:
        dice = self._plan.chance(f"bad {self._name} {one.topic} {tick}")
        if not self._is_bad or dice.random() > 0.05:
            return one
        if dice.random() < 0.2:
            return replace(one, key=None)
        return replace(one, value=dice.choice(_RUBBISH))

    def _head(self, tick: int, ts_ms: int) -> dict[str, Any]:
        born = tick >= self._reborn
        return {"v": 1, "node": self._name, "collector": f"c{born:d}", "ts_ms": ts_ms, "interval_ms": 1000,
                "seq": tick - self._reborn if born else tick}  # fmt: skip

    def _nvml(self, tick: int, ts_ms: int) -> bytes:
        there = 1 if self._churns and tick % 50 > 30 else 2
        gpus = [self._gpu(index, tick) for index in range(there)]
        return orjson.dumps(self._head(tick, ts_ms) | {"gpus": gpus})

    def _gpu(self, index: int, tick: int) -> dict[str, Any]:
        busy = tick % self._period < self._period / 2
        util = self._dice.randint(85, 100) if busy else self._dice.randint(0, 9)
        processes = [
            {"pid": 100 + at, "pod_uid": pod.uid, "gpu_util_pct": util / 2, "mem_used_bytes": 10**9 + tick}
            for at, pod in enumerate(self._pods) if pod.gpu == index and pod.since <= tick < pod.until
        ]  # fmt: skip
        one = {
            "uuid": f"GPU-{self._name}-{index}", "index": index, "gpu_util_pct": util,
            "mem_used_bytes": 10**9 * (1 + tick), "mem_total_bytes": 10**12, "energy_j": 500 * tick,
            "processes": processes,
        }  # fmt: skip
        if self._dice.random() < 0.8:  # what cannot be measured is left out
            one["power_w"] = 300 + 4 * util
        if tick // 20 % 3 != index:  # samples of the driver, which a GPU does not always have
            one["util_burst"] = [[-700, util // 2], [-50, util]]
        return one

    def _cgroup(self, tick: int, ts_ms: int) -> bytes:
        host = {
            "cpu_util_pct": self._dice.randint(100, 900),
            "mem_used_bytes": 10**10,
            "mem_total_bytes": 10**12,
        }
        pods = [
            {"uid": pod.uid, "containers": [{"id": "c", "cpu_util_pct": self._dice.randint(0, 400),
                                             "mem_used_bytes": self._dice.randint(10**8, 10**9)}]}
            for pod in self._pods if pod.since <= tick < pod.until
        ]  # fmt: skip
        return orjson.dumps(self._head(tick, ts_ms) | {"host": host, "pods": pods})

    def _identity(self, pod: _Pod, *, gone: bool) -> bytes | None:
        if gone:
            return None
        job = pod.job and {"api_version": "batch/v1", "kind": "Job", "name": pod.job, "uid": pod.job}
        plain = {
            "v": 1, "uid": pod.uid, "namespace": "ml", "name": pod.uid, "node": self._name,
            "phase": "Running",
        }  # fmt: skip
        return orjson.dumps(plain | ({"job": job} if job else {}))
