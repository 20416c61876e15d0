"""Ticks an ``NvmlCollector`` in a process of its own, before a world that the test changes between ticks."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dutycycle.contract.catalogue import USUAL_ACTIVITY
from dutycycle.contract.codec import decode
from dutycycle.contract.records.health import GpuEvent
from dutycycle.contract.records.samples import Gpu, NvmlSample
from tests.support.fakes.nvml.library import NAME, build, driver
from tests.support.fakes.nvml.scenario import Scenario
from tests.support.processes.warm import command

_ROOT = Path(__file__).resolve().parents[4]


@dataclass(frozen=True)
class Answer:
    """One tick: the sample or None, events, conditions that hold, counters, what was logged, NVML's calls."""

    sample: NvmlSample | None
    events: list[GpuEvent]
    conditions: set[tuple[str, str]]
    counts: dict[tuple[str, tuple[str, ...]], int]
    said: list[str]
    calls: dict[str, int]

    @property
    def gpus(self) -> dict[str, Gpu]:
        """The GPUs by UUID; none without a sample."""
        return {gpu.uuid: gpu for gpu in (self.sample.gpus if self.sample else ())}

    @property
    def gpu(self) -> Gpu:
        """The only GPU."""
        (gpu,) = self.gpus.values()
        return gpu


class Probe:
    """A context: the process lives in it. ``monotonic_s``, which retries go by, is the test's to move.

    A ``library`` of the test's own is left to the loader, which looks for it as for a driver.
    """

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        *,
        without: Sequence[str] = (),
        library: Path | None = None,
        pods: Mapping[int, tuple[str, str]] | None = None,
        host_root: Path | None = None,
        retry_s: float = 30.0,
        health: bool = True,
        activity: Sequence[str] = USUAL_ACTIVITY,
    ) -> None:
        self._path = scenario.write(folder / "world")
        self._given = library
        self._library = library or build(without=without)
        self._setup = {
            "library": None if library else str(self._library / NAME), "pods": pods or {},
            "host_root": str(host_root or folder), "retry_s": retry_s, "health": health,
            "activity": list(activity),
        }  # fmt: skip
        self._seq = -1
        self.monotonic_s = 1000.0

    def __enter__(self) -> "Probe":
        environment = os.environ | driver(self._path, self._library) | {"PYTHONPATH": str(_ROOT)}
        module = "tests.support.fakes.nvml.collector_process"
        begin = [sys.executable, "-m", module] if self._given else command(module)
        self._process = subprocess.Popen(
            [*begin, json.dumps(self._setup)],
            env=environment, cwd=_ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        try:
            code = self._process.wait(120)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
        assert error[0] or code == 0, f"the collector's process ended with {code}"

    def world(self, scenario: Scenario) -> None:
        """Change the world."""
        scenario.write(self._path)

    def tick(self, after_s: float = 1.0, *, interval_ms: int = 1000, calls: Sequence[str] = ()) -> Answer:
        """One tick, ``after_s`` of monotonic time after the last; ``calls``: functions to count."""
        self._seq += 1
        self.monotonic_s += after_s
        tick = {"seq": self._seq, "interval_ms": interval_ms, "monotonic_s": self.monotonic_s}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"tick": tick, "calls": list(calls)}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the collector's process has ended"
        return self._answer(json.loads(line))

    def _answer(self, plain: dict[str, Any]) -> Answer:
        samples: list[NvmlSample] = []
        events: list[GpuEvent] = []
        for topic, key, ts_ms, payload in plain["records"]:
            assert (key, ts_ms) == ("node-a", plain["ts_ms"])
            if topic == "gpu-events":
                events.append(decode(GpuEvent, payload.encode(), topic))
                continue
            assert topic == "nvml-samples"
            samples.append(decode(NvmlSample, payload.encode(), topic))
            assert (samples[-1].ts_ms, samples[-1].seq) == (ts_ms, self._seq)
        assert len(samples) <= 1
        return Answer(
            sample=samples[0] if samples else None,
            events=events,
            conditions={(event, name) for event, name in plain["conditions"]},
            counts={(name, tuple(labels)): n for name, labels, n in plain["counts"]},
            said=plain["said"],
            calls=plain["calls"],
        )
