"""Runs the runs of an experiment in processes, a few at a time; those that are finished are not run again."""

import multiprocessing
import os
import queue
import signal
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from typing import Any

from dutycycle.contract.errors import DutycycleError
from dutycycle.experiments.plan import PlannedRun
from dutycycle.process import PARENT_VARIABLE, die_with_parent
from dutycycle.progress import Progress

_LOOK_EVERY_S = 0.2
_Messages = Any
"""A queue of pairs: so many further lines, or what went wrong."""


def sweep(runs: Sequence[PlannedRun], jobs: int, *, quiet: bool = False) -> None:
    """Run what is not finished, ``jobs`` at a time. Raises ``DutycycleError`` for the first run that fails;
    those beside it are stopped and run again the next time."""
    waiting = [run for run in runs if run.finished is None]
    lines = sum(trace.lines for run in waiting for trace in run.traces)
    read = done = 0
    count = len(waiting)
    progress = Progress("lines", lines, quiet=quiet)
    context = multiprocessing.get_context("spawn")  # a fork would take the threads of numpy and numba along
    messages: _Messages = context.Queue()
    processes: list[BaseProcess] = []
    try:
        while waiting or processes:
            progress.show(read, read, f"{done} of {count} runs")
            while waiting and len(processes) < jobs:
                run = waiting.pop(0)
                args = (run, messages, os.getpid())
                processes.append(context.Process(target=_work, args=args, name=run.name, daemon=True))
                processes[-1].start()
            read += _take_lines(messages)
            for process in [worker for worker in processes if not worker.is_alive()]:
                processes.remove(process)
                if process.exitcode:
                    _take_lines(messages)  # why, if it could say so
                    raise DutycycleError(f"{process.name}: ended with {process.exitcode}")
                done += 1
    finally:
        progress.clear()
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _work(run: PlannedRun, messages: _Messages, parent: int) -> None:
    """Execute one run, as the whole of a process. A key that interrupts the command reaches it too: the
    parent ends it. A run that nobody waits for is not gone on with, however the command ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent({PARENT_VARIABLE: str(parent)})
    from dutycycle.experiments.one_run import execute  # here, not above: the parent computes nothing

    try:
        execute(run, messages.put)
    except DutycycleError as error:
        messages.put(f"{run.name}: {error}")
    except OSError as error:  # its folder cannot be made, or not be written any more
        messages.put(f"{run.name}: {error.filename or run.folder}: {error.strerror or error}")


def _take_lines(messages: _Messages) -> int:
    """Count the lines that were read within a moment. Raises ``DutycycleError`` where a run failed."""
    lines = 0
    try:
        message = messages.get(timeout=_LOOK_EVERY_S)
        while True:
            if isinstance(message, str):
                raise DutycycleError(message)
            lines += message
            message = messages.get_nowait()
    except queue.Empty:
        return lines
