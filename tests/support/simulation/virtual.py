"""An event loop whose clock is moved by waiting: hours pass in milliseconds, always in the same way."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class StuckError(Exception):
    """Everything waits, and nothing will ever happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in the order of their virtual time. No socket, no thread, no clock."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._selector = self  # asyncio asks its selector to wait; here waiting is moving the clock

    def time(self) -> float:
        """Virtual seconds since the beginning."""
        return self._now_s

    def select(self, timeout: float | None) -> list[Any]:
        """Wait, which takes no time."""
        if timeout is None:
            raise StuckError
        self._now_s += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none from outside."""

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""


class Nursery:
    """The tasks of one run: what one of them raises ends the run, whoever else would have caught it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.broken: asyncio.Future[None] = loop.create_future()
        loop.set_exception_handler(self._unhandled)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run ``work`` beside the others."""
        task = self.loop.create_task(work)
        task.add_done_callback(self._done)
        return task

    def guard(self, act: Callable[[], None]) -> Callable[[], None]:
        """``act``, for a callback of the loop: what it raises ends the run."""

        def guarded() -> None:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - handed on to whoever waits for the run
                self.fail(error)

        return guarded

    def fail(self, error: BaseException) -> None:
        """End the run."""
        if not self.broken.done():
            self.broken.set_exception(error)

    def _done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A send that failed and that nobody asks for any more is no error of the run's."""


def run(main: Callable[[Nursery], Coroutine[Any, Any, None]]) -> None:
    """Run ``main`` on a loop of its own, to its end or to the first error of any task."""
    loop = VirtualLoop()
    try:
        nursery = Nursery(loop)
        loop.run_until_complete(_first_error(main(nursery), nursery))
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def _first_error(work: Coroutine[Any, Any, None], nursery: Nursery) -> None:
    task = nursery.loop.create_task(work)
    await asyncio.wait([task, nursery.broken], return_when=asyncio.FIRST_COMPLETED)
    if nursery.broken.done():
        nursery.broken.result()
    task.result()
