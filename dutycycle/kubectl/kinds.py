"""The kinds of objects that the plugin looks at, and how people name them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from contract.errors import SettingError


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind as the API's paths name it. ``group`` is empty for the core."""

    group: str
    version: str
    plural: str
    name: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def words(self) -> frozenset[str]:
        """What people may call it: ``mpijob``, ``mpijobs``, ``mpijobs.kubeflow.org``."""
        singular = self.name.lower()
        full = {f"{self.plural}.{self.group}", f"{singular}.{self.group}"} if self.group else set()
        return frozenset({singular, self.plural, *full})


POD = Kind("", "v1", "pods", "Pod")
NODE = Kind("", "v1", "nodes", "Node")

# The usual versions; discovery says which one is served. In the order in which a bare name is looked for.
OWNERS = (
    Kind("batch", "v1", "jobs", "Job"),
    Kind("kubeflow.org", "v1", "mpijobs", "MPIJob"),
    Kind("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
    Kind("kubeflow.org", "v1", "tfjobs", "TFJob"),
    Kind("kubeflow.org", "v1", "xgboostjobs", "XGBoostJob"),
    Kind("kubeflow.org", "v1", "paddlejobs", "PaddleJob"),
    Kind("kubeflow.org", "v1", "jaxjobs", "JAXJob"),
    Kind("kubeflow.org", "v1", "notebooks", "Notebook"),
    Kind("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
    Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    Kind("ray.io", "v1", "rayjobs", "RayJob"),
    Kind("ray.io", "v1", "rayclusters", "RayCluster"),
    Kind("ray.io", "v1", "rayservices", "RayService"),
    Kind("batch.volcano.sh", "v1alpha1", "jobs", "Job"),
    Kind("batch", "v1", "cronjobs", "CronJob"),
    Kind("apps", "v1", "deployments", "Deployment"),
    Kind("apps", "v1", "statefulsets", "StatefulSet"),
    Kind("apps", "v1", "daemonsets", "DaemonSet"),
    Kind("apps", "v1", "replicasets", "ReplicaSet"),
    Kind("", "v1", "replicationcontrollers", "ReplicationController"),
)


def job_and_word(text: str) -> tuple[str, str]:
    """A job's name, and what its kind was called: ``mpijob/bert``; of ``bert`` alone that is empty."""
    word, slash, name = text.rpartition("/")
    if not name or (slash and not word):
        raise SettingError(f"{text!r}: expected a job's name, such as bert or mpijob/bert")
    return object_name(name), word


def pod_name(text: str) -> str:
    """A pod's name, from ``busy`` or ``pod/busy``. Raises ``SettingError``."""
    word, slash, name = text.rpartition("/")
    if not name or (slash and word.lower() not in POD.words | {"po"}):
        raise SettingError(f"{text!r}: expected a pod's name, such as bert-worker-0 or pod/bert-worker-0")
    return object_name(name)


def object_name(text: str) -> str:
    """The name of anything. Raises ``SettingError`` for what would mean another place in the API's paths."""
    if text in (".", "..") or "/" in text or "%" in text:
        raise SettingError(f"{text!r} can be no name of anything")
    return text


def named(word: str, there: Iterable[Kind]) -> tuple[Kind, ...]:
    """Those of ``there`` that ``word`` may mean: of ``OWNERS``, or else any. Empty, it means all ``OWNERS``.

    Raises ``SettingError`` for a word that means none.
    """
    every = list(there)
    usual = [kind for kind in OWNERS if not word or word.lower() in kind.words]
    if usual:
        return served(usual, every)
    if found := tuple(kind for kind in every if word.lower() in kind.words):
        return found
    known = ", ".join(dict.fromkeys(kind.name.lower() for kind in OWNERS))
    raise SettingError(f"unknown kind {word!r}: expected one of {known}, or another that the cluster has")


def served(kinds: Iterable[Kind], there: Iterable[Kind]) -> tuple[Kind, ...]:
    """Those that are there, each in the version in which it is; what is of the core is there always."""
    versions = {(kind.group, kind.plural): kind.version for kind in there}
    return tuple(
        replace(kind, version=versions.get((kind.group, kind.plural), kind.version))
        for kind in kinds
        if not kind.group or (kind.group, kind.plural) in versions
    )
