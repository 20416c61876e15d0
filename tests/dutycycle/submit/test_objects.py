"""What is made and deleted: only what this run has made, also when answers are lost."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import BusyError, GoneError, NoKindError, RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import Metadata, ObjectRef
from dutycycle.submit.documents import ManifestDocument
from dutycycle.submit.follow import Owners
from dutycycle.submit.objects import MARK, CannotRunError, Objects

JOB = Kind("batch/v1", "Job", "jobs")


class FakeServer:
    """Keeps objects by name. ``lost``: so many answers to requests that change something do not arrive."""

    namespace = "usual"
    address = "https://api"

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.lost = 0
        self.refuses: set[str] = set()
        self.deleted: list[str] = []
        self.kinds = self

    async def find(self, api_version: str, kind: str) -> Kind:
        if kind != "Job":
            raise NoKindError("none")
        return JOB

    async def read(self, kind: Kind, name: str, namespace: str | None) -> Mapping[str, Any]:
        if name not in self.there:
            raise GoneError("404: not found")
        return self.there[name]

    async def submit(self, kind: Kind, thing: Mapping[str, Any], manager: str) -> Metadata:
        name = thing["metadata"]["name"]
        if name in self.refuses:
            raise RefusedError("422", "422: spec.completions: must be 0 or more")
        if name in self.there:
            raise BusyError("409", f"409: {name} already exists")
        self.put(name, thing["metadata"]["annotations"])
        return self._answer(name)

    async def apply(self, kind: Kind, thing: Mapping[str, Any], manager: str) -> Metadata:
        return self._answer(thing["metadata"]["name"])

    async def delete(self, kind: Kind, name: str, namespace: str | None, uid: str) -> None:
        if self.there[name]["metadata"]["uid"] != uid:
            raise BusyError("409", "409: another uid")
        del self.there[name]
        self.deleted.append(name)
        self._answer("")

    def put(self, name: str, annotations: Mapping[str, str] | None = None) -> None:
        meta = {"name": name, "uid": f"uid-{len(self.deleted)}-{name}", "annotations": annotations or {}}
        self.there[name] = {"metadata": meta}

    def _answer(self, name: str) -> Metadata:
        if self.lost:
            self.lost -= 1
            raise BusyError("connection", "does not answer")
        return dict(self.there[name]["metadata"]) if name else {}


class Trial:
    """A run of Jobs of these names."""

    def __init__(self, *names: str, update: bool = False) -> None:
        self.server, self.said = FakeServer(), list[str]()
        self.objects = Objects(
            cast("ApiServer", self.server), asyncio.Event(), self.said.append, patience_s=5
        )
        self.names = names
        self.update = update

    async def find(self, namespace: str | None = None) -> None:
        documents = [document(name) for name in self.names]
        await self.objects.find(documents, namespace, update=self.update)

    async def delete(self) -> list[str]:
        return [str(one) for one in await self.objects.delete(asyncio.Event())]


def document(name: str, kind: str = "Job", **meta: str) -> ManifestDocument:
    thing = {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": name, **meta}, "spec": {}}
    return ManifestDocument(thing, f"job.yaml, {name}")


async def test_all_that_was_made_is_deleted_the_last_first() -> None:
    trial = Trial("a", "b")
    await trial.find("team")
    await trial.objects.make()
    assert trial.server.there["a"]["metadata"]["annotations"] == {MARK: trial.objects.run}
    assert await trial.delete() == []
    assert trial.server.deleted == ["b", "a"]
    assert trial.said == [
        "job/a: created in namespace team", "job/b: created in namespace team",
        "job/b: deleted", "job/a: deleted",
    ]  # fmt: skip


async def test_what_was_there_is_neither_changed_nor_deleted_and_nothing_is_made() -> None:
    trial = Trial("a", "b")
    trial.server.put("b")
    with pytest.raises(CannotRunError, match=r"^job/b is there already in namespace usual: .*--update"):
        await trial.find()
    await trial.delete()
    assert (list(trial.server.there), trial.server.deleted) == (["b"], [])


async def test_what_is_updated_stays() -> None:
    trial = Trial("a", "b", update=True)
    trial.server.put("b")
    await trial.find()
    await trial.objects.make()
    await trial.delete()
    assert trial.server.deleted == ["a"]
    assert "job/b: updated; it was there before, and stays" in trial.said


async def test_when_the_second_is_refused_the_first_goes() -> None:
    trial = Trial("a", "b")
    trial.server.refuses = {"b"}
    await trial.find()
    with pytest.raises(CannotRunError, match=r"^cannot create job/b: spec\.completions: must be 0 or more$"):
        await trial.objects.make()
    await trial.delete()
    assert trial.server.deleted == ["a"]


async def test_a_lost_answer_is_no_reason_to_leave_or_to_refuse_an_object() -> None:
    trial = Trial("a")
    await trial.find()
    trial.server.lost = 1
    await trial.objects.make()  # the second request finds the object of the first one
    trial.server.lost = 1
    assert await trial.delete() == []
    assert trial.server.deleted == ["a"]


async def test_an_object_whose_answer_never_came_is_deleted_by_its_mark() -> None:
    trial = Trial("a")
    await trial.find()
    trial.objects.stop.set()
    trial.objects.entries[0].tried = True
    trial.server.put("a", {MARK: trial.objects.run})
    await trial.delete()
    assert trial.server.deleted == ["a"]


async def test_an_object_that_somebody_makes_in_between_is_theirs() -> None:
    trial = Trial("a")
    await trial.find()
    trial.server.put("a")
    with pytest.raises(CannotRunError, match="job/a: somebody else has made it in this moment"):
        await trial.objects.make()
    await trial.delete()
    assert trial.server.deleted == []


async def test_an_object_that_was_replaced_meanwhile_is_theirs() -> None:
    trial = Trial("a")
    await trial.find()
    await trial.objects.make()
    trial.server.deleted.append("by hand")
    trial.server.put("a", {MARK: trial.objects.run})  # copied with its annotations
    assert await trial.delete() == []
    assert trial.server.deleted == ["by hand"]


async def test_what_may_not_be_deleted_is_named_and_the_others_go() -> None:
    trial = Trial("a", "b")
    await trial.find()
    await trial.objects.make()
    delete = trial.server.delete

    async def refuse(kind: Kind, name: str, namespace: str | None, uid: str) -> None:
        if name == "b":
            raise RefusedError("403", "403: you may not delete b")
        await delete(kind, name, namespace, uid)

    trial.server.delete = refuse  # type: ignore[method-assign]
    assert await trial.delete() == ["job/b"]
    assert trial.said[-2:] == [
        "job/a: deleted",
        "job/b is not deleted: 403: you may not delete b; see: kubectl get jobs.batch -n usual b",
    ]


async def test_a_second_signal_does_not_wait() -> None:
    trial = Trial("a")
    await trial.find()
    await trial.objects.make()
    hurry = asyncio.Event()
    hurry.set()
    left = await trial.objects.delete(hurry)
    assert (len(left), trial.server.deleted) == (1, ["a"])
    assert trial.said[-1] == "job/a is being deleted; see: kubectl get jobs.batch -n usual a"


@pytest.mark.parametrize(
    ("one", "namespace", "error", "message"),
    [
        (document("a", "Job", namespace="x"), "y", SettingError, "--namespace y: .* for the namespace x"),
        (document("a", "Jobb"), None, CannotRunError, "job.yaml, a: the cluster has no Jobb of batch/v1"),
        (ManifestDocument({**document("a").thing, "apiVersion": "batch/v2"}, "f"), None, CannotRunError,
         "f: the cluster has no Job of batch/v2, but one of batch/v1"),
    ],
)  # fmt: skip
async def test_what_cannot_be_made(
    one: ManifestDocument, namespace: str | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await Trial().objects.find([one], namespace, update=False)


def meta(uid: str, *owners: str) -> Metadata:
    references = [
        {"apiVersion": "v1", "kind": "K", "name": one, "uid": one, "controller": True} for one in owners
    ]
    return {"uid": uid, "namespace": "n", "name": uid, "ownerReferences": references}


@pytest.mark.parametrize(
    ("pod", "root"),
    [
        (meta("root"), "root"),
        (meta("p", "root"), "root"),
        (meta("p", "middle"), "root"),
        (meta("p", "deep"), "root"),
        (meta("p"), None),
        (meta("p", "other"), None),
        (meta("p", "gone"), None),
        (meta("p", "forbidden"), None),
        (meta("p", "circle"), None),
    ],
)
async def test_which_pods_belong_to_the_run(pod: Metadata, root: str | None) -> None:
    above = {"middle": "root", "deep": "middle", "circle": "circle", "root": "root-owner", "other": "else"}

    async def read(ref: ObjectRef) -> Metadata:
        if ref.uid == "forbidden":
            raise RefusedError("403", "403: cannot get resource")
        assert ref.uid != "root", "it is known"
        if ref.uid not in above:
            raise GoneError("it is gone")
        return meta(str(ref.uid), above[ref.uid])

    owners = Owners({"root"}, read)
    assert await owners.root_of(pod) == root
    assert (owners.refused is not None) == (
        pod["ownerReferences"][0:1] == meta("", "forbidden")["ownerReferences"]
    )
