"""A folder and servers with what the examples of the help name."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from dutycycle.cli.main import main
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.run.folder import TRACE
from tests.support.data import training_job
from tests.support.data.profiled import waits_for_data, write_export, write_trace
from tests.support.data.wandb_file import run, stats, write_run
from tests.support.kafka import all_topics
from tests.support.kubectl.plugin_user import job, lease, mpijob, pod, thing
from tests.support.processes.commands import environ
from tests.support.servers.kube.server import Kube

SECONDS = 120
_POD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time"
PODS = f"""{_POD},scheduled_time
p0,8000,1024,1,1000,,LS,Succeeded,100,400,100
p1,8000,1024,8,1000,,LS,Succeeded,120,500,130
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,8,T4\n"
PROGRAM = "import time\ntime.sleep(2)\n"
DMON = """#Entity   GPUTL       FBUSD       POWER
ID                                W
"""


JOB = """apiVersion: v1
kind: Pod
metadata: {name: bert}
spec: {containers: [{name: main, image: "train:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


def write_files(folder: Path) -> None:
    """Traces, logs and profiles."""
    day = folder / "day.jsonl.zst"
    with pytest.MonkeyPatch.context() as patch, TraceWriter(str(day)) as writer:
        patch.setattr(training_job, "START_MS", round(time.time() - SECONDS) * 1000)
        for record in training_job.training_job(SECONDS):
            writer.write(_labelled(record) if record.topic.endswith("pods") else record)
    for name in ("mon.jsonl.zst", "tue.jsonl.zst", f"before/{TRACE}", f"after/{TRACE}"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(day.read_bytes())
    derived, records = folder / "derived.jsonl.zst", f"sqlite:///{folder}/state/dutycycle/records.db"
    (folder / "state/dutycycle").mkdir(parents=True)
    assert main(["replay", str(day), "--out", str(derived), "--records", records]) == 0
    assert main(["replay", str(day), "--out", str(folder / "tables"), "--format", "parquet"]) == 0
    (folder / "train.py").write_text(PROGRAM)
    (folder / "job.yaml").write_text(JOB)
    start = datetime(2026, 11, 20, 10, tzinfo=UTC)
    moments = [start + timedelta(seconds=second) for second in range(60)]
    rows = [f"{one:%Y/%m/%d %H:%M:%S}.000, 0, 90 %, 250.5 W" for one in moments]
    heading = "timestamp, index, utilization.gpu [%], power.draw [W]"
    (folder / "gpu-a.csv").write_text("\n".join((heading, *rows)))
    (folder / "pods.csv").write_text(PODS)
    (folder / "nodes.csv").write_text(NODES)
    (folder / "dmon.txt").write_text(DMON + "GPU 0     37          1024        92.100\n" * 60)
    start_s = start.timestamp()
    measured = [stats(start_s + second, {"gpu.0.gpu": 90.0}) for second in range(0, 60, 10)]
    write_run(folder / "run-ab12cd34.wandb", [run(start_s), *measured])
    write_export(waits_for_data(), folder / "report1.sqlite")
    write_trace(waits_for_data(), folder / "rank0.pt.trace.json.gz")
    for place in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
        (folder / place).mkdir(parents=True)


def _labelled(pod: TraceRecord) -> TraceRecord:
    """With a team."""
    return replace(pod, payload=orjson.dumps(orjson.loads(pod.payload or b"") | {"labels": {"team": "nlp"}}))


@contextmanager
def broker_of(trace: Path) -> Iterator[str]:
    """The URL of a broker with all topics, and with the samples of a trace."""
    with EmbeddedBroker(all_topics(Settings().partitions)) as broker:
        assert main(["replay", str(trace), "--broker", broker.url]) == 0
        yield broker.url


def environ_of(folder: Path, **settings: str) -> dict[str, str]:
    """Of a command in ``folder``, whose programs are those in it and of this environment."""
    env = environ(**settings)
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{env['PATH']}"
    return env | {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "PATH": path}


def annotate(kube: Kube, namespace: str) -> None:
    """A pod and a job of each kind that examples name, as the sinks annotate them."""
    figures = {"gpu_util": '{"gpu_0_1":97}', "max_cpu_util": "271.8", "max_cpu_mem_mb": "245.7"}
    worker = orjson.dumps({"gpu-a-gpu-0_util": 97, "gpu-a-gpu-0_mem_mb": 512, "cpu_util": 250}).decode()
    kube.admin.create(pod(namespace, "bert-worker-0", **figures))
    for one in (
        mpijob(namespace, "bert", bert__worker__0=worker),
        job(namespace, "vision", vision__0=worker),
    ):
        one["metadata"]["labels"] = {"team": "vision"}
        kube.admin.create(one)
    kube.admin.create(lease(namespace, f"other-{namespace}", 0))
    kube.admin.create(thing("v1", "Node", None, f"node-{namespace}", gpu__0='{"max_gpu_util":100}'))
