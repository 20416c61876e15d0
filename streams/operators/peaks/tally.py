"""Counts the most that each pod of a node used so far, and sums for the mean: of the pod, on each GPU, of
each process; of the pod also how often it used how much, for percentiles."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from dutycycle.contract.catalogue import P95_METRICS
from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.ownership.words import less_sure
from dutycycle.contract.records.derived import Totals
from dutycycle.contract.records.parts import PodPart, Tally
from streams.compiled import entry
from streams.operators.base import Emission
from streams.operators.columns.arrays import Floats, Ints, keep_once, pack, unpack
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import PCT_OF_GPU, ColumnIndex, TallySeries
from streams.operators.columns.tick import Layout
from streams.operators.peaks.histogram import Counts, Histograms, Places, count
from streams.operators.peaks.merge import merge_tallies
from streams.operators.peaks.processes import (
    MAX_POD_PROCESSES,
    highest_ranked,
    limit_processes,
    pods_over_limit,
    process_rank,
)
from streams.operators.rounding import tidy

# Rows of the state: one column a series.
_MAX, _AT, _SUM, _COUNT = range(4)
_FILL = (-np.inf, 0.0, 0.0, 0.0)
"""The column of a new series."""
K = TypeVar("K", bound=tuple[str, ...])


@entry(
    "void(float64[:, :], int64[::1], int64[::1], int32[:, ::1], uint32[:, ::1], float64[:, ::1], "
    "float64[:, ::1], int64[::1])"
)
def add_ticks(
    state: Floats, columns: Ints, rows: Ints, places: Places, pages: Counts, values: Floats, highs: Floats,
    times: Ints,
) -> None:  # fmt: skip
    """Add ticks, shape (ticks, m); ``rows``: the histogram of each of the ``columns``, or -1."""
    for tick in range(len(times)):
        for at in range(len(columns)):
            column, value = columns[at], values[tick, at]
            if highs[tick, at] > state[_MAX, column]:
                state[_MAX, column] = highs[tick, at]
                state[_AT, column] = times[tick]
            if not np.isnan(value):
                state[_SUM, column] += value
                state[_COUNT, column] += 1
                if rows[at] >= 0:
                    count(places, pages, rows[at], value)


def widened(state: Floats, size: int) -> Floats:
    """Return the state of ``size`` series, the first of which are there already."""
    wider = np.repeat(np.array(_FILL)[:, None], size, axis=1)
    wider[:, : state.shape[1]] = state
    return wider


def rows_of(index: ColumnIndex[K], counted: Sequence[K | None]) -> Ints:
    """Return of each series the row of the histogram in which it is counted, as ``index`` has them from now
    on; -1 for None."""
    index.columns(tuple(tally_series for tally_series in counted if tally_series is not None))
    row = {tally_series: at for at, tally_series in enumerate(index.ids)}
    return keep_once(
        np.array([-1 if tally_series is None else row[tally_series] for tally_series in counted], np.int64)
    )


class PeakTally:
    """Keeps the peaks of the pods of one node, from one source; of an empty one, nothing."""

    def __init__(self, node: str, source: str) -> None:
        self._node = node
        self._source = source
        self._index: ColumnIndex[TallySeries] = ColumnIndex()
        self._state = np.zeros((4, 0))
        self._counted: ColumnIndex[TallySeries] = ColumnIndex()
        """What has a histogram, which are the rows of ``_histograms``."""
        self._histograms = Histograms()
        self._rows: Ints = np.zeros(0, np.int64)
        """Of each series of ``_layout`` the row that counts it, or -1."""
        self._pods: dict[str, list[int]] = {}
        self._changed: set[str] = set()
        self._attribution: dict[str, dict[str, str]] = {}
        self._omitted: dict[str, int] = {}
        """How many processes of each pod were left out, where any were."""
        self._layout: Layout | None = None

    def extend(self, block: TickBlock) -> None:
        """Take ticks, late or not: a maximum does not depend on when it arrives."""
        layout = block.layout
        if not layout.pods or not self._source:
            return
        if layout is not self._layout:
            # Lay out rows anew, for other GPUs, pods or processes than before
            self._layout = layout
            self._rows = rows_of(
                self._counted, [_counted_as(tally_series) for tally_series in layout.tallies]
            )
            for (uid, scope), word in layout.attribution.items():
                scopes = self._attribution.setdefault(uid, {})
                scopes[scope] = less_sure(scopes.get(scope), word)
        columns = self._index.columns(layout.tallies)
        grew = len(self._index) > self._state.shape[1]
        if grew:
            self._state = widened(self._state, len(self._index))
        places, pages = self._histograms.with_room(len(self._counted), self._rows, block.tallies)
        add_ticks(self._state, columns, self._rows, places, pages, block.tallies, block.highs, block.times)
        first_ms, last_ms, ticks = int(block.times[0]), int(block.times[-1]), len(block.times)
        for uid in layout.pods:
            span = self._pods.setdefault(uid, [first_ms, first_ms, last_ms, 0])
            span[1], span[2], span[3] = min(span[1], first_ms), max(span[2], last_ms), span[3] + ticks
            self._changed.add(uid)
        if grew:
            self._limit(set(layout.tallies))

    def _limit(self, running: set[TallySeries]) -> None:
        """Leave out the lowest-ranked of the processes that have ended, for each pod with too many."""
        gone: set[tuple[str, str]] = set()
        for uid, scopes in pods_over_limit(self._index.ids).items():
            still = {process.scope for process in running if process.pod_uid == uid}
            ranks = [
                process_rank(
                    scope, {metric: float(self._state[_MAX, at]) for metric, at in columns.items()},
                    max(float(self._state[_AT, at]) for at in columns.values()),
                )
                for scope, columns in scopes.items() if scope not in still
            ]  # fmt: skip
            room = max(MAX_POD_PROCESSES - (len(scopes) - len(ranks)), 0)
            kept = highest_ranked(ranks, room)
            ended = [(uid, rank[-1]) for rank in ranks if rank[-1] not in kept]
            if ended:
                self._omitted[uid] = self._omitted.get(uid, 0) + len(ended)
            gone.update(ended)
        if gone:
            ids = self._index.ids
            self._keep([at for at, of in enumerate(ids) if (of.pod_uid, of.scope) not in gone])

    def _keep(self, columns: list[int]) -> None:
        keep: Ints = np.array(columns, np.int64)
        self._state = self._state[:, keep]
        self._index.retain(keep)

    def flush(self, totals: Mapping[str, Totals]) -> list[Emission]:
        """Return the ``PodPart`` of each pod that changed since the last call. ``totals``: what each used
        since its accumulation began."""
        if not self._changed:
            return []
        columns: dict[str, list[int]] = {uid: [] for uid in sorted(self._changed)}
        for column, tally_series in enumerate(self._index.ids):
            if tally_series.pod_uid in columns:
                columns[tally_series.pod_uid].append(column)
        histograms: dict[str, dict[str, bytes]] = {uid: {} for uid in columns}
        for tally_series, histogram in zip(self._counted.ids, self._histograms.written(), strict=True):
            if histogram and tally_series.pod_uid in columns:
                histograms[tally_series.pod_uid][tally_series.metric] = histogram
        self._changed.clear()
        parts = [self._part(uid, mine, histograms[uid], totals.get(uid)) for uid, mine in columns.items()]
        return [ProducerRecord("pod-parts", part.uid, encode(part), part.last_ms) for part in parts]

    def _part(
        self, uid: str, columns: list[int], histograms: Mapping[str, bytes], totals: Totals | None
    ) -> PodPart:
        by_scope: dict[str, dict[str, Tally]] = {}
        for column in columns:
            high, at_ms, total, count = self._state[:, column].tolist()
            if high > -np.inf:
                tally_series = self._index.ids[column]
                tally = Tally(max=tidy(high), at_ms=int(at_ms), sum=tidy(total), count=int(count))
                by_scope.setdefault(tally_series.scope, {})[tally_series.metric] = tally
        opened, first, last, samples = self._pods[uid]
        processes, over = limit_processes(
            {scope: of for scope, of in by_scope.items() if scope.count("/") == 2}
        )
        gpus = {scope: of for scope, of in by_scope.items() if scope.count("/") == 1}
        over_gpus = merge_tallies(
            {metric: tally for metric, tally in of.items() if metric in PCT_OF_GPU} for of in gpus.values()
        )
        of_pod = by_scope.get("", {}) | over_gpus
        for metric, histogram in histograms.items():
            of_pod[metric] = replace(of_pod[metric], histogram=histogram)
        return PodPart(
            uid=uid, source=self._source, node=self._node, opened_ms=opened,
            first_ms=first, last_ms=last, samples=samples,
            metrics=of_pod, gpus=gpus,
            processes=processes, processes_omitted=self._omitted.get(uid, 0) + over,
            attribution=self._attribution.get(uid, {}), totals=totals,
        )  # fmt: skip

    def set_back(self, ts_ms: int) -> None:
        """Set the clock back, which was wrong and is at ``ts_ms``: no pod was seen after that."""
        for span in self._pods.values():
            span[1], span[2] = min(span[1], ts_ms), min(span[2], ts_ms)

    def is_stale(self, before_ms: int) -> bool:
        """Tell whether a pod was last seen before ``before_ms``."""
        return any(last < before_ms for _, _, last, _ in self._pods.values())

    def retire(self, before_ms: int) -> set[str]:
        """Forget pods that were last seen before ``before_ms`` and have no change left to send; which."""
        gone = {uid for uid, (_, _, last, _) in self._pods.items() if last < before_ms} - self._changed
        if not gone:
            return gone
        self._keep([at for at, of in enumerate(self._index.ids) if of.pod_uid not in gone])
        rows = np.array([row for row, of in enumerate(self._counted.ids) if of.pod_uid not in gone], np.int64)
        self._counted.retain(rows)
        self._histograms.retain(rows)
        for uid in gone:
            del self._pods[uid]
            self._attribution.pop(uid, None)
            self._omitted.pop(uid, None)
        self._layout = None  # rows have moved, and a pod that comes back notes its attribution again
        return gone

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "series": [list(tally_series) for tally_series in self._index.ids],
            "state": pack(self._state[:, : len(self._index)]),
            "counted": [list(tally_series) for tally_series in self._counted.ids],
            "histograms": self._histograms.snapshot(),
            "pods": {uid: list(span) for uid, span in self._pods.items()},
            "changed": sorted(self._changed),
            "attribution": {uid: dict(scopes) for uid, scopes in self._attribution.items()},
            "omitted": dict(self._omitted),
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._index = ColumnIndex([TallySeries(*pair) for pair in plain["series"]])
        self._state = unpack(plain["state"], "f8", (4, len(self._index)))
        self._counted = ColumnIndex([TallySeries(*pair) for pair in plain["counted"]])
        self._histograms.restore(plain["histograms"])
        self._pods = {uid: list(span) for uid, span in plain["pods"].items()}
        self._changed = set(plain["changed"])
        self._attribution = {uid: dict(scopes) for uid, scopes in plain["attribution"].items()}
        self._omitted = dict(plain["omitted"])


def _counted_as(tally_series: TallySeries) -> TallySeries | None:
    """Return where a series' values are counted: what is known of single GPUs alone in the whole pod."""
    slashes = 1 if tally_series.metric in PCT_OF_GPU else 0
    if tally_series.metric not in P95_METRICS or tally_series.scope.count("/") != slashes:
        return None
    return tally_series._replace(scope="")
