"""Serves the API: checks who asks, then looks up the pods, then their figures."""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import orjson
from aiohttp import web

from dutycycle.contract.records.pods import name_key
from dutycycle.kube.discovery import POD, PODS_NOT_ENDED
from dutycycle.kube.errors import GoneError, KubeError, NoKindError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import Metadata, ObjectRef
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import ADAPTER_ANSWERS
from sinks.adapter import answers, metric_names
from sinks.adapter.answers import (
    CUSTOM,
    EXTERNAL,
    VERSION,
    Json,
    ObjectFigure,
    Owner,
    PodFigure,
    combined,
    owners,
)
from sinks.adapter.figures import Figures
from sinks.adapter.front_proxy import FrontProxy
from sinks.adapter.metric_names import MetricName, UnknownMetricError
from sinks.permissions import MissingPermissions
from sinks.reviews import Reviewer

_ALL = "*"
_ALLOWED = "allowed now"
_NAMESPACE = "metrics"
"""In a path, in the place of a resource: what follows is of the namespace itself."""
_BASE = "/apis/{group:" + f"{CUSTOM}|{EXTERNAL}" + "}/" + VERSION
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _FailedError(Exception):
    """Ends a request, which is answered with this code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MetricsApi:
    """Answers what ``front_proxy`` asks."""

    def __init__(
        self,
        figures: Figures,
        server: ApiServer,
        telemetry: Telemetry,
    ) -> None:
        self.front_proxy: FrontProxy | None = None
        self._figures = figures
        self._server = server
        self._lacking = MissingPermissions("MetricValue", telemetry, "who asks is told so")
        self._access = Reviewer(server, lambda: self._lacking.clear(_ALLOWED, "create "))
        self._telemetry = telemetry

    def routes(self) -> list[web.RouteDef]:
        """Return what it answers."""
        custom, external = f"/apis/{CUSTOM}/{VERSION}", f"/apis/{EXTERNAL}/{VERSION}"
        paths = (
            (_BASE, self._discovery),
            (custom + "/namespaces/{namespace}/{resource:pods}/{name}/{metric}", self._custom),
            (custom + "/namespaces/{namespace}/{resource:nodes}/{name}/{metric}", self._nodes),
            (custom + "/{resource:nodes}/{name}/{metric}", self._nodes),
            (custom + f"/namespaces/{{namespace}}/{_NAMESPACE}/{{metric}}", self._namespace),
            (custom + "/namespaces/{namespace}/{resource}/{name}/{metric}", self._objects),
            (external + "/namespaces/{namespace}/{metric}", self._external),
        )
        return [
            *(web.get(path, self._answering(handler)) for path, handler in paths),
            web.route("*", "/{path:.*}", self._answering(_unknown)),
        ]

    def _answering(self, handler: Callable[[web.Request], Awaitable[Json]]) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            code = 200
            try:
                await self._check(request)
                answer = await handler(request)
            except _FailedError as error:
                code, answer = error.code, answers.failure(error.code, str(error))
            except GoneError as error:
                code, answer = 404, answers.failure(404, error.detail)
            except KubeError as error:  # a selector that it refuses, or an API server that does not answer
                self._lacking.add(error)
                code = 400 if error.reason == "400" else 503
                answer = answers.failure(code, f"the API server: {error}")
            self._telemetry.metrics.counter(ADAPTER_ANSWERS, code=str(code)).inc()
            return web.Response(body=orjson.dumps(answer), status=code, content_type="application/json")

        return answer

    async def _discovery(self, request: web.Request) -> Json:
        return answers.resources(
            request.match_info["group"], self._figures.names(), self._figures.names("node")
        )

    async def _custom(self, request: web.Request) -> Json:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        metric = _metric_of_pods(request)
        if name == _ALL:
            pods = await self._select(request, namespace)
        else:
            pods = [await self._server.metadata(ObjectRef("v1", "Pod", name, namespace))]
            self._lacking.clear(_ALLOWED, "get ")
        figures = self._figures_of(pods, metric)
        if name != _ALL and not figures:
            raise _FailedError(404, f"{metric} of pod {namespace}/{name} is not measured now")
        return answers.custom_values(metric, figures)

    async def _nodes(self, request: web.Request) -> Json:
        """Answer for a node, whoever's pods are on it; of all that are measured."""
        metric, name = _metric_of_objects(request), request.match_info["name"]
        if metric.horizon_s:
            raise _FailedError(404, f"{metric}: a node has no forecasts; ask for that of its pods' workload")
        now_ms = self._now_ms()
        values = {
            node: self._figures.values_of_node(node, metric, now_ms)
            for node in (self._figures.nodes() if name == _ALL else [name])
        }
        measured = [
            ObjectFigure("v1", "Node", None, node, combined(figures, metric))
            for node, figures in values.items()
            if figures
        ]
        if name != _ALL and not measured:
            raise _FailedError(404, f"{metric} of node {name} is not measured now")
        return answers.object_values(metric, measured)

    async def _namespace(self, request: web.Request) -> Json:
        """Answer for all pods of a namespace together."""
        metric, namespace = _metric_of_objects(request), request.match_info["namespace"]
        figures = [
            pod_figure.figure for pod_figure in self._figures_of(await self._pods_of(namespace), metric)
        ]
        if not figures:
            raise _FailedError(404, f"{metric} of namespace {namespace} is not measured now")
        figure = combined(figures, metric)
        return answers.object_values(metric, [ObjectFigure("v1", "Namespace", None, namespace, figure)])

    async def _objects(self, request: web.Request) -> Json:
        """Answer for what owns pods, such as ``deployments.apps``, its pods together."""
        metric = _metric_of_objects(request)
        namespace, resource, name = (request.match_info[part] for part in ("namespace", "resource", "name"))
        pods: dict[Owner, dict[str, Metadata]] = defaultdict(dict)
        for pod in await self._pods_of(namespace):
            for owner in owners(pod, self._figures.job_of(pod["uid"])):
                if name not in (_ALL, owner.name):
                    continue
                with suppress(NoKindError):
                    kind = await self._server.kinds.find(owner.api_version, owner.kind)
                    if str(kind) == resource:
                        pods[owner][pod["uid"]] = pod
        if name != _ALL and not pods:
            raise _FailedError(404, f"{resource} {namespace}/{name} has no pods that run")
        measured = [
            ObjectFigure(*owner[:2], namespace, owner.name, combined(figures, metric))
            for owner, its in pods.items()
            if (figures := [pod_figure.figure for pod_figure in self._figures_of(its.values(), metric)])
        ]
        if name != _ALL and not measured:
            raise _FailedError(404, f"{metric} of {resource} {namespace}/{name} is not measured now")
        return answers.object_values(metric, measured)

    async def _external(self, request: web.Request) -> Json:
        metric = _metric_of_pods(request)
        pods = await self._select(request, request.match_info["namespace"])
        return answers.external_values(metric, self._figures_of(pods, metric))

    async def _pods_of(self, namespace: str) -> list[Metadata]:
        """Return those that have not ended and are not about to."""
        listed = self._server.each(POD, namespace, fields=PODS_NOT_ENDED)
        pods = [pod async for pod in listed if not pod.get("deletionTimestamp")]
        self._lacking.clear(_ALLOWED, "list ")
        return pods

    async def _select(self, request: web.Request, namespace: str) -> list[Metadata]:
        selector = request.query.get("labelSelector")
        pods = [pod async for pod in self._server.each(POD, namespace, selector)]
        self._lacking.clear(_ALLOWED, "list ")
        return pods

    def _figures_of(self, pods: Iterable[Metadata], metric: MetricName) -> list[PodFigure]:
        """Return the figures of the pods that are measured. Where only names are known, a pod is found by its
        name."""
        uids = {uid: pod for pod in pods for uid in (pod["uid"], name_key(pod["namespace"], pod["name"]))}
        values = self._figures.values(uids, metric, self._now_ms())
        return [PodFigure(uids[uid], figure) for uid, figure in values.items()]

    def _now_ms(self) -> int:
        return round(time.time() * 1000)

    async def _check(self, request: web.Request) -> None:
        """Raises ``_FailedError`` where the user is not known or may not ask this."""
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if self.front_proxy is None or not certificate or not self.front_proxy.admits(certificate):
            raise _FailedError(401, "only the API server is answered")
        user = self.front_proxy.user(request.headers)
        if user is None:
            raise _FailedError(401, "the API server does not say for whom it asks")
        if not await self._access.allows(user, _attributes(request)):
            message = f'User "{user.name}" cannot get {request.path}: no role allows it'
            raise _FailedError(403, message)


def _metric(request: web.Request) -> MetricName:
    """Return what is asked for. An autoscaler takes an empty list for a stall: a wrong name is an error."""
    if request.query.get("metricLabelSelector"):
        raise _FailedError(400, "metricLabelSelector: our metrics have no labels of their own")
    try:
        return metric_names.parse(request.match_info["metric"])
    except UnknownMetricError as error:
        raise _FailedError(404, str(error)) from error


def _metric_of_pods(request: web.Request) -> MetricName:
    metric = _metric(request)
    if metric.is_max:
        of_one = metric._replace(is_max=False)
        raise _FailedError(404, f"{metric} is of what has several pods or GPUs; of pods there is {of_one}")
    return metric


def _metric_of_objects(request: web.Request) -> MetricName:
    if request.query.get("labelSelector"):
        raise _FailedError(400, "labelSelector: it selects pods; name the object, or ask for *")
    return _metric(request)


async def _unknown(request: web.Request) -> Json:
    raise _FailedError(404, f"there is no {request.method} {request.path}")


def _attributes(request: web.Request) -> Mapping[str, Any]:
    """Return what is asked for, in the words of a review. The verb is that of a role: ``list`` for several
    pods."""
    parts = request.match_info
    if "metric" not in parts:
        return {"nonResourceAttributes": {"path": request.path, "verb": "get"}}
    attributes = {"version": VERSION, "group": CUSTOM, "verb": "get"}
    if "namespace" in parts and parts.get("resource") != "nodes":  # a node is in no namespace
        attributes["namespace"] = parts["namespace"]
    if "resource" in parts:
        attributes |= {
            "resource": parts["resource"], "subresource": parts["metric"], "name": parts["name"],
        }  # fmt: skip
    elif request.path.startswith(f"/apis/{CUSTOM}/"):
        attributes |= {"resource": _NAMESPACE, "name": parts["metric"]}
    else:
        attributes |= {"group": EXTERNAL, "resource": parts["metric"], "verb": "list"}
    return {"resourceAttributes": attributes}
