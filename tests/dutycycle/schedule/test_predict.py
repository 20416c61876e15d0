"""``dutycycle predict``: from the records of ended pods to what a new one should ask for."""

from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace

from dutycycle.cli.main import main
from dutycycle.contract.codec import encode
from dutycycle.contract.records.pods import JobRef
from dutycycle.schedule.asked import advice, prediction_of
from dutycycle.schedule.pod_specs import AskedPod, pods_of
from dutycycle.submit.documents import read_documents
from sinks.records.writer import RecordsWriter
from tests.support.sinks.scheduling import GIB, NOW, peaks, pod

CONTAINER = """containers:
{0}- name: main
{0}  image: train:1
{0}  resources:
{0}    limits: {{nvidia.com/gpu: 1, cpu: "8", memory: 64Gi}}
"""
POD = f"""apiVersion: v1
kind: Pod
metadata: {{name: new}}
spec:
  {CONTAINER.format("  ")}"""
TORCH = f"""apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: bert, namespace: ml}}
spec:
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          {CONTAINER.format("          ")}    Worker:
      replicas: 3
      template:
        spec:
          {CONTAINER.format("          ")}"""


def asked(text: str, folder: Path) -> list[AskedPod]:
    (folder / "job.yaml").write_text(text)
    documents = read_documents([str(folder / "job.yaml")])
    return [one for document in documents for one in pods_of(document, "ml", documents).pods]


def test_the_pods_of_a_file(tmp_path: Path) -> None:
    assert [(one.role, one.namespace, one.gpus) for one in asked(POD, tmp_path)] == [("", "ml", 1)]
    assert [one.role for one in asked(TORCH, tmp_path)] == ["Master", "Worker"]


def test_similar_pods_say_what_to_ask_for(tmp_path: Path) -> None:
    records = [peaks(pod(f"p{number}"), 10.0 + number) for number in range(3)]
    running = peaks(pod("running"), 70.0, final=False)
    (new,) = asked(POD, tmp_path)
    found = prediction_of(new, [*records, running])
    assert found is not None
    assert (found.pods, found.likeness) == (3, "image")
    assert list(advice(new, found)) == [
        "cpu: 2.8 (it asks for 8)",
        "GPUs: 1, as it asks for",
        "MIG: by its memory 2g.20gb of a GPU with 80 GB is enough; its speed there is not known",
    ]


def test_a_pod_without_gpus_is_told_so(tmp_path: Path) -> None:
    (new,) = asked(POD.replace("nvidia.com/gpu: 1, ", ""), tmp_path)
    found = prediction_of(new, [peaks(pod("p"), 10.0)])
    assert found is not None
    assert "GPUs: it asks for none" in advice(new, found)


CLAIMS = "  resourceClaims: [%s]\n"
OF_TEMPLATE = CLAIMS % "{name: g, resourceClaimTemplateName: t}"
SHARED = CLAIMS % "{name: a, resourceClaimName: c}, {name: b, resourceClaimName: c}"


def claim(requests: str, *, version: str = "v1", name: str = "t") -> str:
    return (
        f"---\napiVersion: resource.k8s.io/{version}\nkind: ResourceClaimTemplate\n"
        f"metadata: {{name: {name}}}\n"
        f"spec: {{spec: {{devices: {{requests: [{requests}]}}}}}}\n"
    )


EXACTLY = "{name: r, exactly: {deviceClassName: gpu.nvidia.com%s}}"
BEFORE = "{name: r, deviceClassName: %s, count: 2}"
CHOICES = (
    "{name: r, firstAvailable: [{name: a, deviceClassName: gpu.nvidia.com, count: %s},"
    " {name: b, deviceClassName: mig.nvidia.com}]}"
)
CHANNEL = """---
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: rack}
spec: {numNodes: 2, channel: {resourceClaimTemplate: {name: %s}}}
"""
CLASS = """---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: %s}
spec: {selectors: [{cel: {expression: "device.driver == '%s' && true"}}]}
"""


@pytest.mark.parametrize(
    ("claims", "others", "gpus", "note"),
    [
        (OF_TEMPLATE, claim(EXACTLY % ""), 1, None),
        (OF_TEMPLATE, claim(EXACTLY % ", count: 4"), 4, None),
        (OF_TEMPLATE, claim(BEFORE % "mig.nvidia.com", version="v1beta1"), 2, None),
        (OF_TEMPLATE, claim(f"{EXACTLY % ''}, {BEFORE % 'gpu.nvidia.com'}"), 3, None),
        (OF_TEMPLATE, claim(EXACTLY % ", adminAccess: true, allocationMode: All"), 0, None),
        (OF_TEMPLATE, claim(BEFORE % "compute-domain-daemon.nvidia.com"), 0, None),
        (OF_TEMPLATE, claim(CHOICES % 1), 1, None),
        (OF_TEMPLATE, claim(CHOICES % 2), None, "the first available of 2 or 1 GPUs"),
        (OF_TEMPLATE, claim(EXACTLY % ", allocationMode: All"), None, "takes all devices of gpu.nvidia.com"),
        (OF_TEMPLATE, claim(EXACTLY % ", count: many"), None, "'many' is no whole number"),
        (OF_TEMPLATE, claim(BEFORE % "big"), None, "DeviceClass big is not in these files"),
        (OF_TEMPLATE, claim(BEFORE % "big") + CLASS % ("big", "gpu.nvidia.com"), 2, None),
        (OF_TEMPLATE, claim(BEFORE % "nic") + CLASS % ("nic", "dra.net"), 0, None),
        (OF_TEMPLATE, CHANNEL % "t", 0, None),
        (OF_TEMPLATE, CHANNEL % "other", None, "ResourceClaimTemplate t, which is not in these files"),
        (OF_TEMPLATE, claim("x"), None, "its requests are no list of objects"),
        (OF_TEMPLATE, "", None, "ResourceClaimTemplate t, which is not in these files: kubectl get"),
        (CLAIMS % "{name: g, source: {resourceClaimTemplateName: t}}", claim(EXACTLY % ""), 1, None),
        (CLAIMS % "{name: g, source: t}", "", None, "its claim g names no resourceClaimTemplateName or"),
        (CLAIMS % "{name: a, resourceClaimTemplateName: c}, {name: b, resourceClaimName: c}",
         claim(EXACTLY % "", name="c"), None, "stands in ResourceClaim c, which is not in these files"),
        (CLAIMS % "{name: g}", "", None, "its claim g names no resourceClaimTemplateName or"),
        (CLAIMS % "g", "", None, "its resourceClaims are no list of objects"),
        (SHARED, claim(EXACTLY % "", name="c").replace("ClaimTemplate", "Claim")
         .replace("{spec: {devices: ", "{devices: ").replace("]}}}", "]}}"), 1, None),
        (OF_TEMPLATE.replace("t}", "t}, {name: h, resourceClaimTemplateName: t}"), claim(EXACTLY % ""), 2,
         None),
    ],
)  # fmt: skip
def test_gpus_of_claims(
    tmp_path: Path, claims: str, others: str, gpus: float | None, note: str | None
) -> None:
    (new,) = asked(POD.replace("nvidia.com/gpu: 1, ", "") + claims + others, tmp_path)
    assert new.gpus == gpus
    assert (note or "") in (new.note or "")
    assert (new.note is None) == (note is None)
    found = prediction_of(new, [peaks(pod("p"), 10.0)])
    assert found is not None
    texts: dict[float | None, str] = {None: "it asks for them by something", 0: "it asks for none"}
    said = texts.get(gpus, f"{gpus}, as it asks for")
    assert any(line.startswith(f"GPUs: {said}") for line in advice(new, found))


def test_gpus_that_nobody_used(tmp_path: Path) -> None:
    (new,) = asked(POD, tmp_path)
    one = peaks(pod("p"), 0.1)
    unused = replace(
        one, metrics={**one.metrics, "gpu_util_pct": replace(one.metrics["cpu_util_pct"], max=0.0)}
    )
    found = prediction_of(new, [unused])
    assert found is not None
    assert "GPUs: no similar pod used any; it asks for 1" in advice(new, found)


def test_without_similar_pods_there_is_no_prediction(tmp_path: Path) -> None:
    (new,) = asked(POD, tmp_path)
    assert prediction_of(new, []) is None
    assert prediction_of(new, [peaks(pod("p", trial_of="train"), 10.0)]) is None
    assert prediction_of(new, [peaks(pod("p", namespace="web"), 10.0)]) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "job.yaml"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "no object in it is known to make pods"),
        (POD, "there are no peak records in"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(text)
    url = f"sqlite:///{tmp_path}/none.db"
    assert main(["predict", str(tmp_path / "job.yaml"), "--records", url]) in (1, 2)
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1


def test_the_whole_way_from_the_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text(TORCH)
    url = f"sqlite:///{tmp_path}/records.db"
    with RecordsWriter(url) as writer:
        for number in range(2):
            writer.write("pod-peaks", encode(peaks(pod(f"p{number}", finished_ms=NOW), 10.0 + number)))
    assert main(["predict", str(tmp_path / "job.yaml"), "--records", url]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == [
        "pytorchjob/bert Master",
        "  from 2 ended pods with the same image; two cover a third of what comes",
        "  duration: 10m (10m to 10m in 33% of runs)",
    ]
    assert "pytorchjob/bert Worker" in said
    assert main(["predict", str(tmp_path / "job.yaml"), "--records", url, "-n", "ml"]) == 0
    (tmp_path / "job.yaml").write_text(POD)
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "job.yaml"), "--records", url]) == 0
    assert "no prediction: no pod like it has ended in namespace default" in capsys.readouterr().out


def test_a_run_is_like_those_of_its_job_with_other_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for the webhook, which knows the job by the pod's controller."""
    (tmp_path / "job.yaml").write_text(TORCH.replace("name: bert,", "name: bert-8,"))
    url = f"sqlite:///{tmp_path}/records.db"
    job = JobRef(api_version="kubeflow.org/v1", kind="PyTorchJob", name="bert-7", uid="seven")
    with RecordsWriter(url) as writer:
        writer.write("pod-peaks", encode(peaks(pod("p", job=job, images=("train:0",)), 10.0)))
    assert main(["predict", str(tmp_path / "job.yaml"), "--records", url]) == 0
    assert "from 1 ended pod with the same job name and GPUs" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_name_that_is_yet_to_be_made_is_the_same_each_time(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = "{template: {spec: {containers: [{name: main, image: x}]}}}"
    job = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{generateName: sweep-}}\nspec: {spec}\n"
    (tmp_path / "job.yaml").write_text(job)
    url = f"sqlite:///{tmp_path}/records.db"
    with RecordsWriter(url) as writer:
        writer.write("pod-peaks", encode(peaks(pod("p", finished_ms=NOW), 10.0)))
    said = []
    for _ in range(2):
        assert main(["predict", str(tmp_path / "job.yaml"), "--records", url, "--format", form]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert ("job/sweep-\n" if form == "text" else '"name": "sweep-"') in said[0]


def test_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text(TORCH + "---\n" + POD)
    url = f"sqlite:///{tmp_path}/records.db"
    with RecordsWriter(url) as writer:
        for number in range(2):
            writer.write("pod-peaks", encode(peaks(pod(f"p{number}", finished_ms=NOW), 10.0 + number)))
    assert main(["predict", str(tmp_path / "job.yaml"), "--records", url, "--format", "json"]) == 0
    master, worker, other = orjson.loads(capsys.readouterr().out)
    assert (master["kind"], master["name"], master["role"], worker["role"]) == (
        "PyTorchJob", "bert", "Master", "Worker",
    )  # fmt: skip
    assert master["pods"] == 2
    assert master["figures"]["duration_s"] == {
        "middle": 600, "low": 600, "high": 600, "coverage": pytest.approx(1 / 3), "pods": 2,
    }  # fmt: skip
    assert any(line.startswith("cpu: ") for line in master["ask_for"])
    assert other["unknown"] == "no pod like it has ended in namespace default"
    assert "figures" not in other


TRAIN_JOB = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert, namespace: ml}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {image: train:1, command: [torchrun], resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}
"""
RUNTIME = """---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-distributed}
spec:
  template:
    spec:
      replicatedJobs:
        - name: data
          template: {spec: {template: {spec: {containers: [{name: data, image: data:1}]}}}}
        - name: node
          template:
            spec:
              template: {spec: {containers: [{name: log, image: log:1}, {name: node, image: torch:1}]}}
"""


def test_a_train_job_has_the_pods_of_its_runtime(tmp_path: Path) -> None:
    data, node = asked(TRAIN_JOB + RUNTIME, tmp_path)
    assert [(one.role, one.gpus, one.note) for one in (data, node)] == [("data", 0, None), ("node", 4, None)]
    assert [one["image"] for one in node.spec["containers"]] == ["log:1", "train:1"]
    (alone,) = asked(TRAIN_JOB, tmp_path)
    assert (alone.role, alone.gpus) == ("node", 4)
    assert "ClusterTrainingRuntime torch-distributed is not in these files" in (alone.note or "")


def of_kind(kind: str, spec: str) -> str:
    version = "batch/v1" if kind in ("Job", "CronJob") else "v1"
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("Workflow", "{templates: ["
         "{name: a, container: {image: x, resources: {limits: {nvidia.com/gpu: 1}}}},"
         " {name: b, script: {image: y}}, {name: c, containerSet: {containers: [{image: z}]}},"
         " {name: d, steps: [[{name: e, template: a}]]}]}", [("a", "x", 1), ("b", "y", 0), ("c", "z", 0)]),
        ("SparkApplication", "{image: s, driver: {cores: 1},"
         " executor: {image: t, gpu: {name: nvidia.com/gpu, quantity: 2}}}",
         [("driver", "s", 0), ("executor", "t", 2)]),
        ("SparkApplication", "{image: s, driver: {template: {spec: {containers: [{resources: {limits:"
         " {nvidia.com/gpu: 1}}}]}}}, executor: {cores: 2},"
         " sparkConf: {spark.executor.resource.gpu.amount: '4'}}",
         [("driver", "s", 1), ("executor", "s", 4)]),
        ("Workflow",
         """{podSpecPatch: '{"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]}',"""
         " templates: [{name: a, container: {image: x}},"
         " {name: b, podSpecPatch: '{{=a}}', script: {image: y}},"
         " {name: c, podSpecPatch: 'containers: [{args: [2026-02-30], resources: {limits: {nvidia.com/gpu:"
         " 3}}}]', container: {image: z, resources: {limits: {nvidia.com/gpu: 1, cpu: 1}}}}]}",
         [("a", "x", 2), ("b", "y", 2), ("c", "z", 3)]),
        ("SparkApplication", "{image: s, driver: [x], executor: {gpu: 1}}",
         [("driver", "s", 0), ("executor", "s", 0)]),
        ("ScheduledSparkApplication", "{template: {image: s}}", [("driver", "s", 0), ("executor", "s", 0)]),
        ("TaskRun", "{taskSpec: {steps: [{name: a, image: x}, {image: y}]}}", [("taskSpec", "x", 0)]),
        ("TaskRun", "{taskSpec: {stepTemplate: {computeResources: {limits: {nvidia.com/gpu: 1}}},"
         " sidecars: [{image: s}], steps: [{image: x, computeResources: {limits: {cpu: 1}}}, {image: y}]}}",
         [("taskSpec", "x", 2)]),
        ("Workflow", "{templates: [{name: a, initContainers: [{image: i}], sidecars: [{image: s, resources:"
         " {limits: {nvidia.com/gpu: 1}}}], script: {image: x, resources: {limits: {nvidia.com/gpu: 1}}}}]}",
         [("a", "x", 2)]),
        ("Workflow", "{templateDefaults: {container: {image: x, resources: {limits: {nvidia.com/gpu: 1}}}},"
         " templates: [{name: a, container: {command: [y]}}, {name: b, script: {image: z}}]}",
         [("a", "x", 1), ("b", "z", 0)]),
        ("DynamoGraphDeployment", "{services: {Decode: {resources: {limits: {nvidia.com/gpu: 2}},"
         " extraPodSpec: {mainContainer: {image: x}}}, Web: {extraPodSpec: {mainContainer: {image: y}}}}}",
         [("mainContainer", "x", 2), ("mainContainer", "y", 0)]),
        ("DynamoGraphDeployment", "{services: {Decode: {resources: {limits: {gpu: 2}}, extraPodSpec:"
         " {mainContainer: {image: x}}}}}", [("mainContainer", "x", 2)]),
        ("DynamoGraphDeployment", "{services: {Decode: {resources: {limits: {gpu: 2, gpuType: amd.com/gpu,"
         " custom: {rdma/shared: 1}}}, extraPodSpec: {mainContainer: {image: x}}}}}",
         [("mainContainer", "x", 2)]),
        ("NIMService", "{image: {repository: nim/x, tag: 1.2}, resources: {limits: {nvidia.com/gpu: 8}}}",
         [("", "nim/x:1.2", 8)]),
        ("NIMService", "{image: {repository: nim/x}, draResources: [{claimCreationSpec: {devices: []}}]}",
         [("", "nim/x", None)]),
        ("Workflow", "{templates: [{name: a, container: {image: x}}, {name: b, resource: {action: create,"
         " manifest: \"{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {containers: [{name: c,"
         " image: y, resources: {limits: {nvidia.com/gpu: 4}}}]}}}}\"}}]}", [("a", "x", 0), ("b", "y", 4)]),
        ("LeaderWorkerSet", "{leaderWorkerTemplate: {workerTemplate: {spec: {containers: [{image: x}]}}}}",
         [("workerTemplate", "x", 0)]),
    ],
)  # fmt: skip
def test_pods_of_kinds_that_have_no_pod_template(
    tmp_path: Path, kind: str, spec: str, pods: list[tuple[str, str, float | None]]
) -> None:
    found = asked(of_kind(kind, spec), tmp_path)
    assert [(one.role, one.spec["containers"][0]["image"], one.gpus) for one in found] == pods


LIMITS = "{containers: [{image: x, resources: {limits: {%s}}}]}"
IN_POD = "spec.containers[0].resources.limits"


@pytest.mark.parametrize(
    ("kind", "spec", "sentences"),
    [
        ("Pod", LIMITS % "memory: 1X", [f"{IN_POD}.memory: '1X' is no quantity"]),
        ("Pod", LIMITS % "memory: $MEM", [f"{IN_POD}.memory: '$MEM' is to be filled in: give what envsubst"]),
        ("Pod", LIMITS % "nvidia.com/gpu: -1", [f"{IN_POD}.nvidia.com/gpu: '-1' is below 0"]),
        ("Pod", LIMITS % "nvidia.com/gpu: 1.5", [f"{IN_POD}.nvidia.com/gpu: '1.5' is no whole number"]),
        ("Pod", LIMITS % "nvidia.com/gpu: 1500m, memory: 1 Gi",
         [f"{IN_POD}.nvidia.com/gpu: '1500m' is no", f"{IN_POD}.memory: '1 Gi' is no quantity"]),
        ("Workflow", "{templates: [{name: a, container: {image: x}, initContainers: [{image: i, resources:"
         " {limits: {memory: 8GB}}}], sidecars: [{image: s, resources: {limits: {cpu: 1 core}}}]}]}",
         ["spec.templates[0].sidecars[0].resources.limits.cpu: '1 core' is no quantity",
          "spec.templates[0].initContainers[0].resources.limits.memory: '8GB' is no quantity"]),
        ("Workflow", "{templates: [{name: a, container: {image: x}, sidecars: [3]}]}",
         ["3, which is no container"]),
        ("Pod", "{containers: [{image: x, resources: {requests: {cpu: 3}, limits: {cpu: 2}}}]}",
         ["spec.containers[0].resources.requests.cpu: '3' is more than its limit, '2'"]),
        ("Pod", "{containers: [{image: x, resources: {requests: {nvidia.com/gpu: 1, cpu: 1}}}]}",
         ["spec.containers[0].resources.requests.nvidia.com/gpu: '1' has no limit, and nvidia.com"]),
        ("Pod", "{containers: {name: a, image: x}}", ["spec.containers: {'name': 'a', 'image': 'x'} is no"]),
        ("Job", "{template: {spec: {containers: [{name: a, image: x, command: python train.py}]}}}",
         ["command of container a: 'python train.py' is no list: write ['python train.py']"]),
        ("Pod", "{containers: [{image: x, resources: {limits: 8}}]}", [f"{IN_POD}: 8 names no resources"]),
        ("Pod", "{containers: [{image: x}], initContainers: [{image: y, resources: {limits: {cpu: -1}}}]}",
         ["spec.initContainers[0].resources.limits.cpu: '-1' is below 0"]),
        ("Pod", "{containers: [{image: x, resources: big}]}", ["spec.containers[0].resources: 'big'"]),
        ("Pod", "{containers: [x]}", ["spec.containers: ['x'] is no list of containers"]),
        ("Pod", LIMITS % "8: 1", ["spec.containers[0].resources.limits: 8 is no name of a resource"]),
        ("Pod", "{containers: [{name: a, image: 1.5}]}", ["image of container a: 1.5 is no text"]),
        ("Pod", "{containers: [{name: a, image: x, args: [--seed, 99999999999999999999]}]}",
         ["args of container a: 99999999999999999999 is no text"]),
        ("Pod", "{containers: [{name: a, image: x, command: {1: 2}}]}",
         ["command of container a: {1: 2} is no text"]),
        ("TaskRun", "{taskSpec: {steps: [{name: a, image: 1.5}]}}", ["image of container a: 1.5 is no text"]),
        ("TaskRun", "{taskSpec: {steps: [{image: x}, 5]}}", ["5, which is no container"]),
        ("DynamoGraphDeployment", "{services: {W: {resources: {limits: 5}, main: {image: x}}}}",
         ["spec.services.W.main.resources.limits: 5 names no resources"]),
        ("SparkApplication", "{driver: {image: 1.5}}", ["image of container driver: 1.5 is no text"]),
        ("TrainJob", "{trainer: {image: 1.5}}", ["image of container node: 1.5 is no text"]),
        ("Pod", "{containers: [{image: x}], initContainers: {a: b}}", ["spec.initContainers: {'a': 'b'}"]),
        ("Pod", "{containers: [{image: x}], initContainers: 5}", ["spec.initContainers: 5"]),
        ("PyTorchJob", "{pytorchReplicaSpecs: {Master: {template: {spec: %s}}}}" % (LIMITS % "cpu: x"),
         ["spec.pytorchReplicaSpecs.Master.template.spec.containers[0].resources.limits.cpu: 'x' is no"]),
        ("RayJob", "{rayClusterSpec: {workerGroupSpecs: [{groupName: a, template: {spec: %s}}]}}"
         % (LIMITS % "cpu: x"),
         ["spec.rayClusterSpec.workerGroupSpecs[0].template.spec.containers[0].resources.limits.cpu: 'x'"]),
        ("Workflow", "{templates: [{name: a, container: {image: x, resources: {limits: {cpu: x}}}}]}",
         ["spec.templates[0].container.resources.limits.cpu: 'x' is no quantity"]),
        ("SparkApplication", "{driver: {coreRequest: 1X}, image: s}",
         ["spec.driver.coreRequest: '1X' is no quantity"]),
        ("SparkApplication", "{executor: {gpu: {name: nvidia.com/gpu, quantity: 0.5}}, image: s}",
         ["spec.executor.gpu.quantity: '0.5' is no whole number"]),
        ("TrainJob", "{trainer: {image: x, resourcesPerNode: {limits: {nvidia.com/gpu: two}}}}",
         ["spec.trainer.resourcesPerNode.limits.nvidia.com/gpu: 'two' is no quantity"]),
    ],
)  # fmt: skip
def test_amounts_that_the_api_server_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, spec: str, sentences: list[str]
) -> None:
    """They are said with their place, and what stands beside them is predicted."""
    (tmp_path / "job.yaml").write_text(f"{of_kind(kind, spec)}---\n{POD}")
    url = f"sqlite:///{tmp_path}/records.db"
    with RecordsWriter(url) as writer:
        writer.write("pod-peaks", encode(peaks(pod("p", finished_ms=NOW), 10.0)))
    command = ["predict", str(tmp_path / "job.yaml"), "--records", url, "-n", "ml"]
    assert main(command) == 2
    text = capsys.readouterr().out
    assert [f"  the API server refuses {sentence}" in text for sentence in sentences] == [True] * len(
        sentences
    )
    assert "pod/new\n  from 1 ended pod with the same image" in text
    assert main([*command, "--format", "json"]) == 2
    answers = orjson.loads(capsys.readouterr().out)
    (refused,) = [answer["refused"] for answer in answers if "refused" in answer]
    assert len(refused) == len(sentences)
    assert answers[-1]["pods"] == 1


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Pod", LIMITS % "memory: 1.5Gi, cpu: 100m, nvidia.com/gpu: 1e0, ephemeral-storage: 1E"),
        ("Workflow", "{templates: [{name: a, container: {image: x, resources: {limits:"
         " {nvidia.com/gpu: '{{inputs.parameters.gpus}}'}}}}]}"),
    ],
)  # fmt: skip
def test_amounts_that_the_api_server_takes(tmp_path: Path, kind: str, spec: str) -> None:
    assert [one.refused for one in asked(of_kind(kind, spec), tmp_path)] == [()]


WORKFLOW_TEMPLATE = "{templates: [{name: a, container: {image: x}}, {name: b, script: {image: y}}]}"


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        (of_kind("WorkflowTemplate", WORKFLOW_TEMPLATE), ["a", "b"]),
        (of_kind("ClusterWorkflowTemplate", WORKFLOW_TEMPLATE), ["a", "b"]),
        (of_kind("CronWorkflow", f"{{workflowSpec: {WORKFLOW_TEMPLATE}}}"), ["a", "b"]),
        (of_kind("Workflow", "{workflowTemplateRef: {name: x}}") + "---\n"
         + of_kind("WorkflowTemplate", WORKFLOW_TEMPLATE), ["a", "b"]),
    ],
)  # fmt: skip
def test_templates_of_argo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, roles: list[str]
) -> None:
    (tmp_path / "job.yaml").write_text(text)
    url = f"sqlite:///{tmp_path}/records.db"
    with RecordsWriter(url) as writer:
        writer.write("pod-peaks", encode(peaks(pod("p", finished_ms=NOW), 10.0)))
    assert main(["predict", str(tmp_path / "job.yaml"), "--records", url, "--format", "json"]) == 0
    assert [answer["role"] for answer in orjson.loads(capsys.readouterr().out)] == roles


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        ("TrainJob", "{runtimeRef: {name: torch}}", "it names no image, and its ClusterTrainingRuntime"),
        (
            "RayJob", "{clusterSelector: {ray.io/cluster: c1}}",
            "in the pods of the RayCluster with ray.io/cluster=c1",
        ),
        ("TrainJob", "{runtimeRef: torch, trainer: [x]}", "it names no image, and its ClusterTraining"),
        ("Workflow", "{workflowTemplateRef: {name: t}}", "its pods stand in WorkflowTemplate t"),
        (
            "Workflow",
            "{templates: [{name: a, steps: [[{name: x, templateRef: {name: t, clusterScope: true}}]]}]}",
            "its pods stand in ClusterWorkflowTemplate t",
        ),
        (
            "PipelineRun", "{pipelineRef: {resolver: git, params: [{name: url, value: u}]}}",
            "its pods stand in a Pipeline that the resolver git gets: give",
        ),
        (
            "PipelineRun", "{pipelineSpec: {tasks: [{taskRef: {name: a}}, {taskRef: {name: b}}]}}",
            "its pods stand in Task a, Task b: give that file",
        ),
        ("InferenceService", "{predictor: {model: {}}}", "what its pods run does not stand in the file"),
        (
            "VirtualMachineInstance",
            "{domain: {devices: {gpus: [{name: g}]}}, volumes: [{containerDisk: {image: x}}]}",
            "what its pods run does not stand in the file",
        ),
        ("Job", "{\u00a0template: x}", "it has no spec.template.spec.containers"),
        ("CronJob", "{jobTemplate: {}}", "it has no spec.jobTemplate.spec.template.spec.containers"),
    ],
)  # fmt: skip
def test_pods_that_do_not_stand_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, spec: str, said: str
) -> None:
    """It is said, the status tells it, and what stands beside it is predicted all the same."""
    (tmp_path / "job.yaml").write_text(f"{of_kind(kind, spec)}---\n{POD}")
    url = f"sqlite:///{tmp_path}/records.db"
    with RecordsWriter(url) as writer:
        writer.write("pod-peaks", encode(peaks(pod("p", finished_ms=NOW), 10.0)))
    assert main(["predict", str(tmp_path / "job.yaml"), "--records", url, "-n", "ml"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{kind.lower()}/x"
    assert said in lines[1]
    assert lines[2:4] == [
        "pod/new",
        "  from 1 ended pod with the same image; one says nothing of how it varies",
    ]


STEP = "{name: s, image: x, computeResources: {limits: {nvidia.com/gpu: %s}}}"


def test_a_run_has_the_pods_of_all_that_it_refers_to(tmp_path: Path) -> None:
    """A PipelineRun refers to a Pipeline, and that one to each Task; what else stands in it counts, too."""
    text = "---\n".join(
        [
            of_kind("PipelineRun", "{pipelineRef: {name: x}}"),
            of_kind(
                "Pipeline",
                "{tasks: [{name: a, taskRef: {name: one, kind: task}}, {name: b, taskRef: {name: two}},"
                f" {{name: c, taskSpec: {{steps: [{STEP % 1}]}}}}], finally: [{{taskRef: {{name: one}}}}]}}",
            ),
            of_kind("Task", f"{{steps: [{STEP % 2}]}}").replace(
                "metadata: {name: x}", "metadata: {name: one}"
            ),
            of_kind("Task", f"{{steps: [{STEP % 4}]}}").replace(
                "metadata: {name: x}", "metadata: {name: two}"
            ),
        ]
    )
    assert [(pod.role, pod.gpus) for pod in asked(text, tmp_path)] == [
        ("taskSpec", 1),
        ("one", 2),
        ("two", 4),
    ]


def test_what_a_template_makes_may_be_filled_in_later(tmp_path: Path) -> None:
    """Its text is no YAML before that; an amount that is filled in is not known, and nothing is refused."""
    manifest = """apiVersion: kubeflow.org/v1
            kind: PyTorchJob
            metadata: {generateName: x-}
            spec:
              pytorchReplicaSpecs:
                Worker:
                  replicas: {{inputs.parameters.workers}}
                  template:
                    spec:
                      containers:
                      - name: c
                        image: {{workflow.parameters.image}}
                        resources:
                          limits:
                            nvidia.com/gpu: {{inputs.parameters.gpus}}
"""
    text = (
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: w}\nspec:\n  templates:\n"
        f"  - name: train\n    resource:\n      action: create\n      manifest: |\n            {manifest}"
    )
    (pod,) = asked(text, tmp_path)
    assert (pod.role, pod.gpus, pod.refused) == ("Worker", None, ())


def test_a_template_that_makes_runs_of_itself(tmp_path: Path) -> None:
    manifest = "{apiVersion: argoproj.io/v1alpha1, kind: Workflow, spec: {workflowTemplateRef: {name: x}}}"
    made = f'{{name: again, resource: {{action: create, manifest: "{manifest}"}}}}'
    text = "---\n".join(
        [
            of_kind("WorkflowTemplate", f"{{templates: [{{name: a, container: {{image: i}}}}, {made}]}}"),
            of_kind("Workflow", "{workflowTemplateRef: {name: x}}"),
        ]
    )
    assert [(pod.role, pod.gpus) for pod in asked(text, tmp_path)] == [("a", 0)]


def test_a_part_whose_pods_the_controller_makes_is_said(tmp_path: Path) -> None:
    spec = "{predictor: {tensorflow: {storageUri: s}}, transformer: {containers: [{name: t, image: x}]}}"
    (tmp_path / "job.yaml").write_text(of_kind("InferenceService", spec))
    (document,) = read_documents([str(tmp_path / "job.yaml")])
    answer = pods_of(document, "ml")
    assert [pod.role for pod in answer.pods] == ["transformer"]
    assert "no prediction of its predictor" in (answer.missing or "")


WORKSPACE = (
    "apiVersion: kaito.sh/v1beta1\nkind: Workspace\nmetadata: {name: phi}\nresource: {instanceType: A100}\n"
)
PRESET = WORKSPACE + "inference: {preset: {name: phi-4}}\n"
OWN = WORKSPACE + "inference: {template: {spec: {containers: [{name: main, image: x}]}}}\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: []}\n"
QUEUE = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {name: q}\nspec: {clusterQueue: c}\n"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            PRESET,
            ["workspace/phi", "  passed over: Workspace of kaito.sh/v1beta1 is not known to make pods, and "
             "the file does not say what would run in them"],
        ),
        (OWN, ["workspace/phi inference"]),
        (SERVICE, []),
        (QUEUE, []),
    ],
    ids=["preset", "own", "service", "queue"],
)  # fmt: skip
def test_an_object_that_may_make_pods_is_said(
    document: str, said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one without a spec; what stands beside it is predicted."""
    (tmp_path / "job.yaml").write_text(f"{document}---\n{POD}")
    url = f"sqlite:///{tmp_path}/records.db"
    with RecordsWriter(url) as writer:
        writer.write("pod-peaks", encode(peaks(pod("p", finished_ms=NOW), 10.0)))
        writer.write("pod-peaks", encode(peaks(pod("q", finished_ms=NOW, images=("x",)), 10.0)))
    assert main(["predict", str(tmp_path / "job.yaml"), "--records", url, "-n", "ml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "pod/new" in lines
    about = [line for line in lines if "orkspace" in line or "service" in line or "queue" in line]
    assert about == said


SHARING = """apiVersion: batch/v1
kind: Job
metadata: {name: j, annotations: {gpu-fraction: "0.9"}}
spec:
  template:
    metadata: {annotations: {gpu-fraction: "0.5"}}
    spec: {schedulerName: kai-scheduler, containers: [{name: main, image: x}]}
"""


def test_a_part_of_a_gpu_is_the_templates(tmp_path: Path) -> None:
    """And not that of the job's own annotations, which no pod gets."""
    (pod,) = asked(SHARING, tmp_path)
    assert pod.gpus == 0.5
    (pod,) = asked(SHARING.replace('{annotations: {gpu-fraction: "0.5"}}', "{}"), tmp_path)
    assert pod.gpus == 0
    of_pod = (
        'apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {gpu-fraction: "0.5"}}\nspec: {%s}\n'
    )
    (pod,) = asked(of_pod % "containers: [{name: main, image: x}]", tmp_path)
    assert pod.gpus == 0.5


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (SHARING, 0.5),
        (POD.replace("nvidia.com/gpu: 1, ", "") + OF_TEMPLATE + claim(EXACTLY % ", count: 4"), 4.0),
    ],
)
def test_pods_that_had_as_many_gpus_are_similar(tmp_path: Path, text: str, gpus: float) -> None:
    """Also where an annotation or a claim asks for them."""
    (new,) = asked(text, tmp_path)
    found = prediction_of(
        new, [peaks(pod(f"{had}", images=("y",), gpu_request=had), 10 * had) for had in (0.0, 0.5, 1.0, 4.0)]
    )
    assert found is not None
    assert (found.pods, found.likeness) == (1, "namespace and GPUs")
    assert found.high("gpu_mem_bytes") == 10 * gpus * GIB
