"""What one tick of the GPU collector costs, with eight fake GPUs of six processes each, printed by call.

    python -m bench.bench_nvml [ticks]

The fake driver answers in a microsecond or so, so that this is our own cost: Python, the binding's ctypes,
and the record. The real driver's time comes on top, and most of it is waiting in the kernel.
"""

import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from collectors.base import Tick
from collectors.nvml import gate
from collectors.nvml.collector import NvmlCollector
from dutycycle.contract.codec import decode, encode
from dutycycle.contract.metrics import USUAL_ACTIVITY
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.telemetry.events import Telemetry
from tests.support.fakes.nvml.library import build, env
from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess, Scenario, Signal, sine, square

GPUS = 8
PROCESSES = 6
TICKS = 200
INSIDE = "BENCH_NVML_INSIDE"
COUNTERS: dict[int, Signal] = {
    2: sine(5, 60, 90), 3: sine(6, 20, 45), 5: sine(7, 30, 70), 10: sine(8, 20, 60), 11: 0, 12: sine(9, 3, 8),
    13: 0, 60: sine(10, 60_000, 140_000), 61: sine(11, 60_000, 140_000),
}  # fmt: skip
"""Of GPM, by its numbers: a training on tensor cores that talks over NVLink, in percent and MiB/s."""
WITHOUT: dict[str, dict[str, Any]] = {
    "all": {}, "no counters of activity": {"activity": ()}, "no health": {"health": False},
    "neither": {"activity": (), "health": False},
}  # fmt: skip
"""What a collector is told not to read."""
MOST_OF_A_CORE, MOST_BYTES = 0.003, 2500
"""What activity and health may cost: at a tick a second of a core, and of each sample."""
_ADDED = (*USUAL_ACTIVITY, "sw_power_cap_pct", "sw_thermal_pct", "hw_thermal_pct", "power_brake_pct")
_ADDED_CALLS = ("gpm_sample", "gpm_answers", "next_event", "fabric")


def scenario(pids: Sequence[int] = range(1000, 1000 + GPUS * PROCESSES)) -> Scenario:
    """Eight busy GPUs; six processes on each, buffers as a data centre GPU's (power every 20 ms)."""
    return Scenario(gpus=[gpu(number, pids[number::GPUS][:PROCESSES]) for number in range(GPUS)])


def gpu(number: int, pids: Sequence[int]) -> FakeGpu:
    """One of them."""
    processes = [FakeProcess(pid=pid, util=10 + n, mem_util=3) for n, pid in enumerate(pids)]
    values = {"util": square(0.5, 0.7, 20, 98), "mem_util": sine(7, 10, 60), "power_w": sine(5, 200, 690)}
    return FakeGpu(
        uuid=f"GPU-{number}",
        values={**values, "pcie_rx": 2e9, "pcie_tx": 1e9, "power_hz": 50, "throttle": 4},
        processes=processes,
        counters=COUNTERS,
    )


def added_bytes(sample: NvmlSample) -> int:
    """Count the bytes of a sample that activity and health add to it, before compression."""
    without = dict.fromkeys(_ADDED)
    gpus = tuple(replace(gpu, **without) for gpu in sample.gpus)
    return len(encode(sample)) - len(encode(replace(sample, gpus=gpus)))


class Stopwatch:
    """Time by function of the gate, microseconds, and calls; put around each by ``wrap``."""

    def __init__(self) -> None:
        self.spent_us: dict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, timed."""

        def timed(*arguments: Any) -> Any:
            begun = time.perf_counter_ns()
            self.calls[name] += 1
            try:
                return function(*arguments)
            finally:
                self.spent_us[name] += (time.perf_counter_ns() - begun) / 1000

        return timed


def ticks(count: int, pause_s: float, **options: Any) -> tuple[list[float], bytes]:
    """CPU time of each tick in microseconds, and the last sample."""
    collector = NvmlCollector(Telemetry("bench"), **options)
    spent, last = [], b""
    for seq in range(count):
        now = time.monotonic()
        tick = Tick(
            node="bench",
            collector="bench",
            seq=seq,
            ts_ms=time.time_ns() // 1_000_000,
            interval_ms=round(pause_s * 1000),
            monotonic_s=now,
        )
        begun = time.process_time_ns()
        out, *_ = collector.collect(tick)
        spent.append((time.process_time_ns() - begun) / 1000)
        last = out.payload or b""
        time.sleep(max(0.0, now + pause_s - time.monotonic()))
    collector.close()
    return spent[1:], last


def measure(count: int) -> None:
    """Print it: first undisturbed, then with each call timed."""
    spent, last = ticks(count, 0.1)
    worst = quantiles(spent, n=20)[-1]
    print(f"a tick of {GPUS} GPUs at 10 Hz: {median(spent):.0f} µs (95 %: {worst:.0f}), {len(last)} bytes")
    spent, last = ticks(6, 1.0)
    print(f"a tick of {GPUS} GPUs at  1 Hz: {median(spent):.0f} µs, {len(last)} bytes")
    each: dict[str, list[float]] = {name: [] for name in WITHOUT}
    for _ in range(4):  # in turns: the machine is not always as fast
        for name, options in WITHOUT.items():
            spent, _ = ticks(count // 4, 0.12, **options)
            each[name] += spent
    print(f"\nwhat is read, µs of CPU a tick of {GPUS} GPUs (median)")
    for name, of in each.items():
        print(f"{median(of):9.0f}  {name}")
    added_us, size = (
        median(each["all"]) - median(each["neither"]),
        added_bytes(decode(NvmlSample, last, "bench")),
    )
    print(
        f"activity and health: {added_us:.0f} µs a tick, at 1 Hz {added_us / 1e4:.3f} % of a core (at most "
        f"{100 * MOST_OF_A_CORE:g}), {size} bytes of a sample before compression (at most {MOST_BYTES})"
    )
    watch = Stopwatch()
    for name, function in list(vars(gate).items()):
        ours = callable(function) and getattr(function, "__module__", "") == gate.__name__
        if ours and name not in {"call", "nvml_error"} and not name.startswith("_"):
            setattr(gate, name, watch.wrap(name, function))
    spent, _ = ticks(count, 0.1)
    added = ", ".join(f"{watch.calls[name] / count:.2f} {name}" for name in _ADDED_CALLS)
    print(f"\ncalls a tick of activity and health: {added}")
    print(f"\nby call, µs a tick at 10 Hz (all: {median(spent):.0f})")
    for name, total in sorted(watch.spent_us.items(), key=lambda item: -item[1]):
        print(f"{total / count:9.1f}  {name}")


def main() -> None:
    """Start again with the fake library in front: it is found by name, so a process sees one of them only."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else TICKS
    if os.environ.get(INSIDE):
        measure(count)
        return
    with TemporaryDirectory() as folder:
        world = scenario().write(Path(folder) / "world")
        command = [sys.executable, "-m", "bench.bench_nvml", str(count)]
        subprocess.run(command, env={**env(build(), world), INSIDE: "1"}, check=True)


if __name__ == "__main__":
    main()
