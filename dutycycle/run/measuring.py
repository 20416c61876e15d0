"""Measures a command while it runs, in two threads: one takes samples, one has the trace and the stages."""

import os
import queue
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collectors.base import Collector, Outgoing, Tick
from collectors.nvml.collector import NvmlCollector
from collectors.process.collector import ProcessCollector
from collectors.process.socket import StepSocket
from collectors.runner import TickSchedule
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.run.collector import CommandCollector, OfCommand, given_gpus, pod_of
from dutycycle.run.command import Command, Ended
from dutycycle.run.process_tree import ProcessTree
from dutycycle.telemetry.events import Telemetry

if TYPE_CHECKING:
    from dutycycle.report.gather import Gathered

_BEHIND_THE_COMMAND = 10
"""The nice value of the thread with the stages: what it computes may wait."""
_TICK_S = 20.0
_SOON_S = 1.0
"""A process that has just started has loaded nothing yet: it is read again so soon."""


class Measuring:
    """Measures a command from ``start`` to ``stop``. An error here is kept in ``errors``, and never the
    command's."""

    def __init__(
        self, arguments: Sequence[str], command: Command, settings: Settings, trace: Path, steps: Path
    ) -> None:
        self.errors: list[str] = []
        self.telemetry = Telemetry("run")
        self.gathered: Gathered | None = None
        self.pod = pod_of(arguments, settings.node, command.pid, time.time_ns() // 1_000_000)
        self._settings = settings
        self._trace = trace
        self._own = CommandCollector(self.pod, ProcessTree(os.getpid()))
        whose = OfCommand(self._own, self.pod.uid)
        nvml = NvmlCollector(self.telemetry, whose, allocations=given_gpus(self.pod, os.environ))
        step_socket = None
        try:
            step_socket = StepSocket(steps, self.telemetry, whose)
        except OSError as error:
            self._failed("steps", error)
        process = ProcessCollector(
            self.telemetry, whose, lambda: nvml.pids & self._own.pids, others=lambda: self._own.pids,
            steps=step_socket, first_s=_SOON_S,
        )  # fmt: skip
        self._collectors: list[Collector] = [self._own, nvml, process]
        self._records: queue.SimpleQueue[Sequence[Outgoing] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._ticking = threading.Thread(target=self._tick_until_stopped, name="ticks", daemon=True)
        self._computing = threading.Thread(target=self._compute, name="stages", daemon=True)

    def start(self) -> None:
        """Begin to measure, at once."""
        self._ticking.start()
        self._computing.start()

    def stop(self, ended: Ended) -> None:
        """Take one more tick for what was used since the last, then the end of the trace and the stages."""
        self._own.end(ended)
        self._stop.set()
        self._ticking.join(_TICK_S)
        if self._ticking.is_alive():
            self.errors.append(f"a collector has not answered for {_TICK_S:g} s")
        self._records.put(None)
        self._computing.join()

    def _tick_until_stopped(self) -> None:
        schedule = TickSchedule(self._settings.interval, time.monotonic())
        collector, seq, stopped = uuid.uuid4().hex, 0, False
        while not stopped:
            stopped = self._stop.wait(max(0.0, schedule.due_s - time.monotonic()))
            schedule.begin(time.monotonic())
            tick = Tick(
                node=self._settings.node, collector=collector, seq=seq, ts_ms=time.time_ns() // 1_000_000,
                interval_ms=round(self._settings.interval * 1000), monotonic_s=time.monotonic(),
            )  # fmt: skip
            seq += 1
            for reader in self._collectors:
                try:
                    self._records.put(reader.collect(tick))
                except Exception as error:  # noqa: BLE001 - said at the end, and the other one goes on
                    self._failed(f"collector {reader.name}", error)
        for reader in self._collectors:
            reader.close()

    def _compute(self) -> None:
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BEHIND_THE_COMMAND)
            # Here: they take a second to import, and the command runs already.
            from dutycycle.report.gather import Gathered
            from streams.local import LocalPipeline
            from streams.topology import stages

            prefix, offset = self._settings.topic_prefix, 0
            pipeline, gathered = LocalPipeline(stages(self._settings), prefix), Gathered()
            with TraceWriter(str(self._trace)) as writer:
                while (records := self._records.get()) is not None:
                    for outgoing in records:
                        key, payload, ts_ms = outgoing.key, outgoing.payload, outgoing.ts_ms
                        topic = full_name(prefix, outgoing.topic)
                        writer.write(TraceRecord(topic=topic, key=key, payload=payload, ts_ms=ts_ms))
                        record = ConsumerRecord(outgoing.topic, 0, offset, key, payload, ts_ms)
                        gathered.sample(record)
                        gathered.derived(pipeline.feed(record))
                        offset += 1
            gathered.derived(pipeline.close())
            self.gathered = gathered
        except Exception as error:  # noqa: BLE001 - said at the end; the command has nothing to do with it
            self._failed("the trace and the report", error)

    def _failed(self, what: str, error: Exception) -> None:
        line = f"{what}: {type(error).__name__}: {' '.join(str(error).split())}"[:300]
        if line not in self.errors:
            self.errors.append(line)
