"""Goal: what the kubelet gave shows in the peaks, as what it is: from the collector's process to a replay."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from dutycycle.contract.topics import SAMPLE_TOPICS, full_name
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.data.traces import read_trace
from tests.support.fakes.api_server import fake_api_server
from tests.support.fakes.kubelet import FakeKubelet, kubelet_on
from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario
from tests.support.kafka import settings_of
from tests.support.processes.commands import dutycycle, environ, read_now, running
from tests.support.servers.kube.client import kubeconfig
from tests.support.waiting import wait_until

ALONE = "GPU-00000000-0000-4000-8000-00000000000a"
SLICED = "GPU-00000000-0000-4000-8000-00000000000b"
NODE = "gpu-a"


@contextmanager
def node(folder: Path) -> Iterator[dict[str, str]]:
    """A node with two GPUs whose processes the driver does not tell, a kubelet and an API server."""
    gpus = [FakeGpu(uuid=uuid, values={"util": util, "mem_used": 7e9, "mem_total": 80e9})
            for uuid, util in ((ALONE, 83), (SLICED, 40))]  # fmt: skip
    seen = driver(Scenario(gpus=gpus).write(folder / "scenario"))
    kubelet = FakeKubelet()
    kubelet.give("trainer", ALONE)
    kubelet.give("first", SLICED + "::0")
    kubelet.give("second", SLICED + "::1")
    with TemporaryDirectory(prefix="dc-") as short, fake_api_server() as api:
        for uid, name in (("u1", "trainer"), ("u2", "first"), ("u3", "second")):
            api.pods.put(
                {
                    "metadata": {"uid": uid, "name": name, "namespace": "team", "resourceVersion": "1"},
                    "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "bert:1"}]},
                    "status": {"phase": "Running"},
                }
            )
        socket = Path(short) / "kubelet.sock"
        config = kubeconfig(folder / "kubeconfig", api.url)
        with kubelet_on(socket, kubelet):
            yield environ(
                node=NODE, interval="0.2s", kubernetes="on", pod_resources=str(socket),
                spool=str(folder / "spool"),
            ) | {"KUBECONFIG": str(config)} | seen  # fmt: skip


def holders(env: dict[str, str]) -> list[list[str | None]]:
    """Uids that the newest sample gives for each GPU."""
    settings = settings_of(env)
    payloads = read_now(settings, ["nvml-samples"])["nvml-samples", NODE]
    if not payloads:
        return []
    gpus = orjson.loads(payloads[-1])["gpus"]
    return [[one.get("pod_uid") for one in gpu.get("allocated") or ()] for gpu in gpus]


def test_allocated_and_unknown_from_the_kubelet_to_the_peaks(tmp_path: Path) -> None:
    topics = {full_name("dutycycle.", name): 1 for name in SAMPLE_TOPICS}
    log = tmp_path / "collect.log"
    with EmbeddedBroker(topics) as broker, node(tmp_path) as env:
        env = env | {"DUTYCYCLE_BROKER": broker.url}
        with running("collect", env=env, log=log):
            wait_until(lambda: holders(env) == [["u1"], ["u2", "u3"]], log.read_text)
        trace = tmp_path / "day.jsonl"
        dutycycle("record", "--from", "1000000000000", "--out", trace, env=env)
    dutycycle("replay", trace, "--out", tmp_path / "derived.jsonl", env=environ())
    peaks = {
        one.key: orjson.loads(one.payload or b"")
        for one in read_trace(str(tmp_path / "derived.jsonl"))
        if one.topic == "dutycycle.pod-peaks"
        and one.key in ("u1", "u2", "u3")  # other tests make cgroups here
    }
    found = {key: (one["pod"]["name"], one["attribution"], one["gpus"]) for key, one in peaks.items()}
    assert found["u1"][:2] == ("trainer", {"gpu-a/0": "allocated"})
    assert found["u1"][2]["gpu-a/0"]["gpu_util_pct"]["max"] == 83
    assert found["u2"] == ("first", {"gpu-a/1": "unknown"}, {})
    assert found["u3"] == ("second", {"gpu-a/1": "unknown"}, {})
