"""``dutycycle webhook``: reads the topics, keeps PriorityClasses, and answers the API server."""

import asyncio
import time

from aiohttp import web

from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import ALIKE_TOPICS
from dutycycle.kafka.reachability import StoppedError, unless, wait_for_topics
from dutycycle.kube.objects import connect
from dutycycle.telemetry import events
from dutycycle.telemetry.certificate import Certificate
from dutycycle.telemetry.events import Telemetry
from sinks import events as sink_events
from sinks.annotations.core.keys import PRIORITY
from sinks.events import WEBHOOK_SERVES
from sinks.scheduling.core.ledger import Ledger
from sinks.scheduling.known import KnownCluster
from sinks.scheduling.listening import Endpoint
from sinks.scheduling.policy_file import policy_of_cluster
from sinks.scheduling.reader import DESCRIBED, ENDED, SchedulingReader
from sinks.scheduling.webhook.classes import PriorityClasses
from sinks.scheduling.webhook.known import KnownUse
from sinks.scheduling.webhook.queue import Queue
from sinks.scheduling.webhook.server import Webhook
from sinks.tasks import together

USED = ("usage",)


async def run(settings: Settings, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Answer until ``stop`` is set. Raises ``SettingError`` for a policy, address or API server that cannot
    be used."""
    policy = policy_of_cluster(settings.webhook_policy, "DUTYCYCLE_WEBHOOK_POLICY", time.time())
    endpoint = Endpoint(
        "webhook", settings.webhook_listen, settings.webhook_cert, settings.webhook_key,
        settings.webhook_client_ca,
    )  # fmt: skip
    tls = endpoint.tls()
    server = await connect("on", asked_by="dutycycle webhook", user_agent="dutycycle-webhook")
    assert server is not None  # noqa: S101 - "on" finds one, or raises
    known, ledger = KnownCluster(), Ledger(policy.window_s)
    use = KnownUse(known, ledger, settings.webhook_team_label)
    reader = SchedulingReader(settings, use, telemetry, USED, policy.window_s * 1000 + HOUR_MS)
    classes = PriorityClasses(server, policy, telemetry)
    queue = Queue(policy, known, ledger, settings.webhook_team_label)
    telemetry.expect(events, sink_events, topic=(*DESCRIBED, *ENDED, *USED))
    key = f"{settings.annotation_prefix}/{PRIORITY}"
    app = Webhook(queue, classes.name, key, telemetry).app()
    status = telemetry.status
    status.ready |= {"topics": reader.readiness_error, "classes": classes.readiness_error}
    status.waiting = f"waiting for the broker at {settings.broker}"
    outputs = [name for name in (*DESCRIBED, *ENDED, *USED) if name not in ALIKE_TOPICS]
    try:
        await unless(stop, wait_for_topics(settings, telemetry, ALIKE_TOPICS, outputs=outputs))
        serving = _serve(endpoint, telemetry, app, reader, classes, tls)
        await unless(stop, together(reader.run(), classes.run(), serving))
    except StoppedError:
        return
    finally:
        await server.close()


async def _serve(
    endpoint: Endpoint, telemetry: Telemetry, app: web.Application, reader: SchedulingReader,
    classes: PriorityClasses, tls: Certificate | None,
) -> None:  # fmt: skip
    """Listen once there is something to answer: the API server admits pods without us until then."""
    telemetry.status.waiting = "reading the topics, and making PriorityClasses"
    await reader.caught_up.wait()
    await classes.ready.wait()
    await endpoint.serve(app, tls, telemetry, WEBHOOK_SERVES)
