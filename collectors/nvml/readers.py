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
        self._waiting: SimpleQueue[tuple[int, Callable[[], _R]] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[int, _R | Exception]] = SimpleQueue()
        self._threads = 0

    def run(self, calls: Sequence[Callable[[], _R]]) -> list[_R | Exception]:
        """Return what each call returned or raised, in their order."""
        if len(calls) < 3:  # of one GPU: threads would cost more than they save
            return [outcome(call) for call in calls]
        while self._threads < min(THREADS, len(calls)):
            self._threads += 1
            threading.Thread(target=self._work, name=f"gpu reader {self._threads}", daemon=True).start()
        for numbered in enumerate(calls):
            self._waiting.put(numbered)
        outcomes = dict(self._done.get() for _ in calls)
        return [outcomes[number] for number in range(len(calls))]

    def close(self) -> None:
        """Let the threads end."""
        for _ in range(self._threads):
            self._waiting.put(None)
        self._threads = 0

    def _work(self) -> None:
        while (numbered := self._waiting.get()) is not None:
            number, call = numbered
            self._done.put((number, outcome(call)))


def outcome(call: Callable[[], _R]) -> _R | Exception:
    """Return what a call returned or raised."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whoever asked decides
        return error
