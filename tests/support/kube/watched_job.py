"""What the API server has said of some objects and their pods, without one."""

from typing import Any, cast

from dutycycle.kube.discovery import Kind
from dutycycle.kube.objects import ApiServer
from dutycycle.submit.documents import ManifestDocument
from dutycycle.submit.follow import JobFollower
from dutycycle.submit.objects import Entry
from dutycycle.submit.progress import JobProgress
from tests.support.kube.statuses import Json


class Watched:
    """What the API server has said of objects of these kinds, named as their kinds in lower case."""

    def __init__(self, *kinds: str) -> None:
        self.follower = JobFollower(cast("ApiServer", None), [_entry(kind) for kind in kinds])
        for kind in kinds:
            self.says(kind, {"kind": kind, "metadata": {}})

    def says(self, kind: str, thing: Json) -> None:
        self.follower.things[f"uid-{kind}"] = thing

    def has(self, kind: str, thing: Json) -> None:
        thing["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        self.follower.pods[thing["metadata"]["uid"]] = thing
        self.follower.root[thing["metadata"]["uid"]] = f"uid-{kind}"

    def progress(self, **limits: Any) -> JobProgress:
        return JobProgress(self.follower, **limits)


def _entry(kind: str) -> Entry:
    spec: Json = {"template": {"spec": {"containers": []}}}
    thing = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    return Entry(ManifestDocument(thing, "f"), Kind("v1", kind, f"{kind.lower()}s"), "n", uid=f"uid-{kind}")
