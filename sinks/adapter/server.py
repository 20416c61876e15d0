"""The API itself: who asks is checked, then the pods are looked up, then their figures."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import orjson
from aiohttp import web

from dutycycle.contract.records.pods import name_key
from dutycycle.kube.discovery import POD
from dutycycle.kube.errors import GoneError, KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import Metadata, ObjectRef
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import ADAPTER_ANSWERS
from sinks.adapter import answers
from sinks.adapter.access import AccessReviewer
from sinks.adapter.answers import CUSTOM, EXTERNAL, VERSION, Json, PodFigure
from sinks.adapter.figures import PodFigures
from sinks.adapter.front_proxy import FrontProxy, User

_ALL = "*"
_BASE = "/apis/{group:" + f"{CUSTOM}|{EXTERNAL}" + "}/" + VERSION
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _FailedError(Exception):
    """The request is answered with this code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class MetricsApi:
    """Answers what ``front_proxy`` asks. ``wall``: Unix seconds."""

    def __init__(
        self,
        figures: PodFigures,
        server: ApiServer,
        telemetry: Telemetry,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.front_proxy: FrontProxy | None = None
        self._figures = figures
        self._server = server
        self._access = AccessReviewer(server)
        self._telemetry = telemetry
        self._wall = wall

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application()
        app.router.add_get(_BASE, self._answering(self._discovery))
        app.router.add_get(
            f"/apis/{CUSTOM}/{VERSION}/namespaces/{{namespace}}/pods/{{pod}}/{{metric}}",
            self._answering(self._custom),
        )
        app.router.add_get(
            f"/apis/{EXTERNAL}/{VERSION}/namespaces/{{namespace}}/{{metric}}", self._answering(self._external)
        )
        app.router.add_route("*", "/{path:.*}", self._answering(_unknown))
        return app

    def _answering(self, handler: Callable[[web.Request], Awaitable[Json]]) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            code = 200
            try:
                await self._check(request)
                found = await handler(request)
            except _FailedError as error:
                code, found = error.code, answers.failure(error.code, str(error))
            except GoneError as error:
                code, found = 404, answers.failure(404, error.detail)
            except KubeError as error:  # a selector that it refuses, or an API server that does not answer
                code = 400 if error.reason == "400" else 503
                found = answers.failure(code, f"the API server: {error}")
            self._telemetry.metrics.counter(ADAPTER_ANSWERS, code=str(code)).inc()
            return web.Response(body=orjson.dumps(found), status=code, content_type="application/json")

        return answer

    async def _discovery(self, request: web.Request) -> Json:
        return answers.resources(request.match_info["group"], self._figures.names())

    async def _custom(self, request: web.Request) -> Json:
        if request.query.get("metricLabelSelector"):
            raise _FailedError(400, "metricLabelSelector: metrics of pods have no labels of their own")
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        metric = self._metric(request)
        if name == _ALL:
            pods = await self._select(request, namespace)
        else:
            pods = [await self._server.metadata(ObjectRef("v1", "Pod", name, namespace))]
        figures = self._figures_of(pods, metric)
        if name != _ALL and not figures:
            raise _FailedError(404, f"{metric} of pod {namespace}/{name} is not measured now")
        return answers.custom_values(metric, figures)

    async def _external(self, request: web.Request) -> Json:
        metric = self._metric(request)
        pods = await self._select(request, request.match_info["namespace"])
        return answers.external_values(metric, self._figures_of(pods, metric))

    def _metric(self, request: web.Request) -> str:
        """What is asked for. An autoscaler takes an empty list for a stall: a wrong name is an error."""
        metric = request.match_info["metric"]
        if refusal := self._figures.refusal(metric):
            raise _FailedError(404, refusal)
        return metric

    async def _select(self, request: web.Request, namespace: str) -> list[Metadata]:
        selector = request.query.get("labelSelector")
        return [pod async for pod in self._server.each(POD, namespace, selector)]

    def _figures_of(self, pods: Iterable[Metadata], metric: str) -> list[PodFigure]:
        """Of the pods that are measured. Where only names are known, a pod is found by its name."""
        uids = {uid: pod for pod in pods for uid in (pod["uid"], name_key(pod["namespace"], pod["name"]))}
        found = self._figures.values(uids, metric, round(self._wall() * 1000))
        return [PodFigure(uids[uid], figure) for uid, figure in found.items()]

    async def _check(self, request: web.Request) -> None:
        """Raises ``_FailedError`` where the user is not known or may not ask this."""
        user = self._user(request)
        if not await self._access.allows(user, _attributes(request)):
            message = f'User "{user.name}" cannot get {request.path}: no role allows it'
            raise _FailedError(403, message)

    def _user(self, request: web.Request) -> User:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if self.front_proxy is None or not certificate or not self.front_proxy.admits(certificate):
            raise _FailedError(401, "only the API server is answered")
        user = self.front_proxy.user(request.headers)
        if user is None:
            raise _FailedError(401, "the API server does not say for whom it asks")
        return user


async def _unknown(request: web.Request) -> Json:
    raise _FailedError(404, f"there is no {request.method} {request.path}")


def _attributes(request: web.Request) -> Mapping[str, Any]:
    """What is asked for, in the words of a review. The verb is that of a role: ``list`` for several pods."""
    parts = request.match_info
    if "metric" not in parts:
        return {"nonResourceAttributes": {"path": request.path, "verb": "get"}}
    attributes = {"namespace": parts["namespace"], "version": VERSION, "verb": "get"}
    if "pod" in parts:
        attributes |= {
            "group": CUSTOM, "resource": "pods", "subresource": parts["metric"], "name": parts["pod"],
        }  # fmt: skip
    else:
        attributes |= {"group": EXTERNAL, "resource": parts["metric"], "verb": "list"}
    return {"resourceAttributes": attributes}
