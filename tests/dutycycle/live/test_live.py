"""The live view: what it knows after which records, and how it says so."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from bus.kafka.embedded import EmbeddedBroker
from bus.kafka.producer import Producer
from contract.settings.load import load
from contract.topics import TOPICS, full_name
from dutycycle.live.follow import LiveView
from dutycycle.live.state import LiveState, short_duration
from dutycycle.live.view import bytes_text, draw, percent_text, plain_lines

GIB = 1024**3


def nvml(util: float | None, ts_ms: int = 1000) -> dict[str, Any]:
    process = {"pid": 7, "name": "python", "pod_uid": "p", "gpu_util_pct": 41, "mem_used_bytes": 2 * GIB}
    one: dict[str, Any] = {"uuid": "GPU-1", "index": 0, "model": "H200", "mem_used_bytes": 3 * GIB,
                           "mem_total_bytes": 141 * GIB, "processes": [process]}  # fmt: skip
    if util is not None:
        one["gpu_util_pct"] = util
    return {"v": 1, "node": "a", "ts_ms": ts_ms, "gpus": [one]}


def cgroup(ts_ms: int = 1000) -> dict[str, Any]:
    pod = {"uid": "p", "containers": [{"id": "1", "cpu_util_pct": 30}, {"id": "2", "cpu_util_pct": 20.5}]}
    host = {"cpu_util_pct": 150, "mem_used_bytes": 5 * GIB, "mem_total_bytes": 8 * GIB}
    return {"v": 1, "node": "a", "ts_ms": ts_ms, "host": host, "pods": [pod]}


POD = {"v": 1, "uid": "p", "namespace": "ml", "name": "train-0", "node": "a", "phase": "Running"}
GPU = {"kind": "gpu", "node": "a", "gpu": "GPU-1"}


def fed(*records: tuple[str, str, dict[str, Any] | None]) -> LiveState:
    state = LiveState()
    for topic, key, plain in records:
        state.feed(topic, key, plain)
    return state


def test_now_and_maximum() -> None:
    state = fed(("nvml-samples", "a", nvml(97)), ("nvml-samples", "a", nvml(3, 2000)))
    (row,) = state.of_kind("gpu")
    assert (row.util, row.util_max, row.name) == (3, 97, "a gpu 0 H200")


def test_unknown_never_looks_idle() -> None:
    state = fed(("nvml-samples", "a", nvml(97)), ("nvml-samples", "a", nvml(None, 2000)))
    (row,) = state.of_kind("gpu")
    assert (row.util, percent_text(row.util)) == (None, "·")


def test_a_pod_has_a_name_and_the_sum_of_its_containers() -> None:
    state = fed(("cgroup-samples", "a", cgroup()), ("pods", "p", POD), ("nvml-samples", "a", nvml(50)))
    (row,) = state.of_kind("pod")
    assert (row.name, row.util, row.gpu_util) == ("ml/train-0", 50.5, 41)


GONE = [("finished", {**POD, "finished_ms": 5}), ("deleted", None)]


@pytest.mark.parametrize(("goal", "last"), GONE, ids=[row[0] for row in GONE])
def test_a_pod_that_is_gone_is_not_shown(goal: str, last: dict[str, Any] | None) -> None:
    state = fed(("cgroup-samples", "a", cgroup()), ("pods", "p", POD), ("pods", "p", last))
    assert state.of_kind("pod") == [], goal


def test_cycles_and_trends_of_the_main_metric() -> None:
    other = {"cyclic": True, "period_s": 99}
    state = fed(
        ("nvml-samples", "a", nvml(97)),
        ("cycles", "k", cycles(GPU, gpu_util_pct={"cyclic": True, "period_s": 13.24}, power_w=other)),
        ("trends", "k", trends(gpu_util_pct=ahead(61.6), power_w=ahead(300))),
    )
    (row,) = state.of_kind("gpu")
    assert (row.cycle, state.trend(row)) == ("13.2 s", "62 % in 5m")
    state.feed("cycles", "k", cycles(GPU, gpu_util_pct={"cyclic": False}, power_w=other))
    assert row.cycle == ""


def cycles(subject: dict[str, Any], source: str = "nvml", **metrics: dict[str, Any]) -> dict[str, Any]:
    return {"subject": subject, "source": source, "ts_ms": 1000, "metrics": metrics}


def trends(**metrics: dict[str, Any]) -> dict[str, Any]:
    return {"subject": GPU, "source": "nvml", "ts_ms": 1000, "metrics": metrics}


def ahead(value: float, **more: float) -> dict[str, Any]:
    return {"forecast": [{"horizon_s": 300, "value": value}], **more}


def test_a_warning_stays_until_the_trend_of_its_metric_takes_it_back() -> None:
    state = fed(("nvml-samples", "a", nvml(97)))
    (row,) = state.of_kind("gpu")
    memory, util = ahead(1e9, exhausts_in_s=90), ahead(61.6)
    state.feed("trends", "k", trends(mem_used_bytes=memory))
    assert state.trend(row) == "memory full in 1m30s"
    state.feed("trends", "k", trends(mem_used_bytes=memory, gpu_util_pct=util))
    assert state.trend(row) == "memory full in 1m30s, 62 % in 5m"
    state.feed("trends", "k", trends(mem_used_bytes=ahead(1e9), gpu_util_pct=util))
    assert state.trend(row) == "62 % in 5m"
    state.feed("trends", "k", trends(mem_used_bytes=ahead(1e9)))
    assert state.trend(row) == "", "a metric without a trend now has none"


def test_a_warning_that_is_no_longer_told_goes() -> None:
    told = trends(mem_used_bytes=ahead(1e9, exhausts_in_s=90))
    state = fed(("nvml-samples", "a", nvml(97)), ("trends", "k", told))
    (row,) = state.of_kind("gpu")
    said = {}
    for age_s in (30, 120, 200):
        state.feed("nvml-samples", "a", nvml(97, 1000 + 1000 * age_s))
        said[age_s] = state.trend(row)
    assert said == {30: "memory full in 1m", 120: "memory full in 0s", 200: ""}


def test_a_trend_of_what_does_not_change_is_told_once_and_holds_while_it_is_measured() -> None:
    state = fed(("nvml-samples", "a", nvml(97)), ("trends", "k", trends(gpu_util_pct=ahead(97))))
    (row,) = state.of_kind("gpu")
    state.feed("nvml-samples", "a", nvml(97, 3_600_000))
    assert state.trend(row) == "97 % in 5m"
    state.feed("nvml-samples", "a", nvml(None, 3_601_000))
    assert state.trend(row) == ""


def test_a_cycle_is_of_the_metric_that_is_shown() -> None:
    pod = {"kind": "pod", "node": "a", "pod_uid": "p"}
    of_cpu = cycles(pod, "cgroup", cpu_util_pct={"cyclic": True, "period_s": 9})
    state = fed(("cgroup-samples", "a", cgroup()), ("cycles", "pod/p/cgroup", of_cpu))
    (row,) = state.of_kind("pod")
    assert row.cycle == "9 s"
    state.feed("nvml-samples", "a", nvml(97))
    assert row.cycle == "", "its GPU is shown now, of which no cycle is known"
    state.feed("cycles", "pod/p/nvml", cycles(pod, gpu_util_pct={"cyclic": True, "period_s": 4}))
    state.feed("cycles", "pod/p/cgroup", of_cpu)
    assert row.cycle == "4 s", "of each source of a pod the newest record counts"


UID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


def on_gpu(util: float | None = 90, ts_ms: int = 1000, **more: Any) -> dict[str, Any]:
    """A GPU with a process of a pod that no record names."""
    sample = nvml(util, ts_ms)
    sample["gpus"][0] |= {"processes": [{"pid": 7, "pod_uid": UID, "gpu_util_pct": util, **more}]}
    return sample


def test_a_pod_that_nobody_named_is_shown_by_what_is_known() -> None:
    state = fed(("nvml-samples", "a", on_gpu()))
    assert [row.title for row in state.of_kind("pod")] == ["1b9d6bcd"]
    held = {"uid": UID, "containers": [{"id": "8d1f3a5b7c9d0e2f", "cpu_util_pct": 30}]}
    state.feed("cgroup-samples", "a", cgroup() | {"pods": [held]})
    assert [row.title for row in state.of_kind("pod")] == ["1b9d6bcd (container 8d1f3a5b7c9d)"]
    state.feed("nvml-samples", "a", on_gpu(name="python"))
    assert [row.title for row in state.of_kind("pod")] == ["1b9d6bcd (python)"]
    assert "pod 1b9d6bcd (python): gpu 90.0 % cpu 30.0 %" in "\n".join(plain_lines(state))
    assert any(line.startswith("1b9d6bcd (python)") for line in drawn(state, 120))
    state.feed("pods", UID, POD | {"uid": UID})
    assert [row.title for row in state.of_kind("pod")] == ["ml/train-0"]


def test_a_pod_that_was_allocated_a_gpu_has_its_name_and_the_gpu_that_it_has_alone() -> None:
    given = {"pod_uid": UID, "namespace": "ml", "pod": "serve-0"}
    sample = nvml(64)
    sample["gpus"][0] |= {"allocated": [given]}
    del sample["gpus"][0]["processes"]
    state = fed(("nvml-samples", "a", sample))
    assert [(row.title, row.gpu_util) for row in state.of_kind("pod")] == [("ml/serve-0", 64)]


def test_a_pod_shows_the_mean_over_its_gpus_and_the_most_of_any() -> None:
    sample = on_gpu(99)
    sample["gpus"].append(sample["gpus"][0] | {"uuid": "GPU-2", "index": 1})
    sample["gpus"][1]["processes"] = [{"pid": 8, "pod_uid": UID, "gpu_util_pct": 0}]
    (row,) = fed(("nvml-samples", "a", sample)).of_kind("pod")
    assert (row.gpu_util, row.gpu_util_max) == (49.5, 99)


def test_the_busiest_pods_come_first_with_and_without_a_name() -> None:
    sample = on_gpu(95)
    sample["gpus"][0]["processes"].append({"pid": 8, "pod_uid": "p", "gpu_util_pct": 3})
    state = fed(("cgroup-samples", "a", cgroup()), ("pods", "p", POD), ("nvml-samples", "a", sample))
    assert [row.title for row in state.of_kind("pod")] == ["1b9d6bcd", "ml/train-0"]
    state.feed("nvml-samples", "a", nvml(41, 2000))
    shown = [(row.title, row.gpu_util) for row in state.of_kind("pod")]
    assert shown == [("ml/train-0", 41), ("1b9d6bcd", None)], "one that left the GPU does not use it"
    state.feed("nvml-samples", "a", nvml(41, 62_000))
    assert [row.title for row in state.of_kind("pod")] == ["ml/train-0"], "not seen for a minute"


def test_a_late_sample_does_not_bring_back_a_pod_that_ended() -> None:
    state = fed(
        ("cgroup-samples", "a", cgroup()), ("pods", "p", POD), ("pods", "p", POD | {"finished_ms": 5})
    )
    state.feed("nvml-samples", "a", nvml(50))
    state.feed("cgroup-samples", "a", cgroup(2000))
    assert state.of_kind("pod") == []
    state.feed("pods", "p", POD)
    state.feed("cgroup-samples", "a", cgroup(3000))
    assert [row.title for row in state.of_kind("pod")] == ["ml/train-0"], "a unit that was started again"


def insight(kind: str, bottleneck: str, uid: str = "p") -> dict[str, Any]:
    return {"subject": {"kind": "pod", "node": "a", "pod_uid": uid}, "kind": kind, "bottleneck": bottleneck}


@pytest.mark.parametrize(
    ("kind", "bottleneck", "does"),
    [
        ("training", "memory_bandwidth", "training: memory_bandwidth"),
        ("inference", "none", "inference"),
        ("training", "unknown", "training"),
        ("idle", "idle", "idle"),
        ("unknown", "gpu", "unknown: gpu"),
    ],
)
def test_what_a_pod_does_and_its_gpu(kind: str, bottleneck: str, does: str) -> None:
    state = fed(("nvml-samples", "a", nvml(97)), ("insights", "pod/p", insight(kind, bottleneck)))
    (pod,), (gpu,) = [row for row in state.rows.values() if row.kind == "pod"], state.of_kind("gpu")
    assert (state.does(pod), state.does(gpu)) == (does, does)


def test_a_gpu_that_pods_share_and_one_of_which_nothing_is_known() -> None:
    sample = nvml(97)
    sample["gpus"][0]["processes"].append({"pid": 8, "pod_uid": "q"})
    sample["gpus"][0]["processes"].append({"pid": 9})
    state = fed(("nvml-samples", "a", sample))
    (gpu,) = state.of_kind("gpu")
    assert state.does(gpu) == ""
    state.feed("insights", "pod/q", insight("inference", "none", "q"))
    assert state.does(gpu) == "inference"
    state.feed("insights", "pod/p", insight("idle", "idle"))
    assert state.does(gpu) == "idle + inference"
    state.feed("insights", "pod/z", insight("idle", "idle", "z"))
    assert "pod/z" not in state.rows
    state.feed("nvml-samples", "a", nvml(97, 2000))
    assert state.does(gpu) == "idle", "only the pods of the newest tick are on it"


def test_a_gpu_that_was_allocated_without_a_process() -> None:
    sample = nvml(0)
    sample["gpus"][0] |= {"processes": [], "allocated": [{"pod_uid": "p", "namespace": "ml", "pod": "n"}]}
    state = fed(("cgroup-samples", "a", cgroup()), ("nvml-samples", "a", sample))
    state.feed("insights", "pod/p", insight("idle", "idle"))
    assert state.does(state.of_kind("gpu")[0]) == "idle"


def drawn(state: LiveState, width: int, height: int = 40) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(draw(state, "header", [], height, width))
    return capture.get().splitlines()


@pytest.mark.parametrize("width", [80, 99, 100, 120])
def test_names_and_what_they_do_fit(width: int) -> None:
    longest = insight("interactive", "over_provisioned")
    full = trends(mem_used_bytes=ahead(1e9, exhausts_in_s=840))
    state = fed(
        ("nvml-samples", "a", nvml(97)), ("cgroup-samples", "a", cgroup()), ("pods", "p", POD),
        ("insights", "pod/p", longest), ("trends", "k", full),
    )  # fmt: skip
    lines = drawn(state, width)
    assert max(map(len, lines)) <= width
    (pod,) = (line for line in lines if line.startswith("ml/train-0"))
    (gpu,) = (line for line in lines if line.startswith("a gpu 0"))
    assert all("interactive: over_provisioned" in line for line in (pod, gpu))
    assert lines[lines.index(gpu) + 1].strip() == "memory full in 14m"
    assert ("max" in "".join(lines)) == (width >= 100)


def test_pods_that_do_not_fit_are_counted() -> None:
    state = fed()
    for number in range(20):
        uid = str(number)
        more = cgroup() | {"pods": [{"uid": uid, "containers": [{"id": "1", "cpu_util_pct": 1}]}]}
        state.feed("cgroup-samples", "a", more)
        state.feed("pods", uid, POD | {"uid": uid, "name": f"n-{number:02}"})
        state.feed("insights", f"pod/{uid}", insight("training", "gpu", uid))
        cycle = {"cyclic": True, "period_s": 9}
        state.feed("cycles", "k", cycles({"kind": "pod", "pod_uid": uid}, "cgroup", cpu_util_pct=cycle))
    lines = drawn(state, 100, height=30)
    shown = sum(line.startswith("ml/n-") for line in lines)
    assert f"… and {20 - shown} more" in lines[-1]
    assert len(lines) <= 30
    assert shown == 10


def test_the_table_and_the_lines_say_the_same() -> None:
    state = fed(("nvml-samples", "a", nvml(97)), ("cgroup-samples", "a", cgroup()), ("pods", "p", POD))
    console = Console(width=160, record=True, file=None, quiet=True)
    console.quiet = False
    with console.capture() as capture:
        console.print(draw(state, "header", ["the database is away"], 40))
    for text in (capture.get(), "\n".join(plain_lines(state))):
        for part in ("a gpu 0 H200", "97.0 %", "3.0 of 141.0 GiB", "python 7", "ml/train-0", "150 %"):
            assert part in text, part
    assert "! the database is away" in capture.get()


def test_before_the_first_sample_it_says_that_it_waits() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(draw(LiveState(), "header", [], 20))
    assert "waiting for the first sample" in capture.get()


WORDS = [(5, "5s"), (95, "1m35s"), (300, "5m"), (7260, "2h01m"), (200_000, "2d07h")]


@pytest.mark.parametrize(("seconds", "text"), WORDS)
def test_durations(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


BYTES = [(None, "·"), (0, "0 MiB"), (5 * 1024**2, "5 MiB"), (1.5 * GIB, "1.5 GiB")]


@pytest.mark.parametrize(("value", "text"), BYTES)
def test_amounts(value: float | None, text: str) -> None:
    assert bytes_text(value) == text


async def test_a_pod_that_was_told_of_before_it_began_has_its_name(tmp_path: Path) -> None:
    topics = {full_name("dutycycle.", name): 1 for name in TOPICS}
    with EmbeddedBroker(topics) as broker:
        settings = load({}, {"broker": broker.url})
        producer = Producer(settings, "test")
        await producer.start()

        async def told(topic: str, key: str, plain: dict[str, Any]) -> None:
            await producer.settle(
                [await producer.send(f"dutycycle.{topic}", key, orjson.dumps(plain), plain.get("ts_ms", 1))]
            )

        await told("pods", "p", POD | {"created_ms": 1, "images": []})
        live, stop = LiveView(settings, [], "", tmp_path), asyncio.Event()
        running = asyncio.create_task(live.run(stop))
        async with asyncio.timeout(60):
            for tick in range(1000):
                sample = cgroup(tick) | {"collector": "c", "seq": tick, "interval_ms": 1000}
                await told("cgroup-samples", "a", sample)
                if any("ml/train-0" in line for line in plain_lines(live.state)):
                    break
                await asyncio.sleep(0.1)
        stop.set()
        await running
        await producer.stop()
    assert live.state.unreadable == 0
    assert [row.name for row in live.state.of_kind("pod")] == ["ml/train-0"]
