"""Runs ``dutycycle run``: start, measure, wait, say. A command is measured while it runs, in two threads: one
takes samples, one has the trace and the stages."""

import os
import queue
import resource
import shlex
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from collectors.base import Collector, Tick
from collectors.nvml.collector import NvmlCollector
from collectors.process.collector import ProcessCollector
from collectors.process.socket import StepSocket
from collectors.runner import TickSchedule
from dutycycle.callbacks.reporter import SOCKET
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import TraceWriter, trace_line
from dutycycle.process import print_remark
from dutycycle.run.collector import CommandCollector, OfCommand, given_gpus, pod_of
from dutycycle.run.command import CannotStartError, Command, Ended
from dutycycle.run.folder import TRACE, conclude, run_folder, say_where
from dutycycle.run.nsys import Nsys
from dutycycle.run.process_tree import ProcessTree
from dutycycle.telemetry.events import Telemetry

if TYPE_CHECKING:
    from dutycycle.report.gather import Gathered
    from dutycycle.report.page import Report

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
        self._records: queue.SimpleQueue[Sequence[ProducerRecord] | None] = queue.SimpleQueue()
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
                        record = ConsumerRecord(
                            outgoing.topic, 0, offset, outgoing.key, outgoing.value, outgoing.ts_ms
                        )
                        writer.write(trace_line(record, prefix))
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


def run_command(
    arguments: Sequence[str],
    settings: Settings,
    out: Path | None,
    *,
    profiled: bool = False,
    title: str | None = None,
) -> int:
    """Run it to its end; its exit status. ``profiled``: under Nsight Systems; ``title``: of the report.

    Raises ``DutycycleError`` before it was started.
    """
    nsys = Nsys("--nsys", "leave --nsys out") if profiled else None
    folder = run_folder(Path(arguments[0]).name, out)
    with TemporaryDirectory(prefix="dutycycle-") as sockets:
        began, own_before_s, steps = time.monotonic(), _own_cpu_s(), Path(sockets) / "steps.sock"
        variables = {SOCKET: str(steps)}
        try:
            typed = arguments if nsys is None else nsys.wrapped(arguments, folder)
            command = Command(typed, variables)
        except CannotStartError as error:
            folder.rmdir()
            print_remark(f"dutycycle: {error}")
            return error.status
        measuring = Measuring(arguments, command, settings, folder / TRACE, steps)
        measuring.start()
        ended = command.wait()
        lasted, own_s = time.monotonic() - began, _own_cpu_s() - own_before_s
        measuring.stop(ended)
    # Whatever goes wrong from now on is said, and changes no status.
    from dutycycle.run.summary import ended_words, lines_of, notes_of

    shown = " ".join(shlex.join(arguments).split())  # a script after -c has lines
    for line in lines_of(f"dutycycle: {shown[:100]}", ended, lasted, own_s):
        print_remark(line)
    conditions = list(measuring.telemetry.conditions.values())
    errors = list(measuring.errors)
    profiles = []
    if nsys is not None:
        try:
            profiles.append(nsys.profile(folder))
        except DutycycleError as error:
            errors.append(f"the profile: {error}")
    if measuring.gathered is not None:
        gathered = measuring.gathered

        def make() -> "Report":
            from dutycycle.report.build import report_of

            return report_of(
                gathered, settings, TRACE, pod=measuring.pod.uid, profiles=profiles, title=title,
                ended=ended_words(ended),
            )  # fmt: skip

        if failure := conclude(make, folder):
            errors.append(failure)
    for line in notes_of(errors, conditions):
        print_remark(line)
    say_where(folder)
    return ended.status


def _own_cpu_s() -> float:
    """Return the CPU seconds of this process so far, without its children."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
