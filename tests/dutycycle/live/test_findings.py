"""What the live view says of a subject in words."""

import pytest

from dutycycle.live.lines import LinePrinter, plain_lines
from dutycycle.live.model.subjects import Row
from dutycycle.live.views.depth import brief
from dutycycle.live.views.findings import activity, cycle_words, forecast_words, full_words, says
from dutycycle.live.views.spans import text_of
from dutycycle.live.views.warnings import warning_line, warnings
from tests.support.live import GPU, POD, POD_SUBJECT, ahead, cgroup, cycles, fed, feed, insight, nvml, trends


def trend(row: Row) -> str:
    return ", ".join(filter(None, (full_words(row), forecast_words(row))))


def test_cycles_and_trends_of_the_main_metric() -> None:
    other = {"cyclic": True, "period_s": 99}
    state = fed(
        ("nvml-samples", "a", nvml(97)),
        cycles(GPU, gpu_util_pct={"cyclic": True, "period_s": 13.24}, power_w=other),
        trends(gpu_util_pct=ahead(61.6), power_w=ahead(300)),
    )
    (row,) = state.gpus()
    assert (cycle_words(row), trend(row)) == ("cycle 13.2 s", "62 % in 5m")
    feed(state, *cycles(GPU, gpu_util_pct={"cyclic": False}, power_w=other))
    assert cycle_words(row) == ""


def test_a_warning_stays_until_the_trend_of_its_metric_takes_it_back() -> None:
    state = fed(("nvml-samples", "a", nvml(97)))
    (row,) = state.gpus()
    memory, util = ahead(1e9, exhausts_in_s=90), ahead(61.6)
    feed(state, *trends(mem_used_bytes=memory))
    assert trend(row) == "memory full in 1m30s"
    feed(state, *trends(mem_used_bytes=memory, gpu_util_pct=util))
    assert trend(row) == "memory full in 1m30s, 62 % in 5m"
    feed(state, *trends(mem_used_bytes=ahead(1e9), gpu_util_pct=util))
    assert trend(row) == "62 % in 5m"
    feed(state, *trends(mem_used_bytes=ahead(1e9)))
    assert trend(row) == "", "a metric without a trend now has none"


def test_memory_of_a_pod_that_runs_out_is_told_beside_that_of_its_gpu() -> None:
    state = fed(
        ("nvml-samples", "a", nvml(97)), ("cgroup-samples", "a", cgroup()), ("pods", "p", POD),
        trends(POD_SUBJECT, gpu_mem_used_bytes=ahead(1e9)),
        trends(POD_SUBJECT, "cgroup", mem_used_bytes=ahead(1e9, exhausts_in_s=90)),
    )  # fmt: skip
    assert [full_words(pod) for pod in state.pods()] == ["memory full in 1m30s"]
    feed(state, *trends(POD_SUBJECT, gpu_mem_used_bytes=ahead(1e9, exhausts_in_s=60)))
    assert [full_words(pod) for pod in state.pods()] == ["memory full in 1m"]
    assert warnings(state, []) == ["ml/train-0: memory full in 1m"]


def test_a_warning_that_is_no_longer_told_goes() -> None:
    state = fed(("nvml-samples", "a", nvml(97)), trends(mem_used_bytes=ahead(1e9, exhausts_in_s=90)))
    (row,) = state.gpus()
    said = {}
    for age_s in (30, 120, 200):
        feed(state, "nvml-samples", "a", nvml(97, 1000 + 1000 * age_s))
        said[age_s] = trend(row)
    assert said == {30: "memory full in 1m", 120: "memory full in 0s", 200: ""}


def test_a_trend_of_what_does_not_change_is_told_once_and_holds_while_it_is_measured() -> None:
    state = fed(("nvml-samples", "a", nvml(97)), trends(gpu_util_pct=ahead(97)))
    (row,) = state.gpus()
    feed(state, "nvml-samples", "a", nvml(97, 300_000))
    assert trend(row) == "97 % in 5m"
    feed(state, "nvml-samples", "a", nvml(None, 301_000))
    assert trend(row) == ""


def test_a_cycle_is_of_the_metric_that_is_shown() -> None:
    of_cpu = cycles(POD_SUBJECT, "cgroup", cpu_util_pct={"cyclic": True, "period_s": 9})
    state = fed(("cgroup-samples", "a", cgroup()), of_cpu)
    (row,) = state.pods()
    assert cycle_words(row) == "cycle 9 s"
    feed(state, "nvml-samples", "a", nvml(97))
    assert cycle_words(row) == "", "its GPU is shown now, of which no cycle is known"
    feed(state, *cycles(POD_SUBJECT, gpu_util_pct={"cyclic": True, "period_s": 4}))
    feed(state, *of_cpu)
    assert cycle_words(row) == "cycle 4 s", "of each source of a pod the newest record counts"


@pytest.mark.parametrize(
    ("kind", "bottleneck", "evidence", "does"),
    [
        ("training", "input", {}, "training: GPU waits for input"),
        ("training", "memory_bandwidth", {}, "training: GPU memory is the limit"),
        ("inference", "none", {}, "inference"),
        ("training", "unknown", {}, "training"),
        ("idle", "idle", {}, "idle"),
        ("unknown", "gpu", {}, "GPU is the limit"),
        ("training", "over_provisioned", {"gpus": 4, "idle_gpus": 3}, "training: asks for 4 GPUs, uses 1"),
        ("inference", "over_provisioned", {"cpu_request_cores": 16, "cpu_most_cores": 3.2},
         "inference: asks for 16 CPUs, uses 3.2"),
        ("inference", "over_provisioned", {"gpu_mem_most_pct": 9}, "inference: a smaller GPU would do"),
        ("training", "brand_new", {}, "training: brand new"),
    ],
)  # fmt: skip
def test_what_a_pod_does_and_its_gpu(
    kind: str, bottleneck: str, evidence: dict[str, float], does: str
) -> None:
    state = fed(("nvml-samples", "a", nvml(97)), insight(kind, bottleneck, evidence=evidence))
    (pod,), (gpu,) = state.pods(), state.gpus()
    assert (activity(state, pod), activity(state, gpu)) == (does, does)


def test_a_gpu_that_pods_share_and_one_of_which_nothing_is_known() -> None:
    sample = nvml(97)
    sample["gpus"][0]["processes"] += [{"pid": 8, "pod_uid": "q"}, {"pid": 9}]
    state = fed(("nvml-samples", "a", sample))
    (gpu,) = state.gpus()
    assert activity(state, gpu) == ""
    feed(state, *insight("inference", "none", "q"))
    assert activity(state, gpu) == "inference"
    feed(state, *insight("idle", "idle"))
    assert activity(state, gpu) == "idle + inference"
    feed(state, *insight("idle", "idle", "z"))
    assert "pod/z" not in state.rows
    feed(state, "nvml-samples", "a", nvml(97, 2000))
    assert activity(state, gpu) == "idle", "only the pods of the newest tick are on it"


def test_a_gpu_that_was_allocated_without_a_process() -> None:
    sample = nvml(0, processes=[], allocated=[{"pod_uid": "p", "namespace": "ml", "pod": "n"}])
    state = fed(("cgroup-samples", "a", cgroup()), ("nvml-samples", "a", sample), insight("idle", "idle"))
    assert activity(state, state.gpus()[0]) == "idle"


def test_warnings_begin_with_what_is_urgent_and_one_line_says_how_many_there_are() -> None:
    hot = nvml(97, throttle=["hw_thermal_slowdown"], temp_c=91)
    full = trends(mem_used_bytes=ahead(1e9, exhausts_in_s=840))
    state = fed(("nvml-samples", "a", hot), full)
    state.dead_letters = 3
    said = warnings(state, ["the database is away"])
    assert said == [
        "GPU a:0: memory full in 14m",
        "GPU a:0: slowed by heat at 91 °C",
        "the database is away",
        "3 records could not be used: see the topic dead-letters",
    ]
    assert [text for text, _ in warning_line(said)] == ["! GPU a:0: memory full in 14m", "  (and 3 more: w)"]
    assert warning_line([]) == [("no warnings", "dim")]


def test_a_node_that_falls_silent_is_a_warning() -> None:
    state = fed(("cgroup-samples", "a", cgroup()), ("nvml-samples", "a", nvml(9)))
    state.at(26_000)
    assert warnings(state, []) == ["a: no sample for 25s"]
    assert says(state, state.gpus()[0]) == "silent for 25s"


def test_a_silent_gpu_is_a_warning_where_its_node_is_none() -> None:
    state = fed(("nvml-samples", "a", nvml(9)))
    state.at(26_000)
    assert warnings(state, []) == ["GPU a:0: no sample for 25s"], "nobody samples the machine itself"
    feed(state, "cgroup-samples", "a", cgroup(26_000))
    assert warnings(state, []) == ["GPU a:0: no sample for 25s"]


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["hw_slowdown"], "slowed by its hardware"),
        (["hw_slowdown", "hw_thermal_slowdown"], "slowed by its hardware, heat"),
        (["hw_power_brake_slowdown"], "slowed by a power brake"),
    ],
)
def test_what_slows_a_gpu_is_named(reasons: list[str], said: str) -> None:
    sample = nvml(97)
    sample["gpus"][0]["throttle"] = reasons
    state = fed(("nvml-samples", "a", sample))
    assert said in says(state, state.gpus()[0])


def test_a_gpu_at_its_power_limit_is_no_warning_and_one_that_is_braked_is() -> None:
    at_limit = fed(("nvml-samples", "a", nvml(97, throttle=["sw_power_cap"], temp_c=60)))
    assert warnings(at_limit, []) == []
    braked = fed(("nvml-samples", "a", nvml(97, throttle=["hw_power_brake_slowdown"], temp_c=60)))
    assert warnings(braked, []) == ["GPU a:0: slowed by a power brake"]


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_gpu_that_is_not_healthy_says_so(is_silent: bool) -> None:
    state = fed(("nvml-samples", "a", nvml(97)))
    (row,) = state.gpus()
    verdict = {"gpu": row.now.uuid, "index": 0, "level": "reset", "since_ms": 1, "seen_ms": 1000,
               "reason": "Xid 79: it is gone", "action": "restart"}  # fmt: skip
    feed(state, "gpu-health", "a", {"v": 1, "node": "a", "ts_ms": 1000, "gpus": [verdict]})
    state.at(26_000 if is_silent else 1000)
    assert says(state, row) == ("silent for 25s, " if is_silent else "") + "reset: Xid 79: it is gone"


def test_lines_say_all_of_it() -> None:
    state = fed(
        ("nvml-samples", "a", nvml(97)), ("cgroup-samples", "a", cgroup()), ("pods", "p", POD),
        insight("training", "input"), cycles(GPU, gpu_util_pct={"cyclic": True, "period_s": 10}),
        trends(gpu_util_pct=ahead(61.6)),
    )  # fmt: skip
    assert list(plain_lines(state)) == [
        "node a: 150 % (max 150 %) memory 5.0 of 8.0 GiB (max 5.0 GiB)",
        "gpu a gpu 0 H200: 97.0 % (max 97.0 %) memory 3.0 of 141.0 GiB (max 3.0 GiB) "
        "does training: GPU waits for input cycle 10 s trend 62 % in 5m",
        "  process python 7: 41.0 % memory 2.0 GiB",
        "pod ml/train-0: gpu 41.0 % cpu 50.5 % (max 41.0 %) memory · (max ·) "
        "does training: GPU waits for input",
    ]


def test_what_mig_slices_do_is_said_of_each() -> None:
    works = {"uuid": "MIG-1", "profile": "1g.18gb", "gpu_util_pct": 100, "sm_active_pct": 12,
             "tensor_active_pct": 3.6, "mem_used_bytes": 2**30, "mem_total_bytes": 16 * 2**30}  # fmt: skip
    state = fed(("nvml-samples", "a", nvml(None, mig=[works, {"uuid": "MIG-2"}])))
    assert [line for line in plain_lines(state) if line.startswith("  slice")] == [
        "  slice MIG-1 1g.18gb: 100 %, SM 12 %, tensor 4 % memory 1.0 of 16.0 GiB",
        "  slice MIG-2: · memory ·",
    ]
    shown = "\n".join(text_of(line) for line in brief(state, state.gpus()[0], 120))
    assert "1g.18gb     100 %, SM 12 %, tensor 4 %" in shown


def test_lines_say_what_slows_a_gpu() -> None:
    state = fed(("nvml-samples", "a", nvml(97, throttle=["hw_power_brake_slowdown"])))
    assert [line.partition("GiB) ")[2] for line in plain_lines(state) if line.startswith("gpu ")] == [
        "slowed by a power brake"
    ]


def test_broken_gpus_are_the_first_warnings_and_those_in_order_none() -> None:
    good = {"gpu": "GPU-1", "index": 0, "level": "healthy", "since_ms": 1, "seen_ms": 1000}
    row = good | {"gpu": "GPU-2", "index": 1, "level": "watch", "reason": "a row waits", "action": "reset it"}
    gone = good | {"gpu": "GPU-3", "index": 2, "level": "reset", "reason": "Xid 79", "action": "restart"}
    state = fed(
        ("nvml-samples", "a", nvml(50)),
        ("gpu-health", "a", {"node": "a", "ts_ms": 1000, "gpus": [good, row, gone]}),
    )
    assert warnings(state, []) == ["GPU a:2: reset: Xid 79; restart", "GPU a:1: watch: a row waits; reset it"]
    assert warnings(state.frozen(), []) == warnings(state, [])
    state.at(1000 + 31 * 60_000)  # nobody has said it again
    assert not any("Xid" in line for line in warnings(state, []))


def test_lines_without_a_terminal_say_a_broken_gpu_once(capsys: pytest.CaptureFixture[str]) -> None:
    gone = {"gpu": "GPU-3", "index": 2, "level": "reset", "since_ms": 1, "seen_ms": 1000, "reason": "Xid 79",
            "action": "restart"}  # fmt: skip
    lines = LinePrinter(fed(("gpu-health", "a", {"node": "a", "ts_ms": 1000, "gpus": [gone]})), lambda: ["x"])
    lines.show()
    lines.show()
    assert capsys.readouterr().out == "! GPU a:2: reset: Xid 79; restart\n! x\n"
