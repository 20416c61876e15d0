"""What kube-scheduler asks of an extender, and the answers: ``filter`` and ``prioritize``.

The protocol is that of ``k8s.io/kube-scheduler/extender/v1``: JSON over HTTP, the fields named as in Go.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from aiohttp import web

from sinks.scheduling import pods
from sinks.scheduling.core.score import Scored, score
from sinks.scheduling.known import KnownCluster
from telemetry.events import Telemetry
from telemetry.metrics import EXTENDER_ANSWERS, EXTENDER_SECONDS

_LARGEST = 64 * 1024**2
"""A request without ``nodeCacheCapable`` holds all nodes whole: ten kilobytes each."""


class BadRequestError(Exception):
    """No request of a kube-scheduler. The message says what is missing."""


class Extender:
    """Scores nodes from what is ``known``. ``wall``: Unix seconds."""

    def __init__(
        self, known: KnownCluster, telemetry: Telemetry, wall: Callable[[], float] = time.time
    ) -> None:
        self._known = known
        self._telemetry = telemetry
        self._wall = wall

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_post("/filter", self._answering("filter", self.filter))
        app.router.add_post("/prioritize", self._answering("prioritize", self.prioritize))
        return app

    def _answering(self, verb: str, ask: Callable[[Any], object]) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.Response:
            began_s = time.perf_counter()
            found: object
            try:
                found, code = ask(orjson.loads(await request.read())), 200
            except (BadRequestError, orjson.JSONDecodeError) as error:
                found, code = {"Error": f"no request of a kube-scheduler: {error}"}, 400
            metrics = self._telemetry.metrics
            metrics.counter(EXTENDER_ANSWERS, verb=verb, code=str(code)).inc()
            metrics.counter(EXTENDER_SECONDS, verb=verb).inc(time.perf_counter() - began_s)
            return web.Response(body=orjson.dumps(found), status=code, content_type="application/json")

        return answer

    def filter(self, asked: Any) -> dict[str, Any]:
        """Leaves out nodes on which the pod would not find the memory that its kin used.

        A prediction may be wrong, so it never leaves a pod without a node: if all would be left out, none is.
        """
        pod, names = _asked(asked)
        blocked = {
            one.node: "; ".join(term.reason for term in one.terms if term.blocks)
            for one in self.scores(pod, names)
            if any(term.blocks for term in one.terms)
        }
        if len(blocked) == len(names):
            blocked = {}
        answer: dict[str, Any] = {"FailedNodes": blocked}
        if asked.get("NodeNames") is not None:
            answer["NodeNames"] = [name for name in names if name not in blocked]
        else:
            nodes = asked["Nodes"]
            answer["Nodes"] = {
                **nodes, "items": [one for one in nodes["items"] if one["metadata"]["name"] not in blocked]
            }  # fmt: skip
        return answer

    def prioritize(self, asked: Any) -> list[dict[str, Any]]:
        """A score of 0 to 10 for each node."""
        return [{"Host": one.node, "Score": one.extender_score} for one in self.scores(*_asked(asked))]

    def scores(self, pod: pods.Object, names: Iterable[str]) -> list[Scored]:
        """Each node's score, in the order of ``names``."""
        prediction = self._known.prediction(pods.template_of_pod(pod))
        ranks = self._known.ranks(pods.job_uid(pod))
        need = pods.need(pod, prediction, sum(ranks.values()))
        now_ms = round(self._wall() * 1000)
        return [score(self._known.node(name, ranks.get(name, 0), now_ms), need) for name in names]


def _asked(asked: Any) -> tuple[pods.Object, list[str]]:
    if not isinstance(asked, dict) or not isinstance(asked.get("Pod"), dict):
        raise BadRequestError("Pod is missing")
    names = asked.get("NodeNames")
    if names is None:
        names = [one["metadata"]["name"] for one in (asked.get("Nodes") or {}).get("items") or ()]
    if not all(isinstance(one, str) for one in names):
        raise BadRequestError("NodeNames: expected strings")
    pod = asked["Pod"]
    if not isinstance(pod.get("spec"), dict) or not isinstance(pod.get("metadata"), dict):
        raise BadRequestError("Pod has no spec, or no metadata")
    return pod, names
