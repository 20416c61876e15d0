"""Writes run files of Weights & Biases as its own writer does: LevelDB's log of protobuf messages."""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BLOCK_BYTES = 32 * 1024
HEADER = b":W&B\xe1\xbe\x00"


def varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A message of fields with their numbers."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | 2) + varint(len(data)) + data)
    return b"".join(parts)


def moment(at_s: float) -> bytes:
    return message((1, int(at_s)), (2, round(at_s % 1 * 1e9)))


def stats(at_s: float, values: Mapping[str, Any]) -> bytes:
    items = [(3, message((1, name), (16, json.dumps(value)))) for name, value in values.items()]
    return message((7, message((2, moment(at_s)), *items)))


def history(at_s: float, values: Mapping[str, Any], *, nested: bool = True) -> bytes:
    every = {**values, "_timestamp": at_s}
    items = [
        (1, message((2 if nested else 1, name), (16, json.dumps(value)))) for name, value in every.items()
    ]
    return message((2, message(*items)))


def run(start_s: float, *, run_id: str = "ab12cd34", name: str = "", host: str = "gpu-a") -> bytes:
    fields = ((1, run_id), (3, "llm"), (8, name), (13, host), (17, moment(start_s)))
    return message((17, message(*(field for field in fields if field[1]))))


def environment(cores: int, mem_bytes: int, gpus: Iterable[tuple[str, int]] = ()) -> bytes:
    details = [(24, message((1, name), (2, amount))) for name, amount in gpus]
    return message((26, message((17, cores), (21, message((1, mem_bytes))), *details)))


def finish(exit_code: int) -> bytes:
    return message((18, message((1, exit_code))))


def framed(messages: Iterable[bytes]) -> bytes:
    """The bytes of a file."""
    file = bytearray(HEADER)
    for text in messages:
        rest, is_first = text, True
        while is_first or rest:
            room = BLOCK_BYTES - len(file) % BLOCK_BYTES
            if room < 7:
                file += bytes(room)
                continue
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[
                (is_first, not rest)
            ]
            file += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            is_first = False
    return bytes(file)


def write_run(path: Path, messages: Iterable[bytes]) -> str:
    path.write_bytes(framed(messages))
    return str(path)
