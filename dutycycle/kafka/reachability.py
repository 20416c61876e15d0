"""Says whether the broker can be reached, once when it is lost and once when it is back, and waits for it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.clients import probe
from dutycycle.kafka.errors import BrokerError, BrokerUnreachableError
from dutycycle.kafka.security import bootstrap_servers
from dutycycle.kafka.topics import ensure_topics
from dutycycle.telemetry.events import BROKER_UNREACHABLE, Telemetry

T = TypeVar("T")


class StoppedError(Exception):
    """Says that it was asked to stop before the work was done."""


class Reachability:
    """Keeps the condition ``BROKER_UNREACHABLE`` of one client, one for each reason, and how long it
    waits."""

    def __init__(self, settings: Settings, telemetry: Telemetry, backoff: Backoff | None = None) -> None:
        self.backoff = backoff or Backoff()
        self._telemetry = telemetry
        self._where = ", ".join(bootstrap_servers(settings))
        self._setting = f"DUTYCYCLE_BROKER={settings.broker}"
        self._reasons: set[str] = set()

    def mark_down(self, error: BrokerError) -> None:
        """Say that the broker cannot be used, for this reason; it is tried again from now on."""
        self._reasons.add(error.reason)
        detail = f"{error} ({self._setting}); trying again"
        self._telemetry.raise_condition(BROKER_UNREACHABLE, error.reason, detail)

    def mark_up(self) -> None:
        """Say that the broker answers again."""
        for reason in self._reasons:
            self._telemetry.clear_condition(BROKER_UNREACHABLE, reason, f"{self._where} answers")
        self._reasons.clear()
        self.backoff.reset()


async def retry_until_reachable(
    attempt: Callable[[], Awaitable[T]],
    reachability: Reachability,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Return what ``attempt`` gives once the broker can be reached; until then it is tried again and again.

    An attempt that works on until an outage calls ``mark_up`` itself when it was answered. Raises
    ``BrokerRefusedError`` for what waiting does not mend: wrong credentials, an untrusted certificate.
    """
    while True:
        try:
            answer = await attempt()
        except BrokerUnreachableError as error:
            reachability.mark_down(error)
            await sleep(reachability.backoff.next_s())
        else:
            reachability.mark_up()
            return answer


async def wait_for_broker(settings: Settings, telemetry: Telemetry) -> None:
    """Return once a broker answers. Raises ``BrokerRefusedError``."""
    await retry_until_reachable(lambda: probe(settings), Reachability(settings, telemetry))


async def wait_for_topics(
    settings: Settings,
    telemetry: Telemetry,
    names: Iterable[str],
    *,
    outputs: Iterable[str] = (),
    changelogs: Mapping[str, str] | None = None,
    verify: bool = True,
) -> dict[str, int]:
    """Call ``ensure_topics``; what passes (no broker, no controller yet) is said and waited for.

    Raises what waiting does not mend: ``PartitionsDifferError``, ``TopicSettingsError``,
    ``BrokerRefusedError``.
    """

    async def ensure() -> dict[str, int]:
        await probe(settings)  # it says why a broker cannot be reached, which the admin client does not
        return await ensure_topics(settings, names, outputs=outputs, changelogs=changelogs, verify=verify)

    return await retry_until_reachable(ensure, Reachability(settings, telemetry))


async def answered_within(timeout_s: float, settings: Settings, work: Awaitable[T]) -> T:
    """Return the result of ``work``, which waits for a broker; else raises ``BrokerUnreachableError``."""
    try:
        async with asyncio.timeout(timeout_s):
            return await work
    except TimeoutError as error:
        raise BrokerUnreachableError(
            "timeout",
            f"no broker answered within {timeout_s:g} s at DUTYCYCLE_BROKER={settings.broker}; "
            "--timeout waits longer",
        ) from error


async def run_until(stop: asyncio.Event, work: Awaitable[T]) -> T:
    """Return the result of ``work``; if ``stop`` comes first, ``work`` is cancelled and ``StoppedError``
    raised.

    Either way ``work`` has ended then, and holds no connection any more.
    """
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return await task
        task.cancel()
        await asyncio.wait([task])
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, BrokerError):  # a broker that goes away now is no news
            raise error
        raise StoppedError
    finally:
        stopping.cancel()
        task.cancel()
