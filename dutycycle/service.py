"""Runs a long-lived part until SIGTERM or SIGINT."""

import asyncio
import os
from collections.abc import Awaitable, Callable

from dutycycle.process import PARENT, stop_on_signals
from health.serving import serving
from wire.errors import SettingError
from wire.events import Telemetry
from wire.settings import Settings

Run = Callable[[Settings, Telemetry, asyncio.Event], Awaitable[None]]


def run_service(run: Run, name: str, settings: Settings) -> int:
    """Run until a signal; 0 when it ended in good order."""
    if settings.broker is None:
        raise SettingError(
            "no broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER, or run `dutycycle up`, "
            "which brings one"
        )

    async def main() -> None:
        telemetry, stop = Telemetry(name), stop_on_signals()
        telemetry.status.ready["end"] = lambda: "asked to stop" if stop.is_set() else None
        async with serving(settings, name, telemetry, elsewhere=PARENT in os.environ):
            await run(settings, telemetry, stop)

    asyncio.run(main())
    return 0
