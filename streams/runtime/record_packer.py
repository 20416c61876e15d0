"""Keeps records in little room: those since the last stored states are half a minute of all input."""

import struct
from collections.abc import Iterator

import zstandard

from dutycycle.contract.log import ConsumerRecord

_HEAD = struct.Struct(">qqqI")
_QUICK = zstandard.ZstdCompressionParameters.from_level(1, window_log=16, hash_log=10)
"""An eleventh of a sample of eight GPUs is left. Levels below 1 are some 3 µs quicker, and leave half as much
again: they keep digits as they are. The level's own table, of many times the size, takes 3 µs more: it is not
in the processor's cache whenever a record comes."""
_MOST_BYTES = 65_536
"""Of the record that the others are packed against."""


class RecordPacker:
    """Packs the records of one stage against its first one: they differ in their numbers."""

    def __init__(self) -> None:
        self._compressor: zstandard.ZstdCompressor | None = None
        self._decompressor = zstandard.ZstdDecompressor()
        self.packed_bytes = 0
        """Counts what all records took so far."""

    def pack(self, record: ConsumerRecord, now_ms: int) -> bytes:
        """Return offset, time and value of a record, and what its partition's clock said."""
        if record.value is None:
            self.packed_bytes += _HEAD.size
            return _HEAD.pack(record.offset, record.ts_ms, now_ms, 0)
        if self._compressor is None:
            first = record.value[:_MOST_BYTES]
            like = zstandard.ZstdCompressionDict(first, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
            like.precompute_compress(compression_params=_QUICK)
            self._compressor = zstandard.ZstdCompressor(compression_params=_QUICK, dict_data=like)
            self._decompressor = zstandard.ZstdDecompressor(dict_data=like)
        body = self._compressor.compress(record.value)
        self.packed_bytes += _HEAD.size + len(body)
        return _HEAD.pack(record.offset, record.ts_ms, now_ms, len(body)) + body

    def unpack(
        self, packed: bytes | bytearray, topic: str, partition: int, key: str
    ) -> Iterator[tuple[ConsumerRecord, int]]:
        """Yield the records of this topic, partition and key that were packed one after another, each with
        what its partition's clock said."""
        begin = 0
        while begin < len(packed):
            offset, ts_ms, now_ms, size = _HEAD.unpack_from(packed, begin)
            begin += _HEAD.size + size
            value = self._decompressor.decompress(packed[begin - size : begin]) if size else None
            yield ConsumerRecord(topic, partition, offset, key, value, ts_ms), now_ms


def bytes_of_first(packed: bytes | bytearray, count: int) -> int:
    """Return how many bytes the first ``count`` of packed records take."""
    end = 0
    for _ in range(count):
        end += _HEAD.size + _HEAD.unpack_from(packed, end)[-1]
    return end
