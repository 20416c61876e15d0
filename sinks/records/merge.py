"""What a stored record and one that arrives make together, so that a figure is right for ever. Pure.

A stream's record of a pod or job says everything since its accumulation began, so the newest one is exactly
what is to be kept, as it is, bit for bit. But an accumulation may be lost: the state of a pod that was silent
for long is evicted, a damaged one is begun anew. The records that follow then know less. So two are compared.

**Order.** ``covers(new, old)``: ``new`` began no later, ended no earlier, is made of no fewer samples (of
a job: pods), has no maximum that is lower or missing, is final if ``old`` is and nothing else is newer, and
knows the pod's name if ``old`` does. Each of these is an order, so all together are a partial order. Along
one accumulation every record covers those before it: it holds their samples and more.

**Join.** What is known of a key is a set of records of which none covers another; a record joins it by
displacing those that it covers, unless one of them covers it. The most of a set in a partial order do not
depend on how it was put together: repeats, reordering, and writers side by side all end with the same set.
Only records that cover each other, equal in all of the above, are told apart by who came last.

**Whole.** A set of one is that record. Of several, the row shows for each metric the greatest maximum and
when it was, the earliest beginning, the latest end. Samples are added, and means weighted by them, over
records whose spans do not meet, the largest first: samples in two records count once, so the sum is never
too large. Name and ``final`` are those of the newest that knows the pod. A job's record has no samples: its
span is the weight.

The set is kept beside the row (column ``parts``), at most eight records of it: of more, the oldest two are
made one. A maximum is never lowered by that either.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from contract.codec import decode
from contract.records.attribution import merged
from contract.records.derived import JobPeaks, Peak, Peaks, PodOfJob, PodPeaks
from sinks.records.rows import COLUMN_METRICS, POD_TABLE, Row, job_row, pod_row

MOST_PARTS = 8
_MAXIMA = tuple(f"max_{metric}" for metric in COLUMN_METRICS)


def covers(new: Row, old: Row) -> bool:
    """Whether ``new`` says everything that ``old`` does; both of one key. Needs the plain columns only."""
    (*news, new_final), (*olds, old_final) = new.rank, old.rank
    return (
        new.values["first_ms"] <= old.values["first_ms"]
        and all(one >= other for one, other in zip(news, olds, strict=True))
        and (news != olds or new_final >= old_final)
        and new.named >= old.named
        and all(_reaches(new.values[name], old.values[name]) for name in _MAXIMA)
    )


def _reaches(new: float | None, old: float | None) -> bool:
    return old is None or (new is not None and new >= old)


def join(held: Sequence[Row], row: Row) -> list[Row]:
    """The set ``held`` with ``row`` in it; of rows that cover each other ``row`` stays."""
    left = [one for one in held if not covers(row, one)]
    return left if any(covers(one, row) for one in left) else [*left, row]


def joined(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """The set of each key, sorted by table and key: two writers then lock rows in the same order."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found[row.table, row.key] = join(found.get((row.table, row.key), ()), row)
    return {key: found[key] for key in sorted(found)}


def whole(held: Sequence[Row]) -> Row:
    """The row to store for a set of one key; its ``parts`` are None for a set of one."""
    if len(held) == 1:
        return held[0]
    rows = sorted(held, key=lambda row: (row.rank, -row.values["first_ms"], row.values["record"]))
    while len(rows) > MOST_PARTS:
        rows = [_one(rows[:2]), *rows[2:]]
    row = _one(rows)
    return replace(
        row, values=row.values | {"parts": "[" + ",".join(one.values["record"] for one in rows) + "]"}
    )


def _one(rows: Sequence[Row]) -> Row:
    texts = [row.values["record"].encode() for row in rows]
    if rows[0].table == POD_TABLE:
        return pod_row(_pods([decode(PodPeaks, text, "pod-peaks") for text in texts], rows))
    return job_row(_jobs([decode(JobPeaks, text, "job-peaks") for text in texts]))


def _pods(records: Sequence[PodPeaks], rows: Sequence[Row]) -> PodPeaks:
    """``records`` from the oldest to the newest, each with its row."""
    known = [record for record, row in zip(records, rows, strict=True) if row.named] or records
    mix = _Mix.of([(one.first_ms, one.last_ms, one.samples) for one in records])
    processes = mix.scopes([one.processes or {} for one in records])
    return PodPeaks(
        pod=known[-1].pod, final=known[-1].final,
        first_ms=min(one.first_ms for one in records), last_ms=max(one.last_ms for one in records),
        samples=sum(one.samples for one, counts in zip(records, mix.counts, strict=True) if counts),
        metrics=mix.peaks([one.metrics for one in records]),
        gpus=mix.scopes([one.gpus for one in records]), processes=processes or None,
        processes_omitted=max(one.processes_omitted or 0 for one in records) or None,
        attribution=merged(one.attribution or {} for one in records) or None,
    )  # fmt: skip


def _jobs(records: Sequence[JobPeaks]) -> JobPeaks:
    """``records`` from the oldest to the newest."""
    newest = records[-1]
    mix = _Mix.of([(one.first_ms, one.last_ms, one.last_ms - one.first_ms + 1) for one in records])
    return replace(
        newest,
        first_ms=min(one.first_ms for one in records), last_ms=max(one.last_ms for one in records),
        metrics=mix.peaks([one.metrics for one in records]), pods=_of_job(mix, [one.pods for one in records]),
        gpus_omitted=max(one.gpus_omitted or 0 for one in records) or None,
        pods_omitted=max(one.pods_omitted or 0 for one in records) or None,
    )  # fmt: skip


def _of_job(mix: "_Mix", every: Sequence[Mapping[str, PodOfJob]]) -> dict[str, PodOfJob]:
    pods = {}
    for name in sorted({name for one in every for name in one}):
        mine = [one.get(name) for one in every]
        node = next(one.node for one in reversed(mine) if one is not None)
        metrics = mix.peaks([one.metrics if one else {} for one in mine])
        pods[name] = PodOfJob(
            node=node, metrics=metrics, gpus=mix.scopes([one.gpus if one else {} for one in mine]),
            attribution=merged((one and one.attribution) or {} for one in mine) or None,
        )  # fmt: skip
    return pods


@dataclass(frozen=True, slots=True)
class _Mix:
    """How several records are made one: the weight of each, and whether its samples are its own."""

    weights: tuple[int, ...]
    counts: tuple[bool, ...]

    @classmethod
    def of(cls, spans: Sequence[tuple[int, int, int]]) -> "_Mix":
        """Of (first, last, weight) of each record."""
        largest = sorted(range(len(spans)), key=lambda i: (-spans[i][2], spans[i]))
        taken: list[int] = []
        for i in largest:
            if all(spans[i][0] > spans[j][1] or spans[i][1] < spans[j][0] for j in taken):
                taken.append(i)
        return cls(tuple(span[2] for span in spans), tuple(i in taken for i in range(len(spans))))

    def peaks(self, every: Sequence[Peaks]) -> dict[str, Peak]:
        """Of each metric, over the records that have it."""
        return {
            metric: self._peak([one.get(metric) for one in every])
            for metric in sorted({metric for one in every for metric in one})
        }

    def scopes(self, every: Sequence[Mapping[str, Peaks]]) -> dict[str, dict[str, Peak]]:
        """The same for each GPU or process."""
        names = sorted({name for one in every for name in one})
        return {name: self.peaks([one.get(name, {}) for one in every]) for name in names}

    def _peak(self, peaks: Sequence[Peak | None]) -> Peak:
        known = [(one, weight, counts) for one, weight, counts in self._with(peaks) if one is not None]
        high = reduce(
            lambda a, b: max(a, b, key=lambda one: (one.max, -one.at_ms)), (one for one, *_ in known)
        )
        own = [(one, weight) for one, weight, counts in known if counts]
        weighed = own or [max(((one, weight) for one, weight, _ in known), key=lambda pair: pair[1])]
        return Peak(max=high.max, mean=_mean(weighed), at_ms=high.at_ms)

    def _with(self, peaks: Sequence[Peak | None]) -> Iterable[tuple[Peak | None, int, bool]]:
        return zip(peaks, self.weights, self.counts, strict=True)


def _mean(weighed: Sequence[tuple[Peak, int]]) -> float:
    if len(weighed) == 1:
        return weighed[0][0].mean
    total = sum(weight for _, weight in weighed) or 1
    # From the mean of one on, by differences: rounding cannot carry it past the smallest and the largest.
    first = weighed[0][0].mean
    mean = first + sum((one.mean - first) * (weight / total) for one, weight in weighed)
    return min(max(mean, min(one.mean for one, _ in weighed)), max(one.mean for one, _ in weighed))
