"""Tells whether GPUs are in order: what happened to one, and what follows from all that did."""

from collections.abc import Mapping

from dutycycle.contract.records.base import RecordBase, VersionedRecord, written
from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.units import Amount, Count, Label, Millis, NodeName, Uid


class GpuFacts(RecordBase, frozen=True, kw_only=True):
    """Says what a GPU is and how it is set up. ``boot_id`` is the kernel's, new with each start of the
    machine."""

    model: Label | None = None
    serial: Label | None = None
    bus_id: Label | None = None
    driver: Label | None = None
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    compute_mode: Label | None = None
    boot_id: Label | None = None


class HealthCounters(RecordBase, frozen=True, kw_only=True):
    """Holds what a GPU counts of its faults. Absent is what it does not tell, never 0.

    ``ecc_corrected``, ``ecc_uncorrected`` with its parts by location, ``energy_j``: since the driver was
    loaded or the GPU was reset; ``ecc_lifetime_…``: ever. A part is there where the whole is not 0.
    ``banks_low``, ``banks_exhausted``: banks of memory with few rows, or none, left to replace others; all
    that is known of it with MIG.
    ``pages_retired``, ``pages_pending``: before Ampere, what remapped rows are since. ``nvlink_errors``:
    replays, recoveries and failed checks of all links. ``recovery_action``, ``fabric_state`` and
    ``fabric_health`` are NVIDIA's numbers (``contract.health.words``).
    """

    ecc_corrected: Count | None = None
    ecc_uncorrected: Count | None = None
    ecc_uncorrected_dram: Count | None = None
    ecc_uncorrected_sram: Count | None = None
    ecc_lifetime_corrected: Count | None = None
    ecc_lifetime_uncorrected: Count | None = None
    ecc_lifetime_uncorrected_dram: Count | None = None
    ecc_lifetime_uncorrected_sram: Count | None = None
    pages_retired: Count | None = None
    pages_pending: bool | None = None
    rows_remapped_corrected: Count | None = None
    rows_remapped_uncorrected: Count | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    banks_low: Count | None = None
    banks_exhausted: Count | None = None
    pcie_replays: Count | None = None
    nvlinks: Count | None = None
    nvlinks_active: Count | None = None
    nvlink_errors: Count | None = None
    recovery_action: Count | None = None
    fabric_state: Count | None = None
    fabric_health: Count | None = None
    energy_j: Amount | None = None


class HitPod(RecordBase, frozen=True, kw_only=True):
    """Names a pod that used the GPU when something happened to it. Its name and job are absent while
    unknown."""

    uid: Uid
    namespace: Label | None = None
    name: Label | None = None
    job: JobRef | None = None


class GpuEvent(VersionedRecord, frozen=True, kw_only=True):
    """Something that happened to a GPU, ``count`` times within a tick.

    ``collector`` and ``seq``, which grows, name it.

    ``kind``: ``xid``, or what changed of its counters; ``state`` is no incident: it says how the GPU is,
    when a collector begins, when a counter has moved, and now and then. ``code``: of an Xid its number, of a
    recovery action and of the fabric NVIDIA's. ``severity``, ``name`` and ``action`` are of the catalogue.
    ``inferred``: the driver did not say it, its answers did. ``mig``: the slice that it happened on.
    ``pods``: those that used the GPU, empty for none, absent for unknown.
    """

    node: NodeName
    collector: Uid
    seq: Count
    ts_ms: Millis
    gpu: Uid
    index: Count
    kind: Label
    code: Count | None = None
    count: Count = written(lambda: 1)
    severity: Label
    name: Label
    action: Label | None = None
    inferred: bool | None = None
    mig: Uid | None = None
    pods: tuple[HitPod, ...] | None = None
    counters: HealthCounters | None = None
    facts: GpuFacts | None = None


class HealthFinding(RecordBase, frozen=True, kw_only=True):
    """Says why a GPU is not healthy: since when, and when it was last seen."""

    kind: Label
    code: Count | None = None
    level: Label
    reason: Label
    action: Label
    since_ms: Millis
    last_ms: Millis
    count: Count = written(lambda: 1)


class GpuHealth(RecordBase, frozen=True, kw_only=True):
    """Says how one GPU is.

    ``level``: healthy, watch, drain, reset or replace, with ``reason`` and ``action`` of the worst of its
    ``findings``. ``xids``: how often each Xid came, as far back as is known. ``nvlinks_most``: of the
    links that were active at once.
    """

    gpu: Uid
    index: Count
    level: Label
    since_ms: Millis
    seen_ms: Millis
    reason: Label | None = None
    action: Label | None = None
    findings: tuple[HealthFinding, ...] = written(tuple)
    xids: Mapping[str, Count] = written(dict)
    nvlinks_most: Count | None = None
    counters: HealthCounters | None = None
    facts: GpuFacts | None = None


class NodeHealth(VersionedRecord, frozen=True, kw_only=True):
    """Every GPU of a node that was heard of lately, as of ``ts_ms``."""

    node: NodeName
    ts_ms: Millis
    gpus: tuple[GpuHealth, ...]
