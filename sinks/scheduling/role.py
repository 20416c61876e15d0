"""Holds the role ``extender``, which answers kube-scheduler from what is known of nodes and pods."""

import asyncio

from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import Telemetry
from dutycycle.view.follower import Subscription
from sinks.events import EXTENDER_SERVES
from sinks.scheduling.cluster_view import ClusterView
from sinks.scheduling.extender import Extender
from sinks.scheduling.placements import TOPIC, Placements
from sinks.scheduling.questions import LARGEST
from sinks.scheduling.table import STALE_MS
from sinks.serve.base import Admission, Models, Role

PAST = dict.fromkeys(("insights", "cycles", "gpu-health", "pods", "pod-peaks"))
"""What a pod did and used, and what else holds now and may have been said long ago."""
SAMPLES = ("nvml-samples", "cgroup-samples")


class ExtenderRole(Role):
    """Writes its placements to a topic: so it needs no rights on the API server."""

    name, serves, largest, outputs = "extender", EXTENDER_SERVES, LARGEST, (TOPIC,)

    def __init__(self, settings: Settings, telemetry: Telemetry, models: Models) -> None:
        super().__init__(settings, telemetry, models, settings.extender_client_ca)
        known = models.setdefault(ClusterView, ClusterView())
        self._placements = Placements(settings, telemetry)
        extender = Extender(known, telemetry, self._placements.tell, sick=settings.extender_sick)
        self.routes = extender.routes()
        recent = dict.fromkeys(SAMPLES, STALE_MS / 1000)
        self.subscriptions = [Subscription(PAST | recent, known.hear, known.wants)]

    async def work(self, admission: Admission | None) -> None:
        """Send placements; this ends after the last answer, not together with it."""
        await asyncio.shield(self._placements.start())

    async def close(self) -> None:
        """Send what is left."""
        await self._placements.close()
