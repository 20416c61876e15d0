"""Makes the GPUs of a node of the samples of one moment. Pure.

An exporter has rows for the GPU itself, for its MIG instances, or for the pods that share it. What is of the
whole device (power, energy, temperature, clocks) is the same in each of them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from collectors.prometheus.dcgm.fields import Reading, Vocabulary
from collectors.prometheus.identity.exporters import Exporters
from collectors.prometheus.identity.labels import Target, Workload, target_of
from collectors.prometheus.identity.pods import PodIndex
from collectors.prometheus.series import NewSample, ScrapedSeries, SeriesLabels
from collectors.throttle import throttle_names
from dutycycle.contract.catalogue import ACTIVITY_METRICS, HELD_METRICS, names, rows_of
from dutycycle.contract.energy import MOST_GROWTH_W
from dutycycle.contract.metering import FalseZeros
from dutycycle.contract.records.samples import Allocation, Gpu, MigDevice

_OF_A_PART = frozenset({"gpu_util_pct", "mem_copy_util_pct", "engine_pct", "mem_used_bytes", "mem_free_bytes",
                        "mem_reserved_bytes", "mem_total_bytes", *ACTIVITY_METRICS})  # fmt: skip
"""Fields that a MIG instance has of its own: no instance speaks for its GPU."""
_OF_A_SLICE = frozenset(ACTIVITY_METRICS).intersection(names(rows_of("nvml", "slice")))
_NS_PER_S = 1e9
_ADDED = frozenset({"gpu_util_pct", "mem_used_bytes"})
"""Fields of which exporters give each pod on a shared GPU its own part."""
_WHOLE = frozenset({"pcie_gen", "pcie_width", "throttle", "mem_used_bytes", "mem_free_bytes",
                    "mem_reserved_bytes", "mem_total_bytes", "pcie_rx_bytes_per_s",
                    "pcie_tx_bytes_per_s", "nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s",
                    "nvlink_bytes_per_s"})  # fmt: skip
"""Fields that are whole numbers."""
_INDEX = re.compile(r"(?:[a-zA-Z_:#/ -]*)([0-9]{1,4})").fullmatch
"""A GPU's number, also as ``nvidia0`` or ``cuda:0``."""
Impossible = Counter[tuple[str, float]]
"""Values that no GPU has, by metric, with how many there were."""
Nameless = Counter[tuple[str, str]]
"""Samples of no known GPU or pod, by metric and the label that should tell it."""


class _Row(NamedTuple):
    """Holds a sample of a GPU, in our unit; ``holder``: who has the device, or a part of it; ``high``: the
    largest value since the sample before, in our unit too."""

    sample: NewSample
    reading: Reading
    holder: Workload | None
    high: float | None


class GpuReader:
    """Reads samples of exporters as ``vocabulary`` and ``exporters`` know them.

    A value that no GPU has is absent, and counted in ``impossible``. A sample that does not say of which GPU
    it is can be in no record, and is counted in ``nameless``; so is one of a pod that cannot be named.
    """

    def __init__(self, vocabulary: Vocabulary, exporters: Exporters) -> None:
        self._false_zeros = FalseZeros()
        self.vocabulary = vocabulary
        self.exporters = exporters
        self.impossible: Impossible = Counter()
        self.nameless: Nameless = Counter()
        self.dividing: set[Target] = set()
        """Exporters of which each row of a shared GPU is what one pod has of it."""

    def learn(self, series: Iterable[ScrapedSeries]) -> None:
        """Take series of GPUs as they were scraped: an exporter divides a GPU if at one moment its rows of
        several pods differ. Others repeat the device's own value for each pod, in all of their rows."""
        first: dict[tuple[Target, str, str, str, int], tuple[Workload, float]] = {}
        for scraped in series:
            name, target = scraped.labels.get("__name__", ""), target_of(scraped.labels)
            is_mean = scraped.highs is not None  # over the time of each pod, which may differ
            if is_mean or target in self.dividing or self.vocabulary.field_of(name) not in _ADDED:
                continue
            device = target, name, scraped.labels.get("UUID", ""), scraped.labels.get("GPU_I_ID", "")
            if (holder := self.exporters.holder_of(scraped.labels)) is None:
                continue
            for ts_ms, value in scraped.points:
                other, of_other = first.setdefault((*device, ts_ms), (holder, value))
                if other != holder and of_other != value:
                    self.dividing.add(target)

    def gpus(self, samples: Iterable[NewSample], pod_index: PodIndex) -> tuple[Gpu, ...]:
        """Return the GPUs of one node, by index."""
        devices: dict[str, list[_Row]] = defaultdict(list)
        for sample in samples:
            reading = self.vocabulary.read(sample.labels, sample.value)
            if reading is not None and reading.field in HELD_METRICS:
                # Counter and scrape are not of one instant: the whole time may be a little more.
                growth = None if sample.per_s is None else round(min(sample.per_s, _NS_PER_S), -6)
                reading = None if growth is None else self.vocabulary.read(sample.labels, growth)
            if reading is None:
                continue
            leaps = False
            if reading.field == "energy_j" and sample.per_s is not None:
                growth_w = self.vocabulary.read(sample.labels, sample.per_s)
                leaps = growth_w is not None and growth_w.value > MOST_GROWTH_W
            if not sample.labels.get("UUID"):
                self.nameless[sample.name, "UUID"] += 1
            elif _index_of(sample.labels) is None:
                self.nameless[sample.name, "gpu"] += 1
            elif reading.possible and not leaps:
                high = None if sample.high is None else self.vocabulary.read(sample.labels, sample.high)
                named = self.exporters.holder_of(sample.labels)
                holder = None if named is None else pod_index.placed(named)
                if named is not None and holder is None:
                    self.nameless[sample.name, "namespace"] += 1
                row = _Row(sample, reading, holder, high.value if high and high.possible else None)
                devices[sample.labels["UUID"]].append(row)
            else:
                self.impossible[sample.name, sample.value] += 1
        gpus: list[Gpu] = []
        for uuid, rows in devices.items():
            are_parts = any(row.holder and target_of(row.sample.labels) in self.dividing for row in rows)
            gpus.append(self._false_zeros.drop(_gpu(uuid, rows, pod_index, are_parts=are_parts)))
        return tuple(sorted(gpus, key=lambda gpu: (gpu.index, gpu.uuid)))


def explain_nameless(nameless: Nameless) -> str:
    """Tell which label tells no GPU, and what helps.

    Whose UUID is known and whose index is not gets none of ours: records name GPUs by the driver's index, and
    an order by UUID would call a GPU by another one's as soon as one before it is gone.
    """
    (name, label), _ = nameless.most_common(1)[0]
    what = "do not say of which GPU they are"
    fix = "have the exporter write it"
    if label == "namespace":
        what = "name a pod that nobody knows without its namespace, and count as nobody's"
    if label == "gpu":
        what = "have no index of their GPU, by which peaks and annotations name it"
        fix += ", or a rule of metric_relabel_configs for each UUID"
    return (
        f"{nameless.total()} samples that {what}, such as {name} without a usable label {label}: {fix}, or "
        f"say which label it is by DUTYCYCLE_PROMETHEUS_NAMES=its_label={label}"
    )


def _index_of(labels: SeriesLabels) -> int | None:
    match = _INDEX(labels.get("gpu", ""))
    return None if match is None else int(match[1])


def explain(impossible: Impossible) -> str:
    """Tell which values no GPU has."""
    (name, value), _ = impossible.most_common(1)[0]
    return f"{impossible.total()} values that no GPU has, such as {value:g} of {name}: taken as not measured"


def _gpu(uuid: str, rows: list[_Row], pod_index: PodIndex, *, are_parts: bool) -> Gpu:
    labels = rows[0].sample.labels
    instances: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        instances[row.sample.labels.get("GPU_I_ID", "")].append(row)
    of_device = instances.pop("", [])
    values = _values(of_device, are_parts=are_parts)
    of_any = {name: value for name, value in _values(rows).items() if name not in _OF_A_PART}
    values = of_any | values
    fields: dict[str, Any] = {name: value for name, value in values.items() if name in Gpu.__struct_fields__}
    if "throttle" in fields:
        fields["throttle"] = throttle_names(fields["throttle"])
    if "gpu_util_pct" in values and not are_parts:
        # Absent where the largest is not known apart from the mean.
        utils = [row.high for row in of_device if row.reading.field == "gpu_util_pct"]
        fields["gpu_util_max_pct"] = max((high for high in utils if high is not None), default=None)
    slices = []
    for instance, of_instance in sorted(instances.items()):
        of_slice = _values(of_instance, are_parts=are_parts)
        slices.append(
            MigDevice(
                uuid=_slice_name(uuid, instance),
                profile=of_instance[0].sample.labels.get("GPU_I_PROFILE") or None,
                gpu_util_pct=of_slice.get("engine_pct"), **_memory(of_slice),
                **{name: value for name, value in of_slice.items() if name in _OF_A_SLICE},
            )
        )  # fmt: skip
    allocated = _holders(uuid, rows, pod_index)
    if are_parts and allocated and len(allocated) > 1:
        divided = []
        for given in allocated:
            # Each has what its rows tell, but nothing of a field of which the device itself is not known.
            who = Workload(given.namespace, given.pod, given.container or "")
            parts = {} if given.mig else _values([row for row in of_device if row.holder == who])
            own: dict[str, Any] = {name: parts[name] for name in _ADDED & parts.keys() & values.keys()}
            divided.append(replace(given, **own))
        allocated = tuple(divided)
    return Gpu(
        uuid=uuid, index=_index_of(labels) or 0, model=labels.get("modelName") or None,
        mig=tuple(slices) or None, allocated=allocated, **fields | _memory(values),
    )  # fmt: skip


def _slice_name(uuid: str, instance: str) -> str:
    """Return the older form of a slice's name: an exporter has the instance's number, not its uuid."""
    return f"MIG-{uuid}/{instance}/0"


def _values(rows: Iterable[_Row], *, are_parts: bool = False) -> dict[str, float]:
    """Return each field of a device or of an instance, of which several pods may have rows; whether these
    ``are_parts`` of it, or repeat its value."""
    by_field: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        by_field[row.reading.field].append(row)
    for field, of in by_field.items():
        rank = max(row.reading.rank for row in of)
        by_field[field] = [row for row in of if row.reading.rank == rank]
    values: dict[str, float] = {}
    for field, of in by_field.items():
        # The sum of what its pods have of the device, or a row of it all; None where parts are more than it
        value: float | None = next(
            (row.reading.value for row in of if row.holder is None), of[-1].reading.value
        )
        parts = {row.holder: row.reading.value for row in of}
        if are_parts and field in _ADDED and None not in parts:
            value = total = sum(parts.values())
            if field == "gpu_util_pct" and total > 100:  # each part is rounded
                value = 100 if total <= 100 + len(parts) else None
        if value is not None:
            values[field] = round(value) if field in _WHOLE else value
    return values


def _memory(values: Mapping[str, float]) -> dict[str, Any]:
    """Return used and total bytes. What the driver keeps for itself is in the total, where the exporter has
    it."""
    used, free = values.get("mem_used_bytes"), values.get("mem_free_bytes")
    total = values.get("mem_total_bytes")
    if total is None and used is not None and free is not None:
        total = used + free + values.get("mem_reserved_bytes", 0)
    return {"mem_used_bytes": used, "mem_total_bytes": total}


def _holders(uuid: str, rows: Iterable[_Row], pod_index: PodIndex) -> tuple[Allocation, ...] | None:
    """Return containers that the GPU or its slices were given to, as the exporter has it from the kubelet.

    None without any such label: an exporter outside Kubernetes has none, nor has one for a GPU that is free.
    """
    given: dict[tuple[Workload, str | None], SeriesLabels] = {}
    for row in rows:
        if row.holder is not None:
            given.setdefault((row.holder, row.sample.labels.get("GPU_I_ID")), row.sample.labels)
    holders = (
        Allocation(
            pod_uid=pod_index.find(who, labels), namespace=who.namespace, pod=who.pod,
            container=who.container or None, mig=_slice_name(uuid, instance) if instance else None,
        )
        for (who, instance), labels in given.items()
    )  # fmt: skip
    return tuple(holders) or None
