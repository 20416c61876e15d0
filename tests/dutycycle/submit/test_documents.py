"""The files of a job: what is read from them, and what is wrong with them in one line."""

import codecs
import io
import math
from pathlib import Path

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.submit.documents import read_documents

POD = """apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: main, image: x}]}
"""
JOB = """apiVersion: batch/v1
kind: Job
metadata: {generateName: train-, namespace: team}
spec: {template: {spec: {containers: [{name: main, image: x}]}}}
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
LAUGHS = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  a: &a [x]\n" + "".join(
    f"  {name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


def write(folder: Path, text: str) -> str:
    file = folder / "job.yaml"
    file.write_text(text)
    return str(file)


def test_several_documents_lists_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = f"kind: List\nitems:\n- kind: List\n  items:\n  - {CONFIG.replace(chr(10), chr(10) + '    ')}"
    monkeypatch.setattr("sys.stdin", io.StringIO(JOB))
    found = read_documents([write(tmp_path, f"---\n{POD}---\n---\n{listed}"), "-"])
    assert [(one.kind, one.has_pods, one.never_ends) for one in found] == [
        ("Pod", True, False), ("ConfigMap", False, False), ("Job", True, False),
    ]  # fmt: skip
    assert found[1].where == f"{tmp_path}/job.yaml, object 2"
    assert found[2].namespace == "team"


def test_a_kustomization_needs_no_kind(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [job.yaml]\n")
    with pytest.raises(SettingError, match="object 1: is a file of kustomize: give what kubectl"):
        read_documents([str(tmp_path / "kustomization.yaml")])


def test_a_namespace_that_is_empty_is_none(tmp_path: Path) -> None:
    (job,) = read_documents([write(tmp_path, JOB.replace("namespace: team", "namespace:"))])
    assert job.namespace is None


def test_a_name_is_made_of_generate_name(tmp_path: Path) -> None:
    file = write(tmp_path, JOB)
    (one,), (other,) = read_documents([file]), read_documents([file])
    assert one.name.startswith("train-")
    assert len(one.name) == len("train-") + 5
    assert one.name != other.name


@pytest.mark.parametrize(
    ("kind", "spec", "has_pods"),
    [
        ("Pod", "{containers: []}", True),
        ("MPIJob", "{mpiReplicaSpecs: {Worker: {template: {spec: {containers: []}}}}}", True),
        ("JobSet", "{replicatedJobs: [{template: {spec: {template: {spec: {containers: []}}}}}]}", True),
        ("TrainJob", "{runtimeRef: {name: torch}}", True),
        ("TrainingRuntime", "{template: {spec: {containers: []}}}", False),
        ("VLLMRuntime", "{deploymentConfig: {image: {name: x}}, containers: []}", True),
        ("Service", "{ports: []}", False),
        ("Workflow", "{templates: [{name: main, container: {image: x}}]}", True),
        ("Workflow", "{workflowTemplateRef: {name: t}}", True),
        ("WorkflowTemplate", "{templates: [{name: main, container: {image: x}}]}", False),
        ("SparkApplication", "{driver: {cores: 1}, executor: {instances: 2}}", True),
        ("RayJob", "{clusterSelector: {ray.io/cluster: c}}", True),
        ("TaskRun", "{taskRef: {name: t}}", True),
        ("Task", "{steps: [{name: a, image: x}]}", False),
        ("LLMInferenceServiceConfig", "{template: {containers: [{image: x}]}}", False),
        ("InferenceService", "{predictor: {model: {modelFormat: {name: onnx}}}}", True),
        ("Mine", "{worker: {image: x}}", True),
        ("NIMService", "{image: {repository: x, tag: 1}}", True),
        ("ClusterStorageContainer", "{container: {image: x}}", False),
        ("HelmRelease", "{values: {image: {repository: x}, worker: {image: x}}}", False),
        ("ServiceMonitor", "{selector: {}}", False),
    ],
)
def test_what_makes_pods(tmp_path: Path, kind: str, spec: str, has_pods: bool) -> None:
    text = f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n---\n{POD}"
    assert read_documents([write(tmp_path, text)])[0].has_pods == has_pods


@pytest.mark.parametrize(
    ("kinds", "never_ends"),
    [
        (("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "CronJob",
          "Notebook", "RayCluster", "RayService", "LeaderWorkerSet", "InferenceService", "CronWorkflow",
          "CloneSet", "Rollout", "ScheduledSparkApplication", "NIMService", "VirtualMachine", "PodClique",
          "DaskWorkerGroup", "Model", "VLLMRuntime", "DeploymentConfig", "RayClusterFleet", "RedisFailover",
          "ModelBooster", "KVCache", "NIMPipeline", "NemoGuardrail", "postgresql"), True),
        (("Pod", "Job", "JobSet", "PyTorchJob", "TrainJob", "RayJob", "Workflow", "SparkApplication",
          "MiniCluster"), False),
    ],
)  # fmt: skip
def test_what_never_ends(tmp_path: Path, kinds: tuple[str, ...], never_ends: bool) -> None:
    for kind in kinds:
        text = f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{containers: []}}\n"
        assert read_documents([write(tmp_path, text)])[0].never_ends == never_ends, kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no object in it"),
        ("---\n---\n", "there is no object in it"),
        (CONFIG, "no object in it is known to make pods: expected a Pod, a Job, or another kind"),
        ("\na: [", "line 2: is no YAML"),
        ("a: b: c", "line 1: is no YAML: mapping values are not allowed here"),
        ("!!python/object:os.system {}", "is no YAML"),
        *(
            (f"a: 1\nb: [!!{tag} {value}]", f"line 2: is no YAML: '{value}' is no value of the type {tag}")
            for tag, value in {"int": "x", "float": "", "bool": "x", "timestamp": "2026-02-30"}.items()
        ),
        ("a: !!timestamp x", "line 1: is no YAML: 'x' is no value of the type timestamp"),
        pytest.param(f"a: {'1' * 5000}", "line 1: is no YAML: '111", id="digits"),
        ("a: !!set [b]", "line 1: is no YAML: expected a mapping node"),
        ("a: {b: 1,\n c: 2, b: 3}", "line 2: is no YAML: the key b stands twice in one object"),
        (
            "kind: {{ .Values.kind }}\n",
            "it looks like a template or an answer of Helm: give what helm template RELEASE",
        ),
        ("{{- if .Values.x }}\nkind: Pod\n{{- end }}\n", "it looks like a template or an answer of Helm"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: &s {more: *s}\n", "object 1: its aliases"),
        ("&l {apiVersion: v1, kind: List, items: [*l, *l]}", "object 1: its aliases"),
        (LAUGHS, "object 1: its aliases (*name) make more than 1,000,000 values of it"),
        ("- 1", "object 1: is no object: expected apiVersion, kind and metadata"),
        ("kind: Pod", "object 1: has no apiVersion"),
        ("apiVersion: v1\nkind: 7", "object 1: has no kind"),
        ("apiVersion: v1\nkind: Pod", "object 1: the Pod has no metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}", "object 1: metadata.name is 7: put it in quotes"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: no}", "metadata.name is False: put it in quotes"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: 5}", "generateName is 5: put it in quotes"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: ''}", "the Pod has no metadata.name"),
        (POD + "---\n" + POD, "object 2: pod/a stands in "),
        (
            POD + "---\n" + POD.replace("v1", "mine.example.org/v1") + "---\n" + POD,
            "object 3: pod/a stands in ",
        ),
        *(
            (
                f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: {kind}\nresources: [job.yaml]",
                "object 1: is a file of kustomize: give what kubectl kustomize FOLDER prints",
            )
            for kind in ("Kustomization", "Component")
        ),
        (
            f"NAME: x\nMANIFEST:\n---\n{POD}\nNOTES:\nThank you.",
            "it looks like a template or an answer of Helm",
        ),
        ("apiVersion: v1\nkind: PodList\nitems:", "there is no object in it"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingError) as error:
        read_documents([write(tmp_path, text)])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"no\.yaml: No such file or directory"):
        read_documents([str(tmp_path / "no.yaml")])
    (tmp_path / "raw.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingError, match="is no text in UTF-8 or UTF-16: save it in UTF-8"):
        read_documents([str(tmp_path / "raw.yaml")])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_a_file_of_powershell_is_read(encoding: str, tmp_path: Path) -> None:
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else b""
    (tmp_path / "pod.yaml").write_bytes(mark + POD.replace("\n", "\r\n").encode(encoding))
    assert [document.kind for document in read_documents([str(tmp_path / "pod.yaml")])] == ["Pod"]


def test_a_key_that_is_merged_may_stand_again(tmp_path: Path) -> None:
    merged = POD.replace("spec: {", "x: &x {a: 1}\nspec: {y: {<<: *x, <<: *x, a: 2}, ")
    (one,) = read_documents([write(tmp_path, merged)])
    assert one.spec["y"] == {"a": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30", "12:30"), ("01:30:00", "01:30:00"), ("9:59.5", "9:59.5"), ("2026-01-05", "2026-01-05"),
        ("2026-01-05T10:00:00Z", "2026-01-05T10:00:00Z"), ("=", "="), ("1.2.3", "1.2.3"), ("0x", "0x"),
        ("1e-3", 0.001), ("5e3", 5000), ("-.5", -0.5), ("08", 8), ("1_0.5", 10.5), (".inf", math.inf),
        ("0o17", 15), ("0644", 420), ("-0x1F", -31), ("0b11", 3), ("1_000", 1000), ("+1", 1), ("0", 0),
        ("yes", True), ("off", False), ("~", None), ("", None),
    ],
)  # fmt: skip
def test_values_are_read_as_kubectl_reads_them(tmp_path: Path, text: str, value: object) -> None:
    """As sigs.k8s.io/yaml 1.6.0 does, which has no base of 60 and takes no date for another value."""
    (pod,) = read_documents([write(tmp_path, POD + f"x:\n- {text}\n")])
    (read,) = pod.thing["x"]
    assert (read, isinstance(read, str)) == (value, isinstance(value, str))
