"""Waiting for a broker that is not there yet."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from bus.backoff import pauses
from bus.errors import BrokerAwayError
from bus.kafka import probe
from bus.security import bootstrap_servers
from wire.events import BROKER_AWAY, Telemetry
from wire.settings import Settings


async def wait_for_broker(
    settings: Settings,
    telemetry: Telemetry,
    *,
    attempt: Callable[[Settings], Awaitable[None]] = probe,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    back_off: Iterable[float] | None = None,
) -> None:
    """Return when a broker answers; until then say so once per reason, and try again and again.

    Raises ``BrokerRefusedError`` for what waiting does not mend: wrong credentials, an untrusted certificate.
    """
    said: set[str] = set()
    for pause in pauses() if back_off is None else back_off:
        try:
            await attempt(settings)
        except BrokerAwayError as error:
            said.add(error.reason)
            telemetry.raise_condition(BROKER_AWAY, error.reason, f"{error} [DUTYCYCLE_BROKER]; trying again")
            await sleep(pause)
        else:
            break
    for reason in said:
        where = ", ".join(bootstrap_servers(settings))
        telemetry.clear_condition(BROKER_AWAY, reason, f"{where} answers")
