"""Finds the objects that own pods: how people name them, all that carry annotations, or the one that is
meant."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from dutycycle.contract.errors import SettingError
from dutycycle.kube.discovery import POD, Kind
from dutycycle.kube.references import Metadata
from dutycycle.kubectl.annotations import Json, ours
from dutycycle.kubectl.api import Api, FailedError, ForbiddenError, KubectlError, NotThereError

# The usual versions; discovery says which one is served. In the order in which a bare name is looked for.
OWNERS = (
    Kind("batch/v1", "Job", "jobs"),
    Kind("kubeflow.org/v1", "MPIJob", "mpijobs"),
    Kind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    Kind("kubeflow.org/v1", "TFJob", "tfjobs"),
    Kind("kubeflow.org/v1", "XGBoostJob", "xgboostjobs"),
    Kind("kubeflow.org/v1", "PaddleJob", "paddlejobs"),
    Kind("kubeflow.org/v1", "JAXJob", "jaxjobs"),
    Kind("kubeflow.org/v1", "Notebook", "notebooks"),
    Kind("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs"),
    Kind("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
    Kind("ray.io/v1", "RayJob", "rayjobs"),
    Kind("ray.io/v1", "RayCluster", "rayclusters"),
    Kind("ray.io/v1", "RayService", "rayservices"),
    Kind("batch.volcano.sh/v1alpha1", "Job", "jobs"),
    Kind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"),
    Kind("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications"),
    Kind("argoproj.io/v1alpha1", "Workflow", "workflows"),
    Kind("workload.codeflare.dev/v1beta2", "AppWrapper", "appwrappers"),
    Kind("serving.kserve.io/v1beta1", "InferenceService", "inferenceservices"),
    Kind("batch/v1", "CronJob", "cronjobs"),
    Kind("apps/v1", "Deployment", "deployments"),
    Kind("apps/v1", "StatefulSet", "statefulsets"),
    Kind("apps/v1", "DaemonSet", "daemonsets"),
    Kind("apps/v1", "ReplicaSet", "replicasets"),
    Kind("v1", "ReplicationController", "replicationcontrollers"),
)


@dataclass(frozen=True, slots=True)
class AnnotatedJob:
    """Holds an object with its annotations, parsed; ``found`` is empty where it has none of ours.

    ``owns``: what was asked for, where this is its owner: figures stand on the topmost one.
    """

    kind: Kind
    meta: Metadata
    annotations: Json
    owns: str = ""

    def __str__(self) -> str:
        return f"{self.kind.name.lower()}/{self.meta['name']}"

    @property
    def remark(self) -> str:
        """Tell why this is shown and not what was asked for; empty where it was asked for."""
        return f"the figures of {self.owns} are those of its owner {self}" if self.owns else ""


@dataclass(slots=True)
class Jobs:
    """Looks for jobs of some kinds. ``denied`` and ``failed``: what could not be read, for a remark;
    ``there`` counts the objects that were listed, annotated or not."""

    api: Api
    prefix: str
    denied: list[tuple[Kind, ForbiddenError]] = field(default_factory=list)
    failed: list[FailedError] = field(default_factory=list)
    there: int = 0

    def annotated(self, namespace: str | None, selector: str | None) -> Iterator[AnnotatedJob]:
        """Yield those that carry annotations. Raises ``ForbiddenError`` where nothing at all may be
        listed, ``FailedError`` where nothing can."""
        listed = False
        for kind in named("", self.api.kinds()):
            try:
                for meta in self.api.list(kind, namespace, selector):
                    self.there += 1
                    annotations = ours(meta.get("annotations"), self.prefix)
                    owners = meta.get("ownerReferences", [])
                    # Kubernetes copies the annotations of a Deployment to its ReplicaSets.
                    is_copied = kind.name == "ReplicaSet" and any(
                        owner.get("kind") == "Deployment" for owner in owners
                    )
                    if annotations and not is_copied:
                        yield AnnotatedJob(kind, meta, annotations)
                listed = True
            except ForbiddenError as error:
                self.denied.append((kind, error))
            except FailedError as error:
                self.failed.append(error)
        if not listed:
            self._raise_why()

    def one(self, text: str, namespace: str) -> AnnotatedJob:
        """Return the job that ``bert`` or ``mpijob/bert`` means; of several, the one that carries
        annotations; for one that carries none its topmost owner, as of a CronJob's Job.

        Raises ``NotThereError``, ``ForbiddenError``, ``KubectlError`` where several do, or ``SettingError``.
        """
        name, word = job_and_word(text)
        if word.lower() in words_of(POD):
            raise SettingError(f"{text} is a pod, and no job: see `kubectl dutycycle why {name}`")
        there = list(self._named(name, named(word, self.api.kinds()), namespace))
        carrying = [job for job in there if job.annotations] or there
        if not carrying:
            self._raise_why()
            what = f"{word} {name}" if word else f"job {name} of any kind that is known"
            raise NotThereError(f"there is no {what} in namespace {namespace}")
        if len(carrying) > 1:
            raise KubectlError(f"{name} may be {' or '.join(map(str, carrying))}: say which")
        job = carrying[0]
        while not job.annotations:
            # The object that controls it, if there is one that may be read
            owners = job.meta.get("ownerReferences") or ()
            owner = next((owner for owner in owners if owner.get("controller")), None)
            if owner is None:
                break
            group = owner["apiVersion"].rpartition("/")[0]
            kinds = [kind for kind in self.api.kinds() if (kind.name, kind.group) == (owner["kind"], group)]
            owning_job = next(self._named(owner["name"], kinds[:1], job.meta["namespace"]), None)
            if owning_job is None or owning_job.meta["uid"] != owner["uid"]:
                break
            job = replace(owning_job, owns=job.owns or str(job))
        return job

    def _raise_why(self) -> None:
        """Raise what kept us from reading a kind, if anything did."""
        errors: list[KubectlError] = [*(error for _, error in self.denied), *self.failed]
        if errors:
            raise errors[0]

    def _named(self, name: str, kinds: Iterable[Kind], namespace: str) -> Iterator[AnnotatedJob]:
        for kind in kinds:
            try:
                meta = self.api.read(kind, namespace, name)
            except NotThereError:
                continue
            except ForbiddenError as error:
                self.denied.append((kind, error))
                continue
            except FailedError as error:
                self.failed.append(error)
                continue
            yield AnnotatedJob(kind, meta, ours(meta.get("annotations"), self.prefix))


def job_and_word(text: str) -> tuple[str, str]:
    """Return a job's name, and what its kind was called: ``mpijob/bert``; of ``bert`` alone that is empty."""
    word, slash, name = text.rpartition("/")
    if not name or (slash and not word):
        raise SettingError(f"{text!r}: expected a job's name, such as bert or mpijob/bert")
    return object_name(name), word


def name_of(kind: Kind, text: str) -> str:
    """Return an object's name, from ``busy`` or, of a pod, ``pod/busy`` or ``po/busy``. Raises
    ``SettingError``."""
    word, slash, name = text.rpartition("/")
    if not name or (slash and word.lower() not in words_of(kind)):
        singular = kind.name.lower()
        raise SettingError(f"{text!r}: expected a {singular}'s name, such as NAME or {singular}/NAME")
    return object_name(name)


def object_name(text: str) -> str:
    """Return the name of anything. Raises ``SettingError`` for what would mean another place in the API's
    paths."""
    if text in (".", "..") or "/" in text or "%" in text:
        raise SettingError(f"{text!r} can be no name of anything")
    return text


def named(word: str, there: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return those of ``there`` that ``word`` may mean: of ``OWNERS``, or else any. Empty, it means all
    ``OWNERS``.

    Raises ``SettingError`` for a word that means none.
    """
    if not word:
        return served(OWNERS, there)
    meant = called(word, there)
    if meant or called(word, OWNERS):  # these are known, and not installed
        return served(OWNERS, meant) or meant
    known = ", ".join(dict.fromkeys(kind.name.lower() for kind in OWNERS))
    raise SettingError(f"unknown kind {word!r}: expected one of {known}, or another that the cluster has")


def served(kinds: Iterable[Kind], there: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return those that are there, each in the version in which it is."""
    kind_by_name = {str(kind): kind for kind in there}
    return tuple(kind_by_name[str(kind)] for kind in kinds if str(kind) in kind_by_name)


def called(word: str, kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Return those that ``word`` is a name of."""
    return tuple(kind for kind in kinds if word.lower() in words_of(kind))


def words_of(kind: Kind) -> frozenset[str]:
    """Return what people may call it: ``deployment``, ``deployments``, ``deployments.apps``, ``deploy``."""
    singular = kind.name.lower()
    return kind.short_names | {singular, kind.plural, str(kind), f"{singular}.{kind.group}"}
