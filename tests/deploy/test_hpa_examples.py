"""The example of autoscaling: what the API server takes, and the names in it. tests/e2e/kube runs it."""

import re
from collections.abc import Iterator

import pytest
import yaml

from dutycycle.telemetry.metrics import PREFIX, Metric
from sinks.prometheus import metrics as series
from tests.support.deploy.manifests import ROOT, Object, objects, of_kind
from tests.support.servers.kube.server import Kube
from tests.support.waiting import wait_until

EXAMPLES = ROOT / "deploy/examples/hpa"
OURS = ("vision-api.yaml", "hpa.yaml", "hpa-forecast.yaml", "hpa-object.yaml", "load.yaml")


def of(file: str) -> list[Object]:
    return objects((EXAMPLES / file).read_text())


def labels(name: str) -> set[str]:
    """Of the series that the metrics sink has under this name."""
    (found,) = (one for one in vars(series).values() if isinstance(one, Metric) and PREFIX + one.name == name)
    return set(found.labels)


@pytest.mark.parametrize("file", OURS)
def test_the_api_server_takes_it(kube: Kube, namespace: str, file: str) -> None:
    flags = ("--dry-run=server", "--validate=strict", "--namespace", namespace)
    said = kube.admin.kubectl("apply", *flags, "-f", str(EXAMPLES / file))
    assert len(said.splitlines()) == len(of(file))


@pytest.fixture
def keda(kube: Kube) -> Iterator[Kube]:
    """The API server with KEDA's own definition of a ScaledObject."""
    definition = yaml.safe_load((ROOT / "tests/support/deploy/keda_scaledobjects.yaml").read_text())
    kube.admin.create(definition)
    wait_until(lambda: kube.admin.answers("/apis/keda.sh/v1alpha1/scaledobjects"), lambda: "KEDA's kind")
    yield kube
    kube.admin.delete(definition)


def test_keda_s_schema_takes_the_variant_and_no_other_field(keda: Kube, namespace: str) -> None:
    text = (EXAMPLES / "keda.yaml").read_text()
    wrong = {"pollInterval: 3\n  triggers:": "pollInterval", "threshold: 30": "threshold"}
    flags = ("apply", "--dry-run=server", "--validate=strict", "--namespace", namespace, "-f", "-")
    assert "scaledobject.keda.sh/vision-api created" in keda.admin.kubectl(*flags, stdin=text)
    for change, named in wrong.items():
        spoilt = text.replace("triggers:" if "triggers" in change else 'threshold: "30"', change)
        assert named in keda.admin.kubectl(*flags, stdin=spoilt, check=False)
        assert "created" not in keda.admin.kubectl(*flags, stdin=spoilt, check=False)


def test_the_forecast_is_one_more_metric() -> None:
    now, ahead = (
        of_kind(of(file), "HorizontalPodAutoscaler")["spec"] for file in ("hpa.yaml", "hpa-forecast.yaml")
    )
    metric, further = ahead["metrics"]
    assert [metric] == now["metrics"]
    assert (
        metric["pods"]["target"]
        == further["pods"]["target"]
        == {"type": "AverageValue", "averageValue": "30"}
    )
    assert further["pods"]["metric"]["name"] == metric["pods"]["metric"]["name"] + "_in_300s"
    by_object = of_kind(of("hpa-object.yaml"), "HorizontalPodAutoscaler")["spec"]
    assert {**now, "metrics": []} == {**ahead, "metrics": []} == {**by_object, "metrics": []}
    assert (now["minReplicas"], now["maxReplicas"]) == (2, 12)
    deployment = of_kind(of("vision-api.yaml"), "Deployment")
    assert now["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert "replicas" not in deployment["spec"]


def test_the_load_asks_the_service() -> None:
    service = of_kind(of("vision-api.yaml"), "Service")
    (container,) = of_kind(of("load.yaml"), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert f"http://{service['metadata']['name']}/" in container["command"][-1]


def test_the_variants_ask_for_series_that_there_are() -> None:
    (rule,) = yaml.safe_load((EXAMPLES / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
    name, _, _ = rule["seriesQuery"].partition("{")
    assert rule["resources"]["overrides"].keys() <= labels(name)
    (metric,) = of_kind(of("hpa.yaml"), "HorizontalPodAutoscaler")["spec"]["metrics"]
    assert rule["name"]["as"] == metric["pods"]["metric"]["name"]
    keda = of_kind(of("keda.yaml"), "ScaledObject")["spec"]
    (trigger,) = keda["triggers"]
    found = re.search(r"(dutycycle_\w+)\{(.*)\}", trigger["metadata"]["query"])
    assert found
    assert set(re.findall(r"(\w+)=", found[2])) <= labels(found[1])
    assert (keda["minReplicaCount"], keda["maxReplicaCount"]) == (2, 12)
    assert trigger["metadata"]["threshold"] == "30"
    native = of_kind(of("hpa.yaml"), "HorizontalPodAutoscaler")["spec"]
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == native["behavior"]
