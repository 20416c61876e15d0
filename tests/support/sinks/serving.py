"""``dutycycle serve`` in process, on the embedded broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import Telemetry
from sinks.serve.service import run
from tests.support.waiting import until

ANSWER_S = 240.0
"""An answer takes a moment, and on a busy machine many times that."""


@asynccontextmanager
async def serving(settings: Settings, *roles: str) -> AsyncIterator[Telemetry]:
    """These roles, which are ready, and end with the block."""
    telemetry, stop = Telemetry("serve"), asyncio.Event()
    task = asyncio.create_task(run(roles, settings, telemetry, stop))
    try:
        await until(lambda: telemetry.status.readiness_error() is None, working=task)
        yield telemetry
    finally:
        stop.set()
        await asyncio.wait_for(task, ANSWER_S)
