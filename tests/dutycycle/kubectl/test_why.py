"""``kubectl dutycycle why``: of pods, of jobs, and of what is deleted."""

import json
from pathlib import Path

import pytest

from dutycycle.contract.records.derived import JobPeaks, PodPeaks
from dutycycle.contract.records.pods import JobRef
from sinks.records.rows import job_row, pod_row
from tests.support.kubectl.plugin_user import BUSY, IDLE, User, mpijob, pod, thing
from tests.support.servers.kube.server import Kube
from tests.support.sinks.made import job_peaks, peak, pod_peaks
from tests.support.sinks.recording import open_store

WORKER = '{"gpu-a-gpu-0_util":100,"gpu-a-gpu-0_mem_mb":11669,"cpu_util":271.82}'


def stored(folder: Path, *records: PodPeaks | JobPeaks) -> str:
    """The URL of a database with these records."""
    url = f"sqlite:///{folder / 'records.db'}"
    store = open_store(url)
    rows = [pod_row(one) if isinstance(one, PodPeaks) else job_row(one) for one in records]
    assert store.put(rows) == []
    store.close()
    return url


def test_why_says_what_is_known_and_what_is_not(kube: Kube, user: User, pods: str) -> None:
    status, stdout, stderr = user.run("why", "busy", "-n", pods)
    assert (status, stderr) == (0, "")
    for text in (
        "GPU 97%, GPU memory bus 41%, CPU 272% of a core, memory 246MB, network 62.4 Mbit/s, disk 0 MB/s",
        "process 827505 on GPU 0 97%, process 9 on GPU 0 3%",
        "kind         training",
        "bottleneck   input",
        "advice       not known yet",
    ):
        assert text in stdout
    assert "bottleneck   not known yet" in user.run("why", "idle", "-n", pods)[1]
    found = json.loads(user.run("why", "busy", "-n", pods, "-o", "json")[1])
    assert (found["insight"], found["not_known"]) == (
        {"kind": "training", "bottleneck": "input"}, ["advice"],
    )  # fmt: skip
    assert found["annotations"]["gpu_util"] == {"gpu_0_827505": 97, "gpu_0_9": 3}


ODD = "hot_gpu: gpu-a/3 is 12 °C hotter than the others, usually 1: look at its fan"
QUEUE = {"expected_s": 60, "delay_s": 480, "why": "expected to take 60 s; 1 GPUs"}


@pytest.mark.parametrize(
    ("annotations", "line", "figures"),
    [
        ({"priority": json.dumps(QUEUE)}, "  priority     expected to take 60 s; 1 GPUs\n",
         {"annotations": {"kind": "training", "priority": QUEUE}}),
        ({"profile_bottleneck": "launch", "profile_advice": "Fuse kernels."},
         "  profile      launch: Fuse kernels.\n",
         {"profile": {"bottleneck": "launch", "advice": "Fuse kernels."}}),
        ({"anomaly": ODD}, f"  anomaly      {ODD}\n", {"anomaly": ODD}),
    ],
    ids=["the queue", "a profile", "an anomaly"],
)  # fmt: skip
def test_why_says_what_is_known_beside_insights(
    kube: Kube, user: User, namespace: str, annotations: dict[str, str], line: str, figures: dict[str, object]
) -> None:
    kube.admin.create(pod(namespace, "some", kind="training", **annotations))
    kube.admin.create(pod(namespace, "other", kind="training"))
    assert line in user.run("why", "some", "-n", namespace)[1]
    assert line[:10] not in user.run("why", "other", "-n", namespace)[1]
    whole = json.loads(user.run("why", "some", "-n", namespace, "-o", "json")[1])
    assert whole.items() >= figures.items()


def test_a_pod_that_never_touched_its_gpus_is_called_so(kube: Kube, user: User, namespace: str) -> None:
    for name, figures in (
        ("holds", IDLE | {"gpu_untouched_h": "3.25", "gpu_attribution": '{"gpu_1":"allocated"}'}),
        ("came-late", BUSY | {"gpu_untouched_h": "0.1"}),
        ("waits", IDLE),
    ):
        kube.admin.create(pod(namespace, name, **figures))
    words = {row[0]: row[-2] for row in user.lines("top", "pods", "-n", namespace)[1:]}
    assert words == {"holds": "untouched", "came-late": "training", "waits": "-"}
    _, why, _ = user.run("why", "holds", "-n", namespace)
    assert "  untouched    3.25 GPU-hours held without a process on them\n" in why


def test_why_adds_averages_from_the_records(kube: Kube, user: User, namespace: str, tmp_path: Path) -> None:
    made = kube.admin.create(pod(namespace, "busy"))
    record = pod_peaks(made["metadata"]["uid"], {"namespace": namespace, "name": "busy"})
    url = stored(tmp_path, record)
    status, stdout, _ = user.run("why", "busy", "-n", namespace, "--records", url)
    assert (status, "on average   GPU 48%, CPU 76%, over 9s" in stdout) == (0, True)


def test_of_a_job(kube: Kube, user: User, namespace: str, tmp_path: Path) -> None:
    insight = {"kind": "training", "bottleneck": "imbalance", "cycle_period_s": "12.5"}
    insight |= {"level_forecast": '{"gpu_mem_used_mb":{"10s":900,"300s":81234}}'}
    made = kube.admin.create(mpijob(namespace, "bert", bert__0=WORKER, bert__1='{"cpu_util":300}', **insight))
    status, stdout, stderr = user.run("why", "mpijob/bert", "-n", namespace)
    assert (status, stderr) == (0, "")
    assert stdout.splitlines() == [
        f"mpijob {namespace}/bert",
        "  at most      GPU 100%, GPU memory 11.7GB, CPU 300% of a core",
        "  pods         2",
        "  cycle        12.5s",
        "  forecast     GPU memory 81.2GB in 300s",
        "  last sample  not known: its pods are gone, or a node of theirs has no heartbeat",
        "  kind         training",
        "  bottleneck   imbalance",
        "  advice       not known yet",
    ]
    record = bert(namespace, made["metadata"]["uid"])
    _, stdout, _ = user.run("why", "mpijob/bert", "-n", namespace, "--records", stored(tmp_path, record))
    assert "  on average   CPU 76%, over 9s\n" in stdout


def test_of_a_node_its_gpus_their_health_and_who_uses_them(kube: Kube, user: User, namespace: str) -> None:
    name, reason = f"why-{namespace}", "GPU 1: Xid 79, fell off the bus: reset it"
    figures = {
        "gpu__static": '{"count":2,"model":"Tesla K80","mem_size":"12GB"}',
        "gpu__0": '{"mem_used":"9.5GB","mem_free":"2.5GB","process_cnt":1,"cyclic":true,"period_s":13.2,'
        '"max_gpu_util":100,"max_mem_util":66,"trend_pct_per_h":-0.4}',
        "gpu__1": "{}", "gpu_health": "reset", "gpu_health_reason": reason,
    }  # fmt: skip
    node = kube.admin.create(thing("v1", "Node", None, name, **figures))
    try:
        for made in (pod(namespace, "idle", **IDLE), pod(namespace, "busy", **BUSY), pod(namespace, "new")):
            kube.admin.create(made | {"spec": made["spec"] | {"nodeName": name}})
        for what in (f"node/{name}", f"no/{name}"):
            status, stdout, stderr = user.run("why", what)
            assert (status, stderr) == (0, "")
        assert stdout.splitlines() == [
            f"node {name}",
            "  GPUs         2 Tesla K80 12GB",
            "  GPU 0        memory 9.5GB used, 2.5GB free, 1 process; at most 100% in the last hour, "
            "memory bus 66%; a cycle of 13.2s, trend -0.4 % an hour",
            "  GPU 1        nothing is measured",
            "  health       reset",
            f"               {reason}",
            "  pods         2 with figures",
            f"               {namespace}/busy: GPU 97%, CPU 272% of a core, training, input",
            f"               {namespace}/idle: GPU 0%, CPU 0% of a core",
            "  last sample  not known: the node has no heartbeat",
        ]
        found = json.loads(user.run("why", f"node/{name}", "-o", "json")[1])
        assert (found["annotations"]["gpu_health"], [one["name"] for one in found["pods"]]) == (
            "reset",
            ["busy", "idle"],
        )
    finally:
        kube.admin.delete(node)
    status, stdout, stderr = user.run("why", f"node/{name}")
    assert (status, stdout, f'nodes "{name}" not found' in stderr) == (1, "", True)


def bert(namespace: str, uid: str, kind: str = "MPIJob", last_ms: int = 10_000) -> JobPeaks:
    job = JobRef(api_version="kubeflow.org/v2beta1", kind=kind, name="bert", uid=uid)
    return job_peaks(uid, job=job, namespace=namespace, last_ms=last_ms)


def test_of_a_deleted_pod_the_peak_record_is_shown(user: User, namespace: str, tmp_path: Path) -> None:
    names = {"namespace": namespace, "name": "busy"}
    older = pod_peaks("uid-1", names | {"started_ms": 1_000}, metrics={"cpu_util_pct": peak(1)})
    newer = pod_peaks("uid-2", names | {"started_ms": 2_000})
    url = stored(tmp_path, newer, older, pod_peaks("uid-3", {"namespace": "elsewhere", "name": "busy"}))
    status, stdout, stderr = user.run("why", "pod/busy", "-n", namespace, "--records", url)
    assert (status, stderr) == (0, "")
    assert stdout.splitlines()[:2] == [
        f"pod {namespace}/busy (deleted: this is its peak record)",
        "  at most      GPU 95%, CPU 152% of a core",
    ]
    assert "  on average   GPU 48%, CPU 76%, over 9s\n" in stdout
    assert "  kind         not known: peak records do not have it\n" in stdout
    found = json.loads(user.run("why", "busy", "-n", namespace, "--records", url, "-o", "json")[1])
    assert (found["uid"], found["deleted"], found["annotations"]["max_cpu_util"]) == ("uid-2", True, 151.8)
    assert found["record"]["pod"]["uid"] == "uid-2"


def test_of_a_deleted_job_the_peak_record_is_shown(user: User, namespace: str, tmp_path: Path) -> None:
    records = [
        bert(namespace, "new", last_ms=20_000),
        bert(namespace, "old"),
        bert(namespace, "other", "Job"),
    ]
    url = stored(tmp_path, *records)
    status, stdout, stderr = user.run("why", "mpijob/bert", "-n", namespace, "--records", url)
    assert (status, stderr) == (0, "")
    assert stdout.splitlines()[:4] == [
        f"mpijob {namespace}/bert (deleted: this is its peak record)",
        "  at most      CPU 152% of a core",
        "  pods         1",
        next(line for line in stdout.splitlines() if line.startswith("  last sample  ")),
    ]
    assert "d ago (ended)\n  on average   CPU 76%, over 19s\n" in stdout


@pytest.mark.parametrize("what", ["pod/gone", "mpijob/gone"])
def test_what_is_gone_without_a_record_is_told_so(
    user: User, namespace: str, tmp_path: Path, what: str
) -> None:
    url = stored(tmp_path, pod_peaks("uid-1", {"namespace": namespace, "name": "other"}))
    for flags, says in (([], "--records finds what deleted "), (["--records", url], "no peak record")):
        status, stdout, stderr = user.run("why", what, "-n", namespace, *flags)
        assert (status, stdout, stderr.count("\n")) == (1, "", 1)
        assert says in stderr
