"""The objects that own pods and carry annotations: all of them, or the one that is meant by a name."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dutycycle.kubectl.api import Api, ForbiddenError, KubectlError, Meta, NotThereError
from dutycycle.kubectl.figures import Json, ours
from dutycycle.kubectl.kinds import Kind, served


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
    denied: list[str]

    def annotated(self, kinds: Iterable[Kind], namespace: str | None, selector: str | None) -> Iterator[Job]:
        """Those that carry annotations. Raises ``ForbiddenError`` where nothing at all may be listed."""
        listed = False
        for kind in self._there(kinds):
            try:
                for meta in self.api.list(kind, namespace, selector):
                    if found := ours(meta.get("annotations"), self.prefix):
                        yield Job(kind, meta, found)
                listed = True
            except ForbiddenError as error:
                self.denied.append(str(error))
            except NotThereError:  # of this group, this kind is not installed
                continue
        if self.denied and not listed:
            raise ForbiddenError(self.denied[0])

    def one(self, name: str, kinds: Iterable[Kind], namespace: str) -> Job:
        """The job of this name; of several kinds, the one that carries annotations.

        Raises ``NotThereError``, ``ForbiddenError``, or ``KubectlError`` where several do.
        """
        there = list(self._named(name, kinds, namespace))
        carrying = [job for job in there if job.found] or there
        if not carrying and self.denied:
            raise ForbiddenError(self.denied[0])
        if not carrying:
            raise NotThereError(f"there is no job {name} in namespace {namespace}, of any kind that is known")
        if len(carrying) > 1:
            raise KubectlError(f"{name} may be {' or '.join(map(str, carrying))}: say which")
        return carrying[0]

    def _named(self, name: str, kinds: Iterable[Kind], namespace: str) -> Iterator[Job]:
        for kind in self._there(kinds):
            try:
                meta = self.api.read(kind, namespace, name)
            except NotThereError:
                continue
            except ForbiddenError as error:
                self.denied.append(str(error))
                continue
            yield Job(kind, meta, ours(meta.get("annotations"), self.prefix))

    def _there(self, kinds: Iterable[Kind]) -> tuple[Kind, ...]:
        return served(kinds, self.api.groups())
