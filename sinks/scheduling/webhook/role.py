"""Holds the role ``webhook``, which keeps PriorityClasses, and gives new pods priorities."""

import time
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import WEBHOOK_PODS, WEBHOOK_SECONDS
from dutycycle.view.follower import Subscription
from sinks.annotations.core.keys import PRIORITY
from sinks.events import POD_NOT_UNDERSTOOD, WEBHOOK_SERVES
from sinks.scheduling.cluster_view import ClusterView
from sinks.scheduling.core.measured_usage import MeasuredUsage
from sinks.scheduling.policy_file import policy_of_cluster
from sinks.scheduling.role import PAST
from sinks.scheduling.webhook import admission
from sinks.scheduling.webhook.admission import NotUnderstoodError, Operation
from sinks.scheduling.webhook.classes import PriorityClasses
from sinks.scheduling.webhook.queue import Queue
from sinks.serve.base import Admission, Models, Role

LARGEST = 8 * 1024**2
"""etcd takes 1.5 MiB of an object; the API server sends it once."""
_RESULTS = ("placed", "no_class", "not_understood", "no_gpu", "bound", "trial", "system_class")
"""What may be done with a pod: the first is given a class, the others are admitted unchanged."""


class Webhook:
    """Answers the API server. A pod is admitted whatever happens here.

    ``class_of`` names the class for a user's class and a wanted priority; None while there is none.
    ``key``: of the annotation, with its prefix. ``wall``: Unix seconds.
    """

    def __init__(
        self, queue: Queue, class_of: Callable[[str, int], str | None], key: str, telemetry: Telemetry,
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._queue, self._class_of, self._key = queue, class_of, key
        self._telemetry, self._wall = telemetry, wall
        for result in _RESULTS:
            telemetry.metrics.counter(WEBHOOK_PODS, result=result)

    def routes(self) -> list[web.RouteDef]:
        """Return what it answers."""
        return [web.post("/mutate", self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        began_s = time.perf_counter()
        try:
            body, code = self.review(orjson.loads(await request.read())), 200
        except (NotUnderstoodError, orjson.JSONDecodeError) as error:
            body, code = {"message": f"no request of an API server: {error}"}, 400
        self._telemetry.metrics.counter(WEBHOOK_SECONDS).inc(time.perf_counter() - began_s)
        return web.Response(body=orjson.dumps(body), status=code, content_type="application/json")

    def review(self, asked: Any) -> dict[str, Any]:
        """Return the answer to an ``AdmissionReview``. Raises ``NotUnderstoodError`` if it is none."""
        request = admission.question(asked)
        patch: list[Operation] = []
        try:
            pod = admission.pod_of(request)
            result = admission.left_alone(pod)
            if result is None:
                of_user = admission.user_class(pod)
                # A dry run is no pod that will run.
                charge = not request.get("dryRun")
                place = self._queue.place(pod, request["namespace"], of_user, self._wall(), charge=charge)
                name = self._class_of(of_user, place.priority)
                result = "no_class" if name is None else "placed"
                if name is not None:
                    patch = admission.change(pod, name, self._key, admission.why(place, of_user))
        except Exception as error:  # noqa: BLE001 - whatever it was, the pod is admitted
            result, patch = "not_understood", []
            where = f"{request.get('namespace')}/{request.get('name') or 'a new pod'}"
            self._telemetry.emit(POD_NOT_UNDERSTOOD, f"{where}: {type(error).__name__}: {error}"[:300])
        self._telemetry.metrics.counter(WEBHOOK_PODS, result=result).inc()
        return admission.answer(request["uid"], patch)


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
