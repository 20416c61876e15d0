"""Makes rows of the health of GPUs: levels, findings, Xids and counters of faults. Pure."""

from dutycycle.contract.health.changes import HEARD_OF_MS
from dutycycle.contract.health.xids import LEVELS
from dutycycle.contract.records.health import HealthCounters, NodeHealth
from dutycycle.telemetry.metrics import Labels
from sinks.prometheus import metrics as m
from sinks.prometheus.analysis import Rows, put


def health_rows(rows: Rows, node: NodeHealth, now_ms: int) -> None:
    """Put the GPUs of a node of which something was said lately, also those that do not answer."""
    for gpu in node.gpus:
        if now_ms - gpu.seen_ms <= HEARD_OF_MS:
            labels = node.node, str(gpu.index), gpu.gpu
            levels: tuple[str, ...] = LEVELS
            put(rows, m.GPU_HEALTH, labels, levels.index(gpu.level) if gpu.level in levels else None)
            for finding in gpu.findings:
                put(rows, m.GPU_FINDING, (*labels, finding.level, finding.reason, finding.action), 1.0)
            for xid, count in gpu.xids.items():
                put(rows, m.GPU_XIDS, (*labels, xid), float(count))
            if gpu.counters is not None:
                _counters(rows, labels, gpu.counters)


def _counters(rows: Rows, labels: Labels, counters: HealthCounters) -> None:
    put(rows, m.GPU_ECC, (*labels, "corrected"), counters.ecc_corrected)
    put(rows, m.GPU_ECC, (*labels, "uncorrected"), counters.ecc_uncorrected)
    put(rows, m.GPU_REMAPPED, (*labels, "corrected"), counters.rows_remapped_corrected)
    put(rows, m.GPU_REMAPPED, (*labels, "uncorrected"), counters.rows_remapped_uncorrected)
    put(rows, m.GPU_BANKS, (*labels, "low"), counters.banks_low)
    put(rows, m.GPU_BANKS, (*labels, "none"), counters.banks_exhausted)
    put(rows, m.GPU_PCIE_REPLAYS, labels, counters.pcie_replays)
    put(rows, m.GPU_NVLINKS, labels, counters.nvlinks_active)
    put(rows, m.GPU_NVLINK_ERRORS, labels, counters.nvlink_errors)
    put(rows, m.GPU_RECOVERY, labels, counters.recovery_action)
