"""``dutycycle profile NAMESPACE/POD:/path`` as a user types it: through the real API server's exec."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle.cli.main import main
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.data.profiled import waits_for_data, write_export
from tests.support.fakes.nvml.one_used import one_used
from tests.support.kafka import send
from tests.support.kube.cluster import Cluster
from tests.support.kube.kubelet import ProcessKubelet
from tests.support.servers.kube.accounts import service_account
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube
from tests.support.waiting import wait_until

_SLEEPS = "import time; time.sleep(600)"


@pytest.fixture
def kubelet(kube: Kube, cluster: Cluster, tmp_path: Path) -> Iterator[ProcessKubelet]:
    """Runs the pods of the namespace."""
    with ProcessKubelet(kube, cluster, tmp_path, one_used) as one:
        yield one
        assert not one.errors


def started(kube: Kube, cluster: Cluster, name: str, program: str, phase: str) -> Object:
    """A pod once it is in that phase."""
    container = {"name": "main", "image": "train:1", "command": [sys.executable, "-c", program]}
    made = cluster.make("v1", "Pod", name, spec={"restartPolicy": "Never", "containers": [container]})
    wait_until(lambda: kube.admin.get(made)["status"].get("phase") == phase, lambda: name)
    return made


def test_a_profile_is_read_in_the_container_and_published(
    kube: Kube, cluster: Cluster, kubelet: ProcessKubelet, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    running = started(kube, cluster, "train", _SLEEPS, "Running")
    started(kube, cluster, "ended", "", "Succeeded")
    export = write_export(waits_for_data(3000), tmp_path / "report1.sqlite")
    assert export.stat().st_size > 1e6
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("KUBECONFIG", str(kube.admin.kubeconfig))

    def profile(*arguments: str) -> tuple[int, str, str]:
        status = main(["profile", *arguments])
        out, err = capsys.readouterr()
        assert list(temporary.iterdir()) == []
        return status, out, err

    here = f"{cluster.namespace}/train:"
    status, out, err = profile(f"{here}{export}")
    assert (status, err) == (0, "")
    assert "report1.sqlite, " in out
    assert "held back by: input (98% sure)" in out

    pod = Pod(
        uid=running["metadata"]["uid"], namespace=cluster.namespace, name="train", node="a", phase="Running"
    )
    with EmbeddedBroker({f"dutycycle.{name}": 1 for name in (*SAMPLE_TOPICS, "profiles")}) as broker:
        asyncio.run(send(load({"DUTYCYCLE_BROKER": broker.url}), [("pods", pod.uid, pod)], 1))
        status, _, err = profile(f"{here}{export}", "--broker", broker.url)
    assert (status, err) == (0, f"published for pod {cluster.namespace}/train\n")

    nobody = service_account(kube, cluster.namespace, "nobody")
    for arguments, message in (
        (
            [f"{here}{tmp_path}/none"],
            f"cannot read {tmp_path}/none in pod {cluster.namespace}/train: tar: ./none: ",
        ),
        ([f"{here}{tmp_path}"], f"train:{tmp_path}: is no regular file"),
        ([f"{here}{export}", "-c", "side"], "it has no container side, but main"),
        (
            [f"{cluster.namespace}/ended:{export}"],
            "its container main does not run, and files can be read only while",
        ),
        ([f"{cluster.namespace}/gone:{export}"], 'pods "gone" not found'),
        ([f"{here}{export}", "--kubeconfig", "none"], "no access to a cluster: none: no such file"),
        ([f"{here}{export}", "--kubeconfig", str(nobody.kubeconfig)], 'cannot get resource "pods"'),
    ):
        status, out, err = profile(*arguments)
        assert (status, out, err.count("\n")) == (1, "", 1), err
        assert message in err
