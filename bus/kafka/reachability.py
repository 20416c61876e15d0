"""Whether the broker can be reached: said once when it is lost, once when it is back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from bus.kafka.backoff import pauses
from bus.kafka.clients import probe
from bus.kafka.errors import BrokerError, BrokerUnreachableError
from bus.kafka.security import bootstrap_servers
from contract.settings.settings import Settings
from telemetry.events import BROKER_UNREACHABLE, Telemetry


class Reachability:
    """Keeps the condition ``BROKER_UNREACHABLE``, one for each reason, for one client."""

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._where = ", ".join(bootstrap_servers(settings))
        self._setting = f"DUTYCYCLE_BROKER={settings.broker}"
        self._said: set[str] = set()

    def mark_down(self, error: BrokerError) -> None:
        """It cannot be used, for this reason; tried again from now on."""
        self._said.add(error.reason)
        detail = f"{error} ({self._setting}); trying again"
        self._telemetry.raise_condition(BROKER_UNREACHABLE, error.reason, detail)

    def mark_up(self) -> None:
        """It answered."""
        for reason in self._said:
            self._telemetry.clear_condition(BROKER_UNREACHABLE, reason, f"{self._where} answers")
        self._said.clear()


async def wait_for_broker(
    settings: Settings,
    telemetry: Telemetry,
    *,
    stop: asyncio.Event | None = None,
    attempt: Callable[[Settings], Awaitable[None]] = probe,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    back_off: Iterable[float] | None = None,
) -> bool:
    """True when a broker answers, False when ``stop`` was set before; until then tries again and again.

    Raises ``BrokerRefusedError`` for what waiting does not mend: wrong credentials, an untrusted certificate.
    """
    waiting = asyncio.create_task(
        _until_it_answers(Reachability(settings, telemetry), settings, attempt, sleep, back_off or pauses())
    )
    stopped = asyncio.create_task((stop or asyncio.Event()).wait())
    try:
        await asyncio.wait({waiting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            await waiting
        return waiting.done()
    finally:
        for task in (waiting, stopped):
            task.cancel()
        await asyncio.wait({waiting, stopped})


async def _until_it_answers(
    reachability: Reachability,
    settings: Settings,
    attempt: Callable[[Settings], Awaitable[None]],
    sleep: Callable[[float], Awaitable[None]],
    back_off: Iterable[float],
) -> None:
    for pause in back_off:
        try:
            await attempt(settings)
        except BrokerUnreachableError as error:
            reachability.mark_down(error)
            await sleep(pause)
        else:
            reachability.mark_up()
            return
