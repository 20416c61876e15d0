"""Runs a blocking call in a thread that nobody has to wait for when the process ends."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """Return the result of ``call``. If the waiting is given up, the call goes on, and its result is dropped.

    ``asyncio.to_thread`` would keep the process from ending while a database hangs.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)  # type: ignore[arg-type]  # None only where T allows it
        else:
            answer.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=work, name="records", daemon=True).start()
    return await answer
