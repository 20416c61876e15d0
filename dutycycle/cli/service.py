"""Runs a long-lived part until SIGTERM or SIGINT."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.process import NOT_BEGUN, PARENT_VARIABLE, RESTARTS_VARIABLE, print_remark, stop_on_signals
from dutycycle.telemetry.events import BROKER_UNREACHABLE, Telemetry
from dutycycle.telemetry.metrics import RESTARTS
from dutycycle.telemetry.serving import serving
from dutycycle.telemetry.watchdog import StallDetector, StallLimits
from sinks.events import SINK_AWAY

Run = Callable[[Settings, Telemetry, asyncio.Event], Awaitable[None]]
_LOG = logging.getLogger("dutycycle.cli.service")


def run_service(run: Run, name: str, settings: Settings, limits: StallLimits | None = None) -> int:
    """Run until a signal; 0 when it ended in good order. A process that stalls ends with 1.

    A child of ``dutycycle up`` ends with 1 also when what it needs is away at the end: nobody goes on later.
    """
    if settings.broker is None:
        raise SettingError(
            "no broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER, or run `dutycycle up`, "
            "which brings one"
        )

    async def main() -> int:
        telemetry, stop = Telemetry(name), stop_on_signals()
        telemetry.stall_detector = StallDetector(limits)
        if RESTARTS_VARIABLE in os.environ:
            telemetry.metrics.gauge(RESTARTS).set(float(os.environ[RESTARTS_VARIABLE]))
        telemetry.status.ready["end"] = lambda: "asked to stop" if stop.is_set() else None
        async with serving(settings, name, telemetry, elsewhere=PARENT_VARIABLE in os.environ):
            await run(settings, telemetry, stop)
        status, why = 0, None
        if PARENT_VARIABLE in os.environ:  # what is away, and how to mend it
            away = {event: detail for (event, _), detail in telemetry.conditions.items()}
            if BROKER_UNREACHABLE.name in away:  # the same words of each child
                broker = f"DUTYCYCLE_BROKER={settings.broker}"
                why = f"the broker is away: {broker}: start it, or give another --broker"
            elif SINK_AWAY.name in away:
                why = away[SINK_AWAY.name].removesuffix("; trying again")
            if why is not None:
                print_remark(f"dutycycle: {why}")
                status = 1
            elif telemetry.status.waiting:
                status = NOT_BEGUN
        if telemetry.status.hangs:
            _LOG.info("%s: stopped, but for a thread: leaving", name)
            logging.shutdown()
            os._exit(status)
        return status

    return asyncio.run(main())
