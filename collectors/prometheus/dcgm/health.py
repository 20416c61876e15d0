"""Turns what dcgm-exporter tells of faults into events. Pure.

Its gauge of Xids is sticky: it has the last one, however long ago that was. So a GPU's first value is no
event, and a later one is where it has changed; the same Xid again cannot be seen. Counters are as NVML's.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from collectors.base import Tick
from collectors.prometheus.dcgm.fields import HEALTH_FIELDS, NVLINK_ERRORS, PAGES, Vocabulary
from collectors.prometheus.series import NewSample
from dutycycle.contract.health.changes import STATE_S, Change, changes, describe, hit_pods, is_judged_alike
from dutycycle.contract.records.health import GpuEvent, GpuFacts, HealthCounters
from dutycycle.contract.records.samples import Gpu, NvmlSample

_FLAGS = frozenset({"remap_pending", "remap_failed", "pages_pending"})
_SUMS = {"nvlink_errors": frozenset(NVLINK_ERRORS), "pages_retired": frozenset(PAGES)}
"""Counters of ours, and the kinds that each is the sum of."""
_KINDS = frozenset({*NVLINK_ERRORS, *PAGES})
_Key = tuple[str, str]


class DcgmHealth:
    """Keeps what was read of each GPU of each node."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._xids: dict[_Key, int] = {}
        self._counters: dict[_Key, HealthCounters] = {}
        self._stated_s: dict[_Key, float] = {}
        self._seq = 0

    def events(self, record: NvmlSample, samples: Sequence[NewSample], tick: Tick) -> Iterator[GpuEvent]:
        """Yield what happened to a node's GPUs by its scrape; and how they are, at first and now and then."""
        # The values of each GPU by UUID and field; a row a pod repeats the GPU's own, and the newest counts
        values_of: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for sample in sorted(samples, key=lambda sample: sample.ts_ms):
            reading = self._vocabulary.read(sample.labels, sample.value)
            if reading is not None and reading.field in HEALTH_FIELDS and reading.possible:
                values_of[sample.labels.get("UUID", "")][reading.field] = reading.value
        for gpu in record.gpus:
            key, values = (record.node, gpu.uuid), values_of[gpu.uuid]
            is_hit = False
            if "xid" in values:
                xid, last = round(values["xid"]), self._xids.get(key)
                self._xids[key] = xid
                if is_hit := bool(xid) and last is not None and xid != last:
                    yield self._event(record, gpu, Change("xid", xid), tick)
            counters = _counters_of(values)
            before = self._counters.get(key)
            if counters is None:
                continue
            self._counters[key] = counters
            changed = list(changes(before, counters))
            yield from (self._event(record, gpu, change, tick) for change in changed)
            is_covered = is_hit or bool(changed) or is_judged_alike(before, counters)
            if not is_covered or tick.monotonic_s - self._stated_s.get(key, float("-inf")) >= STATE_S:
                self._stated_s[key] = tick.monotonic_s
                yield self._event(record, gpu, Change("state"), tick)

    def _event(self, record: NvmlSample, gpu: Gpu, change: Change, tick: Tick) -> GpuEvent:
        self._seq += 1
        is_state = change.kind == "state"
        return GpuEvent(
            node=record.node, collector=tick.collector, seq=self._seq, ts_ms=record.ts_ms, gpu=gpu.uuid,
            index=gpu.index, **describe(change), pods=None if is_state else hit_pods(gpu),
            counters=self._counters.get((record.node, gpu.uuid)),
            facts=GpuFacts(model=gpu.model) if is_state and gpu.model else None,
        )  # fmt: skip


def _counters_of(values: dict[str, float]) -> HealthCounters | None:
    """Return the counters; None where the exporter has none of them. Errors of NVLinks, and retired pages,
    are those of all kinds that it has."""
    known = {
        name: bool(value) if name in _FLAGS else round(value)
        for name, value in values.items()
        if name != "xid" and name not in _KINDS
    }
    for total, kinds in _SUMS.items():
        if parts := [value for name, value in values.items() if name in kinds]:
            known[total] = round(sum(parts))
    return HealthCounters(**known) if known else None  # type: ignore[arg-type]
