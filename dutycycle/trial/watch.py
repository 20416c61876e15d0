"""Runs ``dutycycle trial --watch``, which tries the Jobs of some namespaces that ask for it by an annotation.

A Job is tried once for each value of ``dutycycle.io/trial``; which one was tried last is written beside it.
In a namespace where a trial goes on no other begins: not beside what a killed process has left, either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.pods import TRIAL_OF
from dutycycle.contract.settings.groups import Settings
from dutycycle.kube.errors import GoneError, KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import ObjectRef
from dutycycle.process import print_remark, stopped_within
from dutycycle.submit.objects import cluster_of
from dutycycle.submit.run import Signals
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.serving import serving
from dutycycle.trial.leftovers import JOB, clean
from dutycycle.trial.options import TrialOptions, options_of
from dutycycle.trial.plan import plan_of
from dutycycle.trial.results.record import ASKED, REQUEST, STATE, publish
from dutycycle.trial.template import template_of
from dutycycle.trial.trial import TrialRequest, annotated, compare, needs_broker

_LOOK_S = 10.0
_LONGEST = 1000


async def run_watch(request: TrialRequest, settings: Settings, namespaces: Sequence[str]) -> int:
    """Try Jobs that ask for it, until a signal. Raises ``DutycycleError``."""
    needs_broker(settings)
    server = await cluster_of(request.kubeconfig, request.context, "dutycycle-trial")
    telemetry = Telemetry("trial")
    try:
        watch = Watch(server, settings, namespaces, request.options, Signals())
        telemetry.status.waiting, telemetry.status.ready["API server"] = None, watch.unread
        async with serving(settings, "trial", telemetry):
            print_remark(
                f"waits for Jobs with {settings.annotation_prefix}/{REQUEST} in {', '.join(namespaces)}"
            )
            await watch.run()
    finally:
        await server.close()
    return 0


def request_of(meta: Mapping[str, Any], prefix: str) -> str | None:
    """Return what a Job asks for that was not tried yet; None for nothing. Pure."""
    annotations = meta.get("annotations") or {}
    asked = annotations.get(f"{prefix}/{REQUEST}")
    if asked is None or meta.get("deletionTimestamp") or TRIAL_OF in (meta.get("labels") or {}):
        return None
    return None if asked == annotations.get(f"{prefix}/{ASKED}") else str(asked)


@dataclass(frozen=True, slots=True)
class Watch:
    """Runs one trial at a time, of whichever Job comes first. ``usual``: what a Job does not say, and its
    largest budget; ``refused``: why a namespace could not be read last time."""

    server: ApiServer
    settings: Settings
    namespaces: Sequence[str]
    usual: TrialOptions
    signals: Signals
    refused: dict[str, str] = field(default_factory=dict)
    look_s: float = _LOOK_S

    def unread(self) -> str | None:
        """Return a probe: which namespace could not be read last time, and why."""
        return next((f"namespace {name}: {why}" for name, why in self.refused.copy().items()), None)

    async def run(self) -> None:
        """Look into the namespaces until a signal. Why one waits is said once, and the others go on."""
        reasons: dict[str, str | None] = {}
        while not self.signals.stop.is_set():
            for namespace in self.namespaces:
                try:
                    waits = await self._look(namespace)
                    self.refused.pop(namespace, None)
                except KubeError as error:
                    waits = self.refused[namespace] = str(error)
                if waits is not None and waits != reasons.get(namespace):
                    print_remark(f"namespace {namespace}: {waits}; looks again")
                reasons[namespace] = waits
            await stopped_within(self.signals.stop, self.look_s)

    async def _look(self, namespace: str) -> str | None:
        """Try what asks; or why that has to wait."""
        prefix = self.settings.annotation_prefix
        deleted, alive = await clean(self.server, namespace)
        for name in deleted:
            print_remark(f"job/{name} in namespace {namespace}: left by a trial that was killed; deleted")
        if alive:  # of somebody else, or of a process before this one that was killed in the last minute
            return f"the trial of job/{alive[0]} goes on"
        every = [(meta, request_of(meta, prefix)) async for meta in self.server.each(JOB, namespace)]
        for meta, request in every:
            if request is not None and not self.signals.stop.is_set():
                await self._try(namespace, meta, request)
        return None

    async def _try(self, namespace: str, meta: Mapping[str, Any], request: str) -> None:
        """Try one Job. Whatever is wrong with it is written on the Job, and is no failure of ours."""
        name = str(meta["name"])
        ref = ObjectRef(JOB.api_version, JOB.name, name, namespace, str(meta["uid"]))
        try:
            await self._state(ref, "running", None)
            state: str | None = None  # where a signal ends it
            try:
                options = options_of(request, self.usual)
                thing = await self.server.read(JOB, name, namespace)
                template = replace(template_of(thing, f"job/{name}", name), namespace=namespace)
                plan = plan_of(template, options)
                with TemporaryDirectory(prefix="dutycycle-") as folder:
                    verdict, status = await compare(
                        self.server, self.settings, template, plan, options, Path(folder), self.signals
                    )
                if status is None:
                    await publish(
                        await annotated(self.server, self.settings, template, verdict), self.settings
                    )
                    state = "done" if verdict.best is not None else "done: which is best is not known"
            except DutycycleError as error:
                state = f"failed: {error}"
            if state is not None:
                await self._state(ref, state, request)
        except GoneError:
            state = "the Job is gone"
        print_remark(f"job/{name} in namespace {namespace}: {request}: {state or 'stopped'}")

    async def _state(self, ref: ObjectRef, state: str, tried: str | None) -> None:
        prefix = self.settings.annotation_prefix
        patch = {f"{prefix}/{STATE}": state[:_LONGEST]}
        await self.server.annotate(ref, patch | ({f"{prefix}/{ASKED}": tried} if tried is not None else {}))
