"""Runs a long-lived part until SIGTERM or SIGINT."""

import asyncio
from collections.abc import Awaitable, Callable

from dutycycle.process import stop_on_signals
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
        await run(settings, Telemetry(name), stop_on_signals())

    asyncio.run(main())
    return 0
