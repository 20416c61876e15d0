"""Goal: pods of one template have one hash, whoever shows them; another program has another."""

from typing import Any

import pytest

from dutycycle.kube.templates import template_of
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.servers.kube.server import Kube

TRAIN: dict[str, Any] = {
    "name": "main", "image": "train:1", "command": ["python", "train.py"], "args": ["--epochs", "3"],
    "resources": {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "1"}},
}  # fmt: skip


def spec(**changes: Any) -> dict[str, Any]:
    return {"containers": [TRAIN | changes]}


@pytest.mark.parametrize(
    ("other", "program", "template"),
    [
        pytest.param(spec(name="other"), True, True, id="names do not count"),
        pytest.param(spec(env=[{"name": "RUN", "value": "7"}]), True, True, id="nor does the environment"),
        pytest.param(spec() | {"nodeName": "a", "priority": 0}, True, True, id="nor where it runs"),
        pytest.param(spec(args=["--epochs", "4"]), True, False, id="arguments"),
        pytest.param(spec(resources={"limits": {"nvidia.com/gpu": "2"}}), True, False, id="requests"),
        pytest.param(spec(command=["python", "serve.py"]), False, False, id="command"),
        pytest.param(spec(image="train:2"), False, False, id="image"),
        pytest.param({"containers": [TRAIN, TRAIN]}, False, False, id="a container more"),
        pytest.param({}, False, False, id="nothing"),
    ],
)
def test_what_counts(other: dict[str, Any], program: bool, template: bool) -> None:
    one, two = template_of(spec()), template_of(other)
    assert (one.program == two.program, one.template == two.template) == (program, template)


@pytest.mark.kube
def test_the_api_server_changes_nothing(kube: Kube, namespace: str) -> None:
    """It adds a request for each limit, and defaults."""
    written = gpu_pod(namespace, "train")
    assert template_of(kube.admin.create(written)["spec"]) == template_of(written["spec"])
