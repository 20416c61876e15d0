"""Reads what ``nvidia-smi -q`` writes, also with ``-d`` for parts of it, and with ``-x``, as XML: a tree of
names and values, a GPU after another, below a line with the time.

Names changed with drivers: the tables here have those from R290 to R580. Counters over the life of a GPU are
left out, as in other logs (``contract.health.logged``). See nvidia-smi(1).
"""

import html
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
is_query = re.compile(
    r"=+ ?NVSMI LOG ?=+$|Timestamp {2,}: |GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:"
    r"|<\?xml |<!DOCTYPE nvidia_smi_log|<nvidia_smi_log>|<gpu id=\""
).match
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
    "retired pages/multiple single bit retirement/retired count": "pages_retired_single",
    "retired pages/double bit ecc": "pages_retired_double",
    "retired pages/double bit retirement/retired count": "pages_retired_double",
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
_ELEMENT = re.compile(
    r'\s*<(?P<tag>\w+)(?: id="(?P<id>[^"]*)"| [^<>]*)?(?<!/)>(?:(?P<value>[^<]*)</(?P=tag)>)?\s*'
).fullmatch
_REASON_OF_XML = re.compile(r"clocks_(?:event|throttle)_reason_|clocks_event_reasons_counters_")
_NAMES_OF_XML = {
    "uuid": "gpu uuid", "gpu_util": "gpu", "memory_util": "memory", "encoder_util": "encoder",
    "decoder_util": "decoder", "jpeg_util": "jpeg", "ofa_util": "ofa", "gpu_temp": "gpu current temp",
    "gpu_temp_tlimit": "gpu t.limit temp", "memory_temp": "memory current temp", "sm_clock": "sm",
    "mem_clock": "memory", "instant_power_draw": "instantaneous power draw", "rx_util": "rx throughput",
    "tx_util": "tx throughput", "pci_gpu_link_info": "gpu link info", "pcie_gen": "pcie generation",
    "link_widths": "link width", "current_link_gen": "current", "current_link_width": "current",
    "replay_counter": "replays since reset", "pending_retirement": "pending",
    "pending_blacklist": "pending page blacklist", "remapped_row_corr": "correctable error",
    "remapped_row_unc": "uncorrectable error", "remapped_row_pending": "pending",
    "remapped_row_failure": "remapping failure occurred",
    "row_remapper_histogram": "bank remap availability histogram", "row_remapper_histogram_low": "low",
    "row_remapper_histogram_none": "none", "pid": "process id", "process_name": "name",
    "used_memory": "used gpu memory",
    "sw_therm_slowdown": "sw thermal slowdown", "hw_therm_slowdown": "hw thermal slowdown",
}  # fmt: skip
"""What ``-q`` calls an element, where that is not its tag with spaces."""
_COUNTERS_OF_XML = {"sw_power_cap": "sw power capping", "hw_power_brake": "hw power braking"}
_OF_A_SLICE = frozenset({"mem_used_bytes", "mem_total_bytes"})
_UNIT = re.compile(r"(?:(?<=\d)x| bank\(s\))$")
"""What stands behind a count, and is no unit."""


class _XmlLines:
    """Writes lines of ``-x``, of which each has an element, as ``-q`` has them. ``_depth``: how many elements
    are open."""

    def __init__(self) -> None:
        self._depth = 0

    @property
    def is_open(self) -> bool:
        """Tell whether the next line is in a document."""
        return self._depth > 0

    def write_as_text(self, line: str) -> str | None:
        """Give the line of ``-q``, blank behind a GPU; None for what has none there."""
        text = line.strip()
        if text.startswith("</"):
            self._depth -= 1
            return "" if text == "</gpu>" else None
        match = _ELEMENT(line)
        if match is None:
            return None
        tag, value = match["tag"], match["value"]
        if tag == "nvidia_smi_log":
            self._depth = 1  # whatever is missing at the end of the one before
            return None
        if tag == "gpu" and match["id"]:
            self._depth = 2
            return f"GPU {match['id']}"
        if tag == "timestamp":
            return f"Timestamp : {value}"
        depth = self._depth
        self._depth += value is None
        if tag in ("mig_devices", "process_info"):
            return None
        # What is below the number of a process, and a slice, stands in an element of its own.
        depth -= tag in ("pid", "mig_device")
        return " " * depth + _name_of_xml(tag) + ("" if value is None else f" : {html.unescape(value)}")


def _name_of_xml(tag: str) -> str:
    reason = _REASON_OF_XML.sub("", tag)
    if "_counters_" in tag and reason in _COUNTERS_OF_XML:
        return _COUNTERS_OF_XML[reason]
    return _NAMES_OF_XML.get(reason, reason.replace("_", " "))


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
        self._xml = _XmlLines()

    def read_rows(self, line: str) -> list[Row]:
        """Give the rows of the GPU that ends here. Raises ``ValueError``."""
        if self._xml.is_open or line.lstrip().startswith("<"):
            text = self._xml.write_as_text(line)
            if text is None:
                return []
            is_begin = text.startswith("GPU ")
            self.notes.unfinished = "its last GPU is not whole" if is_begin or (self._gpu and text) else ""
            line = text
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
