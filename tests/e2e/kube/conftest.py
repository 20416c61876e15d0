"""Fixtures: a namespace with its node, and our processes on it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.kube.cluster import Cluster
from tests.support.kube.pipeline import Pipeline
from tests.support.kube.watching import Watch, watching
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.controllers import Controllers
from tests.support.servers.kube.server import Kube


@pytest.fixture
def cluster(kube: Kube, namespace: str) -> Cluster:
    """An empty namespace, and a node."""
    return Cluster(kube, namespace)


@pytest.fixture
def controllers(kube: Kube, tmp_path: Path) -> Iterator[Controllers]:
    """The real autoscaler, and the controllers of Deployments."""
    one = Controllers(kube, tmp_path)
    yield one
    one.stop()


@pytest.fixture
def watch(kube: Kube, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Lets the pods collector watch, under its shipped account or under rules."""
    return partial(watching, kube, cluster, monkeypatch)


@pytest.fixture
def pipeline(
    kafka: RunningBroker, topic_prefix: str, kube: Kube, cluster: Cluster, tmp_path: Path
) -> Pipeline:
    """Our processes, not started yet, with the real Kafka between them."""
    return Pipeline(kafka, topic_prefix, kube, cluster, tmp_path)
