"""Runs a long-lived part until SIGTERM or SIGINT."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable

from contract.errors import SettingError
from contract.settings.groups import Settings
from dutycycle.process import PARENT_VARIABLE, RESTARTS_VARIABLE, stop_on_signals
from telemetry.events import Telemetry
from telemetry.metrics import RESTARTS
from telemetry.serving import serving
from telemetry.watchdog import StallDetector, StallLimits

Run = Callable[[Settings, Telemetry, asyncio.Event], Awaitable[None]]
_LOG = logging.getLogger("dutycycle.cli.service")


def run_service(run: Run, name: str, settings: Settings, limits: StallLimits | None = None) -> int:
    """Run until a signal; 0 when it ended in good order. A process that stalls ends with 1."""
    if settings.broker is None:
        raise SettingError(
            "no broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER, or run `dutycycle up`, "
            "which brings one"
        )

    async def main() -> None:
        telemetry, stop = Telemetry(name), stop_on_signals()
        telemetry.stall_detector = StallDetector(limits)
        if RESTARTS_VARIABLE in os.environ:
            telemetry.metrics.gauge(RESTARTS).set(float(os.environ[RESTARTS_VARIABLE]))
        telemetry.status.ready["end"] = lambda: "asked to stop" if stop.is_set() else None
        async with serving(settings, name, telemetry, elsewhere=PARENT_VARIABLE in os.environ):
            await run(settings, telemetry, stop)
        if telemetry.status.hangs:
            _LOG.info("%s: stopped, but for a thread: leaving", name)
            logging.shutdown()
            os._exit(0)

    asyncio.run(main())
    return 0
