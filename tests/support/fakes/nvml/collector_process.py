"""The program that ``probe.Probe`` runs: an ``NvmlCollector`` that ticks when a line on its input says so."""

import ctypes
import json
import logging
import sys
import time
from contextlib import suppress
from typing import Any

from collectors.attribution.cgroup_path import CgroupId, CgroupKind
from collectors.attribution.processes import Attribution
from collectors.base import Tick
from collectors.nvml.collector import NvmlCollector
from dutycycle.telemetry.events import Telemetry


class _Table(Attribution):
    """Attribution by a table: pid -> (pod uid, container id)."""

    def __init__(self, pods: dict[str, list[str]]) -> None:
        self._pods = {
            int(pid): CgroupId(kind=CgroupKind.POD, path="/", name="", pod_uid=uid, container_id=container)
            for pid, (uid, container) in pods.items()
        }

    def of_pid(self, pid: int) -> CgroupId | None:
        """The pod in the table."""
        return self._pods.get(pid)


class _Lines(logging.Handler):
    """Keeps what was logged until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.taken.append(record.getMessage())


def _calls(names: list[str]) -> dict[str, int]:
    with suppress(OSError, AttributeError):  # no library: nothing was called
        count = ctypes.CDLL("libnvidia-ml.so.1").fakeNvmlCalls
        return {name: int(count(name.encode())) for name in names}
    return dict.fromkeys(names, 0)


def main() -> None:
    """Answer each line of the input with one line."""
    setup: dict[str, Any] = json.loads(sys.argv[1])
    if setup["library"]:  # found by its name from now on: LD_LIBRARY_PATH is too late for a forked process
        ctypes.CDLL(setup["library"])
    lines = _Lines()
    logging.getLogger("dutycycle").addHandler(lines)
    logging.getLogger("dutycycle").setLevel(logging.DEBUG)
    telemetry = Telemetry("nvml")
    collector = NvmlCollector(
        telemetry, _Table(setup["pods"]), host_root=setup["host_root"], retry_s=setup["retry_s"],
        health=setup["health"], activity=setup["activity"],
    )  # fmt: skip
    for line in sys.stdin:
        asked = json.loads(line)
        lines.taken.clear()
        tick = Tick(node="node-a", collector="probe", ts_ms=time.time_ns() // 1_000_000, **asked["tick"])
        out = collector.collect(tick)
        answer = {
            "ts_ms": tick.ts_ms,
            "records": [[one.topic, one.key, one.ts_ms, (one.value or b"").decode()] for one in out],
            "conditions": [list(key) for key in telemetry.conditions],
            "counts": [[name, list(labels), n] for (name, labels), n in telemetry.counts.items()],
            "said": lines.taken,
            "calls": _calls(asked["calls"]),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    collector.close()


if __name__ == "__main__":
    main()
