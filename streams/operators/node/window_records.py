"""Closed windows as records: one for each subject of the node, with all its metrics.

Most of what streams send are windows. So their JSON is not made from objects: orjson writes all numbers of a
window at once, and a record is a template that takes its share of them.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import orjson

from contract.codec import encode
from contract.log import ProducerRecord
from streams.operators.base import Emission
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.series import CAPACITIES, Series, subject_of
from streams.operators.node.figures import FIGURES
from streams.operators.node.window import ClosedWindow


class _Subject(NamedTuple):
    """The key of a subject, how its records begin, and its metrics."""

    key: str
    head: bytes
    metrics: tuple[str, ...]


class WindowRecords:
    """Writes the windows of one node, in the form of ``contract.records.derived.WindowAggregate``."""

    def __init__(self, node: str, source: str) -> None:
        self._node = node
        self._source = orjson.dumps(source)
        self._subjects: list[_Subject] = []
        self._columns: Ints = np.zeros(0, np.int64)
        """The columns of the metrics of all subjects, one subject after the other."""

    def resize(self, series: Sequence[Series]) -> None:
        """The node's columns are ``series`` now."""
        columns: dict[tuple[str, str], list[int]] = {}
        for column, one in enumerate(series):
            if one.metric not in CAPACITIES:
                columns.setdefault((one.kind, one.member), []).append(column)
        self._subjects = [
            self._subject(kind, member, tuple(series[column].metric for column in of))
            for (kind, member), of in columns.items()
        ]
        self._columns = np.array([column for of in columns.values() for column in of], np.int64)

    def _subject(self, kind: str, member: str, metrics: tuple[str, ...]) -> _Subject:
        subject = subject_of(self._node, kind, member)
        return _Subject(
            subject.key, b'{"v":1,"subject":%b,"source":%b' % (encode(subject), self._source), metrics
        )

    def of(self, window: ClosedWindow) -> list[Emission]:
        """A record of each subject of which anything was measured in the window."""
        figures = window.figures[self._columns]
        known = ~np.isnan(figures)
        known[:, 0] = known[:, 1:].any(axis=1)  # no value, no count
        numbers, counts = _written(figures[known]), known.sum(axis=1).tolist()
        end_ms = window.start_ms + window.size_ms
        times = b',"size_ms":%d,"start_ms":%d,"end_ms":%d,"metrics":{' % (
            window.size_ms, window.start_ms, end_ms,
        )  # fmt: skip
        outs: list[Emission] = []
        row = at = 0
        for key, head, metrics in self._subjects:
            mine = tuple(counts[row : row + len(metrics)])
            row += len(metrics)
            if until := sum(mine):
                body = _template(metrics, mine) % tuple(numbers[at : at + until])
                outs.append(ProducerRecord("window-aggregates", key, head + times + body, end_ms))
                at += until
        return outs


def _written(numbers: Floats) -> list[bytes]:
    """Each number as JSON: an integer where it is one, as ``streams.operators.rounding`` has it."""
    text = orjson.dumps(numbers + 0.0, option=orjson.OPT_SERIALIZE_NUMPY)  # + 0.0: there is no -0
    return text[1:-1].replace(b".0,", b",").removesuffix(b".0").split(b",")


@lru_cache(maxsize=1024)
def _template(metrics: tuple[str, ...], counts: tuple[int, ...]) -> bytes:
    """The end of a record from its metrics on, with a place for each number; ``counts``: how many each metric
    has."""
    named = (b'"%b":%b' % (one.encode(), _places(n)) for one, n in zip(metrics, counts, strict=True) if n)
    return b",".join(named) + b"}}"


def _places(count: int) -> bytes:
    """A counter has two figures, the first and the last, a gauge all but the last."""
    figures = (FIGURES[0], FIGURES[-1]) if count == 2 else FIGURES[:-1]
    return b"{" + b",".join(b'"%b":%%b' % one.encode() for one in figures) + b"}"
