"""Runs the runs of an experiment in processes, a few at a time; those that are finished are not run again."""

import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, TextIO

from contract.errors import DutycycleError
from dutycycle.experiments.plan import Run
from dutycycle.traces.progress import Progress

_LOOK_EVERY_S = 0.2
_Messages = Any
"""A queue of pairs: so many further lines, or what went wrong."""


def sweep(runs: Sequence[Run], jobs: int, *, quiet: bool = False, out: TextIO | None = None) -> None:
    """Run what is not finished, ``jobs`` at a time. Raises ``DutycycleError`` for the first run that fails;
    those beside it are stopped and run again the next time."""
    waiting = [run for run in runs if run.finished is None]
    lines = sum(one.lines for run in waiting for one in run.traces)
    shown = _Shown(lines, len(waiting), out or sys.stderr, quiet=quiet)
    context = multiprocessing.get_context("spawn")  # a fork would take the threads of numpy and numba along
    messages: _Messages = context.Queue()
    processes: list[BaseProcess] = []
    try:
        while waiting or processes:
            while waiting and len(processes) < jobs:
                processes.append(_start(context, waiting.pop(0), messages))
            _hear(messages, shown)
            for one in [one for one in processes if not one.is_alive()]:
                processes.remove(one)
                if one.exitcode:
                    _hear(messages, shown)  # why, if it could say so
                    raise DutycycleError(f"{one.name}: ended with {one.exitcode}")
                shown.finished()
    finally:
        for one in processes:
            one.terminate()
        for one in processes:
            one.join()


def _start(context: SpawnContext, run: Run, messages: _Messages) -> BaseProcess:
    process = context.Process(target=_work, args=(run, messages), name=run.name, daemon=True)
    process.start()
    return process


def _work(run: Run, messages: _Messages) -> None:
    """The whole of a process. A key that interrupts the command reaches it too: the parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from dutycycle.experiments.one_run import execute  # here, not above: the parent computes nothing

    try:
        execute(run, messages.put)
    except DutycycleError as error:
        messages.put(f"{run.name}: {error}")


def _end_with_parent() -> None:
    """A run that nobody waits for is not gone on with, however the command ended."""
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
    """The progress bar; nothing where nobody looks."""

    def __init__(self, lines: int, runs: int, out: TextIO, *, quiet: bool) -> None:
        self._runs, self._done, self._lines = runs, 0, 0
        self._all = lines
        self._began_s = time.monotonic()
        show = not quiet and out.isatty() and runs
        self._bar = Progress(0, lines, out, name=self._name) if show else None
        self._show()

    def _name(self, reached: int, runs: int) -> str:
        rate = reached / max(time.monotonic() - self._began_s, 1e-3)
        return f"{runs} of {self._runs} runs, {rate:.0f} lines/s"

    def _show(self) -> None:
        if self._bar is not None:
            # The end ends the line: it is not there before the last run is.
            done = self._done == self._runs
            self._bar.show(self._all if done else min(self._lines, self._all - 1), self._done)

    def add(self, lines: int) -> None:
        self._lines += lines
        self._show()

    def finished(self) -> None:
        self._done += 1
        self._show()
