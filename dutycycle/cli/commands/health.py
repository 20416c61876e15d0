"""Runs ``dutycycle health``: tells whether the GPUs of this machine are in order, by the driver alone,
now."""

import argparse
import logging
import time

from dutycycle.cli.printing import print_json, print_table
from dutycycle.contract.codec import decode, to_plain
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.health.verdict import fold, is_sick, rank
from dutycycle.contract.records.health import GpuEvent, GpuHealth, HealthCounters
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import Telemetry

EXAMPLE = """dutycycle health
dutycycle health --format json | jq '.[] | select(.level != "healthy")'"""
SETTINGS: tuple[str, ...] = ()
_PAST = (
    "Xids of before are in the kernel's log (dmesg | grep Xid); a running collector counts those that come"
)
_INACTIVE = (
    "an NVLink that is inactive is no fault if it was never up: whether it was, a running collector knows"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how to print it."""
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="how to print (default: table)"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the state of the GPUs, and return 0 if none is worse than one to watch, else 1, as the prolog of
    a job wants it."""
    logging.getLogger("dutycycle").setLevel(logging.CRITICAL)  # what it would say is the answer
    gpus = read_health(settings)
    if args.format == "json":
        print_json([to_plain(gpu) for gpu in gpus])
    else:
        headers = ("gpu", "health", "model", "serial", "bus id", "NVLinks", "what and why")
        rows = []
        for gpu in gpus:
            facts = gpu.facts
            about = (None, None, None) if facts is None else (facts.model, facts.serial, facts.bus_id)
            worst_first = sorted(gpu.findings, key=lambda finding: -rank(finding.level))
            reasons = "; ".join(f"{finding.reason} ({finding.action})" for finding in worst_first)
            cells = (*about, _links(gpu.counters), reasons)
            rows.append([str(gpu.index), gpu.level, *(cell or "-" for cell in cells)])
        print_table(headers, rows, "")
        print(_PAST)  # noqa: T201
        if any("inactive" in (_links(gpu.counters) or "") for gpu in gpus):
            print(_INACTIVE)  # noqa: T201
    return int(any(map(is_sick, gpus)))


def read_health(settings: Settings) -> list[GpuHealth]:
    """Give each GPU as its driver answers now, by index. Raises ``DutycycleError`` where none can be read."""
    from collectors.base import Tick  # here, not above: --help need not wait for them
    from collectors.nvml.collector import NvmlCollector
    from collectors.nvml.session import ADVICE

    telemetry = Telemetry("health")
    collector = NvmlCollector(telemetry, host_root=settings.host_root)
    tick = Tick(
        node=settings.node, collector="health", seq=0, ts_ms=time.time_ns() // 1_000_000, interval_ms=1000,
        monotonic_s=time.monotonic(),
    )  # fmt: skip
    try:
        records = collector.collect(tick)
    finally:
        collector.close()
    gpus: dict[str, GpuHealth] = {}
    for record in records:
        if record.topic == "gpu-events":
            event = decode(GpuEvent, record.value or b"", record.topic)
            gpus[event.gpu] = fold(gpus.get(event.gpu), event)
    if not gpus:
        reasons = [name for condition, name in telemetry.conditions if condition == "gpus_unavailable"]
        why = "; ".join(ADVICE.get(reason, reason) for reason in reasons)
        raise DutycycleError(f"no GPU can be read here: {why or 'none of them tells of its health'}")
    return sorted(gpus.values(), key=lambda gpu: (gpu.index, gpu.gpu))


def _links(counters: HealthCounters | None) -> str | None:
    """Give how many NVLinks are active; None where the GPU has none, or does not tell."""
    if counters is None or counters.nvlinks_active is None or not counters.nvlinks:
        return None
    inactive = counters.nvlinks - counters.nvlinks_active
    return f"{counters.nvlinks_active} active" + (f", {inactive} inactive" if inactive else "")
