"""Cancels a task at each turn of its event loop, one after the other: what random moments do not find."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any


class _CountingLoop(asyncio.SelectorEventLoop):
    """Calls ``act`` after so many turns."""

    left = -1
    act: Callable[[], object]

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]  # asyncio's own, of which the types know nothing
        self.left -= 1
        if self.left == 0:
            self.act()


Begin = Callable[[], None]


def cancelled_at_each_turn(
    work: Callable[[Begin], Coroutine[Any, Any, object]],
) -> Iterator[asyncio.Task[object]]:
    """Run ``work`` again and again, cancelled a turn later each time, until it ends before that; yield each
    task when it has ended. ``work`` calls what it is given where its turns begin to count."""
    turn, asked = 0, True

    async def run() -> asyncio.Task[object]:
        def cancel() -> None:
            nonlocal asked
            asked = task.cancel()

        loop = asyncio.get_running_loop()
        assert isinstance(loop, _CountingLoop)
        loop.act, begin = cancel, partial(setattr, loop, "left", turn)
        task = asyncio.create_task(work(begin))
        await asyncio.wait({task})
        loop.left = -1
        return task

    with asyncio.Runner(loop_factory=_CountingLoop) as runner:
        while True:
            turn, asked = turn + 1, False
            task = runner.run(run())
            if not asked:
                task.result()
                return
            yield task
