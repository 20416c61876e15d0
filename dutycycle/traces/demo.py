"""Writes a trace of the simulated machine: what ``dutycycle up --demo`` shows, for a replay."""

import sys
from collections.abc import Iterator

import zstandard

from collectors.base import Tick
from collectors.demo.machine import DemoMachine
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name
from dutycycle.contract.trace import TraceRecord, TraceWriter, encode_line
from dutycycle.progress import Progress

_COLLECTOR = "demo"


def write_demo(
    path: str, settings: Settings, *, ticks: int, start_ms: int, seed: int, overwrite: bool
) -> None:
    """Write so many ticks to a file, or compressed by zstd to standard output where ``path`` is ``-``.

    The bytes depend on the arguments, the node, the interval and the topics' prefix alone.
    """
    with Progress("ticks", ticks) as progress:
        records = _records(settings, ticks, start_ms, seed, progress)
        if path == "-":
            with zstandard.ZstdCompressor().stream_writer(sys.stdout.buffer, closefd=False) as stream:
                for record in records:
                    stream.write(encode_line(record))
            sys.stdout.buffer.flush()
            return
        with TraceWriter(path, overwrite=overwrite) as trace:
            for record in records:
                trace.write(record)


def _records(
    settings: Settings, ticks: int, start_ms: int, seed: int, progress: Progress
) -> Iterator[TraceRecord]:
    machine = DemoMachine(seed)
    interval_ms = round(1000 * settings.interval)
    for seq in range(ticks):
        tick = Tick(
            node=settings.node, collector=_COLLECTOR, seq=seq, ts_ms=start_ms + seq * interval_ms,
            interval_ms=interval_ms, monotonic_s=seq * interval_ms / 1000,
        )  # fmt: skip
        for record in machine.collect(tick):
            yield TraceRecord(
                topic=full_name(settings.topic_prefix, record.topic), key=record.key,
                payload=record.payload, ts_ms=record.ts_ms,
            )  # fmt: skip
        progress.show(seq + 1, seq + 1)
