"""``dutycycle extender``: reads the topics, and answers kube-scheduler."""

import asyncio

from aiohttp import web

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import ALIKE_TOPICS
from dutycycle.kafka.reachability import StoppedError, unless, wait_for_topics
from dutycycle.telemetry.certificate import Certificate
from dutycycle.telemetry.events import Telemetry
from sinks.events import EXTENDER_SERVES
from sinks.scheduling.extender import Extender
from sinks.scheduling.known import KnownCluster
from sinks.scheduling.listening import Endpoint
from sinks.scheduling.placements import TOPIC, Placements
from sinks.scheduling.reader import DESCRIBED, ENDED, SAMPLES, SchedulingReader
from sinks.scheduling.table import STALE_MS
from sinks.tasks import together


async def run(settings: Settings, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Answer until ``stop`` is set. Raises ``SettingError`` for an address that cannot be had."""
    endpoint = Endpoint(
        "extender", settings.extender_listen, settings.extender_cert, settings.extender_key,
        settings.extender_client_ca,
    )  # fmt: skip
    tls = endpoint.tls()
    known = KnownCluster()
    reader = SchedulingReader(settings, known, telemetry, SAMPLES, STALE_MS)
    status = telemetry.status
    status.ready["topics"] = reader.readiness_error
    status.waiting = f"waiting for the broker at {settings.broker}"
    outputs = [name for name in (*DESCRIBED, *ENDED, TOPIC) if name not in ALIKE_TOPICS]
    placements = Placements(settings, telemetry)
    try:
        await unless(stop, wait_for_topics(settings, telemetry, ALIKE_TOPICS, outputs=outputs))
        app = Extender(known, telemetry, placements.tell, sick=settings.extender_sick).app()
        sending = asyncio.shield(placements.start())  # it ends after the last answer, not together with it
        serving = _serve(endpoint, telemetry, app, reader, tls)
        await unless(stop, together(reader.run(), sending, serving))
    except StoppedError:
        return
    finally:
        await placements.close()


async def _serve(
    endpoint: Endpoint,
    telemetry: Telemetry,
    app: web.Application,
    reader: SchedulingReader,
    tls: Certificate | None,
) -> None:
    """Listen once all is known that there is: the scheduler goes on without us until then."""
    telemetry.status.waiting = "reading the topics"
    await reader.caught_up.wait()
    await endpoint.serve(app, tls, telemetry, EXTENDER_SERVES)
