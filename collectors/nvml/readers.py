"""Reads GPUs in a few threads, side by side: most of a reading is waiting for the driver."""

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

_R = TypeVar("_R")
THREADS = 4


class Readers(Generic[_R]):
    """Runs calls in at most ``THREADS`` threads, which begin when they are needed.

    The driver lets calls to different GPUs run side by side, and those to one GPU one by one. The threads are
    daemons: one that hangs in the driver for ever does not keep the process from ending.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[_Calls[_R] | None] = SimpleQueue()
        self._threads = 0

    def run(self, calls: Sequence[Callable[[], _R]]) -> list[_R | Exception]:
        """Return what each call returned or raised, in their order."""
        if len(calls) < 3:  # of one GPU: threads would cost more than they save
            return [outcome(call) for call in calls]
        threads = min(THREADS, len(calls))
        while self._threads < threads:
            self._threads += 1
            threading.Thread(target=self._work, name=f"gpu reader {self._threads}", daemon=True).start()
        # Once for a thread and not for a call: to wake one costs as much as a call.
        shared = _Calls(calls, threads)
        for _ in range(threads):
            self._waiting.put(shared)
        return shared.outcomes()

    def close(self) -> None:
        """Let the threads end."""
        for _ in range(self._threads):
            self._waiting.put(None)
        self._threads = 0

    def _work(self) -> None:
        while (shared := self._waiting.get()) is not None:
            shared.run_what_is_left()


class _Calls(Generic[_R]):
    """Shares calls among threads: each takes the next that none has begun."""

    def __init__(self, calls: Sequence[Callable[[], _R]], threads: int) -> None:
        self._left = enumerate(calls)  # takes no lock: a step of it is a step of the interpreter
        self._outcomes: dict[int, _R | Exception] = {}
        self._working = threads
        self._lock = threading.Lock()
        self._done = threading.Event()

    def run_what_is_left(self) -> None:
        """Run what no other thread has begun. Called once in each of the threads."""
        for number, call in self._left:
            self._outcomes[number] = outcome(call)
        with self._lock:
            self._working -= 1
            if not self._working:
                self._done.set()

    def outcomes(self) -> list[_R | Exception]:
        """Return what all calls returned or raised, in their order, once the last has ended."""
        self._done.wait()
        return [self._outcomes[number] for number in range(len(self._outcomes))]


def outcome(call: Callable[[], _R]) -> _R | Exception:
    """Return what a call returned or raised."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whoever asked decides
        return error
