"""Keeps records in little room: those since the last stored states are half a minute of all input."""

import struct

import zstandard

from dutycycle.contract.log import ConsumerRecord

_HEAD = struct.Struct(">qqq")
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

    def pack(self, record: ConsumerRecord, now_ms: int) -> bytes:
        """Return offset, time and value of a record, and what its partition's clock said."""
        head = _HEAD.pack(record.offset, record.ts_ms, now_ms)
        if record.value is None:
            return head
        if self._compressor is None:
            first = record.value[:_MOST_BYTES]
            like = zstandard.ZstdCompressionDict(first, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
            like.precompute_compress(compression_params=_QUICK)
            self._compressor = zstandard.ZstdCompressor(compression_params=_QUICK, dict_data=like)
            self._decompressor = zstandard.ZstdDecompressor(dict_data=like)
        return head + self._compressor.compress(record.value)

    def unpack(self, packed: bytes, topic: str, partition: int, key: str) -> tuple[ConsumerRecord, int]:
        """Return a record of this topic, partition and key, and what its partition's clock said."""
        offset, ts_ms, now_ms = _HEAD.unpack_from(packed)
        body = packed[_HEAD.size :]
        value = self._decompressor.decompress(body) if body else None
        return ConsumerRecord(topic, partition, offset, key, value, ts_ms), now_ms
