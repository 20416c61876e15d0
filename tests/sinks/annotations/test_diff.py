"""The difference of wanted and present annotations: what is in it, and when it is worth a write."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.records.derived import PodOfJob
from dutycycle.kube.references import Patch
from sinks.annotations.core.desired import Annotations
from sinks.annotations.core.diff import (
    TOTAL_BYTES,
    Present,
    changed_figures,
    diff,
    size_of,
    split,
    worth_writing,
)
from sinks.annotations.core.keys import LONGEST_NAME, PODS_OMITTED, pod_key_name
from sinks.annotations.core.schedule import ChangeThreshold
from tests.support.sinks import made
from tests.support.sinks.rig import patched

P = "dutycycle.io"

DIFFS: dict[str, tuple[str, dict[str, str], dict[str, str], Patch]] = {
    "new": ("node", {f"{P}/gpu-0": "1"}, {}, {f"{P}/gpu-0": "1"}),
    "same": ("node", {f"{P}/gpu-0": "1"}, {f"{P}/gpu-0": "1"}, {}),
    "changed": ("node", {f"{P}/gpu-0": "2"}, {f"{P}/gpu-0": "1"}, {f"{P}/gpu-0": "2"}),
    "a GPU gone": ("node", {}, {f"{P}/gpu-7": "1"}, {f"{P}/gpu-7": None}),
    "a user's own key under our prefix": ("node", {}, {f"{P}/team": "a", f"{P}/gpu-x": "b"}, {}),
    "another prefix": ("node", {}, {"example.org/gpu-0": "1", "gpu-0": "1", f"x{P}/gpu-0": "1"}, {}),
    "a pod's own": ("pod", {}, {f"{P}/gpu_util": "{}"}, {f"{P}/gpu_util": None}),
    "a pod's, of another version": ("pod", {}, {f"{P}/gpu-0": "{}"}, {}),
    "a job keeps its pods": ("job", {}, {f"{P}/bert-worker-0": "{}", f"{P}/gpu-0": "{}"}, {}),
    "a job's pods fit again": ("job", {}, {f"{P}/{PODS_OMITTED}": "3"}, {f"{P}/{PODS_OMITTED}": None}),
}


@pytest.mark.parametrize(("kind", "wanted", "present", "patch"), DIFFS.values(), ids=DIFFS.keys())
def test_diff(kind: str, wanted: dict[str, str], present: dict[str, str], patch: Patch) -> None:
    assert diff(kind, P, wanted, present) == patch


KEYS = st.sampled_from(
    [f"{P}/gpu-0", f"{P}/gpu-1", f"{P}/gpu-static", f"{P}/updated", f"{P}/mine", "example.org/gpu-0", "plain"]
)
OURS = st.dictionaries(KEYS.filter(lambda key: key.startswith(P)), st.text(max_size=5))
KINDS = st.sampled_from(["node", "pod", "job"])


@given(KINDS, OURS, st.dictionaries(KEYS, st.text(max_size=5)))
def test_applying_the_diff_gives_the_wanted_and_a_second_diff_is_empty(
    kind: str, wanted: dict[str, str], present: dict[str, str]
) -> None:
    patch = diff(kind, P, wanted, present)
    after = patched(patch, present)
    assert after.items() >= wanted.items()
    assert diff(kind, P, wanted, after) == {}
    assert {k: v for k, v in after.items() if not k.startswith(f"{P}/")} == {
        k: v for k, v in present.items() if not k.startswith(f"{P}/")
    }
    assert all(key.startswith(f"{P}/") for key in patch)


GPU: dict[str, Any] = {
    "mem_used": "11GB", "process_cnt": 1, "pid_mem": [[18477, "11094MB"]], "cyclic": True, "period_s": 13.2,
    "max_gpu_util": 80, "trend_pct_per_h": -0.4,
}  # fmt: skip
CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, False),
    "one percent more": ({"max_gpu_util": 81}, False),
    "ten percent more": ({"max_gpu_util": 90}, True),
    "one process more": ({"process_cnt": 2}, True),
    "another process": ({"pid_mem": [[18478, "11094MB"]]}, True),
    "two processes": ({"pid_mem": [[18477, "11094MB"], [18478, "1MB"]]}, True),
    "a process with a little more": ({"pid_mem": [[18477, "11120MB"]]}, False),
    "a process with much more": ({"pid_mem": [[18477, "12094MB"]]}, True),
    "one gigabyte more": ({"mem_used": "12GB"}, True),
    "memory not known any more": ({"mem_used": None}, True),
    "no cycle any more": ({"cyclic": False}, True),
    "the same cycle, nearly": ({"period_s": 13.3}, False),
    "another cycle": ({"period_s": 14.2}, True),
    "a steadier trend": ({"trend_pct_per_h": 1.2}, False),
    "a trend": ({"trend_pct_per_h": 12}, True),
}


@pytest.mark.parametrize(("changes", "worth"), CHANGES.values(), ids=CHANGES.keys())
def test_what_is_enough_for_a_write(changes: dict[str, Any], worth: bool) -> None:
    value = {name: one for name, one in (GPU | changes).items() if one is not None}
    wanted, present = {f"{P}/gpu-0": json.dumps(value)}, {f"{P}/gpu-0": json.dumps(GPU)}
    assert bool(changed_figures("node", diff("node", P, wanted, present), present)) is worth


PLAIN: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "the time alone": ({f"{P}/updated": "b"}, {f"{P}/updated": "a"}, False),
    "a plain value beside JSON": ({f"{P}/gpu_util_max": "97"}, {f"{P}/gpu_util_max": "10"}, False),
    "a p95 within a value": ({f"{P}/w-0": '{"cpu_util":9,"cpu_util_p95":1}'},
        {f"{P}/w-0": '{"cpu_util":9,"cpu_util_p95":8}'}, False),
    "a plain value that is new": ({f"{P}/gpu_util_mean": "97"}, {}, False),
    "another period": ({f"{P}/cycle_period_s": "97"}, {f"{P}/cycle_period_s": "3"}, False),
    "a cycle was found": ({f"{P}/cycle_period_s": "97"}, {}, True),
    "memory will be full": ({f"{P}/mem_full_at": "2023-11-14T22:13:20Z"}, {}, True),
    "new": ({f"{P}/max_disk_io": "0"}, {}, True),
    "gone": ({}, {f"{P}/max_disk_io": "0"}, True),
    "a little": ({f"{P}/max_cpu_util": "100.9"}, {f"{P}/max_cpu_util": "100"}, False),
    "much": ({f"{P}/max_cpu_util": "200"}, {f"{P}/max_cpu_util": "100"}, True),
    "no JSON was there": ({f"{P}/max_cpu_util": "200"}, {f"{P}/max_cpu_util": "{'a': 1}"}, True),
    "less than half a gigabyte": ({f"{P}/gpu-0": '{"mem_used":"0.4GB"}'},
        {f"{P}/gpu-0": '{"mem_used":"0.1GB"}'}, False),
    "a small value": ({f"{P}/gpu_util": '{"gpu_0_7":1}'}, {f"{P}/gpu_util": '{"gpu_0_7":0}'}, False),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "present", "worth"), PLAIN.values(), ids=PLAIN.keys())
def test_what_is_enough_for_a_write_on_a_pod(
    wanted: dict[str, str], present: dict[str, str], worth: bool
) -> None:
    assert bool(changed_figures("pod", diff("pod", P, wanted, present), present)) is worth


@pytest.mark.parametrize(
    ("updated", "threshold", "damped", "worth"),
    [
        ("b", ChangeThreshold.MUCH, (), True),
        ("b", ChangeThreshold.MUCH, ("max_cpu_util",), False),
        ("b", ChangeThreshold.ANY_FIGURE, ("max_cpu_util",), True),
        ("a", ChangeThreshold.MUCH, (), False),  # what is there is of a later time
        ("a", ChangeThreshold.ANY_FIGURE, (), False),
        ("a", ChangeThreshold.TIME_STAMP, ("max_cpu_util",), True),
    ],
)
def test_what_the_threshold_asks(
    updated: str, threshold: ChangeThreshold, damped: tuple[str, ...], worth: bool
) -> None:
    wanted = {f"{P}/max_cpu_util": "200", f"{P}/updated": updated}
    present = {f"{P}/max_cpu_util": "100", f"{P}/updated": "aa"}
    patch = diff("pod", P, wanted, present)
    changed = worth_writing("pod", P, patch, wanted, present, threshold, damped)
    assert changed == ({"max_cpu_util"} if worth else None)


def test_the_time_stamp_alone_is_worth_a_write_at_the_end_only() -> None:
    wanted, present = {f"{P}/updated": "b"}, {f"{P}/updated": "a"}
    of = [worth_writing("pod", P, wanted, wanted, present, threshold) for threshold in ChangeThreshold]
    assert of == [frozenset(), None, None]


def test_a_cycle_that_is_lost_is_enough_for_a_write() -> None:
    assert changed_figures("pod", {f"{P}/cycle_period_s": None}, {f"{P}/cycle_period_s": "3"}) == {
        "cycle_period_s"
    }


def test_long_pod_names_are_cut_and_stay_apart() -> None:
    long = "a" * 253
    assert pod_key_name("a" * 63) == "a" * 63
    assert len(pod_key_name("a" * 64)) == LONGEST_NAME
    assert pod_key_name(long) != pod_key_name(long[:-1])
    assert pod_key_name(long) == "a" * 54 + "-32859a3a"
    record = made.job_peaks(pods=dict.fromkeys([long, "short"], made.job_peaks().pods["bert-worker-0"]))
    state = Annotations(P)
    target = state.take(record)
    assert target is not None
    found = state.wanted(target, Present({})).texts
    assert json.loads(found[f"{P}/{pod_key_name(long)}"])["pod"] == long
    assert "pod" not in json.loads(found[f"{P}/short"])


def test_what_can_be_no_pod_is_passed_over() -> None:
    of_pod: PodOfJob = made.job_peaks().pods["bert-worker-0"]
    state = Annotations(P)
    target = state.take(made.job_peaks(pods=dict.fromkeys(["a/b", "", "A", "ok"], of_pod)))
    assert target is not None
    assert state.wanted(target, Present({})).texts.keys() == {f"{P}/ok"}


@pytest.mark.parametrize("others", [0, 100_000, 250_000, 300_000])
def test_an_object_never_grows_past_what_the_api_server_takes(others: int) -> None:
    of_pod: PodOfJob = made.job_peaks().pods["bert-worker-0"]
    state = Annotations(P)
    target = state.take(made.job_peaks(pods={f"bert-worker-{i:04}": of_pod for i in range(8000)}))
    assert target is not None
    kept = {f"{P}/an-older-pod": "x" * 1000}
    present = split(P, kept | ({"example.org/a": "x" * others} if others else {}))
    wanted = state.wanted(target, present).texts
    after = patched(diff("job", P, wanted, present.ours), present.ours)
    assert size_of(after) <= max(TOTAL_BYTES - present.others_bytes, size_of(kept) + 100)
    assert json.loads(wanted[f"{P}/{PODS_OMITTED}"]) == 8000 - sum("bert" in key for key in wanted)
    again = state.wanted(target, Present(after, present.others_bytes)).texts
    assert diff("job", P, again, after) == {}
