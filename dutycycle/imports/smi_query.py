"""Reads what ``nvidia-smi -q`` writes, also with ``-d`` for parts of it: a tree of names and values, a GPU
after another, below a line with the time.

Names changed with drivers: the tables here have those from R290 to R580. Counters over the life of a GPU are
left out, as in other logs (``contract.health.logged``). See nvidia-smi(1).
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from collectors.throttle import throttle_names
from dutycycle.contract.health import logged
from dutycycle.imports.moments import Clock
from dutycycle.imports.quantities import HELD_REASONS, Column, HeldShares, Row, is_measured, read_uuid

_LINE = re.compile(r"(?P<indent> *)(?P<name>\S.*?) *(?: : ?(?P<value>.*))?").fullmatch
_GPU = re.compile(r"GPU (?P<bus>[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F])", re.IGNORECASE).fullmatch
is_query = re.compile(r"=+ ?NVSMI LOG ?=+$|Timestamp {2,}: |GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:").match
"""Tells whether a line is of ``nvidia-smi -q`` and of nothing else."""
_POWER = ("gpu power readings", "power readings")
_FIGURES = {
    "product name": "model",
    "gpu uuid": "uuid",
    "utilization/gpu": "gpu_util_pct",
    "utilization/memory": "mem_copy_util_pct",
    "utilization/encoder": "enc_util_pct",
    "utilization/decoder": "dec_util_pct",
    "utilization/jpeg": "jpeg_util_pct",
    "utilization/ofa": "ofa_util_pct",
    **dict.fromkeys(("fb memory usage/used", "memory usage/used"), "mem_used_bytes"),
    **dict.fromkeys(("fb memory usage/total", "memory usage/total"), "mem_total_bytes"),
    **{
        f"{section}/{name}": "power_w"
        for section in _POWER
        for name in ("instantaneous power draw", "average power draw", "power draw")
    },
    **{
        f"{section}/{name}": "power_limit_w"
        for section in _POWER
        for name in ("current power limit", "enforced power limit")
    },
    **dict.fromkeys(("temperature/gpu", "temperature/gpu current temp"), "temp_c"),
    "temperature/gpu t.limit temp": "temp_margin_c",
    "temperature/memory current temp": "mem_temp_c",
    "clocks/sm": "sm_clock_mhz",
    "clocks/memory": "mem_clock_mhz",
    "pci/rx throughput": "pcie_rx_bytes_per_s",
    "pci/tx throughput": "pcie_tx_bytes_per_s",
    "pci/gpu link info/pcie generation/current": "pcie_gen",
    "pci/gpu link info/link width/current": "pcie_width",
    "pci/replays since reset": "pcie_replays",
    "retired pages/single bit ecc": "pages_retired_single",
    "retired pages/double bit ecc": "pages_retired_double",
    **dict.fromkeys(("retired pages/pending", "retired pages/pending page blacklist"), "pages_pending"),
    "remapped rows/correctable error": "rows_remapped_corrected",
    "remapped rows/uncorrectable error": "rows_remapped_uncorrected",
    "remapped rows/pending": "remap_pending",
    "remapped rows/remapping failure occurred": "remap_failed",
    "remapped rows/bank remap availability histogram/low": "banks_low",
    "remapped rows/bank remap availability histogram/none": "banks_exhausted",
}
"""By the path of a value in the tree of its GPU."""
_WORDS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "gpu recovery action": ("recovery_action", logged.WORDS["recovery_action"]),
    "gpu reset status/reset required": ("recovery_action", {"no": 0, "yes": 1}),
    "gpu reset status/drain and reset recommended": ("recovery_action", {"yes": 4}),
    "fabric/state": ("fabric_state", logged.WORDS["fabric_state"]),
    "fabric/health/summary": ("fabric_health", logged.WORDS["fabric_health"]),
}
"""Of values that are words NVIDIA's number; another word is left out."""
_ECC = re.compile(
    r"ecc errors/volatile/(?:(sram|dram) (un)?correctable.*|(single|double) bit/total)"
).fullmatch
_REASONS = re.compile(r"clocks (?:event|throttle) reasons(?:/hw slowdown)?/(.+)").fullmatch
_COUNTER = re.compile(r"clocks event reasons counters/(.+)").fullmatch
_OF_A_SLICE = frozenset({"mem_used_bytes", "mem_total_bytes"})
_UNIT = re.compile(r"(?:(?<=\d)x| bank\(s\))$")
"""What stands behind a count, and is no unit."""


class SmiQueryReader:
    """Reads the lines of it. A GPU's rows are given at the blank line behind it, or where another begins."""

    def __init__(self, clock: Clock) -> None:
        self.notes = clock.notes
        self._clock = clock
        self._ts_ms: int | None = None
        self._columns: dict[str, Column] = {}
        self._gpu: dict[str, Any] = {}
        """What the present GPU has told; nothing where none is."""
        self._path: list[tuple[int, str]] = []
        """The indent and the name of each line that the present one is below."""
        self._errors: defaultdict[str, int] = defaultdict(int)
        self._processes: list[dict[str, Any]] = []
        self._slices: list[dict[str, Any]] = []
        self._held = HeldShares()

    def read_rows(self, line: str) -> list[Row]:
        """Give the rows of the GPU that ends here. Raises ``ValueError``."""
        match = _LINE(line.rstrip())
        if match is None or line.startswith("="):
            return self._take_rows()
        if gpu := _GPU(line.strip()):
            rows = self._take_rows()
            self._gpu = {"uuid": read_uuid(gpu["bus"])}
            self.notes.columns = ("those of nvidia-smi -q",)
            return rows
        indent, name, value = len(match["indent"]), match["name"].lower(), match["value"]
        if line.startswith("Unable to determine"):
            raise ValueError(f"nvidia-smi could not read a GPU: {line.strip()}")
        if indent == 0:
            if name == "timestamp":
                self._ts_ms = None
                self._ts_ms = self._clock.read_ms((value or "").strip())
            return []
        self._path = [*((at, above) for at, above in self._path if at < indent), (indent, name)]
        if self._gpu:
            self._read_value("/".join(name for _, name in self._path), (value or "").strip())
        return []

    def _read_value(self, path: str, value: str) -> None:
        if path.startswith("mig device"):
            self._read_slice(path.removeprefix("mig device"), value)
        elif path.startswith("processes/process id"):
            name = path.removeprefix("processes/process id")
            field = {"": "pid", "/name": "name", "/used gpu memory": "mem_used_bytes"}.get(name)
            if name == "":
                self._processes.append({})
            if field and self._processes and is_measured(value):
                self._processes[-1][field] = value if field == "name" else self._amount(name, field, value)
        elif field := _FIGURES.get(path):
            amount = self._amount(path, field, value)
            if amount is not None:
                self._gpu[field] = amount
        elif path in _WORDS:
            field, numbers = _WORDS[path]
            if value.lower() in numbers:
                self._gpu[field] = max(numbers[value.lower()], self._gpu.get(field, 0))
        elif is_measured(value):
            self._read_count(path, value)

    def _read_count(self, path: str, value: str) -> None:
        """Take errors of ECC, reasons that hold the clocks down, and counters of them."""
        if errors := _ECC(path):
            where, uncorrected, bits = errors.groups()
            name = "ecc_uncorrected" if uncorrected or bits == "double" else "ecc_corrected"
            self._errors[name] += int(value)
            if where and uncorrected:
                self._errors[f"{name}_{where}"] += int(value)
        elif reason := _REASONS(path):
            self._gpu.setdefault("throttle", [])
            if value.lower() == "active":
                self._gpu["throttle"].append(reason[1].replace(" ", "_"))
        elif (counter := _COUNTER(path)) and counter[1] in HELD_REASONS and self._ts_ms is not None:
            field, us = HELD_REASONS[counter[1]], int(value.split()[0])
            share = self._held.share_pct(self._gpu["uuid"], field, 1000 * us, self._ts_ms)
            if share is not None:
                self._gpu[field] = share

    def _read_slice(self, path: str, value: str) -> None:
        if not path:
            self._slices.append({})
        elif self._slices and path in ("/gpu instance id", "/compute instance id"):
            self._slices[-1][path] = value
        elif self._slices and (field := _FIGURES.get(path.removeprefix("/"))) in _OF_A_SLICE:
            self._slices[-1][field] = self._amount(path, field, value)

    def _amount(self, path: str, field: str, value: str) -> Any:
        column = self._columns.setdefault(f"{path} {field}", Column(path, field, None, self.notes))
        return column.read_value(_UNIT.sub("", value))

    def _take_rows(self) -> list[Row]:
        """Take the rows of the GPU that ends here. Raises ``ValueError``; what it told is gone then, too."""
        figures, processes, slices, counts = self._gpu, self._processes, self._slices, self._errors
        self._gpu, self._path, self._processes, self._slices = {}, [], [], []
        self._errors = defaultdict(int)
        if not figures:
            return []
        if self._ts_ms is None:
            raise ValueError("stands below no time (Timestamp : …) that can be read")
        uuid = figures["uuid"]
        if "throttle" in figures:
            names = throttle_names(2**12 - 1)
            figures["throttle"] = tuple(name for name in names if name in figures["throttle"])
        errors = {name: count for name, count in counts.items() if count or not name.endswith("ram")}
        rows = [Row(self._ts_ms, figures | errors)]
        rows += [Row(self._ts_ms, {"uuid": uuid, "processes": [process]}) for process in processes]
        for known in slices:
            instances = [known.pop(f"/{kind} instance id", "0") for kind in ("gpu", "compute")]
            measured = {name: value for name, value in known.items() if value is not None}
            mig = {"uuid": f"MIG-{uuid}/{'/'.join(instances)}"} | measured
            rows.append(Row(self._ts_ms, {"uuid": uuid, "mig": [mig]}))
        return rows
