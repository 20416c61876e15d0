"""The fake NVML itself: a world that cannot be read, that changes, and how long its calls take.

What it answers is in the tests of the collector: they fail when it answers anything else.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fakes.nvml.library import build, env
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario, ramp


@pytest.mark.parametrize(
    "line", ["gpu GPU-a\n  volume 11", "gpu GPU-a\n  util square(0,1,2,3)", "nonsense 1"]
)
def test_a_scenario_that_cannot_be_read_ends_the_process(tmp_path: Path, line: str) -> None:
    scenario = tmp_path / "world"
    scenario.write_text(line)
    done = subprocess.run(
        [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"],
        env=env(build(), scenario),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode < 0
    assert f"{scenario}:{line.count(chr(10)) + 1}:" in done.stderr


def test_a_scenario_can_change_at_any_moment(tmp_path: Path) -> None:
    scenario = tmp_path / "world"
    times = [
        Scenario(gpus=[FakeGpu(uuid="GPU-a", values={"mem_used": ramp(n, 0)})])
        .write(scenario)
        .stat()
        .st_mtime_ns
        for n in range(20)
    ]
    assert times == sorted(set(times))


_TIME = """
import pynvml as n, time
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
def took(call, *args):
    began = time.monotonic()
    call(*args)
    return 1000 * (time.monotonic() - began)
print(took(n.nvmlDeviceGetPowerUsage, h), took(n.nvmlDeviceGetTemperature, h, 0))
"""


def test_a_call_takes_as_long_as_the_scenario_says(tmp_path: Path) -> None:
    delays = {"nvmlDeviceGetPowerUsage": 40_000, "*": 10_000}
    world = Scenario(gpus=[FakeGpu(uuid="GPU-1")], delays_us=delays).write(tmp_path / "world")
    command = [sys.executable, "-c", _TIME]
    done = subprocess.run(command, env=env(build(), world), stdout=subprocess.PIPE, text=True, check=True)
    power_ms, temperature_ms = map(float, done.stdout.split())
    assert power_ms >= 40
    assert temperature_ms >= 10


_SIDE_BY_SIDE = """
import pynvml as n, sys, time
from threading import Thread
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(int(index)) for index in sys.argv[1]]
threads = [Thread(target=n.nvmlDeviceGetPowerUsage, args=[handle]) for handle in handles]
began, cpu = time.monotonic(), time.process_time()
for one in threads: one.start()
for one in threads: one.join()
print(time.monotonic() - began, time.process_time() - cpu)
"""


@pytest.mark.parametrize("spins", [False, True])
@pytest.mark.parametrize(("devices", "waits"), [("000", 3), ("012", 1)])
def test_calls_to_one_device_wait_for_each_other(
    tmp_path: Path, devices: str, waits: int, spins: bool
) -> None:
    gpus = [FakeGpu(uuid=f"GPU-{number}") for number in range(3)]
    delays = {"nvmlDeviceGetPowerUsage": 300_000.0}
    world = Scenario(gpus=gpus, delays_us=delays, spins=spins).write(tmp_path / "world")
    command = [sys.executable, "-c", _SIDE_BY_SIDE, devices]

    def measured_s() -> tuple[float, float]:
        done = subprocess.run(command, env=env(build(), world), stdout=subprocess.PIPE, text=True, check=True)
        took_s, cpu_s = map(float, done.stdout.split())
        return took_s, cpu_s

    took_s, cpu_s = measured_s()
    assert took_s >= 0.3 * waits
    assert (cpu_s > 0.01) == spins
    # A busy machine may keep any one run from being in time.
    assert spins or waits == 3 or took_s < 0.9 or any(measured_s()[0] < 0.9 for _ in range(20))
