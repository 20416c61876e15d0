"""Runs a Faust app inside an asyncio program: until it is told to stop, or cannot go on."""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from dutycycle.contract.errors import DutycycleError
from dutycycle.kafka.clients import describe_failure
from dutycycle.kafka.faust.app import ExactApp
from dutycycle.kafka.faust.vitals import Vitals
from dutycycle.kafka.reachability import StoppedError, run_until

GRACE_S = 20.0
"""An asked-for end takes no longer than this: what is not done by then is done again after the next start."""
_LAST_WORK_S = 4.0
_STOP_S = 6.0
_LOG = logging.getLogger("dutycycle.worker")


class WorkerFailedError(DutycycleError):
    """Says why the worker had to end, because going on would have lost something. Start it again."""


async def run_app(
    app: ExactApp, stop: asyncio.Event, *, last_work: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Run ``app`` until ``stop`` is set: then let ``last_work`` hand in what is held back, and end.

    Raises ``WorkerFailedError`` if the app fails. Where Faust does not end, as in its first rebalance, the
    telemetry's status says ``hangs``; after ``GRACE_S`` the process is left, with 0, or 1 after a failure.
    """
    loop, vitals = asyncio.get_running_loop(), Vitals(app)
    vitals.register()

    def fail(reason: str) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is ending anyway
            loop.call_soon_threadsafe(app.fail, reason)

    async def start() -> None:
        try:
            await app.start()
        except Exception as error:  # noqa: BLE001 - Faust starts everything there; whatever it was, it ends us
            app.fail(f"cannot start: {describe_failure(error)}")

    async with app.telemetry.stall_detector.watching(vitals.stalled, end=fail, on_beat=vitals.observe):
        starting = asyncio.create_task(start())
        try:
            with suppress(StoppedError):
                await run_until(stop, app.failed.wait())
            deadline = _Deadline(app)
            if app.failure is None and last_work is not None and app.ready:
                # Read no more, finish, commit. If the broker is away, it is all done again after the next
                # start.
                app.consumer.stop_flow()
                app.flow_control.suspend()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_WORK_S):
                        await last_work()
                        await app.exact_consumer.commit_all()
            deadline.failure = app.failure  # what fails later is cut short: its start, or its work
            # Not ``asyncio.timeout``: Faust swallows the cancellation, and would seem to have ended.
            stopping = asyncio.create_task(app.stop())
            stopping.add_done_callback(lambda _: starting.cancel())
            _, unended = await asyncio.wait([stopping, starting], timeout=_STOP_S)
            if unended:
                app.telemetry.status.hangs = True  # and the deadline sees to its end
            else:
                deadline.met()
        finally:
            starting.cancel()
    if deadline.failure is not None:
        raise WorkerFailedError(f"{app.conf.id}: {deadline.failure}")


class _Deadline:
    """Leaves the process when its end hangs where nothing can be cancelled: in a thread, or in Faust."""

    def __init__(self, app: ExactApp) -> None:
        self.failure = app.failure

        def leave() -> None:
            _LOG.error("%s: %s; it does not end in order: leaving", app.conf.id, self.failure or "stopped")
            os._exit(0 if self.failure is None else 1)

        self._timer = threading.Timer(GRACE_S, leave)
        self._timer.daemon = True
        self._timer.start()

    def met(self) -> None:
        """Stop the clock: the end was orderly."""
        self._timer.cancel()
