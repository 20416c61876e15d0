"""Turns closed windows into records: one for each subject of the node, with all its metrics.

Most of what streams send are windows. So their JSON is not made from objects: orjson writes all numbers of a
window at once, and a compiled loop puts them where they belong in a form of all records.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import orjson

from dutycycle.contract.catalogue import CAPACITIES
from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from streams.compiled import entry
from streams.operators.base import Emission
from streams.operators.columns.arrays import Bytes, Ints, bytes_of, keep_once
from streams.operators.columns.series import Series, subject_of
from streams.operators.node.figures import FIGURES, ClosedWindow

_PLACE = b"%"
"""Where a number belongs."""
_COMMA, _END, _POINT, _ZERO = b",].0"


class _Subject(NamedTuple):
    """Holds the key of a subject, how its records begin, and its metrics."""

    key: str
    head: bytes
    metrics: tuple[str, ...]


class _Form(NamedTuple):
    """Holds the records of a window without their times and numbers: the key of each and how it begins, and
    in one piece the ``labels`` between the numbers, of which each ends at one of ``ends``."""

    records: list[tuple[str, bytes]]
    labels: Bytes
    ends: Ints


class WindowRecords:
    """Writes the windows of one node, in the form of ``contract.records.derived.WindowAggregate``."""

    def __init__(self, node: str, source: str) -> None:
        self._node = node
        self._source = b'"%b"' % source.encode()
        self._subjects: list[_Subject] = []
        self._columns: Ints = np.zeros(0, np.int64)
        """The columns of the metrics of all subjects, one subject after the other."""
        self._known = b""
        self._form = self._form_of([])
        """The form of windows in which this is known."""

    def resize(self, series: Sequence[Series]) -> None:
        """Take ``series`` as the node's columns."""
        columns: dict[tuple[str, str], list[int]] = {}
        for column, window_series in enumerate(series):
            if window_series.metric not in CAPACITIES:
                columns.setdefault((window_series.kind, window_series.member), []).append(column)
        self._subjects = []
        for (kind, member), of in columns.items():
            subject, metrics = subject_of(self._node, kind, member), tuple(series[at].metric for at in of)
            head = b'{"v":1,"subject":%b,"source":%b' % (encode(subject), self._source)
            self._subjects.append(_Subject(subject.key, head, metrics))
        self._columns = keep_once(np.array([column for of in columns.values() for column in of], np.int64))
        self._known, self._form = b"", self._form_of([0] * len(self._columns))

    def of(self, window: ClosedWindow) -> list[Emission]:
        """Return a record of each subject of which anything was measured in the window."""
        figures = window.figures[self._columns]
        known = ~np.isnan(figures)
        known[:, 0] = known[:, 1:].any(axis=1)  # no value, no count
        if (pattern := known.tobytes()) != self._known:
            self._known, self._form = pattern, self._form_of(known.sum(axis=1).tolist())
        if not self._form.records:
            return []
        numbers = orjson.dumps(figures[known] + 0.0, option=orjson.OPT_SERIALIZE_NUMPY)  # + 0.0: no -0
        bodies = _filled(self._form.labels, self._form.ends, bytes_of(numbers)).tobytes().split(b"\n")
        times = b',"size_ms":%d,"start_ms":%d,"end_ms":%d,"metrics":{' % (
            window.size_ms, window.start_ms, window.end_ms,
        )  # fmt: skip
        return [
            ProducerRecord("window-aggregates", key, head + times + body, window.end_ms)
            for (key, head), body in zip(self._form.records, bodies, strict=True)
        ]

    def _form_of(self, counts: Sequence[int]) -> _Form:
        """Return the form of windows with so many figures of each metric of all subjects: none, all but the
        last of ``FIGURES`` for a gauge, the first and the last for a counter."""
        records, bodies, row = [], [], 0
        for key, head, metrics in self._subjects:
            named = []
            for metric, count in zip(metrics, counts[row : row + len(metrics)], strict=True):
                if count:
                    figures = (FIGURES[0], FIGURES[-1]) if count == 2 else FIGURES[:-1]
                    places = b",".join(b'"%b":%b' % (figure.encode(), _PLACE) for figure in figures)
                    named.append(b'"%b":{%b}' % (metric.encode(), places))
            row += len(metrics)
            if named:
                records.append((key, head))
                bodies.append(b",".join(named) + b"}}")
        return _Form(records, *_labels(b"\n".join(bodies)))


@lru_cache(maxsize=256)
def _labels(bodies: bytes) -> tuple[Bytes, Ints]:
    """Return what stands between the places of these bodies, in one piece, and where each part of it ends. It
    is kept once for all nodes that measure the same."""
    labels = bodies.split(_PLACE)
    return bytes_of(b"".join(labels)), np.cumsum([len(label) for label in labels], dtype=np.int64)


@entry("uint8[::1](uint8[::1], int64[::1], uint8[::1])")
def _filled(labels: Bytes, ends: Ints, numbers: Bytes) -> Bytes:
    """Return the labels, and between them the numbers of a JSON list; one that is whole is written as an
    integer, as ``streams.operators.rounding`` has it."""
    out = np.empty(labels.size + numbers.size, np.uint8)
    at, begin, place = 0, 0, 1
    for label in range(ends.size):
        for byte in labels[begin : ends[label]]:
            out[at] = byte
            at += 1
        begin = ends[label]
        if label < ends.size - 1:
            while numbers[place] != _COMMA and numbers[place] != _END:
                out[at] = numbers[place]
                at += 1
                place += 1
            place += 1
            if out[at - 2] == _POINT and out[at - 1] == _ZERO:
                at -= 2
    return out[:at]
