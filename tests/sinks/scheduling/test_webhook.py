"""Goal: a pod is admitted whatever happens, and gets a place by similar pods and by what its owners used."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from dutycycle.kube.templates import template_of
from dutycycle.telemetry.events import WEBHOOK, Telemetry
from dutycycle.telemetry.metrics import WEBHOOK_PODS
from sinks.scheduling.cluster_view import ClusterView
from sinks.scheduling.core import classes
from sinks.scheduling.core.measured_usage import MeasuredUsage
from sinks.scheduling.core.policy import Band, Policy
from sinks.scheduling.webhook.queue import Queue
from sinks.scheduling.webhook.role import Webhook
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.sinks.scheduling import NOW, app_of, peaks, pod

NOW_S = NOW / 1000
BANDS = {"": Band(0, 10_000_000), "high": Band(20_000_000, 30_000_000)}
POLICY = Policy(bands=BANDS, epoch_s=NOW_S - 1e6, fairness=1.0)
ODD: list[Any] = [
    {"spec": {}}, {"metadata": {}}, [], "pod", None,
    {"metadata": {}, "spec": {"containers": 5}}, {"metadata": {}, "spec": {"containers": [None]}},
    {"metadata": {"labels": 5}, "spec": gpu_pod("ml", "a")["spec"]},
]  # fmt: skip


def class_of(user_class: str, priority: int) -> str | None:
    """All that the policy wants are there."""
    found = classes.nearest(sorted(classes.wanted(POLICY, NOW_S)), POLICY.band(user_class), priority)
    return None if found is None else f"dutycycle-{found}"


class Rig:
    """A webhook that knows one ended pod of each image, and what two teams used."""

    def __init__(self, class_of: Callable[[str, int], str | None] = class_of) -> None:
        known, measured = ClusterView(), MeasuredUsage(POLICY.window_s, "team")
        for image, took_s in (("short:1", 60), ("long:1", 7200)):
            made = template_of(asked(image)["spec"])
            old = pod(
                image, images=(image,), program=made.program, template=made.template,
                started_ms=NOW - took_s * 1000, finished_ms=NOW,
            )  # fmt: skip
            known.take(image, peaks(old, 1))
        for team, gpu_s in (("greedy", 3000.0), ("modest", 1000.0)):
            measured.hear("pods", team, pod(team, labels={"team": team}))
            row = GpuHour(pod_uid=team, gpu=team, gpu_s=gpu_s, known_s=0.0, busy_s=0.0)
            hour_ms = NOW - NOW % HOUR_MS
            used = UsageHour(node="n", source="nvml", hour_ms=hour_ms, ts_ms=NOW, gpus=(row,))
            measured.hear("usage", "n", used)
        self.telemetry, self.now_s = Telemetry(WEBHOOK), NOW_S
        queue = Queue(POLICY, known, measured, "team")
        self.webhook = Webhook(queue, class_of, "dutycycle.io/priority", self.telemetry, lambda: self.now_s)

    def ask(self, thing: Any, **more: Any) -> dict[str, Any]:
        """The response to a new pod."""
        request = {"uid": "u-1", "namespace": "ml", "object": thing, **more}
        answer = self.webhook.review({"request": request})
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        found: dict[str, Any] = answer["response"]
        assert found["uid"] == "u-1"
        assert found["allowed"] is True
        return found

    def patch(self, thing: Any, **more: Any) -> list[dict[str, Any]]:
        text = self.ask(thing, **more).get("patch")
        return [] if text is None else list(json.loads(base64.b64decode(text)))

    def number(self, thing: Any, **more: Any) -> int:
        given = {one["path"]: one.get("value") for one in self.patch(thing, **more)}
        return int(str(given["/spec/priorityClassName"]).removeprefix("dutycycle-"))

    def count(self, result: str) -> float:
        counter: Any = self.telemetry.metrics.counter(WEBHOOK_PODS, result=result)
        return float(counter._value.get())


def asked(image: str = "short:1", *, user_class: str = "", owner: str = "", team: str = "") -> Any:
    """A new pod as it is when the plugin Priority has seen it."""
    made = gpu_pod("ml", "new")
    made["spec"]["containers"][0]["image"] = image
    made["spec"] |= {"priority": 5, "preemptionPolicy": "PreemptLowerPriority"}
    if user_class:
        made["spec"]["priorityClassName"] = user_class
    if owner:
        made["metadata"]["ownerReferences"] = [{"uid": owner, "controller": True}]
    if team:
        made["metadata"]["labels"] = {"team": team}
    return made


def test_the_class_is_given_and_what_came_from_the_one_before_is_taken_away() -> None:
    patch = Rig().patch(asked())
    assert [(one["op"], one["path"]) for one in patch] == [
        ("remove", "/spec/priority"), ("remove", "/spec/preemptionPolicy"),
        ("add", "/spec/priorityClassName"), ("add", "/metadata/annotations"),
        ("add", "/metadata/annotations/dutycycle.io~1priority"),
    ]  # fmt: skip
    why = json.loads(patch[-1]["value"])
    assert why["expected_s"] == 60
    assert why["delay_s"] == 480
    assert why["used_of_share"] == {"namespace ml": 1.0}
    assert "1 ended pod with the same owner template" in why["why"]


def test_annotations_of_others_are_kept() -> None:
    thing = asked()
    thing["metadata"]["annotations"] = {"a": "b"}
    assert "/metadata/annotations" not in {one["path"] for one in Rig().patch(thing)}


def test_short_pods_of_modest_teams_go_first() -> None:
    numbers = [
        Rig().number(asked(image, team=team))
        for image, team in (("short:1", "modest"), ("short:1", "greedy"), ("long:1", "modest"))
    ]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == 3


def test_a_burst_is_charged_before_it_is_measured_and_a_dry_run_is_not() -> None:
    rig = Rig()
    first = rig.number(asked("long:1", team="modest"), dryRun=True)
    assert first == rig.number(asked("long:1", team="modest"))
    for _ in range(3):
        rig.number(asked("long:1", team="modest"))
    assert rig.number(asked("long:1", team="modest")) < first


def test_pods_of_one_job_have_one_place() -> None:
    rig = Rig()
    ranks = []
    for _ in range(4):
        ranks.append(rig.number(asked("long:1", owner="job-1", team="modest")))
        rig.now_s += 20
    assert len(set(ranks)) == 1
    rig.now_s += 600
    assert rig.number(asked("long:1", owner="job-1", team="modest")) < ranks[0]


@pytest.mark.parametrize("user_classes", [("high", ""), ("", "high")])
def test_pods_of_one_job_have_a_place_in_the_band_of_each_class(user_classes: tuple[str, str]) -> None:
    together = Rig()
    for user_class in user_classes:
        pod_of_job = asked("long:1", owner="job-1", user_class=user_class)
        assert together.number(pod_of_job) == Rig().number(asked("long:1", user_class=user_class))


def test_pods_of_a_jobset_have_one_place_though_they_are_of_several_jobs() -> None:
    rig, numbers = Rig(), []
    for owner in ("job-1", "job-2"):
        thing = asked("short:1", owner=owner)  # near moments have a class each
        thing["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": "llama"}
        numbers.append(rig.number(thing))
        rig.now_s += 300
    assert len(set(numbers)) == 1


@pytest.mark.parametrize(
    ("user_class", "band"), [("", ""), ("high", "high"), ("unheard-of", ""), ("dutycycle-29999999", "")]
)
def test_the_users_class_bounds_the_priority(user_class: str, band: str) -> None:
    assert BANDS[band].low <= Rig().number(asked(user_class=user_class)) <= BANDS[band].high


@pytest.mark.parametrize(
    ("result", "change"),
    [
        ("no_gpu", {"containers": [{"name": "a", "image": "b"}]}),
        ("bound", {"nodeName": "n"}),
        ("system_class", {"priorityClassName": "system-node-critical"}),
    ],
)
def test_other_pods_are_left_alone(result: str, change: dict[str, Any]) -> None:
    rig, thing = Rig(), asked()
    thing["spec"] |= change
    assert "patch" not in rig.ask(thing)
    assert rig.count(result) == 1


def test_a_pod_of_a_trial_keeps_its_class() -> None:
    rig, thing = Rig(), asked()
    thing["metadata"]["labels"] = {"dutycycle.io/trial-of": "train"}
    assert "patch" not in rig.ask(thing)
    assert rig.count("trial") == 1


def test_what_claims_devices_has_a_place() -> None:
    thing = asked()
    thing["spec"]["containers"][0].pop("resources")
    thing["spec"]["resourceClaims"] = [{"name": "gpu"}]
    assert Rig().patch(thing)


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({"gpu-fraction": "0.5"}, "0.5 GPUs"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, "1 GPU"),
        ({"gpu-memory": "4096"}, "1 GPU"),
    ],
)
def test_what_asks_for_a_part_of_a_gpu_by_an_annotation_has_a_place(
    annotations: dict[str, str], why: str
) -> None:
    rig, thing = Rig(), asked()
    thing["spec"]["containers"][0].pop("resources")
    thing["metadata"]["annotations"] = annotations
    (text,) = [step["value"] for step in rig.patch(thing) if "annotations/" in step["path"]]
    assert f"; {why}; " in text


def test_without_a_class_a_pod_is_admitted_unchanged() -> None:
    rig = Rig(lambda *_: None)
    assert "patch" not in rig.ask(asked())
    assert rig.count("no_class") == 1


@pytest.mark.parametrize("thing", ODD, ids=json.dumps)
def test_what_is_not_understood_is_admitted_unchanged_and_counted(
    thing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    assert "patch" not in rig.ask(thing)
    assert rig.count("not_understood") == 1
    (line,) = [one for one in caplog.messages if one.startswith("pod_not_understood")]
    assert "ml/a new pod" in line


def test_whatever_goes_wrong_the_pod_is_admitted() -> None:
    def fails(user_class: str, priority: int) -> str | None:
        raise RuntimeError(f"{user_class} {priority}")

    rig = Rig(class_of=fails)
    assert "patch" not in rig.ask(asked())
    assert rig.count("not_understood") == 1


async def test_who_is_no_api_server_is_told_so() -> None:
    async with TestClient(TestServer(app_of(Rig().webhook.routes()))) as client:
        for body in (b"", b"5", b"{}", b'{"request":{}}'):
            answer = await client.post("/mutate", data=body)
            assert answer.status == 400
            assert "no request of an API server" in (await answer.json())["message"]
        good = {"request": {"uid": "u", "namespace": "ml", "object": asked()}}
        answer = await client.post("/mutate", json=good)
        assert answer.status == 200
        assert (await answer.json())["response"]["patchType"] == "JSONPatch"
