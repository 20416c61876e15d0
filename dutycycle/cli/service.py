"""Runs a long-lived part until SIGTERM or SIGINT."""

import asyncio
import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from contract.errors import SettingError
from contract.settings.settings import Settings
from dutycycle.process import PARENT, stop_on_signals
from dutycycle.process import RESTARTS as RESTART_COUNT
from telemetry.beat import Beat
from telemetry.events import Telemetry
from telemetry.liveness import Liveness, Pulse
from telemetry.metrics import RESTARTS
from telemetry.serving import serving

Run = Callable[[Settings, Telemetry, asyncio.Event], Awaitable[None]]
STUCK_S = 180.0
"""A process whose event loop stands still for so long ends with 1, so that its supervisor starts it anew."""
_LOG = logging.getLogger("dutycycle.cli.service")


def run_service(run: Run, name: str, settings: Settings) -> int:
    """Run until a signal; 0 when it ended in good order."""
    if settings.broker is None:
        raise SettingError(
            "no broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER, or run `dutycycle up`, "
            "which brings one"
        )

    async def main() -> None:
        telemetry, stop = Telemetry(name), stop_on_signals()
        if RESTART_COUNT in os.environ:
            telemetry.metrics.gauge(RESTARTS).set(float(os.environ[RESTART_COUNT]))
        telemetry.status.ready["end"] = lambda: "asked to stop" if stop.is_set() else None
        async with _guarded(), serving(settings, name, telemetry, elsewhere=PARENT in os.environ):
            await run(settings, telemetry, stop)
        if telemetry.status.hangs:
            _LOG.info("%s: stopped, but for a thread: leaving", name)
            logging.shutdown()
            os._exit(0)

    asyncio.run(main())
    return 0


@asynccontextmanager
async def _guarded() -> AsyncIterator[None]:
    """End the process if the event loop stands still for good, which only another thread can see."""
    beat = Beat(STUCK_S)
    beating = asyncio.create_task(beat.run())
    guard = Liveness([beat.stalled], _stuck, pulse=Pulse(math.inf))
    guard.start()
    try:
        yield
    finally:
        guard.stop()
        beating.cancel()


def _stuck(reason: str) -> None:
    _LOG.error("the event loop %s: this process ends", reason)
