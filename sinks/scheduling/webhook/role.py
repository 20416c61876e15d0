"""Holds the role ``webhook``, which keeps PriorityClasses, and gives new pods priorities."""

import time

from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import Telemetry
from dutycycle.view.follower import Subscription
from sinks.annotations.core.keys import PRIORITY
from sinks.events import WEBHOOK_SERVES
from sinks.scheduling.cluster_view import ClusterView
from sinks.scheduling.core.measured_usage import MeasuredUsage
from sinks.scheduling.policy_file import policy_of_cluster
from sinks.scheduling.role import PAST
from sinks.scheduling.webhook.classes import PriorityClasses
from sinks.scheduling.webhook.queue import Queue
from sinks.scheduling.webhook.server import LARGEST, Webhook
from sinks.serve.base import Admission, Models, Role


class WebhookRole(Role):
    """Needs the API server, for its PriorityClasses."""

    name, serves, largest = "webhook", WEBHOOK_SERVES, LARGEST

    def __init__(self, settings: Settings, telemetry: Telemetry, models: Models) -> None:
        super().__init__(settings, telemetry, models, settings.webhook_client_ca)
        self._policy = policy_of_cluster(settings.webhook_policy, "DUTYCYCLE_WEBHOOK_POLICY", time.time())
        self._known = known = models.setdefault(ClusterView, ClusterView())
        self._measured = measured = MeasuredUsage(self._policy.window_s, settings.webhook_team_label)
        used = {"usage": self._policy.window_s + HOUR_MS / 1000, "pods": None, "pod-peaks": None}
        self.subscriptions = [Subscription(PAST, known.hear, known.wants), Subscription(used, measured.hear)]

    async def open(self) -> None:
        """Raises ``SettingError`` without an API server."""
        settings, telemetry = self.settings, self.telemetry
        self._classes = PriorityClasses(await self._connect("webhook"), self._policy, telemetry)
        queue = Queue(self._policy, self._known, self._measured, settings.webhook_team_label)
        key = f"{settings.annotation_prefix}/{PRIORITY}"
        self.routes = Webhook(queue, self._classes.name, key, telemetry).routes()

    def readiness_error(self) -> str | None:
        """Tell why it is not ready, until there are PriorityClasses to give."""
        return self._classes.readiness_error()

    async def work(self, admission: Admission | None) -> None:
        """Keep the PriorityClasses."""
        await self._classes.run()
