"""Collects who the pods are that are measured, and which job owns them, from the API server."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from collectors.base import Tick
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.kube.config import of_service
from dutycycle.telemetry.events import NOT_MEASURED, Telemetry

if TYPE_CHECKING:
    # At run time only where there is an API server: aiohttp takes 9 MB.
    from collectors.pods.watch import PodWatch, RefreshPolicy

_TOPIC = "pods"
_STOP_S = 3.0
_ANSWER_S = 60.0
"""A list of all pods of a large cluster takes long."""


class PodsCollector:
    """Says what changed since the last tick; all pods at the start.

    The watch runs in a thread of its own, so a slow API server never makes a tick late. A pod that was
    deleted gets ``finished_ms``, and a tombstone ``retire`` seconds later.
    """

    name = "pods"

    def __init__(self, watch: "PodWatch") -> None:
        self._watch = watch
        self._failure: Exception | None = None
        self._thread = self._start()

    @property
    def running(self) -> bool:
        """Tell whether the watch goes on."""
        return self._thread.is_alive()

    def uid_of(self, namespace: str, name: str) -> str | None:
        """Return the uid of the pod that has this name on the node now, None for one that is not known."""
        with self._watch.lock:
            return self._watch.table.uid_of(namespace, name)

    def pod_of(self, uid: str) -> Pod | None:
        """Return the pod with this uid, None for one that is not known."""
        with self._watch.lock:
            return self._watch.table.pod_of(uid)

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        """Return records that are new. Raises ``RuntimeError`` if the watch had died; it is begun anew."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._thread = self._start()
            raise RuntimeError(f"the watch of pods failed: {failure}") from failure
        with self._watch.lock:
            return [
                ProducerRecord(topic=_TOPIC, key=uid, value=payload, ts_ms=tick.ts_ms)
                for uid, payload in self._watch.table.drain(tick.monotonic_s, tick.ts_ms)
            ]

    def close(self) -> None:
        """End the watch."""
        self._watch.stop()
        self._thread.join(_STOP_S)

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="pods watch", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            self._watch.run()
        except Exception as error:  # noqa: BLE001 - raised by the next collect(), which the runner counts
            self._failure = error


async def pods_collector(
    settings: Settings, telemetry: Telemetry, refresh: "RefreshPolicy | None" = None
) -> PodsCollector | None:
    """Return the collector that ``settings.kubernetes`` asks for; None, said once, where there is no API
    server.

    It watches this node's pods; where a Prometheus is the source of samples, those of all its nodes.

    Raises ``SettingError`` where it is to be there and is not.
    """
    api = None
    if of_service(settings.kubernetes) is not None:
        from dutycycle.kube.client import Limits
        from dutycycle.kube.objects import connect

        limits = Limits(answer_s=_ANSWER_S)
        api = await connect(settings.kubernetes, limits=limits, user_agent="dutycycle-collector")
    if api is None:
        reason = "off" if settings.kubernetes == "off" else "no_api_server"
        detail = "of Kubernetes pods, if there are any here, names and jobs are not known: " + (
            "DUTYCYCLE_KUBERNETES=off"
            if reason == "off"
            else "this is no Kubernetes pod, and KUBECONFIG is not set"
        )
        telemetry.emit(NOT_MEASURED, detail, what="pods", reason=reason)
        return None
    from collectors.pods.watch import PodWatch

    node = None if settings.prometheus else settings.node
    watch = PodWatch(
        api, node, telemetry, retire_s=settings.retire, label_keys=settings.pod_labels, refresh=refresh
    )
    return PodsCollector(watch)
