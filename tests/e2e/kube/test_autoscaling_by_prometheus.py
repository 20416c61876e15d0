"""The example of deploy/examples/hpa with prometheus-adapter instead of ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dutycycle.contract.records.derived import WindowAggregate
from tests.support.data.prometheus_ticks import Start
from tests.support.fakes.exporter_pages import line
from tests.support.kube.autoscaling import CUSTOM, EXAMPLES, VisionApi
from tests.support.kube.cluster import Cluster
from tests.support.servers.exposition import MetricsPage, serve_metrics
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.controllers import Controllers
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.servers.process import ServerProcess
from tests.support.servers.prometheus import scrape
from tests.support.servers.prometheus_adapter.build import find_prometheus_adapter
from tests.support.waiting import wait_until

SERIES = "dutycycle_pod_gpu_utilization_mean_ratio"
_NAME = "prometheus-adapter"


class PrometheusAdapter:
    """Installed in a namespace, and its log. What is published stands on ``page``."""

    def __init__(self, kube: Kube, namespace: str, prometheus: str, page: MetricsPage, folder: Path) -> None:
        self._admin, self._namespace, self._page = kube.admin, namespace, page
        self._log = folder / "prometheus-adapter.log"
        self._port = free_port()
        values = yaml.safe_load((EXAMPLES / "prometheus-adapter.yaml").read_text())
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump({"rules": values["rules"]["custom"]}))  # as its chart does
        names = ("lister", "authentication", "authorization")
        self._command: list[str | Path] = [
            find_prometheus_adapter(), f"--prometheus-url={prometheus}", f"--config={config}",
            "--bind-address=127.0.0.1", f"--secure-port={self._port}", f"--cert-dir={folder}",
            "--metrics-relist-interval=1s", "--metrics-max-age=1m",
            *(f"--{name}-kubeconfig={kube.admin.kubeconfig}" for name in names),
        ]  # fmt: skip

    @contextmanager
    def run(self) -> Iterator[None]:
        """The process, and the API server that asks it."""
        meta: Object = {"name": _NAME, "namespace": self._namespace}
        service: Object = {
            "apiVersion": "v1", "kind": "Service", "metadata": meta,
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }  # fmt: skip
        api: Object = {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1beta1.custom.metrics.k8s.io"},
            "spec": {
                "group": "custom.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100, "versionPriority": 100, "service": meta | {"port": self._port},
            },
        }  # fmt: skip
        process = ServerProcess(self._command, self._log)
        try:
            self._admin.create(service)
            self._admin.create(api)
            wait_until(lambda: self._admin.answers(CUSTOM), lambda: self.said)
            yield
        finally:
            self._admin.delete(api)
            process.stop()

    @property
    def said(self) -> str:
        """Its log."""
        return self._log.read_text()

    def publish(self, _topic: str, records: dict[str, Any]) -> None:
        """The series that ``dutycycle sink --metrics`` has of pods with these windows."""
        items = self._admin.request("GET", f"/api/v1/namespaces/{self._namespace}/pods")["items"]
        names = {one["metadata"]["uid"]: one["metadata"]["name"] for one in items}
        self._page.text = "".join(self._series(names, one) for one in records.values())

    def _series(self, names: dict[str, str], window: WindowAggregate) -> str:
        uid = window.subject.pod_uid or ""
        mean = window.metrics["gpu_util_pct"].mean
        assert mean is not None
        labels = {
            "namespace": self._namespace, "pod": names[uid], "uid": uid, "node": "gpu-a",
            "job_kind": "Deployment", "job_name": "vision-api", "job_uid": "j",
        }  # fmt: skip
        return line(SERIES, labels, mean / 100)


def test_the_example_scales(
    kube: Kube, cluster: Cluster, controllers: Controllers, prometheus: Start, tmp_path: Path
) -> None:
    """The same HorizontalPodAutoscaler; and the query of KEDA's variant has the sum that KEDA divides."""
    with serve_metrics("") as page:
        server = prometheus(scrape([page.target]))
        adapter = PrometheusAdapter(kube, cluster.namespace, server.url, page, tmp_path)
        with adapter.run():
            api = VisionApi(cluster, kube.admin, adapter, controllers)
            api.under(0, replicas=2)
            api.under(150, replicas=5)
            scaled = yaml.safe_load((EXAMPLES / "keda.yaml").read_text())["spec"]["triggers"][0]["metadata"]
            query = scaled["query"].replace('namespace="default"', f'namespace="{cluster.namespace}"')

            def is_settled() -> bool:  # when the last of the new pods has been scraped
                api.moment(150)
                sums = [float(row["value"][1]) for row in server.query(query)]
                is_scaling = api.conditions["ScalingActive"] == "ValidMetricFound"
                return is_scaling and sums == [pytest.approx(150, abs=0.1)]

            wait_until(is_settled, lambda: f"{server.query(query)}\n{api.conditions}")
