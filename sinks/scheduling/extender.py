"""What kube-scheduler asks of an extender, and the answers: ``filter`` and ``prioritize``.

The protocol is that of ``k8s.io/kube-scheduler/extender/v1``: JSON over HTTP, the fields named as in Go.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from aiohttp import web

from dutycycle.contract.records.placement import NodeScore, Placement
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import EXTENDER_ANSWERS, EXTENDER_SECONDS
from sinks.scheduling import pods
from sinks.scheduling.core.prediction import Prediction
from sinks.scheduling.core.score import NodeScores, score
from sinks.scheduling.known import KnownCluster

_LARGEST = 64 * 1024**2
"""A request without ``nodeCacheCapable`` holds all nodes whole: ten kilobytes each."""
_ATTEMPT_S = 1.0
"""``filter`` and ``prioritize`` of one attempt to place a pod come within milliseconds."""
_MOST_ATTEMPTS = 64
"""The scheduler tries one pod at a time; several profiles and retries are few more."""
_MOST_NODES = 5
_LONGEST = 500
"""Characters of a reason: an annotation stays small."""
_ODD = (AttributeError, LookupError, TypeError, ValueError)
"""What a request of a shape that we do not know may raise; JSON that cannot be read is a ``ValueError``."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """``at``: Unix seconds. ``said``: of the pod."""

    at: float
    scores: NodeScores
    said: Placement


class BadRequestError(Exception):
    """No request of a kube-scheduler. The message says what is missing."""


class Extender:
    """Scores nodes from what is ``known``; ``tell`` gets what was said of a pod. ``wall``: Unix seconds.

    ``sick``: what becomes of nodes with a GPU that is not healthy, as the setting ``extender_sick`` has it.
    """

    def __init__(
        self, known: KnownCluster, telemetry: Telemetry,
        tell: Callable[[Placement], None] = lambda said: None, *, wall: Callable[[], float] = time.time,
        sick: str = "last",
    ) -> None:  # fmt: skip
        self._known = known
        self._tell = tell
        self._telemetry = telemetry
        self._wall = wall
        self._leaves_out_sick = {"filter": True, "last": False}.get(sick)
        self._attempts: OrderedDict[str, _Attempt] = OrderedDict()

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
            except (BadRequestError, *_ODD) as error:
                said = f"no request of a kube-scheduler: {type(error).__name__}: {error}"
                found, code = {"Error": said[:_LONGEST]}, 400
            metrics = self._telemetry.metrics
            metrics.counter(EXTENDER_ANSWERS, verb=verb, code=str(code)).inc()
            metrics.counter(EXTENDER_SECONDS, verb=verb).inc(time.perf_counter() - began_s)
            return web.Response(body=orjson.dumps(found), status=code, content_type="application/json")

        return answer

    def filter(self, asked: Any) -> dict[str, Any]:
        """Leaves out nodes on which the pod would not find the memory that its kin used, or a GPU is broken.

        A prediction may be wrong, so it never leaves a pod without a node: if all would be left out, none is.
        """
        pod, names = _asked(asked)
        wanted = frozenset(names)
        blocked = {
            name: reason for name, reason in self._attempt(pod, names).blocked().items() if name in wanted
        }
        if len(blocked) == len(names):
            blocked = {}
        answer: dict[str, Any] = {"FailedNodes": blocked}
        if asked.get("NodeNames") is not None:
            answer["NodeNames"] = [name for name in names if name not in blocked]
        else:
            nodes = asked["Nodes"]
            answer["Nodes"] = {
                **nodes, "items": [node for node in nodes["items"] if node["metadata"]["name"] not in blocked]
            }  # fmt: skip
        return answer

    def prioritize(self, asked: Any) -> list[dict[str, Any]]:
        """A score of 0 to 10 for each node."""
        pod, names = _asked(asked)
        scores = self._attempt(pod, names)
        wanted = frozenset(names)  # the others were filtered out
        found = zip(scores.nodes.names, scores.extender_scores(), strict=True)
        return [{"Host": name, "Score": value} for name, value in found if name in wanted]

    def _attempt(self, pod: pods.Object, names: Sequence[str]) -> NodeScores:
        """The scores of nodes, ``names`` among them; those of this attempt if it has some already.

        So both verbs say the same, though new samples come all the time.
        """
        uid, now = pod["metadata"].get("uid") or "", self._wall()
        known = self._attempts.get(uid)
        if known and 0 <= now - known.at < _ATTEMPT_S and set(names) <= set(known.scores.nodes.names):
            return known.scores
        prediction, scores = self._scores(pod, names, now)
        if uid:
            said = _placement(pod, prediction, scores, round(now * 1000))
            if known is None or known.said.nodes != said.nodes:
                self._tell(said)
            self._attempts[uid] = _Attempt(now, scores, said)
            self._attempts.move_to_end(uid)
            while len(self._attempts) > _MOST_ATTEMPTS:
                self._attempts.popitem(last=False)
        return scores

    def _scores(
        self, pod: pods.Object, names: Sequence[str], now: float
    ) -> tuple[Prediction | None, NodeScores]:
        """What it will need, and each node's score, in the order of ``names``."""
        prediction = self._known.prediction(pods.template_of_pod(pod))
        ranks = self._known.ranks(pods.job_uid(pod), pods.group(pod))
        need = pods.need(pod, prediction, sum(ranks.values()))
        need = replace(need, leaves_out_sick=self._leaves_out_sick)
        return prediction, score(self._known.nodes(names, ranks, round(now * 1000)), need)


def _placement(pod: pods.Object, prediction: Prediction | None, scores: NodeScores, now_ms: int) -> Placement:
    meta = pod["metadata"]
    nodes = tuple(
        NodeScore(node=one.node, score=one.extender_score, why=one.reasons()[:_LONGEST])
        for one in scores.best(_MOST_NODES)
    )
    considered, blocked = len(scores.nodes.names), len(scores.blocked())
    left_out = 0 if blocked == considered else blocked  # as in ``filter``
    return Placement(
        uid=meta["uid"], namespace=meta.get("namespace") or "default", name=meta.get("name") or meta["uid"],
        ts_ms=now_ms, considered=considered, left_out=left_out, nodes=nodes,
        expected=None if prediction is None else prediction.summary()[:_LONGEST],
    )  # fmt: skip


def _asked(asked: Any) -> tuple[pods.Object, list[str]]:
    if not isinstance(asked, dict) or not isinstance(asked.get("Pod"), dict):
        raise BadRequestError("Pod is missing")
    names = asked.get("NodeNames")
    if names is None:
        names = [one["metadata"]["name"] for one in (asked.get("Nodes") or {}).get("items") or ()]
    if not all(isinstance(name, str) for name in names):
        raise BadRequestError("NodeNames: expected strings")
    pod = asked["Pod"]
    if not isinstance(pod.get("spec"), dict) or not isinstance(pod.get("metadata"), dict):
        raise BadRequestError("Pod has no spec, or no metadata")
    return pod, names
