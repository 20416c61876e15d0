"""Reads the file that a run of Weights & Biases writes: ``run-<id>.wandb``, a log of protobuf messages.

The framing is that of LevelDB's log (https://github.com/google/leveldb/blob/main/doc/log_format.md): blocks
of 32 KiB with chunks, of which each has a checksum, its length and its type. W&B puts seven bytes before the
first chunk, and the checksum is CRC-32 (zlib's) of the type and the data, where LevelDB has a masked CRC-32C.
See core/internal/transactionlog of https://github.com/wandb/wandb. The messages are those of
wandb/proto/wandb_internal.proto there; of protobuf's wire format
(https://protobuf.dev/programming-guides/encoding/) this reads what they use.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dutycycle.contract.errors import DutycycleError

_MAGIC = b":W&B\xe1\xbe"
BLOCK_BYTES = 32 * 1024
_CHUNK = struct.Struct("<IHB")
"""Before each chunk: its checksum, length and type."""
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_HEADER_BYTES = 7
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types; groups (3, 4) are not in use any more
Value = int | bytes


class WandbFile:
    """Reads the messages of one file, again for each ``read_messages``.

    ``damaged``: blocks of which something was left out. ``cut_off``: whether a message at the end is not
    whole, as while the run still goes on or after it was killed.
    """

    def __init__(self, path: str) -> None:
        self.damaged: list[int] = []
        self.cut_off = False
        self._path = path

    def read_messages(self) -> Iterator[bytes]:
        """Give the messages that are whole. Raises ``DutycycleError`` for a file of something else."""
        self.damaged, self.cut_off = [], False
        with Path(self._path).open("rb") as file:
            header = file.read(_HEADER_BYTES)
            if not header.startswith(_MAGIC):
                what = "is empty" if not header else "is no run file of W&B"
                raise DutycycleError(
                    f"{self._path}: {what}: expected run-<id>.wandb of the folder wandb/; a table or JSON "
                    "that W&B exports is read by dutycycle import nvidia-smi"
                )
            parts: list[bytes] | None = None  # of a message that goes on in the next chunk
            for kind, data in self._read_chunks(file):
                if kind in (FULL, FIRST) and parts is not None:
                    self._note_damage(file)  # its end is missing
                if kind == FULL:
                    parts = None
                    yield data
                elif kind == FIRST:
                    parts = [data]
                elif kind is None:
                    parts = None
                elif parts is not None:
                    parts.append(data)
                    if kind == LAST:
                        yield b"".join(parts)
                        parts = None
            self.cut_off = self.cut_off or parts is not None

    def _read_chunks(self, file: BinaryIO) -> Iterator[tuple[int | None, bytes]]:
        """Give types and data; None for a damage, after which it goes on in the next block."""
        start = _HEADER_BYTES
        while block := file.read(BLOCK_BYTES - start):
            position, end = 0, len(block)
            is_last = end < BLOCK_BYTES - start
            while end - position >= _CHUNK.size:
                checksum, length, kind = _CHUNK.unpack_from(block, position)
                position += _CHUNK.size
                if checksum == length == kind == 0:
                    position = end  # room that was not used
                    break
                data = block[position : position + length]
                if len(data) < length and is_last:
                    self.cut_off, position = True, end
                    break
                if zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum or not FULL <= kind <= LAST:
                    self._note_damage(file)
                    yield None, b""
                    position = end
                    break
                position += length
                yield kind, data
            is_padding = BLOCK_BYTES - start - position < _CHUNK.size
            self.cut_off = self.cut_off or (is_last and position < end and not is_padding)
            start = 0

    def _note_damage(self, file: BinaryIO) -> None:
        block = max(file.tell() - 1, 0) // BLOCK_BYTES
        if block not in self.damaged:
            self.damaged.append(block)


def read_fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Give the fields of a message by their numbers, in order: whole numbers, or bytes of everything else.

    Raises ``ValueError`` for a message that is damaged.
    """
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        kind = key & 7
        value: Value
        if kind == _VARINT:
            value, position = _read_varint(message, position)
        else:
            if kind == _BYTES:
                length, position = _read_varint(message, position)
            elif kind in (_FIXED64, _FIXED32):
                length = 8 if kind == _FIXED64 else 4
            else:
                raise ValueError(f"the message has a field of type {kind}")
            value = message[position : position + length]
            position += length
            if position > len(message):
                raise ValueError("the message is not whole")
        yield key >> 3, value


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for place in range(position, min(position + 10, len(message))):
        value |= (message[place] & 0x7F) << shift
        if message[place] < 0x80:
            return value, place + 1
        shift += 7
    raise ValueError("the message is not whole")
