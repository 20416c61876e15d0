"""The most that each pod of a node used so far, and sums for the mean: of the pod, on each GPU, of each
process."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from contract.codec import encode
from contract.records.attribution import less_sure
from contract.records.derived import Totals
from contract.records.parts import PodPart, Tallies, Tally
from streams.compiled import entry
from streams.operators.columns.arrays import Floats, Ints, pack, unpack
from streams.operators.columns.series import PCT_OF_GPU, ColumnIndex, TallySeries
from streams.operators.columns.tick import Layout, Tick
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


@entry("void(float64[:, :], int64[::1], float64[::1], float64[::1], float64)")
def _add(state: Floats, columns: Ints, values: Floats, highs: Floats, ts_ms: float) -> None:
    for at in range(len(columns)):
        column = columns[at]
        if highs[at] > state[_MAX, column]:
            state[_MAX, column] = highs[at]
            state[_AT, column] = ts_ms
        if not np.isnan(values[at]):
            state[_SUM, column] += values[at]
            state[_COUNT, column] += 1


class PeakTally:
    """Peaks of the pods of one node, from one source (``nvml`` or ``cgroup``)."""

    def __init__(self, node: str, source: str) -> None:
        self._node = node
        self._source = source
        self._index: ColumnIndex[TallySeries] = ColumnIndex()
        self._state = np.zeros((4, 0))
        self._pods: dict[str, list[int]] = {}
        self._changed: set[str] = set()
        self._attribution: dict[str, dict[str, str]] = {}
        self._omitted: dict[str, int] = {}
        """How many processes of each pod were left out, where any were."""
        self._layout: Layout | None = None

    def add(self, tick: Tick) -> None:
        """Take a tick, late or not: a maximum does not depend on when it arrives."""
        if not tick.layout.pods:
            return
        if tick.layout is not self._layout:
            self._note_attribution(tick.layout)
        columns = self._index.columns(tick.layout.tallies)
        grew = len(self._index) > self._state.shape[1]
        if grew:
            self._widen()
        _add(self._state, columns, tick.tallies, tick.highs, tick.ts_ms)
        for uid in tick.layout.pods:
            self._note_seen(uid, tick.ts_ms)
        if grew:
            self._limit(set(tick.layout.tallies))

    def _limit(self, running: set[TallySeries]) -> None:
        """Leave out the lowest-ranked of the processes that have ended, for each pod with too many."""
        gone = {
            (uid, scope)
            for uid, scopes in pods_over_limit(self._index.ids).items()
            for scope in self._ended(uid, scopes, running)
        }
        if gone:
            self._keep([at for at, one in enumerate(self._index.ids) if (one.pod_uid, one.scope) not in gone])
            for uid, _ in gone:
                self._omitted[uid] = self._omitted.get(uid, 0) + 1

    def _ended(self, uid: str, scopes: dict[str, dict[str, int]], running: set[TallySeries]) -> set[str]:
        still = {one.scope for one in running if one.pod_uid == uid}
        ranks = [
            process_rank(scope, {metric: float(self._state[_MAX, at]) for metric, at in columns.items()},
                 max(float(self._state[_AT, at]) for at in columns.values()))
            for scope, columns in scopes.items() if scope not in still
        ]  # fmt: skip
        room = max(MAX_POD_PROCESSES - (len(scopes) - len(ranks)), 0)
        return {one[-1] for one in ranks} - highest_ranked(ranks, room)

    def _keep(self, columns: list[int]) -> None:
        keep: Ints = np.array(columns, np.int64)
        self._state = self._state[:, keep]
        self._index.retain(keep)

    def _note_attribution(self, layout: Layout) -> None:
        self._layout = layout
        for (uid, scope), word in layout.attribution.items():
            scopes = self._attribution.setdefault(uid, {})
            scopes[scope] = less_sure(scopes.get(scope), word)

    def _widen(self) -> None:
        old = self._state.shape[1]
        wider = np.repeat(np.array(_FILL)[:, None], len(self._index), axis=1)
        wider[:, :old] = self._state
        self._state = wider

    def _note_seen(self, uid: str, ts_ms: int) -> None:
        span = self._pods.get(uid)
        if span is None:
            self._pods[uid] = [ts_ms, ts_ms, ts_ms, 1]
        else:
            span[1], span[2], span[3] = min(span[1], ts_ms), max(span[2], ts_ms), span[3] + 1
        self._changed.add(uid)

    def parts(self, totals: Mapping[str, Totals]) -> list[tuple[str, bytes, int]]:
        """(pod uid, encoded ``PodPart``, last ms) of each pod that changed since the last call. ``totals``:
        what each used since its accumulation began."""
        columns: dict[str, list[int]] = {uid: [] for uid in sorted(self._changed)}
        for column, one in enumerate(self._index.ids):
            if one.pod_uid in columns:
                columns[one.pod_uid].append(column)
        self._changed.clear()
        return [
            (uid, encode(self._part(uid, mine, totals.get(uid))), self._pods[uid][2])
            for uid, mine in columns.items()
        ]

    def _part(self, uid: str, columns: list[int], totals: Totals | None) -> PodPart:
        by_scope: dict[str, dict[str, Tally]] = {}
        for column in columns:
            high, at_ms, total, count = self._state[:, column].tolist()
            if high > -np.inf:
                one = self._index.ids[column]
                tally = Tally(max=tidy(high), at_ms=int(at_ms), sum=tidy(total), count=int(count))
                by_scope.setdefault(one.scope, {})[one.metric] = tally
        opened, first, last, samples = self._pods[uid]
        processes, over = limit_processes(
            {scope: of for scope, of in by_scope.items() if scope.count("/") == 2}
        )
        gpus = {scope: of for scope, of in by_scope.items() if scope.count("/") == 1}
        over_gpus = merge_tallies(_only(of, PCT_OF_GPU) for of in gpus.values())
        return PodPart(
            uid=uid, source=self._source, node=self._node, opened_ms=opened,
            first_ms=first, last_ms=last, samples=samples,
            metrics=by_scope.get("", {}) | over_gpus, gpus=gpus,
            processes=processes, processes_omitted=self._omitted.get(uid, 0) + over,
            attribution=self._attribution.get(uid, {}), totals=totals,
        )  # fmt: skip

    def retire(self, before_ms: int) -> set[str]:
        """Forget pods that were last seen before ``before_ms`` and have no change left to send; which."""
        gone = {uid for uid, (_, _, last, _) in self._pods.items() if last < before_ms} - self._changed
        if not gone:
            return gone
        self._keep([column for column, one in enumerate(self._index.ids) if one.pod_uid not in gone])
        for uid in gone:
            del self._pods[uid]
            self._attribution.pop(uid, None)
            self._omitted.pop(uid, None)
        self._layout = None  # so that a pod that comes back notes its attribution again
        return gone

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "series": [list(one) for one in self._index.ids],
            "state": pack(self._state[:, : len(self._index)]),
            "pods": {uid: list(span) for uid, span in self._pods.items()},
            "changed": sorted(self._changed),
            "attribution": {uid: dict(scopes) for uid, scopes in self._attribution.items()},
            "omitted": dict(self._omitted),
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._index = ColumnIndex([TallySeries(*one) for one in plain["series"]])
        self._state = unpack(plain["state"], "f8", (4, len(self._index)))
        self._pods = {uid: list(span) for uid, span in plain["pods"].items()}
        self._changed = set(plain["changed"])
        self._attribution = {uid: dict(scopes) for uid, scopes in plain["attribution"].items()}
        self._omitted = dict(plain["omitted"])


def _only(tallies: Tallies, metrics: Collection[str]) -> dict[str, Tally]:
    return {metric: tally for metric, tally in tallies.items() if metric in metrics}
