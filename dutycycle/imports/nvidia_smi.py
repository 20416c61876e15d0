"""What ``nvidia-smi --query-gpu=timestamp,… --format=csv[,noheader][,nounits] -l 1`` writes.

The names of the columns are those of ``nvidia-smi --help-query-gpu``; the heading has them in full
(``clocks.current.sm`` for ``clocks.sm``), with the unit in brackets, also with ``nounits``. The timestamp is
``2020/11/12 13:48:11.412`` in the time of the machine, without its zone. What is not there is ``[N/A]``,
``[Not Supported]`` or ``[Unknown Error]``. See nvidia-smi(1), https://docs.nvidia.com/deploy/nvidia-smi/, and
of real output https://github.com/enkore/i3pystatus/pull/776 and /850.
"""

from datetime import datetime, tzinfo

from collectors.throttle import throttle_names
from dutycycle.imports.columns import Column, CsvReader, mib, words


def _throttle(text: str) -> tuple[str, ...]:
    return throttle_names(int(text, 16))


_TABLE = {
    "uuid": Column("uuid", read=words),
    "gpu_uuid": Column("uuid", read=words),
    "pci.bus_id": Column("uuid", read=words),
    "gpu_bus_id": Column("uuid", read=words),
    "index": Column("index"),
    "name": Column("model", read=words),
    "gpu_name": Column("model", read=words),
    "utilization.gpu": Column("gpu_util_pct", "%"),
    "utilization.memory": Column("mem_copy_util_pct", "%"),
    "memory.used": Column("mem_used_bytes", "MiB", mib),
    "memory.total": Column("mem_total_bytes", "MiB", mib),
    "power.draw": Column("power_w", "W"),
    "power.draw.instant": Column("power_w", "W"),
    "power.draw.average": Column("power_w", "W"),
    "enforced.power.limit": Column("power_limit_w", "W"),
    "power.limit": Column("power_limit_w", "W"),
    "temperature.gpu": Column("temp_c"),
    "clocks.current.sm": Column("sm_clock_mhz", "MHz"),
    "clocks.sm": Column("sm_clock_mhz", "MHz"),
    "clocks.current.memory": Column("mem_clock_mhz", "MHz"),
    "clocks.mem": Column("mem_clock_mhz", "MHz"),
    "pcie.link.gen.current": Column("pcie_gen"),
    "pcie.link.gen.gpucurrent": Column("pcie_gen"),
    "pcie.link.width.current": Column("pcie_width"),
    "clocks_event_reasons.active": Column("throttle", read=_throttle),
    "clocks_throttle_reasons.active": Column("throttle", read=_throttle),
}


def reader(zone: tzinfo, columns: str | None) -> CsvReader:
    """Of a log of a machine in ``zone``; ``columns`` is what ``--query-gpu`` had, for a log with no heading.

    Raises ``ValueError`` for columns without a timestamp.
    """

    def moment(text: str) -> int:
        found = datetime.fromisoformat(text.replace("/", "-"))
        return round((found if found.tzinfo else found.replace(tzinfo=zone)).timestamp() * 1000)

    return CsvReader(_TABLE, moment, columns)
