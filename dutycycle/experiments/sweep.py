"""Runs the runs of an experiment in processes, a few at a time; those that are finished are not run again."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from typing import Any

from dutycycle.contract.errors import DutycycleError
from dutycycle.experiments.plan import PlannedRun
from dutycycle.progress import Progress

_LOOK_EVERY_S = 0.2
_Messages = Any
"""A queue of pairs: so many further lines, or what went wrong."""


def sweep(runs: Sequence[PlannedRun], jobs: int, *, quiet: bool = False) -> None:
    """Run what is not finished, ``jobs`` at a time. Raises ``DutycycleError`` for the first run that fails;
    those beside it are stopped and run again the next time."""
    waiting = [run for run in runs if run.finished is None]
    lines = sum(trace.lines for run in waiting for trace in run.traces)
    shown = _Shown(lines, len(waiting), quiet=quiet)
    context = multiprocessing.get_context("spawn")  # a fork would take the threads of numpy and numba along
    messages: _Messages = context.Queue()
    processes: list[BaseProcess] = []
    try:
        while waiting or processes:
            while waiting and len(processes) < jobs:
                run = waiting.pop(0)
                args = (run, messages)
                processes.append(context.Process(target=_work, args=args, name=run.name, daemon=True))
                processes[-1].start()
            _hear(messages, shown)
            for process in [worker for worker in processes if not worker.is_alive()]:
                processes.remove(process)
                if process.exitcode:
                    _hear(messages, shown)  # why, if it could say so
                    raise DutycycleError(f"{process.name}: ended with {process.exitcode}")
                shown.finished()
    finally:
        shown.progress.clear()
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _work(run: PlannedRun, messages: _Messages) -> None:
    """Execute one run, as the whole of a process. A key that interrupts the command reaches it too: the
    parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from dutycycle.experiments.one_run import execute  # here, not above: the parent computes nothing

    try:
        execute(run, messages.put)
    except DutycycleError as error:
        messages.put(f"{run.name}: {error}")
    except OSError as error:  # its folder cannot be made, or not be written any more
        messages.put(f"{run.name}: {error.filename or run.folder}: {error.strerror or error}")


def _end_with_parent() -> None:
    """End this process with its parent: a run that nobody waits for is not gone on with, however the command
    ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _hear(messages: _Messages, shown: "_Shown") -> None:
    """Take what came within a moment. Raises ``DutycycleError`` where a run failed."""
    try:
        message = messages.get(timeout=_LOOK_EVERY_S)
        while True:
            if isinstance(message, str):
                raise DutycycleError(message)
            shown.add(message)
            message = messages.get_nowait()
    except queue.Empty:
        return


class _Shown:
    """Shows how far all runs are together."""

    def __init__(self, lines: int, runs: int, *, quiet: bool) -> None:
        self._runs, self._done, self._lines = runs, 0, 0
        self.progress = Progress("lines", lines, quiet=quiet)
        self._show()

    def _show(self) -> None:
        self.progress.show(self._lines, self._lines, f"{self._done} of {self._runs} runs")

    def add(self, lines: int) -> None:
        self._lines += lines
        self._show()

    def finished(self) -> None:
        self._done += 1
        self._show()
