"""Goal: who watches begins no trial beside another, and one namespace that it may not read stops no other."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

import pytest

from dutycycle.cli.main import main
from dutycycle.contract.records.pods import TRIAL_OF
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.contract.units import rfc3339
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import ObjectRef, Patch
from dutycycle.submit.run import Signals
from dutycycle.trial.manifest import ALIVE
from dutycycle.trial.options import TrialOptions
from dutycycle.trial.trial import TrialRequest
from dutycycle.trial.watch import Watch

ASKED = {"dutycycle.io/trial": "gpus=two"}


def meta(name: str, annotations: Mapping[str, str], *, of_trial: bool = False) -> dict[str, Any]:
    labels = {TRIAL_OF: "train"} if of_trial else {}
    return {"name": name, "uid": name, "labels": labels, "annotations": dict(annotations)}


class Jobs:
    """The Jobs of some namespaces; those of others may not be listed. Ends the watch after ``looks``."""

    def __init__(self, jobs: Mapping[str, list[dict[str, Any]]], looks: int) -> None:
        self.jobs, self.looks = jobs, looks
        self.signals = Signals()
        self.deleted: list[str] = []
        self.written: list[tuple[str, Patch]] = []

    async def each(self, _kind: Kind, namespace: str, label: str = "") -> AsyncIterator[dict[str, Any]]:
        if label == TRIAL_OF:
            self.looks -= 1
            if not self.looks:
                self.signals.stop.set()
        if namespace not in self.jobs:
            raise RefusedError("403", f"jobs in {namespace} are forbidden")
        for one in self.jobs[namespace]:
            if not label or label in one["labels"]:
                yield one

    async def delete(self, _kind: Kind, name: str, namespace: str, _uid: str) -> None:
        self.deleted.append(name)
        self.jobs[namespace][:] = [one for one in self.jobs[namespace] if one["name"] != name]

    async def annotate(self, ref: ObjectRef, patch: Patch) -> None:
        self.written.append((ref.name, patch))


def watch(server: Jobs, *namespaces: str) -> Watch:
    settings = load({"DUTYCYCLE_NODE": "n"})
    return Watch(cast("ApiServer", server), settings, namespaces, TrialOptions(), server.signals, look_s=0.0)


@pytest.mark.parametrize(("silent_s", "waits"), [(0, True), (50, True), (70, False)])
async def test_no_trial_begins_while_another_may_go_on(
    silent_s: int, waits: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = rfc3339(time.time_ns() // 1_000_000 - 1000 * silent_s)
    there = meta("train-trial", {ALIVE: heard}, of_trial=True)
    server = Jobs({"ml": [there, meta("asks", ASKED)]}, looks=2)
    await watch(server, "ml").run()
    assert (server.deleted, not server.written) == (([], True) if waits else (["train-trial"], False))
    said = capsys.readouterr().err
    assert said.count("namespace ml: the trial of job/train-trial goes on; looks again") == waits
    assert ("train-trial in namespace ml: left by a trial that was killed; deleted" in said) is not waits


async def test_a_namespace_that_may_not_be_read_is_said_once_and_the_others_are_served(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = Jobs({"ml": [meta("asks", ASKED)]}, looks=5)
    one = watch(server, "closed", "ml")
    assert one.unread() is None
    await one.run()
    assert {name for name, _ in server.written} == {"asks"}
    assert capsys.readouterr().err.count("namespace closed: ") == 1
    assert one.unread() == "namespace closed: jobs in closed are forbidden"
    server.jobs = {"closed": [], "ml": []}
    server.signals.stop.clear()
    server.looks = 2
    await one.run()
    assert one.unread() is None


@pytest.mark.parametrize("text", ["ml,vision", "ml, vision,"])
def test_namespaces_are_watched_as_they_are_called(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[Sequence[str]] = []

    async def run_watch(request: TrialRequest, settings: Settings, namespaces: Sequence[str]) -> int:
        watched.append(namespaces)
        return 0

    monkeypatch.setattr("dutycycle.trial.watch.run_watch", run_watch)
    assert main(["trial", "--watch", text]) == 0
    assert watched == [("ml", "vision")]


@pytest.mark.parametrize(
    ("text", "message"), [("", "is empty"), (",", "is empty"), ("My_Team", "names of namespaces")]
)
def test_no_namespace_is_not_all_of_them(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["trial", "--watch", text])
    assert message in capsys.readouterr().err
