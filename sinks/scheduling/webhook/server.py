"""Answers the API server. A pod is admitted whatever happens here."""

import time
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import WEBHOOK_PODS, WEBHOOK_SECONDS
from sinks.events import POD_NOT_UNDERSTOOD
from sinks.scheduling.webhook import admission
from sinks.scheduling.webhook.admission import NotUnderstoodError, Operation
from sinks.scheduling.webhook.queue import Queue

LARGEST = 8 * 1024**2
"""etcd takes 1.5 MiB of an object; the API server sends it once."""
_RESULTS = ("placed", "no_class", "not_understood", "no_gpu", "bound", "trial", "system_class")
"""What may be done with a pod: the first is given a class, the others are admitted unchanged."""


class Webhook:
    """Answers the API server's questions. ``class_of`` names the class for a user's class and a wanted
    priority; None while there is none.

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
