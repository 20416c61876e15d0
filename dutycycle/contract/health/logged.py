"""Reads what logs tell of faults of GPUs: counters by the names of programs, and the events that follow.

Names of dcgmi are those of dcgmlib/src/dcgm_fields.cpp, of https://github.com/NVIDIA/DCGM; those of
nvidia-smi are those of ``nvidia-smi --help-query-gpu`` and ``--help-query-retired-pages``. Counters over the
life of a GPU (``aggregate``, ``sbecc`` of ``dmon``) are left out: a reset has mended most of what they count.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dutycycle.contract.health.changes import STATE_S, Change, changes, describe, is_judged_alike
from dutycycle.contract.records.health import GpuEvent, GpuFacts, HealthCounters, HitPod

_PAGES = ("pages_retired_single", "pages_retired_double")
COUNTS = (
    "ecc_corrected", "ecc_uncorrected", *_PAGES, "rows_remapped_corrected", "rows_remapped_uncorrected",
    "pcie_replays", "xid", "ecc_uncorrected_dram", "ecc_uncorrected_sram", "banks_low", "banks_exhausted",
    "recovery_action", "fabric_state", "fabric_health",
)  # fmt: skip
FLAGS = ("pages_pending", "remap_pending", "remap_failed")
FIELDS = frozenset((*COUNTS, *FLAGS))
"""Fields of a row that are of faults, and no figure of ``Gpu``."""
DCGMI = {
    "ESVTL": "ecc_corrected", "EDVTL": "ecc_uncorrected", "RPSBE": _PAGES[0], "RPDBE": _PAGES[1],
    "RPPEN": "pages_pending", "CRMPS": "rows_remapped_corrected", "URMPS": "rows_remapped_uncorrected",
    "RRP": "remap_pending", "RRF": "remap_failed", "XIDER": "xid", "RPCTR": "pcie_replays",
    "EDVDV": "ecc_uncorrected_dram", "EDVSRM": "ecc_uncorrected_sram", "RRAL": "banks_low",
    "RRAN": "banks_exhausted", "GPURECOV": "recovery_action", "FMHSUM": "fabric_health",
}  # fmt: skip
SMI_DMON = {"pci": "pcie_replays"}
SPELLINGS = {
    "ecc_corrected": "ecc errors corrected volatile total|ecc corrected volatile|ecc corrected",
    "ecc_uncorrected": "ecc errors uncorrected volatile total|ecc uncorrected volatile|ecc uncorrected",
    "ecc_uncorrected_dram": "ecc errors uncorrected volatile dram|ecc uncorrected volatile dram",
    "ecc_uncorrected_sram": "ecc errors uncorrected volatile sram|ecc uncorrected volatile sram",
    "banks_low": "remapped rows histogram low",
    "banks_exhausted": "remapped rows histogram none",
    _PAGES[0]: "retired pages single bit ecc count|retired pages sbe|single bit ecc",
    _PAGES[1]: "retired pages double bit count|retired pages double bit ecc count|retired pages dbe"
    "|double bit ecc",
    "pages_pending": "retired pages pending|pages retired pending",
    "rows_remapped_corrected": "remapped rows correctable|rows remapped correctable",
    "rows_remapped_uncorrected": "remapped rows uncorrectable|rows remapped uncorrectable",
    "remap_pending": "remapped rows pending|row remap pending",
    "remap_failed": "remapped rows failure|row remap failure",
    "pcie_replays": "pcie replay counter|pcie replay|pcie replay count|replays since reset",
    "xid": "xid|xid error|xid errors|last xid",
    "recovery_action": "recovery action",
    "fabric_state": "fabric state",
    "fabric_health": "fabric health summary|fabric health",
}  # fmt: skip
"""As in ``spellings``."""
WORDS: Mapping[str, Mapping[str, int]] = {
    "recovery_action": {
        "none": 0, "reset": 1, "gpu reset": 1, "reboot": 2, "node reboot": 2, "drain p2p": 3,
        "drain and reset": 4,
    },
    "fabric_state": {"not started": 1, "in progress": 2, "completed": 3},
    "fabric_health": {"healthy": 1, "unhealthy": 2, "limited capacity": 3},
}  # fmt: skip
"""NVIDIA's numbers by the words of nvidia-smi."""


def read_word(field: str, text: str) -> int | None:
    """Return NVIDIA's number for a word of nvidia-smi; None for what is no word of the field. Some drivers
    put the end of its name before it: ``state  Completed``."""
    words = text.lower().split()
    if words[:1] == [field.rpartition("_")[2]]:
        del words[0]
    return WORDS.get(field, {}).get(" ".join(words))


def read_flag(text: str) -> bool:
    """Read ``Yes``, ``No``, or a number. Raises ``ValueError``."""
    known = {"yes": True, "no": False, "pending": True, "true": True, "false": False}
    return known[text.lower()] if text.lower() in known else bool(int(text))


@dataclass
class _PublishedHealth:
    """Keeps what a GPU told last, and when its state was told."""

    counters: HealthCounters | None = None
    xid: int | None = None
    stated_ms: int | None = None


class FaultEvents:
    """Makes events of the counters of GPUs, each GPU's in the order of time, as a collector does."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _PublishedHealth] = {}

    def events(
        self,
        node: str,
        gpu: Mapping[str, Any],
        ts_ms: int,
        figures: Mapping[str, Any],
        pods: tuple[HitPod, ...] | None,
    ) -> Iterator[GpuEvent]:
        """Give what happened by a row of a GPU, of which ``uuid``, ``index`` and perhaps ``model`` are known.

        The rows of a GPU come in the order of time. The first one tells how the GPU is, and no incident.
        """
        known = self._known.setdefault((node, gpu["uuid"]), _PublishedHealth())
        happened: list[Change] = []
        if "xid" in figures:
            # Of dcgmi it is the last Xid, until there is another.
            if figures["xid"] and known.xid is not None and figures["xid"] != known.xid:
                happened.append(Change("xid", figures["xid"]))
            known.xid = figures["xid"]
        pages = [figures[name] for name in _PAGES if name in figures]
        counts = {name: value for name, value in figures.items() if name not in (*_PAGES, "xid")}
        before = counters = known.counters
        if pages or counts:
            counters = HealthCounters(pages_retired=sum(pages) if pages else None, **counts)
        known.counters = counters
        if counters is not None:
            happened += changes(before, counters)
            due = known.stated_ms is None or ts_ms - known.stated_ms >= STATE_S * 1000
            if due or (not happened and not is_judged_alike(before, counters)):
                known.stated_ms = ts_ms
                happened.append(Change("state"))
        for number, change in enumerate(happened):
            is_state = change.kind == "state"
            model = gpu.get("model") if is_state else None
            yield GpuEvent(
                # Rows of GPUs come in any order: each counts for itself.
                node=node, collector=f"import/{gpu['uuid']}", seq=100 * ts_ms + number, ts_ms=ts_ms,
                gpu=gpu["uuid"], index=gpu["index"], pods=None if is_state else pods, counters=counters,
                facts=GpuFacts(model=model) if model else None, **describe(change),
            )  # fmt: skip
