"""Goal: from a Job to the Jobs of its trials, which preempt nobody and end by themselves."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.errors import SettingError
from dutycycle.submit.documents import ManifestDocument
from dutycycle.trial.manifest import TrialRun, job_of
from dutycycle.trial.options import (
    NodeLabel,
    TrialOptions,
    gpu_minutes,
    gpu_models,
    long_enough,
    numbers,
    options_of,
    placements,
)
from dutycycle.trial.plan import Variant, plan_of
from dutycycle.trial.room import Room, room_of
from dutycycle.trial.template import JobTemplate, template_in

GPU = "nvidia.com/gpu"
RUN = TrialRun("x7k2q", longest_s=780, now="2026-11-23T08:00:00Z")


def document(kind: str = "Job", *, gpus: object = 1, pods: object = None, **more: Any) -> ManifestDocument:
    container = {"name": "main", "image": "train:1"} | (
        {"resources": {"limits": {"nvidia.com/gpu": gpus, "cpu": 4}}} if gpus else {}
    )
    spec: dict[str, Any] = {"template": {"spec": {"containers": [container], **more}}}
    spec |= {"parallelism": pods, "completions": pods} if pods is not None else {}
    version = "batch/v1" if kind == "Job" else "v1"
    return ManifestDocument(
        {"apiVersion": version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}, "a.yaml, object 1"
    )


def template(**of: Any) -> JobTemplate:
    return template_in([document(**of)])


def planned(options: TrialOptions, **of: Any) -> list[str]:
    return [str(variant) for variant in plan_of(template(**of), options).variants]


@pytest.mark.parametrize(
    ("options", "pods", "expected"),
    [
        (TrialOptions(), 1, ["gpus=1"]),
        (TrialOptions(gpus=(4, 1, 2)), 1, ["gpus=1", "gpus=2", "gpus=4"]),
        (TrialOptions(placements=("packed", "spread")), 1, ["gpus=1"]),
        (
            TrialOptions(placements=("packed", "spread")), 2,
            ["gpus=1 pods=2 placement=packed", "gpus=1 pods=2 placement=spread"],
        ),
        (TrialOptions(gpus=(1, 2), pods=(1, 2), placements=("packed",), for_s=60), 1,
         ["gpus=1", "gpus=2", "gpus=1 pods=2 placement=packed", "gpus=2 pods=2 placement=packed"]),
    ],
)  # fmt: skip
def test_each_way_runs_once_the_cheapest_first(options: TrialOptions, pods: int, expected: list[str]) -> None:
    assert planned(options, pods=pods) == expected


@given(
    st.lists(st.integers(1, 64), min_size=1, max_size=5, unique=True),
    st.floats(60, 3600), st.floats(0.1, 500),
)  # fmt: skip
def test_the_budget_is_never_passed(gpus: list[int], for_s: float, budget: float) -> None:
    options = TrialOptions(gpus=tuple(gpus), for_s=for_s, budget=budget)
    if min(gpus) * for_s / 60 > budget:
        with pytest.raises(SettingError, match="too few for a single trial"):
            plan_of(template(), options)
        return
    plan = plan_of(template(), options)
    assert sum(one.minutes(for_s) for one in plan.variants) <= budget
    assert len(plan.variants) + len(plan.notes) == len(gpus)


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (document(gpus=None), "a.yaml, object 1: its containers ask for no GPUs: give one of them a limit"),
        (document("ConfigMap"), "is a ConfigMap of v1, and trials are runs of one Job of batch/v1"),
        (document(nodeName="a"), r"its pods name their node \(a\)"),
        (document(resourceClaims=[{"name": "gpu"}]), "its GPUs come from resource claims"),
        (document(pods=0), "spec.parallelism is 0: expected a number from 1 on"),
        (
            document(containers=[{"name": name, "resources": {"limits": {GPU: 1}}} for name in "ab"]),
            r"several ask for GPUs: a \(nvidia.com/gpu\), b \(nvidia.com/gpu\)",
        ),
    ],
)  # fmt: skip
def test_a_template_of_which_no_trial_can_be_made(one: ManifestDocument, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        template_in([one])


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (numbers, "1,two", "expected numbers from 1 on"),
        (numbers, "0", "expected numbers from 1 on"),
        (placements, "packed,dense", "'dense': is no placement: expected packed or spread"),
        (long_enough, "30s", "cannot be found in less than 1m"),
        (gpu_minutes, "-3", "expected GPU-minutes"),
    ],
)
def test_a_flag_that_is_wrong(parse: Any, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_an_annotation_says_the_same_as_flags() -> None:
    usual = TrialOptions(pods=(2,), budget=30)
    assert options_of("gpus=1,2 placement=packed for=2m best=rate", usual) == TrialOptions(
        gpus=(1, 2), pods=(2,), placements=("packed",), for_s=120, budget=30, best="rate"
    )
    assert options_of("budget=30", usual) == usual
    for text, message in (
        ("gpus", "'gpus': expected gpus=…, pods=…"), ("gpus=1 gpus=2", "gpus is given twice"),
        ("for=5s", "for='5s': a cycle"), ("best=cost", "expected one of gpu-seconds, joules, rate"),
        ("budget=30.5", "budget=30.5: here are 30 GPU-minutes at most"),
    ):  # fmt: skip
        with pytest.raises(SettingError, match=message):
            options_of(text, usual)


def test_a_trial_s_job_has_the_program_of_the_template_and_nothing_that_outlives_it() -> None:
    given_: Any = document(
        pods=2, priorityClassName="high", priority=9, preemptionPolicy="PreemptLowerPriority"
    ).thing
    given_["metadata"]["labels"] = {"team": "nlp", "controller-uid": "u"}
    given_["spec"] |= {
        "suspend": True, "selector": {"matchLabels": {"controller-uid": "u"}}, "manualSelector": False,
        "completionMode": "Indexed", "backoffLimit": 6, "ttlSecondsAfterFinished": 86_400,
    }  # fmt: skip
    container = given_["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "TRIAL_GPUS", "value": "1"}, {"name": "LR", "value": "0.1"}]
    made = job_of(template_in([ManifestDocument(given_, "f")]), Variant(4, 3, "spread"), RUN)
    assert made["metadata"]["name"] == "train-trial-4gpu-3pods-spread-x7k2q"
    assert made["metadata"]["labels"] == {
        "team": "nlp", "dutycycle.io/trial-of": "train", "dutycycle.io/trial-run": "x7k2q"
    }  # fmt: skip
    spec = made["spec"]
    pod = spec.pop("template")
    assert spec == {
        "completionMode": "Indexed", "parallelism": 3, "completions": 3, "backoffLimit": 0,
        "ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 840,
    }  # fmt: skip
    assert pod["spec"]["priorityClassName"] == "dutycycle-trial"
    assert not pod["spec"].keys() & {"priority", "preemptionPolicy"}
    (main,) = pod["spec"]["containers"]
    assert main["resources"] == {"limits": {"nvidia.com/gpu": "4", "cpu": 4}}
    assert main["env"] == [
        {"name": "TRIAL_GPUS", "value": "4"}, {"name": "TRIAL_PODS", "value": "3"},
        {"name": "LR", "value": "0.1"},
    ]  # fmt: skip
    (rule,) = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["labelSelector"]["matchLabels"] == {"dutycycle.io/trial-run": "x7k2q"}
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1, "the template itself is as it was"


@pytest.mark.parametrize("length", [1, 40, 63])
def test_a_name_fits_and_is_new(length: int) -> None:
    one = template()
    long = JobTemplate(one.thing, "a" * length, None, one.container, one.resource, 1, 1)
    name = job_of(long, Variant(16, 16, "packed"), RUN)["metadata"]["name"]
    assert len(name) <= 63
    assert name.endswith("-trial-16gpu-16pods-packed-x7k2q")


def test_a_name_that_is_cut_at_a_dot_is_one() -> None:
    one = template()
    long = JobTemplate(one.thing, f"{'a' * 30}.b", None, one.container, one.resource, 1, 1)
    name = job_of(long, Variant(16, 16, "packed"), RUN)["metadata"]["name"]
    assert name == f"{'a' * 30}-trial-16gpu-16pods-packed-x7k2q"


@pytest.mark.parametrize(
    ("variant", "left", "why"),
    [
        (Variant(8, 1), {"a": 0, "b": 4, "c": 2}, None),
        (Variant(9, 1), None, "no node has 9 GPUs: the largest has 8"),
        (Variant(2, 3, "packed"), {"a": 2, "b": 4, "c": 2}, None),
        (Variant(4, 3, "packed"), None, "no node has 12 GPUs for all pods: the largest has 8"),
        (Variant(2, 3, "spread"), {"a": 6, "b": 2, "c": 0}, None),
        (Variant(4, 3, "spread"), None,
         "3 pods of 4 GPUs need nodes of their own: 2 nodes have so many GPUs"),
        (Variant(4, 4), None, "4 pods of 4 GPUs need nodes: 2 nodes have so many GPUs"),
    ],
)  # fmt: skip
def test_where_a_trial_fits(variant: Variant, left: dict[str, int] | None, why: str | None) -> None:
    room = Room({"a": 8, "b": 4, "c": 2})
    found = room.take(variant)
    assert (None if found is None else found.gpus) == left
    assert room.why_never(variant) == why


def test_room_is_what_pods_that_have_not_ended_leave_on_nodes_that_take_pods() -> None:
    def node(name: str, gpus: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"nvidia.com/gpu": gpus}}}

    def pod(node: str, phase: str) -> dict[str, Any]:
        container = {"name": "m", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
        return {"spec": {"nodeName": node, "containers": [container]}, "status": {"phase": phase}}

    nodes = [node("a", "8"), node("b", "4", unschedulable=True), {"metadata": {"name": "c"}}]
    pods = [pod("a", "Running"), pod("a", "Succeeded"), pod("b", "Running"), {"spec": {"containers": []}}]
    assert room_of(nodes, pods, template()).gpus == {"a": 6}


L4, A100 = NodeLabel("nvidia.com/gpu.product", "NVIDIA-L4"), NodeLabel("gpu", "a100-80g")


def test_models_of_gpu_are_tried_one_by_one() -> None:
    options = TrialOptions(gpus=(1, 2), gpu_models=gpu_models("NVIDIA-L4, gpu=a100-80g"))
    assert options.gpu_models == (L4, A100)
    assert planned(options) == [
        "gpus=1 gpu-model=NVIDIA-L4", "gpus=1 gpu-model=gpu=a100-80g",
        "gpus=2 gpu-model=NVIDIA-L4", "gpus=2 gpu-model=gpu=a100-80g",
    ]  # fmt: skip
    asked = "gpus=1,2 gpu-model=NVIDIA-L4,gpu=a100-80g"
    assert options_of(asked, TrialOptions()) == options


def test_a_model_is_a_node_selector_beside_the_own_one() -> None:
    variant = Variant(2, 1, model=L4)
    job = job_of(template(nodeSelector={"pool": "spot"}), variant, RUN)
    assert job["metadata"]["name"] == "train-trial-2gpu-l4-x7k2q"
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {
        "pool": "spot", "nvidia.com/gpu.product": "NVIDIA-L4",
    }  # fmt: skip
    assert "nodeSelector" not in job_of(template(), Variant(2, 1), RUN)["spec"]["template"]["spec"]


@pytest.mark.parametrize("text", ["", "NVIDIA L4", "a=", "=b", "NVIDIA-L4,nvidia-l4", "-x", "a=b=c"])
def test_what_names_no_model(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected the value|same first letters"):
        gpu_models(text)


@pytest.mark.parametrize(
    ("variant", "left", "why"),
    [
        (Variant(2, 1, model=L4), {"a": 6, "b": 8}, None),
        (Variant(8, 2, "packed", L4), None, "no node has 16 GPUs for all pods: the largest has 8"),
        (Variant(9, 1, model=A100), None, "no node has 9 GPUs: the largest has 8"),
        (
            Variant(1, 1, model=NodeLabel("gpu", "h100")), None,
            "no node that takes its pods has the label gpu=h100",
        ),
    ],
)  # fmt: skip
def test_only_nodes_with_the_model_have_room(
    variant: Variant, left: dict[str, int] | None, why: str | None
) -> None:
    nodes = [
        {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {GPU: "8"}}}
        for name, labels in (("a", {L4.key: L4.value}), ("b", {A100.key: A100.value}))
    ]
    room = room_of(nodes, [], template())
    after = room.take(variant)
    assert (None if after is None else after.gpus) == left
    assert room.why_never(variant) == why


@pytest.mark.parametrize(
    ("variant", "left", "why"),
    [
        (Variant(8, 1), {"a": 8, "b": 0, "c": 8}, None),
        (Variant(8, 2), None, "2 pods of 8 GPUs need nodes: 1 nodes have so many GPUs"),
        (
            Variant(8, 1, model=L4), None,
            "no node that takes its pods has the labels nvidia.com/gpu.product=NVIDIA-L4, pool=spot",
        ),
        (Variant(8, 1, model=NodeLabel("pool", "own")), {"a": 0, "b": 8, "c": 8}, None),
    ],
)  # fmt: skip
def test_only_nodes_that_the_job_selects_have_room(
    variant: Variant, left: dict[str, int] | None, why: str | None
) -> None:
    """A model of the same label replaces the Job's own value, as it does in the trial's Job."""
    labels = {"a": {"pool": "own"}, "b": {"pool": "spot"}, "c": {L4.key: L4.value}}
    nodes = [
        {"metadata": {"name": name, "labels": of_node}, "status": {"allocatable": {GPU: "8"}}}
        for name, of_node in labels.items()
    ]
    room = room_of(nodes, [], template(nodeSelector={"pool": "spot"}))
    after = room.take(variant)
    assert (None if after is None else after.gpus) == left
    assert room.why_never(variant) == why


NOT_TAKEN: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    # what the Job's pods have, what the node has, and why it is none of theirs
    "any node": ({}, {}, None),
    "cordoned": ({}, {"unschedulable": True}, "cordoned"),
    "a taint": ({}, {"taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}]},
                "taint team=vision:NoSchedule"),
    "how a node is at the moment": ({}, {"taints": [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"},
    ]}, None),
    "a taint that only weighs": ({}, {"taints": [{"key": "team", "effect": "PreferNoSchedule"}]}, None),
    "tolerated": ({"tolerations": [{"key": "team", "value": "vision", "effect": "NoSchedule"}]},
                  {"taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}]}, None),
    "another value tolerated": ({"tolerations": [{"key": "team", "operator": "Equal", "value": "nlp"}]},
                                {"taints": [{"key": "team", "value": "vision", "effect": "NoExecute"}]},
                                "taint team=vision:NoExecute"),
    "another effect tolerated": ({"tolerations": [{"key": "t", "operator": "Exists", "effect": "NoExecute"}]},
                                 {"taints": [{"key": "t", "effect": "NoSchedule"}]}, "taint t:NoSchedule"),
    "all tolerated": ({"tolerations": [{"operator": "Exists"}]},
                      {"taints": [{"key": "t", "effect": "NoSchedule"}]}, None),
    "a key without a value": ({"tolerations": [{"key": "t", "operator": "Exists"}]},
                              {"taints": [{"key": "t", "value": "1", "effect": "NoExecute"}]}, None),
    "the taint of GPUs, which may be tolerated for us": (
        {}, {"taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]}, None),
    "cpu": ({}, {"allocatable": {"cpu": "3920m"}}, "a pod asks for more cpu than 3920m"),
    "enough cpu": ({}, {"allocatable": {"cpu": "4"}}, None),
}  # fmt: skip


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": rule}}


def expressions(*rows: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": op, "values": list_} for key, op, list_ in rows]}


AFFINE: dict[str, tuple[dict[str, Any], bool]] = {
    "in": (expressions(("gpu", "In", ["a100", "h100"])), True),
    "not in": (expressions(("gpu", "NotIn", ["h100"])), False),
    "not in, without the label": (expressions(("zone", "NotIn", ["a"])), True),
    "there": (expressions(("gpu", "Exists", [])), True),
    "not there": (expressions(("zone", "DoesNotExist", [])), True),
    "more": (expressions(("memory", "Gt", ["79"])), True),
    "not more": (expressions(("memory", "Gt", ["80"])), False),
    "less": (expressions(("memory", "Lt", ["81"])), True),
    "less, of what is no number": (expressions(("gpu", "Lt", ["81"])), False),
    "one of two is not so": (expressions(("gpu", "Exists", []), ("zone", "In", ["a"])), False),
    "by name": ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, True),
    "another name": ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}, False),
    "nothing": ({}, False),
}


def one_node(**has: Any) -> dict[str, Any]:
    allocatable = {GPU: "8", **has.pop("allocatable", {})}
    labels = {"gpu": "h100", "memory": "80"}
    return {"metadata": {"name": "n", "labels": labels}, "spec": has, "status": {"allocatable": allocatable}}


@pytest.mark.parametrize(("pod", "has", "reason"), NOT_TAKEN.values(), ids=NOT_TAKEN.keys())
def test_a_node_that_the_pods_never_take_is_no_room_and_it_is_said_why(
    pod: dict[str, Any], has: dict[str, Any], reason: str | None
) -> None:
    room = room_of([one_node(**has)], [], template(**pod))
    assert room.refused == ({} if reason is None else {"n": reason})
    why = room.why_never(Variant(8, 1))
    assert why == (reason and f"no node has 8 GPUs: the largest has 0; its pods never take n ({reason})")


@pytest.mark.parametrize(("term", "is_taken"), AFFINE.values(), ids=AFFINE.keys())
def test_node_affinity_chooses_nodes(term: dict[str, Any], is_taken: bool) -> None:
    room = room_of([one_node()], [], template(**affinity(term)))
    assert room.refused == ({} if is_taken else {"n": "not of its nodeAffinity"})
    either = affinity(expressions(("zone", "Exists", [])), term, expressions(("zone", "In", ["b"])))
    assert room_of([one_node()], [], template(**either)).gpus == ({"n": 8} if is_taken else {})


def test_many_nodes_that_are_not_taken_are_told_by_their_reasons() -> None:
    taint: dict[str, Any] = {"taints": [{"key": "t", "effect": "NoSchedule"}]}
    specs: dict[str, dict[str, Any]] = {
        "a": {}, **{f"t{at}": taint for at in range(5)}, "c": {"unschedulable": True}
    }  # fmt: skip
    nodes = [{**one_node(**spec), "metadata": {"name": name}} for name, spec in specs.items()]
    assert room_of(nodes, [], template()).why_never(Variant(8, 2)) == (
        "2 pods of 8 GPUs need nodes: 1 nodes have so many GPUs; its pods never take c (cordoned), t0, t1, "
        "t2, and 2 more (taint t:NoSchedule)"
    )


def test_pods_that_keep_apart_are_not_packed_and_have_a_node_each() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    job: Any = document(affinity=rule).thing
    job["spec"]["template"]["metadata"] = {"labels": {"app": "train"}}
    nodes = [{**one_node(), "metadata": {"name": name}} for name in "ab"]
    room = room_of(nodes, [], template_in([ManifestDocument(job, "f")]))
    assert room.why_never(Variant(1, 2, "packed")) == (
        "no two of its pods share a node (podAntiAffinity), so they cannot be packed on one"
    )
    assert (
        room.why_never(Variant(1, 3)) == "3 pods of 1 GPUs need nodes of their own: 2 nodes have so many GPUs"
    )
    after = room.take(Variant(1, 1))
    assert after is not None
    assert after.take(Variant(1, 2)) is None, "pods of another trial have the labels, too"
    job["spec"]["template"]["metadata"] = {"labels": {"app": "other"}}
    room = room_of(nodes, [], template_in([ManifestDocument(job, "f")]))
    assert room.why_never(Variant(1, 3)) is None
