"""The objects that own pods and carry annotations: all of them, or the one that is meant by a name."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dutycycle.kubectl.api import Api, Meta
from dutycycle.kubectl.errors import ForbiddenError, KubectlError, NotThereError
from dutycycle.kubectl.figures import Json, ours
from dutycycle.kubectl.kinds import Kind, job_and_word, named


@dataclass(frozen=True, slots=True)
class Job:
    """An object with its annotations, parsed; ``found`` is empty where it has none of ours."""

    kind: Kind
    meta: Meta
    found: Json

    def __str__(self) -> str:
        return f"{self.kind.name.lower()}/{self.meta['name']}"


@dataclass(slots=True)
class Jobs:
    """Looks for jobs of some kinds. ``denied``: what could not be listed, for a remark."""

    api: Api
    prefix: str
    denied: list[tuple[Kind, ForbiddenError]] = field(default_factory=list)

    def annotated(self, namespace: str | None, selector: str | None) -> Iterator[Job]:
        """Those that carry annotations. Raises ``ForbiddenError`` where nothing at all may be listed."""
        listed = False
        for kind in named("", self.api.kinds()):
            try:
                for meta in self.api.list(kind, namespace, selector):
                    found = ours(meta.get("annotations"), self.prefix)
                    if found and not _is_copied(kind, meta):
                        yield Job(kind, meta, found)
                listed = True
            except ForbiddenError as error:
                self.denied.append((kind, error))
        if self.denied and not listed:
            raise self.denied[0][1]

    def one(self, text: str, namespace: str) -> Job:
        """The job that ``bert`` or ``mpijob/bert`` means; of several, the one that carries annotations.

        Raises ``NotThereError``, ``ForbiddenError``, ``KubectlError`` where several do, or ``SettingError``.
        """
        name, word = job_and_word(text)
        there = list(self._named(name, named(word, self.api.kinds()), namespace))
        carrying = [job for job in there if job.found] or there
        if not carrying and self.denied:
            raise self.denied[0][1]
        if not carrying:
            raise NotThereError(f"there is no job {name} in namespace {namespace}, of any kind that is known")
        if len(carrying) > 1:
            raise KubectlError(f"{name} may be {' or '.join(map(str, carrying))}: say which")
        return carrying[0]

    def _named(self, name: str, kinds: Iterable[Kind], namespace: str) -> Iterator[Job]:
        for kind in kinds:
            try:
                meta = self.api.read(kind, namespace, name)
            except NotThereError:
                continue
            except ForbiddenError as error:
                self.denied.append((kind, error))
                continue
            yield Job(kind, meta, ours(meta.get("annotations"), self.prefix))


def _is_copied(kind: Kind, meta: Meta) -> bool:
    """Whether Kubernetes copied the annotations: a Deployment's go on to its ReplicaSets."""
    owners = meta.get("ownerReferences", [])
    return kind.name == "ReplicaSet" and any(one.get("kind") == "Deployment" for one in owners)
