"""The pods collector alone, on the real API server."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from collectors.base import Tick
from collectors.pods.collector import PodsCollector, pods_collector
from collectors.pods.watch import RefreshPolicy
from dutycycle.contract.codec import decode
from dutycycle.contract.records.pods import UNENDING, JobRef, Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import Telemetry
from tests.support.kube.cluster import Cluster
from tests.support.kube.shipped import account, shipped_account
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube
from tests.support.waiting import wait_until


class Watching:
    """The pods collector on the cluster's node, as an account, and what it published last of each pod."""

    def __init__(self, collector: PodsCollector, telemetry: Telemetry, node: str) -> None:
        self._collector = collector
        self.telemetry = telemetry
        self._node = node
        self._records: dict[str, Pod] = {}

    def of(self, pod: Object, is_so: Callable[[Pod], bool] = lambda _: True) -> Pod:
        """The pod's record, once it is so."""
        uid = pod["metadata"]["uid"]
        self.until(lambda: uid in self._records and is_so(self._records[uid]))
        return self._records[uid]

    def until(self, is_so: Callable[[], bool]) -> None:
        """Tick until it is so."""
        wait_until(is_so, lambda: self._records, pause_s=0.02, meanwhile=self._tick)

    def _tick(self) -> None:
        now = time.time_ns() // 1_000_000
        tick = Tick(
            node=self._node, collector="c", seq=0, ts_ms=now, interval_ms=1000, monotonic_s=time.monotonic()
        )
        for record in self._collector.collect(tick):
            if record.value is not None:
                self._records[record.key] = decode(Pod, record.value, "pods")


Watch = Callable[..., AbstractContextManager[Watching]]
"""``watching`` as the fixture ``watch`` gives it: of the test's own cluster."""


@contextmanager
def watching(
    kube: Kube,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    rules: tuple[Object, ...] | None = None,
    refresh: RefreshPolicy | None = None,
) -> Iterator[Watching]:
    """Watch as the collector's shipped account, or as one that may what ``rules`` say."""
    if rules is None:
        client = shipped_account(kube, "collector")
    else:
        client = account(kube, cluster.namespace, "collector", rules)
    monkeypatch.setenv("KUBECONFIG", str(client.kubeconfig))
    telemetry = Telemetry("collect")
    collector = asyncio.run(pods_collector(Settings(node=cluster.node), telemetry, refresh))
    assert collector is not None
    try:
        yield Watching(collector, telemetry, cluster.node)
    finally:
        collector.close()


def bound(cluster: Cluster, name: str, *owners: Object, **more: Any) -> Object:
    """A pod on the node."""
    pod = cluster.pod(name, *owners, **more)
    cluster.bind(pod)
    return pod


def job_of(thing: Object, role: str | None = None, replica: int | None = None) -> JobRef:
    """The job that a pod's record is to name. Its pods have no label that tells revisions apart."""
    meta, kind = thing["metadata"], thing["kind"]
    return JobRef(
        api_version=thing["apiVersion"], kind=kind, name=meta["name"], uid=meta["uid"],
        role=role, replica=replica, revision=kind.lower() if kind in UNENDING else None,
    )  # fmt: skip
