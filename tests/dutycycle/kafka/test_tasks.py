"""Tasks that end together: one that fails or is told to ends all, and each does its last step."""

import asyncio
import gc

import pytest

from dutycycle.kafka.tasks import together


class Worker:
    """Takes a while to end, and notes that it could."""

    def __init__(self) -> None:
        self.began, self.stored = asyncio.Event(), False

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            self.stored = True


async def quick() -> None:
    await asyncio.Event().wait()


async def test_who_takes_longer_to_end_is_not_cut_off() -> None:
    """Nor in tasks of tasks: each is cancelled once, and a second time would cut off its end."""
    workers = [Worker(), Worker()]
    running = asyncio.ensure_future(together(quick(), together(quick(), workers[0].run()), workers[1].run()))
    for worker in workers:
        await worker.began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [worker.stored for worker in workers] == [True, True]


async def test_the_first_failure_ends_all_and_comes_out_as_it_is() -> None:
    worker = Worker()

    async def fail() -> None:
        await worker.began.wait()
        raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        await together(worker.run(), fail(), quick())
    assert worker.stored


async def test_what_others_fail_with_at_their_end_is_not_printed_by_asyncio() -> None:
    """Two that lose the same broker fail in one moment; and one may fail as it disconnects."""
    printed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: printed.append(context["message"]))

    async def fail_at_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("at its end")

    async def fail() -> None:
        raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        await together(fail(), fail(), fail_at_end())
    running = asyncio.ensure_future(together(fail_at_end(), quick()))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    del running
    gc.collect()
    assert printed == []
