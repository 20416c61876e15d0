"""Answers what kube-scheduler asks of an extender: ``filter`` and ``prioritize``.

The protocol is that of ``k8s.io/kube-scheduler/extender/v1``: JSON over HTTP, the fields named as in Go.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from aiohttp import web

from dutycycle.contract.records.placement import NodeScore, Placement
from dutycycle.kube.references import KubeObject
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import EXTENDER_ANSWERS, EXTENDER_SECONDS
from sinks.scheduling import pods
from sinks.scheduling.cluster_view import ClusterView
from sinks.scheduling.core.score import score
from sinks.scheduling.questions import LARGEST, BadRequestError, PlacementQuestion, QuestionReader

_ATTEMPT_S = 1.0
"""``filter`` and ``prioritize`` of one attempt to place a pod come within milliseconds."""
_MOST_ATTEMPTS = 64
"""The scheduler tries one pod at a time; several profiles and retries are few more."""
_MOST_NODES = 5
_NODES_A_PIECE = 50
"""A quarter of a megabyte: what a socket takes at once, more or less."""
_LONGEST = 500
"""Characters of a reason: an annotation stays small."""
_ODD = (AttributeError, LookupError, TypeError, ValueError)
"""What a request of a shape that we do not know may raise; JSON that cannot be read is a ``ValueError``."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Holds the answers for one pod. ``at``: Unix seconds. ``scores``: 0 to 10, by node. ``blocked``:
    reasons, by node; empty where all would be left out. ``placement``: of the pod.

    The columns that these were computed from are gone: to hold those of sixty attempts costs each question
    fresh memory.
    """

    at: float
    scores: dict[str, int]
    blocked: dict[str, str]
    placement: Placement | None


class HostPriority(msgspec.Struct, rename="pascal", gc=False):
    """Holds the score of a node, in the scheduler's words."""

    host: str
    score: int


class Extender:
    """Scores nodes from what is ``known``; ``tell`` gets what was said of a pod. ``wall``: Unix seconds.

    ``sick``: what becomes of nodes with a GPU that is not healthy, as the setting ``extender_sick`` has it.
    """

    def __init__(
        self, known: ClusterView, telemetry: Telemetry,
        tell: Callable[[Placement], None] = lambda placement: None, *, wall: Callable[[], float] = time.time,
        sick: str = "last",
    ) -> None:  # fmt: skip
        self._known = known
        self._tell = tell
        self._telemetry = telemetry
        self._wall = wall
        self._leaves_out_sick = {"filter": True, "last": False}.get(sick)
        self._attempts: OrderedDict[str, _Attempt] = OrderedDict()
        self._questions = QuestionReader()
        self._bodies: list[bytearray] = []
        """Memory for a question, which is used again: fresh memory for 24 MB costs more than to read them."""

    def routes(self) -> list[web.RouteDef]:
        """Return what it answers."""
        return [
            web.post("/filter", self._answering("filter", self.filter)),
            web.post("/prioritize", self._answering("prioritize", self.prioritize)),
        ]

    def _answering(
        self, verb: str, ask: Callable[[PlacementQuestion], object]
    ) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.StreamResponse:
            began_s = time.perf_counter()
            answer: object
            body = self._bodies.pop() if self._bodies else bytearray()
            try:
                length = 0  # of what takes the place of an earlier request's body
                while chunk := await request.content.readany():
                    body[length : length + len(chunk)] = chunk
                    length += len(chunk)
                    if length > LARGEST:
                        raise web.HTTPRequestEntityTooLarge(max_size=LARGEST, actual_size=length)
                del body[length:]
                answer, code = ask(self._questions.read(body)), 200
            except (BadRequestError, *_ODD) as error:
                detail = f"no request of a kube-scheduler: {type(error).__name__}: {error}"
                answer, code = {"Error": detail[:_LONGEST]}, 400
            self._bodies = [body]
            metrics = self._telemetry.metrics
            metrics.counter(EXTENDER_ANSWERS, verb=verb, code=str(code)).inc()
            metrics.counter(EXTENDER_SECONDS, verb=verb).inc(time.perf_counter() - began_s)
            if isinstance(answer, dict) and "Nodes" in answer:
                return await _send_nodes(request, answer)
            return web.Response(
                body=msgspec.json.encode(answer), status=code, content_type="application/json"
            )

        return answer

    def filter(self, asked: PlacementQuestion) -> dict[str, Any]:
        """Leave out nodes on which the pod would not find the memory that similar pods used, or a GPU is
        broken.

        A prediction may be wrong, so it never leaves a pod without a node: if all would be left out, none is.
        """
        names, attempt = asked.names, self._attempt(asked.pod, asked.names)
        blocked = attempt.blocked
        if blocked and len(names) < len(attempt.scores):
            wanted = frozenset(names)
            blocked = {name: reason for name, reason in blocked.items() if name in wanted}
        if len(blocked) == len(names):
            blocked = {}
        asked_about: Sequence[str | msgspec.Raw] = names if asked.nodes is None else asked.nodes
        if blocked:
            pairs = zip(names, asked_about, strict=True)
            asked_about = [node for name, node in pairs if name not in blocked]
        kept = {"NodeNames": asked_about} if asked.nodes is None else {"Nodes": {"items": asked_about}}
        return {"FailedNodes": blocked, **kept}

    def prioritize(self, asked: PlacementQuestion) -> list[HostPriority]:
        """Return a score of 0 to 10 for each node."""
        scores = self._attempt(asked.pod, asked.names).scores
        return [HostPriority(name, scores[name]) for name in asked.names]

    def _attempt(self, pod: KubeObject, names: Sequence[str]) -> _Attempt:
        """Return the scores of nodes, ``names`` among them; those of this attempt if it has some already.

        So both verbs say the same, though new samples come all the time.
        """
        uid, now = pod["metadata"].get("uid") or "", self._wall()
        known = self._attempts.get(uid)
        if known and 0 <= now - known.at < _ATTEMPT_S and all(map(known.scores.__contains__, names)):
            return known
        prediction = self._known.prediction(pods.template_of_pod(pod))
        ranks = self._known.ranks(pods.job_uid(pod), pods.group(pod))
        need = pods.need(pod, prediction, sum(ranks.values()))
        need = replace(need, leaves_out_sick=self._leaves_out_sick)
        now_ms = round(now * 1000)
        scores = score(self._known.nodes(names, ranks, now_ms), need)
        are_blocked = scores.are_blocked()
        are_all_blocked = bool(are_blocked.all())
        placement = None
        if uid:
            meta = pod["metadata"]
            nodes = tuple(
                NodeScore(node=node.node, score=node.extender_score, why=node.reasons()[:_LONGEST])
                for node in scores.best(_MOST_NODES)
            )
            left_out = 0 if are_all_blocked else int(are_blocked.sum())  # as in ``filter``
            placement = Placement(
                uid=uid, namespace=meta.get("namespace") or "default", name=meta.get("name") or uid,
                ts_ms=now_ms, considered=len(scores.nodes.names), left_out=left_out, nodes=nodes,
                expected=None if prediction is None else prediction.summary()[:_LONGEST],
            )  # fmt: skip
        attempt = _Attempt(
            now,
            dict(zip(names, scores.extender_scores(), strict=True)),
            {} if are_all_blocked else scores.blocked(),
            placement,
        )
        if attempt.placement is not None:
            if known is None or known.placement is None or known.placement.nodes != attempt.placement.nodes:
                self._tell(attempt.placement)
            self._attempts[uid] = attempt
            self._attempts.move_to_end(uid)
            while len(self._attempts) > _MOST_ATTEMPTS:
                self._attempts.popitem(last=False)
        return attempt


async def _send_nodes(request: web.Request, answer: dict[str, Any]) -> web.StreamResponse:
    """Send an answer with whole nodes piece by piece: their megabytes are not copied into one text before."""
    nodes: list[msgspec.Raw] = answer["Nodes"]["items"]
    begin, end = msgspec.json.encode(answer | {"Nodes": {"items": []}})[:-3], b"]}}"
    length = len(begin) + sum(map(len, nodes)) + max(len(nodes) - 1, 0) + len(end)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = length
    await response.prepare(request)
    for at in range(0, len(nodes), _NODES_A_PIECE):
        await response.write(begin + b",".join(nodes[at : at + _NODES_A_PIECE]))
        begin = b","
    await response.write(end if nodes else begin + end)
    await response.write_eof()
    return response
