"""The example of deploy/examples/hpa with prometheus-adapter instead of ours."""

from pathlib import Path

import pytest
import yaml

from tests.support.data.prometheus_ticks import Start
from tests.support.kube.autoscaling import EXAMPLES, VisionApi
from tests.support.kube.cluster import Cluster
from tests.support.kube.prometheus_adapter import PrometheusAdapter
from tests.support.servers.exposition import serve_metrics
from tests.support.servers.kube.controllers import Controllers
from tests.support.servers.kube.server import Kube
from tests.support.servers.prometheus import scrape
from tests.support.waiting import wait_until


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
