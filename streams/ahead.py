"""Has the broker make a worker's topics while its operators are imported: either takes most of a second."""

import asyncio
import threading
from contextlib import suppress

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.clients import probe
from dutycycle.kafka.topics import ensure_topics
from streams.names import changelogs, check_settings, sources, split_topics


def request_topics(settings: Settings) -> None:
    """Begin to create what is missing, in a thread that nobody waits for.

    The worker's own start asks again, finds what is there by then, and says what is wrong. Raises
    ``SettingError`` where settings do not go together: then nothing is created.
    """
    check_settings(settings)
    threading.Thread(target=lambda: asyncio.run(_request(settings)), name="topics", daemon=True).start()


async def _request(settings: Settings) -> None:
    alike, outputs = split_topics(sources(settings).values())
    with suppress(DutycycleError):  # the start meets the same, and says it
        await probe(settings)  # without a word of the client's in the log
        await ensure_topics(settings, alike, outputs=outputs, changelogs=changelogs(settings), verify=False)
