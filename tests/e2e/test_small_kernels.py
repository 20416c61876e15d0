"""Goal: of a GPU that is busy all the time, and of which an eighth works, everybody who looks is told so.

The samples are those of five minutes. Streams, sinks, screen and report are the real commands.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np
import orjson

from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.telemetry.endpoint import AskError
from tests.support.data.samples import cgroup, gpu, nvml
from tests.support.fakes.api_server import fake_api_server
from tests.support.kafka import Sent, all_topics, send, settings_of
from tests.support.processes.commands import dutycycle, environ, running
from tests.support.processes.figures import Process
from tests.support.servers.kube.client import kubeconfig
from tests.support.waiting import wait_until

NODE, SECONDS, IN_TIME_S = "gpu-a", 300, 60.0
POD_PATH, JOB_PATH = "/api/v1/namespaces/team/pods/bert-0", "/apis/batch/v1/namespaces/team/jobs/bert"
SAYS = r"kernels are too small \(utilization 100 %, SM 12 %, tensor cores 4 %, memory 7 %\)"


def job_of(start_ms: int) -> Sent:
    """A pod of a job."""
    job = {"api_version": "batch/v1", "kind": "Job", "name": "bert", "namespace": "team", "uid": "j1"}
    pod = {"v": 1, "uid": "uid-1", "namespace": "team", "name": "bert-0", "node": NODE, "phase": "Running",
           "job": job, "ts_ms": start_ms}  # fmt: skip
    return "pods", "uid-1", orjson.dumps(pod)


def samples(start_ms: int, seconds: range) -> Iterator[Sent]:
    """The pod on two GPUs: utilization is 100 %, and SM activity 12 %."""
    chance = np.random.default_rng(seconds.start)
    for at in seconds:
        ts_ms = start_ms + 1000 * at
        figures = {"sm_active_pct": 12, "tensor_active_pct": 4, "dram_active_pct": 7, "fp32_active_pct": 2,
                   "power_w": 260, "mem_copy_util_pct": 6}  # fmt: skip
        gpus = [
            gpu(index, gpu_util_pct=100, mem_used_bytes=60e9, mem_total_bytes=80e9, power_limit_w=700,
                processes=[{"pid": index + 1, "pod_uid": "uid-1", "mem_used_bytes": 60e9}],
                **{name: round(value * chance.normal(1, 0.01), 1) for name, value in figures.items()})
            for index in range(2)
        ]  # fmt: skip
        yield "nvml-samples", NODE, orjson.dumps(nvml(at, gpus, node=NODE, ts_ms=ts_ms)), ts_ms
        host = {"cpu_util_pct": 300, "cpu_count": 64, "mem_used_bytes": 2e10, "mem_total_bytes": 5e11}
        pods = [{"uid": "uid-1", "containers": [{"id": "c", "cpu_util_pct": 110, "mem_used_bytes": 8e9}]}]
        yield "cgroup-samples", NODE, orjson.dumps(cgroup(at, host, pods, node=NODE, ts_ms=ts_ms)), ts_ms


@contextmanager
def measured(settings: Settings) -> Iterator[None]:
    """The samples of the last minutes at once, and then one a second."""
    ended = Event()

    def feed() -> None:
        start_ms, at = round(1000 * (time.time() - SECONDS)), 0
        asyncio.run(send(settings, [job_of(start_ms)]))
        while not ended.wait(0.2):
            until = int(time.time() - start_ms / 1000)
            if until > at:
                asyncio.run(send(settings, samples(start_ms, range(at, until))))
                at = until

    feeder = Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        ended.set()
        feeder.join()


def wait_for(pattern: str, outlet: Callable[[], str]) -> None:
    wait_until(lambda: bool(re.search(pattern, outlet(), re.MULTILINE)), outlet, IN_TIME_S)


def test_it_is_told_on_screen_annotation_series_and_report(tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(all_topics()))
        api = stack.enter_context(fake_api_server())
        api.groups["/apis/batch/v1"] = [("Job", "jobs", True)]
        api.add(JOB_PATH, "j1")
        api.add(f"/api/v1/nodes/{NODE}", "n")
        api.add(POD_PATH, "uid-1")
        records = f"sqlite:///{tmp_path}/records.db"
        env = environ(node=NODE, kubernetes="on", records=records, partitions="1", broker=broker.url)
        env |= {"KUBECONFIG": str(kubeconfig(tmp_path / "kubeconfig", api.url)), "PYTHONUNBUFFERED": "1"}
        for name, command in {
            "stream": ["stream"],
            "sink": ["sink"],
            "series": ["sink", "--metrics"],
        }.items():
            stack.enter_context(running(*command, env=env, log=tmp_path / f"{name}.log"))
        stack.enter_context(measured(settings_of(env)))
        exported = Process(tmp_path / "series.log")

        def page() -> str:
            try:
                return exported.page()
            except AskError:
                return ""

        def annotations() -> str:
            return "\n".join(
                f"{path} {key} {value}"
                for path in (POD_PATH, JOB_PATH)
                for key, value in api.objects[path]["annotations"].items()
            )

        for path in (POD_PATH, JOB_PATH):
            wait_for(f"^{path} dutycycle.io/bottleneck launch$", annotations)
            wait_for(f"^{path} dutycycle.io/advice {SAYS}", annotations)
        wait_for(r'^dutycycle_pod_workload_info\{.*bottleneck="launch".*pod="bert-0".*\} 1\.0$', page)
        wait_for(r'^dutycycle_job_workload_info\{.*bottleneck="launch".*job_name="bert".*\} 1\.0$', page)
        wait_for(r"^dutycycle_pod_gpu_sm_active_ratio\{.*\} 0\.1[123]", page)
        wait_for(r"^dutycycle_gpu_utilization_ratio\{.*\} 1\.0$", page)
        screen = dutycycle("top", "--once", env=env).stdout
        busy = r"^gpu gpu-a gpu 0: 100 % .* SM 1[12].*% tensor .* does .*: kernels too small, or too few"
        assert re.search(busy, screen, re.MULTILINE), screen
        trace, report = tmp_path / "job.jsonl", tmp_path / "report.html"
        dutycycle("record", "--from", "1000000000000", "--out", trace, env=env)
        dutycycle("report", trace, "--job", "bert", "--out", report, env=env)
        assert re.search(SAYS, report.read_text())
