"""Keeps what the newest samples say of each node, in columns: all nodes are asked for at once."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dutycycle.contract.health.changes import HEARD_OF_MS
from dutycycle.contract.health.verdict import is_sick
from dutycycle.contract.metering import HELD_DOWN, heard_ms, with_means
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.samples import CgroupSample, NvmlSample
from sinks.scheduling.core.node import FIELDS, Floats, NodeGpu, Nodes, gpu_columns

STALE_MS = 60_000
"""A node of which nothing came for so long is not known: its figures may be anything now."""
_RECENT = 60
"""Of CPU and network so many readings count: five minutes."""
_RECENT_MS = 300_000
"""The mean utilization of a GPU is that of the last five minutes, older ones less and less."""
_NOBODY = 0
"""The row of a node that is not known."""

_T = TypeVar("_T", bound=np.generic)


class NodeTable:
    """Keeps a row a node. ``GPUS`` and ``HOST``: of which samples. ``wall``: Unix seconds."""

    GPUS, HOST = 0, 1

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._rows: dict[str, int] = {}
        self._at_ms = np.zeros((2, 1), dtype=np.int64)
        self._gpus: Floats = np.full((len(FIELDS), 1, 1), np.nan)
        """Field by GPU by row: what is asked of all nodes lies together."""
        self._uuids: dict[str, list[str]] = {}
        """By node, of the GPUs in these columns."""
        self._periods_s: dict[tuple[str, str], float] = {}
        """By node and uuid, of GPUs that work in cycles."""
        self._idle: Floats = np.full((2, 1), np.nan)
        """Cores, and the share of the network."""
        self._health_ms = np.zeros(1, dtype=np.int64)
        self._sick: Floats = np.full(1, np.nan)
        """How many of its GPUs should get no more work."""
        self._used: dict[str, tuple[deque[float], deque[float]]] = {}
        """By node, of both."""

    def newest_ms(self, node: str, source: int) -> int:
        """Tell when its newest sample was taken; 0 for none."""
        return int(self._at_ms[source, self._rows.get(node, _NOBODY)])

    def take_gpus(self, record: NvmlSample) -> None:
        """Take each of its GPUs as it is now, and how much it worked in the last minutes."""
        node, row, count = record.node, self._row(record.node), len(record.gpus)
        if count > self._gpus.shape[1]:
            self._gpus = _grown(self._gpus, 1, count)
        ts_ms, uuids = heard_ms(record.ts_ms, self._wall()), [gpu.uuid for gpu in record.gpus]
        gpus = []
        for gpu in with_means(record).gpus:
            free = None
            if gpu.mem_total_bytes is not None and gpu.mem_used_bytes is not None:
                free = max(gpu.mem_total_bytes - gpu.mem_used_bytes, 0.0)
            gpus.append(
                NodeGpu(
                    taken=bool(gpu.processes if gpu.allocated is None else gpu.allocated),
                    mem_free_bytes=free,
                    duty=None if gpu.gpu_util_pct is None else gpu.gpu_util_pct / 100,
                    headroom_c=gpu.temp_margin_c,
                    throttled=None if gpu.throttle is None else not HELD_DOWN.isdisjoint(gpu.throttle),
                )
            )
        columns, duty = gpu_columns(gpus), FIELDS.index("duty")
        columns[FIELDS.index("period_s")] = [self._periods_s.get((node, uuid), np.nan) for uuid in uuids]
        passed_ms = ts_ms - int(self._at_ms[self.GPUS, row])
        if passed_ms < STALE_MS and self._uuids.get(node) == uuids:
            now, before = columns[duty], self._gpus[duty, :count, row]
            recent = before + (now - before) * min(max(passed_ms, 0) / _RECENT_MS, 1.0)
            columns[duty] = np.where(np.isnan(before), now, recent)
        self._gpus[:, :, row] = np.nan
        self._gpus[:, :count, row] = columns
        self._uuids[node] = uuids
        self._at_ms[self.GPUS, row] = ts_ms

    def take_cycle(self, node: str, uuid: str, period_s: float | None) -> None:
        """Take the period in which a GPU works; None where it has none any more. It counts from the next
        sample on."""
        if period_s is None:
            self._periods_s.pop((node, uuid), None)
        else:
            self._periods_s[node, uuid] = period_s

    def take_host(self, record: CgroupSample) -> None:
        """Take how much of its CPU and network is used."""
        row, host = self._row(record.node), record.host
        ts_ms = heard_ms(record.ts_ms, self._wall())
        if ts_ms - self._at_ms[self.HOST, row] >= STALE_MS:  # it was silent: what it used before is long ago
            self._used.pop(record.node, None)
            self._idle[:, row] = np.nan
        self._at_ms[self.HOST, row] = ts_ms
        recent = self._used.setdefault(record.node, (deque(maxlen=_RECENT), deque(maxlen=_RECENT)))
        # Of the links, the direction in which more is used.
        both = [rate for rate in (host.net_rx_bytes_per_s, host.net_tx_bytes_per_s) if rate is not None]
        network = max(both) / host.net_speed_bytes_per_s if both and host.net_speed_bytes_per_s else None
        cores = None if host.cpu_util_pct is None else host.cpu_util_pct / 100
        for used, now in zip(recent, (cores, network), strict=True):
            if now is not None:
                used.append(now)
        for what, (used, of) in enumerate(zip(recent, (host.cpu_count, 1.0), strict=True)):
            if of is not None and used:
                # The 95th of a hundred readings: what is above is used hardly ever.
                self._idle[what, row] = of - sorted(used)[round(0.95 * (len(used) - 1))]

    def take_health(self, record: NodeHealth) -> None:
        """Take which of its GPUs are not healthy."""
        row = self._row(record.node)
        self._health_ms[row] = heard_ms(record.ts_ms, self._wall())
        self._sick[row] = sum(map(is_sick, record.gpus))

    def nodes(self, names: Sequence[str], ranks: Mapping[str, int], now_ms: int) -> Nodes:
        """Return nodes as they are now, in the order of ``names``; ``ranks``: pods of the same job that they
        have."""
        rows = np.fromiter(map(self._rows.get, names, repeat(_NOBODY)), np.intp, len(names))
        fresh = now_ms - self._at_ms[:, rows] < STALE_MS
        gpus = np.take(self._gpus, rows, axis=2)
        gpus[:, :, ~fresh[self.GPUS]] = np.nan
        idle = np.where(fresh[self.HOST], self._idle[:, rows], np.nan)
        near = np.zeros(len(names))
        if ranks:
            near[:] = np.fromiter(map(ranks.get, names, repeat(0)), np.float64, len(names))
        heard_of = now_ms - self._health_ms[rows] < HEARD_OF_MS
        return Nodes(
            names,
            gpus,
            cpu_free_cores=idle[0],
            net_free=idle[1],
            ranks=near,
            near_ranks=near,
            sick=np.where(heard_of, self._sick[rows], np.nan),
        )

    def _row(self, node: str) -> int:
        row = self._rows.setdefault(node, len(self._rows) + 1)
        if row >= self._idle.shape[1]:
            rows = 2 * row
            self._at_ms = _grown(self._at_ms, 1, rows, 0)
            self._gpus, self._idle = _grown(self._gpus, 2, rows), _grown(self._idle, 1, rows)
            self._health_ms, self._sick = _grown(self._health_ms, 0, rows, 0), _grown(self._sick, 0, rows)
        return row


def _grown(columns: NDArray[_T], axis: int, to: int, empty: float = np.nan) -> NDArray[_T]:
    widths = [(0, to - length if at == axis else 0) for at, length in enumerate(columns.shape)]
    return np.pad(columns, widths, constant_values=empty)
