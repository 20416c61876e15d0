"""What one tick of the GPU collector costs, with eight fake GPUs of six processes each, printed by call.

    python -m bench.bench_nvml [ticks]

The fake driver answers in a microsecond or so, so that this is our own cost: Python, the binding's ctypes,
and the record. The real driver's time comes on top, and most of it is waiting in the kernel.
"""

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from collectors.base import Tick
from collectors.nvml import gate
from collectors.nvml.collector import NvmlCollector
from dutycycle.telemetry.events import Telemetry
from tests.support.fakes.nvml.library import build, env
from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess, Scenario, sine, square

GPUS = 8
PROCESSES = 6
TICKS = 200
INSIDE = "BENCH_NVML_INSIDE"
COUNTERS = {number: sine(3 + number, 5, 95) for number in (2, 3, 5, 10, 11, 12, 13, 60, 61)}
WITHOUT: dict[str, dict[str, Any]] = {
    "all": {}, "no counters of activity": {"activity": ()}, "no health": {"health": False},
    "neither": {"activity": (), "health": False},
}  # fmt: skip
"""What a collector is told not to read."""


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


class Stopwatch:
    """Time by function of the gate, microseconds; put around each by ``wrap``."""

    def __init__(self) -> None:
        self.spent_us: dict[str, float] = defaultdict(float)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, timed."""

        def timed(*arguments: Any) -> Any:
            begun = time.perf_counter_ns()
            try:
                return function(*arguments)
            finally:
                self.spent_us[name] += (time.perf_counter_ns() - begun) / 1000

        return timed


def ticks(count: int, pause_s: float, **options: Any) -> tuple[list[float], int]:
    """CPU time of each tick in microseconds, and the bytes of the last sample."""
    collector = NvmlCollector(Telemetry("bench"), **options)
    spent, size = [], 0
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
        size = len(out.payload or b"")
        time.sleep(max(0.0, now + pause_s - time.monotonic()))
    collector.close()
    return spent[1:], size


def measure(count: int) -> None:
    """Print it: first undisturbed, then with each call timed."""
    spent, size = ticks(count, 0.1)
    worst = quantiles(spent, n=20)[-1]
    print(f"a tick of {GPUS} GPUs at 10 Hz: {median(spent):.0f} µs of CPU (95 %: {worst:.0f}), {size} bytes")
    spent, size = ticks(6, 1.0)
    print(f"a tick of {GPUS} GPUs at  1 Hz: {median(spent):.0f} µs of CPU, {size} bytes")
    each: dict[str, list[float]] = {name: [] for name in WITHOUT}
    sizes = dict.fromkeys(WITHOUT, 0)
    for _ in range(4):  # in turns: the machine is not always as fast
        for name, options in WITHOUT.items():
            spent, sizes[name] = ticks(count // 4, 0.12, **options)
            each[name] += spent
    print(f"\nwhat is read, µs of CPU a tick of {GPUS} GPUs (mean), bytes of a sample")
    for name, of in each.items():
        print(f"{sum(of) / len(of):9.0f}  {sizes[name]:6d}  {name}")
    watch = Stopwatch()
    for name, function in list(vars(gate).items()):
        ours = callable(function) and getattr(function, "__module__", "") == gate.__name__
        if ours and name not in {"call", "nvml_error"} and not name.startswith("_"):
            setattr(gate, name, watch.wrap(name, function))
    spent, _ = ticks(count, 0.1)
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
