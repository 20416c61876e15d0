"""``dutycycle trial --watch``: tries the Jobs of some namespaces that ask for it by an annotation.

A Job is tried once for each value of ``dutycycle.io/trial``; which one was tried last is written beside it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from contract.errors import DutycycleError
from contract.records.pods import TRIAL_OF
from contract.settings.groups import Settings
from dutycycle.process import stopped_within
from dutycycle.run.folder import say
from dutycycle.submit.objects import cluster_of, explained
from dutycycle.submit.run import Signals
from dutycycle.trial.leftovers import JOB, clean
from dutycycle.trial.plan import plan_of
from dutycycle.trial.results.record import ASKED, REQUEST, STATE
from dutycycle.trial.session import Ways
from dutycycle.trial.template import template_of
from dutycycle.trial.trial import Asked, compare, in_namespace, needs_broker, tell
from dutycycle.trial.wish import wish_of
from kube.errors import BusyError, GoneError, KubeError
from kube.objects import ApiServer
from kube.references import ObjectRef

_LOOK_S = 10.0
_LONGEST = 1000


def run_watch(asked: Asked, settings: Settings, namespaces: Sequence[str]) -> int:
    """Until a signal. Raises ``DutycycleError``."""
    needs_broker(settings)
    return asyncio.run(_watch(asked, settings, namespaces))


async def _watch(asked: Asked, settings: Settings, namespaces: Sequence[str]) -> int:
    server = await cluster_of(asked.kubeconfig, asked.context, "dutycycle-trial")
    try:
        say(f"waits for Jobs with {settings.annotation_prefix}/{REQUEST} in {', '.join(namespaces)}")
        await Watch(server, settings, namespaces, asked.ways, Signals()).run()
    finally:
        await server.close()
    return 0


def request_of(meta: Mapping[str, Any], prefix: str) -> str | None:
    """What a Job asks for that was not tried yet; None for nothing. Pure."""
    found = meta.get("annotations") or {}
    asked = found.get(f"{prefix}/{REQUEST}")
    if asked is None or meta.get("deletionTimestamp") or TRIAL_OF in (meta.get("labels") or {}):
        return None
    return None if asked == found.get(f"{prefix}/{ASKED}") else str(asked)


@dataclass(frozen=True, slots=True)
class Watch:
    """One trial at a time, of whichever Job comes first."""

    server: ApiServer
    settings: Settings
    namespaces: Sequence[str]
    ways: Ways
    signals: Signals

    async def run(self) -> None:
        """Until a signal. Raises ``DutycycleError`` for what may not be read."""
        said = ""
        while not self.signals.stop.is_set():
            for namespace in self.namespaces:
                try:
                    await self._look(namespace)
                    said = ""
                except BusyError as error:  # the API server is away, and comes back
                    if str(error) != said:
                        said = str(error)
                        say(f"{said}; trying again")
                except KubeError as error:
                    raise explained(error, f"read the Jobs of namespace {namespace}", self.server) from error
            await stopped_within(self.signals.stop, _LOOK_S)

    async def _look(self, namespace: str) -> None:
        prefix = self.settings.annotation_prefix
        deleted, _ = await clean(self.server, namespace)
        for name in deleted:
            say(f"job/{name}: left by a trial that was killed; deleted")
        asking = [meta async for meta in self.server.each(JOB, namespace) if request_of(meta, prefix)]
        for meta in asking:
            if self.signals.stop.is_set():
                return
            request = request_of(meta, prefix) or ""
            await self._try(namespace, meta, request)

    async def _try(self, namespace: str, meta: Mapping[str, Any], request: str) -> None:
        """Whatever is wrong with it is written on the Job, and is no failure of ours."""
        name = str(meta["name"])
        ref = ObjectRef(JOB.api_version, JOB.name, name, namespace, str(meta["uid"]))
        try:
            await self._state(ref, "running", None)
            try:
                state = await self._tried(namespace, name, request)
            except DutycycleError as error:
                state = f"failed: {error}"
            if state is not None:
                await self._state(ref, state, request)
        except GoneError:
            state = "the Job is gone"
        say(f"job/{name} in namespace {namespace}: {request}: {state or 'stopped'}")

    async def _tried(self, namespace: str, name: str, request: str) -> str | None:
        """How it went; None where a signal has ended it."""
        wish = wish_of(request)
        thing = await self.server.read(JOB, name, namespace)
        template = in_namespace(template_of(thing, f"job/{name}", name), namespace)
        plan = plan_of(template, wish)
        with TemporaryDirectory(prefix="dutycycle-") as given:
            folder = Path(given)
            verdict, status = await compare(
                self.server, self.settings, template, plan, wish, self.ways, folder, self.signals
            )
            if status is not None:
                return None
            await tell(self.server, self.settings, template, namespace, verdict, folder)
        return "done" if verdict.best is not None else "done: which is best is not known"

    async def _state(self, ref: ObjectRef, state: str, tried: str | None) -> None:
        prefix = self.settings.annotation_prefix
        patch = {f"{prefix}/{STATE}": state[:_LONGEST]}
        await self.server.annotate(ref, patch | ({f"{prefix}/{ASKED}": tried} if tried is not None else {}))
