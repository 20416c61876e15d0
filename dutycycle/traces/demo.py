"""Writes a trace of the simulated machine: what ``dutycycle up --demo`` shows, for a replay."""

import sys
from collections.abc import Callable
from contextlib import ExitStack

import zstandard

from collectors.base import Tick
from collectors.demo.machine import DemoMachine
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import TraceRecord, TraceWriter, encode_line, trace_line
from dutycycle.progress import Progress

_COLLECTOR = "demo"


def write_demo(
    path: str, settings: Settings, *, ticks: int, start_ms: int, seed: int, overwrite: bool
) -> None:
    """Write so many ticks to a file, or compressed by zstd to standard output where ``path`` is ``-``.

    The bytes depend on the arguments, the node, the interval and the topics' prefix alone.
    """
    machine, interval_ms = DemoMachine(seed), round(1000 * settings.interval)
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("ticks", ticks))
        write: Callable[[TraceRecord], object]
        if path == "-":
            stack.callback(sys.stdout.buffer.flush)
            packer = zstandard.ZstdCompressor().stream_writer(sys.stdout.buffer, closefd=False)
            stream = stack.enter_context(packer)
            write = lambda record: stream.write(encode_line(record))  # noqa: E731 - beside the other one
        else:
            write = stack.enter_context(TraceWriter(path, overwrite=overwrite)).write
        for seq in range(ticks):
            tick = Tick(
                node=settings.node, collector=_COLLECTOR, seq=seq, ts_ms=start_ms + seq * interval_ms,
                interval_ms=interval_ms, monotonic_s=seq * interval_ms / 1000,
            )  # fmt: skip
            for record in machine.collect(tick):
                write(trace_line(record, settings.topic_prefix))
            progress.show(seq + 1, seq + 1)
