"""Topics at a start, by whoever waits for a broker that is not there or not ready yet."""

import asyncio
from collections.abc import Iterable, Mapping

from bus.kafka.backoff import pauses
from bus.kafka.errors import BrokerUnreachableError
from bus.kafka.reachability import Reachability, wait_for_broker
from bus.kafka.topics import ensure_topics
from contract.settings.settings import Settings
from telemetry.events import Telemetry


async def wait_for_topics(
    settings: Settings,
    telemetry: Telemetry,
    names: Iterable[str],
    *,
    outputs: Iterable[str] = (),
    changelogs: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """``ensure_topics``; what passes (no broker, no controller yet) is said and waited for.

    Raises what waiting does not mend: ``PartitionsDifferError``, ``BrokerRefusedError``.
    """
    reachability = Reachability(settings, telemetry)
    for pause in pauses():
        await wait_for_broker(settings, telemetry)
        try:
            found = await ensure_topics(settings, names, outputs=outputs, changelogs=changelogs)
        except BrokerUnreachableError as error:
            reachability.mark_down(error)
            await asyncio.sleep(pause)
        else:
            reachability.mark_up()
            return found
    raise AssertionError("pauses do not end")
