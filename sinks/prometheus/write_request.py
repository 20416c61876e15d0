"""Packs samples as requests of Prometheus' remote write 1.0: protocol buffers in Snappy's block format. Pure.

https://prometheus.io/docs/specs/prw/remote_write_spec/
"""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import cramjam

STALE = struct.pack("<Q", 0x7FF0000000000002)
"""The value that ends a series: a NaN that Prometheus keeps for that."""
_AT_ONCE = 2000
"""Samples of a request, as Prometheus' own default."""


class Request(NamedTuple):
    """Holds a body, and how many samples it has."""

    body: bytes
    samples: int


class WriteRequests:
    """Keeps which series there were: one that is missing the next time is ended.

    ``labels`` are on every series that has no label of that name.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._common = labels
        self._series: dict[tuple[str, ...], bytes] = {}

    def at(self, ts_ms: int, samples: Iterable[tuple[str, Mapping[str, str], float]]) -> list[Request]:
        """Return samples of one moment (name, labels, value), all with its time; to be sent in this order."""
        gone, self._series = self._series, {}
        moment = b"\x10" + _varint(ts_ms)
        encoded = []
        for name, labels, value in samples:
            key = (name, *labels.values())
            series = gone.pop(key, b"")
            if not series:
                # Labels are sorted; an empty one is as good as none, and not allowed.
                every = {**self._common, **labels, "__name__": name}
                pairs = sorted((label, text) for label, text in every.items() if text)
                series = b"".join(
                    _field(1, _field(1, label.encode()) + _field(2, text.encode())) for label, text in pairs
                )
            self._series[key] = series
            encoded.append(_with_sample(series, struct.pack("<d", value), moment))
        encoded += [_with_sample(series, STALE, moment) for series in gone.values()]
        parts = (encoded[first : first + _AT_ONCE] for first in range(0, len(encoded), _AT_ONCE))
        return [Request(bytes(cramjam.snappy.compress_raw(b"".join(part))), len(part)) for part in parts]


def _with_sample(series: bytes, value: bytes, moment: bytes) -> bytes:
    return _field(1, series + _field(2, b"\x09" + value + moment))


def _field(number: int, content: bytes) -> bytes:
    """Return a field of bytes, a text or a message. https://protobuf.dev/programming-guides/encoding/"""
    return bytes((number << 3 | 2,)) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
