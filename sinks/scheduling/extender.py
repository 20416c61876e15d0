"""What kube-scheduler asks of an extender, and the answers: ``filter`` and ``prioritize``.

The protocol is that of ``k8s.io/kube-scheduler/extender/v1``: JSON over HTTP, the fields named as in Go.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from aiohttp import web

from dutycycle.contract.records.placement import NodeScore, Placement
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import EXTENDER_ANSWERS, EXTENDER_SECONDS
from sinks.scheduling import pods
from sinks.scheduling.core.prediction import Prediction
from sinks.scheduling.core.score import NodeScores, score
from sinks.scheduling.known import KnownCluster

LARGEST = 64 * 1024**2
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
_NAME_FIRST = re.compile(rb'\s*\{"metadata":\{"name":"([^"\\]+)"')
"""How Go writes a node. Its name is all that is read, of some kilobytes."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """``at``: Unix seconds. ``names``: of the nodes. ``said``: of the pod."""

    at: float
    names: frozenset[str]
    scores: NodeScores
    said: Placement


class BadRequestError(Exception):
    """No request of a kube-scheduler. The message says what is missing."""


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _ExtenderArgs(msgspec.Struct, rename="pascal"):
    pod: dict[str, Any] | None = None
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class HostPriority(msgspec.Struct, rename="pascal", gc=False):
    """The score of a node, in the scheduler's words."""

    host: str
    score: int


class _Meta(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Meta


_ARGS, _NODE = msgspec.json.Decoder(_ExtenderArgs), msgspec.json.Decoder(_Node)


@dataclass(frozen=True, slots=True)
class Question:
    """What kube-scheduler asks: of a pod, and of nodes by their names.

    ``nodes``: the same nodes as whole objects, as they came, where the scheduler sends those
    (``nodeCacheCapable: false``). It takes them from the answer, so they go back as they are.
    """

    pod: pods.Object
    names: list[str]
    nodes: list[msgspec.Raw] | None = None

    @classmethod
    def read(cls, body: bytes) -> "Question":
        """From JSON. Raises ``BadRequestError``, and ``ValueError`` for other JSON and none."""
        args = _ARGS.decode(body)
        pod = args.pod
        if pod is None:
            raise BadRequestError("Pod is missing")
        if not isinstance(pod.get("spec"), dict) or not isinstance(pod.get("metadata"), dict):
            raise BadRequestError("Pod has no spec, or no metadata")
        if args.node_names is not None:
            return cls(pod, args.node_names)
        nodes = (args.nodes and args.nodes.items) or []
        return cls(pod, [_name_of(node) for node in nodes], nodes)


def _name_of(node: msgspec.Raw) -> str:
    match = _NAME_FIRST.match(node)
    return match[1].decode() if match else _NODE.decode(node).metadata.name


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

    def routes(self) -> list[web.RouteDef]:
        """What it answers."""
        return [
            web.post("/filter", self._answering("filter", self.filter)),
            web.post("/prioritize", self._answering("prioritize", self.prioritize)),
        ]

    def _answering(self, verb: str, ask: Callable[[Question], object]) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.Response:
            began_s = time.perf_counter()
            answer: object
            try:
                answer, code = ask(Question.read(await request.read())), 200
            except (BadRequestError, *_ODD) as error:
                said = f"no request of a kube-scheduler: {type(error).__name__}: {error}"
                answer, code = {"Error": said[:_LONGEST]}, 400
            metrics = self._telemetry.metrics
            metrics.counter(EXTENDER_ANSWERS, verb=verb, code=str(code)).inc()
            metrics.counter(EXTENDER_SECONDS, verb=verb).inc(time.perf_counter() - began_s)
            body = msgspec.json.encode(answer)
            return web.Response(body=body, status=code, content_type="application/json")

        return answer

    def filter(self, asked: Question) -> dict[str, Any]:
        """Leaves out nodes on which the pod would not find the memory that its kin used, or a GPU is broken.

        A prediction may be wrong, so it never leaves a pod without a node: if all would be left out, none is.
        """
        names = asked.names
        wanted = frozenset(names)
        blocked = self._attempt(asked.pod, names, wanted).blocked()
        blocked = {name: reason for name, reason in blocked.items() if name in wanted}
        if len(blocked) == len(names):
            blocked = {}
        answer: dict[str, Any] = {"FailedNodes": blocked}
        if asked.nodes is None:
            answer["NodeNames"] = [name for name in names if name not in blocked]
        else:
            left = [node for name, node in zip(names, asked.nodes, strict=True) if name not in blocked]
            answer["Nodes"] = {"items": left}
        return answer

    def prioritize(self, asked: Question) -> list[HostPriority]:
        """A score of 0 to 10 for each node."""
        wanted = frozenset(asked.names)  # the others were filtered out
        scores = self._attempt(asked.pod, asked.names, wanted)
        scored = zip(scores.nodes.names, scores.extender_scores(), strict=True)
        return [HostPriority(name, value) for name, value in scored if name in wanted]

    def _attempt(self, pod: pods.Object, names: Sequence[str], wanted: frozenset[str]) -> NodeScores:
        """The scores of nodes, ``names`` among them; those of this attempt if it has some already.

        So both verbs say the same, though new samples come all the time.
        """
        uid, now = pod["metadata"].get("uid") or "", self._wall()
        known = self._attempts.get(uid)
        if known and 0 <= now - known.at < _ATTEMPT_S and wanted <= known.names:
            return known.scores
        prediction, scores = self._scores(pod, names, now)
        if uid:
            said = _placement(pod, prediction, scores, round(now * 1000))
            if known is None or known.said.nodes != said.nodes:
                self._tell(said)
            self._attempts[uid] = _Attempt(now, wanted, scores, said)
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
        NodeScore(
            node=scored_node.node, score=scored_node.extender_score, why=scored_node.reasons()[:_LONGEST]
        )
        for scored_node in scores.best(_MOST_NODES)
    )
    considered, blocked = len(scores.nodes.names), int(scores.are_blocked().sum())
    left_out = 0 if blocked == considered else blocked  # as in ``filter``
    return Placement(
        uid=meta["uid"], namespace=meta.get("namespace") or "default", name=meta.get("name") or meta["uid"],
        ts_ms=now_ms, considered=considered, left_out=left_out, nodes=nodes,
        expected=None if prediction is None else prediction.summary()[:_LONGEST],
    )  # fmt: skip
