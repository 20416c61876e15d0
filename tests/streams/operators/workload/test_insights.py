"""Insights from end to end of their stages: samples of a node in, what a pod and its job are out.

What comes out is a function of the samples: not of how topics interleave, not of repeats, not of restarts.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from bench.generators_jobs import Pod, pod
from dutycycle.contract.codec import DecodeError, decode, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import InsightPart, JobInsight
from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.records.pods import Pod as Identity
from dutycycle.contract.settings.load import load
from streams.local import LocalPipeline
from streams.operators.base import Emission, Operator
from streams.operators.workload.channels import CGROUP_CHANNELS, NVML_CHANNELS, SPAN_MS, SPAN_S, codes_to_text
from streams.state.codec import from_bytes, to_bytes
from streams.topology import stages
from tests.support.streams.codes import quantize
from tests.support.targets import slow_after

START_MS = 1_700_000_000_000
STAGES = {stage.name: stage for stage in stages(load({}, {"price_gpu_hour": "3", "price_kwh": "0.5"}))}
JOB = JobRef(api_version="v1", kind="Job", name="j", uid="j")
NOTHING = Identity(uid="p", name="p", node="a", phase="Running", job=JOB)
"""It says nothing of what it asks for."""
MUCH = replace(NOTHING, cpu_request=64, mem_request_bytes=2**40)
"""It asks for more than any of these pods uses."""


def parts(one: Pod, uid: str = "p", asks: Identity | None = None) -> dict[str, list[InsightPart]]:
    """What the two sources say of a pod, and who it is, with what it asks for."""
    matrix, split = one.matrix(), len(NVML_CHANNELS)
    who = replace(asks or NOTHING, uid=uid, name=f"name-{uid}")
    found: dict[str, list[InsightPart]] = {"nvml": [], "cgroup": [], "pods": []}
    found["pods"].append(InsightPart(uid=uid, source="pods", pod=who))
    for first in range(0, matrix.shape[1], SPAN_S):
        part, start_ms = matrix[:, first : first + SPAN_S], START_MS + first // SPAN_S * SPAN_MS
        for source, rows in (("nvml", part[:split]), ("cgroup", part[split : split + len(CGROUP_CHANNELS)])):
            text = codes_to_text(quantize(source, rows.T).T)
            found[source].append(
                InsightPart(
                    uid=uid, source=source, node="a", start_ms=start_ms, codes=text,
                    gpus=one.gpus if source == "nvml" else None,
                )
            )  # fmt: skip
    return found


def record(part: InsightPart) -> ConsumerRecord:
    return ConsumerRecord("insight-parts", 0, 0, part.uid, encode(part), part.start_ms)


def in_turn(of: dict[str, list[InsightPart]]) -> list[InsightPart]:
    """As a replay has them: identity first, then span by span."""
    both = [part for pair in zip(of["nvml"], of["cgroup"], strict=True) for part in pair]
    return [*of["pods"], *both]


def shuffled(of: dict[str, list[InsightPart]], seed: int) -> Iterator[InsightPart]:
    """Each source in its order, the sources in any; some parts come again."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    queues = [list(parts) for parts in of.values()]
    while any(queues):
        queue = chance.choice([one for one in queues if one])
        run = [queue.pop(0) for _ in range(min(chance.choice((1, 3, 20)), len(queue)))]
        yield from run
        if chance.random() < 0.2:
            yield from run[-2:]


def sent(emissions: Iterable[Emission], topic: str) -> list[ProducerRecord]:
    return [one for one in emissions if isinstance(one, ProducerRecord) and one.topic == topic]


def insights(emissions: Iterable[Emission]) -> list[Insight]:
    return [decode(Insight, one.value or b"", one.topic) for one in sent(emissions, "insights")]


def run(operator: Operator, records: Iterable[InsightPart]) -> list[Emission]:
    return [out for one in records for out in operator.update(record(one))]


@pytest.mark.parametrize(
    "shape", slow_after(2, ["steady", "requests", "download", "ends", "notebook", "stalled"])
)
def test_interleaving_and_repeats_do_not_matter(shape: str) -> None:
    of = parts(pod(shape, 2000))
    plain = run(STAGES["insights"].build("p", None), in_turn(of))
    expected = sent(plain, "insights")
    assert expected
    for seed in range(6):
        outs = run(STAGES["insights"].build("p", None), shuffled(of, seed))
        found = sent(outs, "insights")
        # Where the GPU's side is far ahead of the other, it is judged alone until that one comes.
        assert found[-1] == expected[-1]
        assert [one for one in found if one in expected] == expected
        newest = sent(outs, "job-insight-parts")
        wanted = sent(plain, "job-insight-parts")
        assert newest[-1] == wanted[-1]


def newest(emissions: Iterable[Emission]) -> dict[str, ProducerRecord]:
    """What is there in the end."""
    return {one.topic: one for one in emissions if isinstance(one, ProducerRecord)}


@pytest.mark.parametrize(
    "shape", slow_after(2, ["steady", "saturated", "requests", "language", "notebook", "ends"])
)
def test_what_is_asked_for_too_much_does_not_depend_on_when_that_is_known(shape: str) -> None:
    of = parts(pod(shape, 2000), asks=MUCH)
    early = in_turn(of)
    expected = newest(run(STAGES["insights"].build("p", None), early))
    assert len(expected) == 3
    orders = [list(shuffled(of, seed)) for seed in range(4)]
    for order in (early[1:] + early[:1], early[1:30] + early[:1] + early[30:], *orders):
        assert newest(run(STAGES["insights"].build("p", None), order)) == expected


def test_a_pod_that_asks_for_too_much_is_told_so_after_its_start_and_until_it_asks_for_less() -> None:
    of = parts(pod("requests", 2000), asks=replace(NOTHING, cpu_request=64))
    operator = STAGES["insights"].build("p", None)
    found = insights(run(operator, in_turn(of)))
    sizes = [one for one in found if "cpu_enough_cores" in one.evidence]
    assert sizes[0].ts_ms - START_MS >= 15 * SPAN_MS
    last = sizes[-1]
    assert last == found[-1]
    assert last.evidence["cpu_request_cores"] == 64
    assert last.evidence["cpu_most_cores"] < last.evidence["cpu_enough_cores"] <= 32
    assert last.advice is not None
    assert "asks for 64 CPUs and used at most" in last.advice
    who = of["pods"][0].pod
    assert who is not None
    enough = replace(who, cpu_request=last.evidence["cpu_enough_cores"])
    outs = run(operator, [InsightPart(uid="p", source="pods", pod=enough)])
    (now,) = insights(outs)
    assert "cpu_enough_cores" not in now.evidence
    assert newest(outs).keys() == {"insights", "pod-insights", "job-insight-parts"}
    assert run(operator, [InsightPart(uid="p", source="pods", pod=enough)]) == []


def test_a_job_asks_for_too_much_if_each_of_its_pods_does() -> None:
    operator = STAGES["job-insights"].build("j", None)
    sizes = {"cpu_request_cores": 16.0, "cpu_most_cores": 2.0, "cpu_enough_cores": 3.0}
    others = {"cpu_request_cores": 12.0, "cpu_most_cores": 3.1, "cpu_enough_cores": 4.0}
    head: dict[str, Any] = {
        "v": 1, "job": {"api_version": "v1", "kind": "Job", "name": "j", "uid": "j"}, "ts_ms": 5,
        "insight_ms": 4, "since_ms": 3, "kind": "inference", "confidence": 0.9,
        "bottleneck": "over_provisioned", "bottleneck_confidence": 0.9, "gpus": 1,
    }  # fmt: skip
    for uid, evidence in (("0", sizes), ("1", others)):
        plain = head | {"pod_uid": uid, "pod_name": uid, "evidence": evidence}
        operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", orjson.dumps(plain), 5))
    (job,) = insights(operator.flush())
    assert job.bottleneck == "over_provisioned"
    assert job.advice == "each pod asks for 12 CPUs and used at most 3.1: ask for 4"
    plain = head | {"pod_uid": "2", "pod_name": "2", "bottleneck": "none"}
    operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", orjson.dumps(plain), 5))
    (job,) = insights(operator.flush())
    assert (job.evidence, job.advice) == ({"pods": 3}, None)


@pytest.mark.parametrize("asks", [NOTHING, MUCH])
@pytest.mark.parametrize("shape", ["cyclic", "language", "shards", "ends", "tiny"])
def test_restart_equals_no_restart(shape: str, asks: Identity) -> None:
    records = list(shuffled(parts(pod(shape, 2001), asks=asks), 7))
    build: Callable[..., Operator] = STAGES["insights"].build
    whole = build("p", None)
    again = build("p", None)
    for one in records:
        expected = whole.update(record(one))
        again = build("p", from_bytes(to_bytes(again.snapshot())))
        assert again.update(record(one)) == expected
    assert again.snapshot() == whole.snapshot()


def test_nothing_is_told_twice_nor_often() -> None:
    for shape in ("steady", "requests", "language", "notebook", "asleep", "checkpoints"):
        for seed in range(2000, 2004):
            found = insights(run(STAGES["insights"].build("p", None), in_turn(parts(pod(shape, seed)))))
            for one, other in pairwise(found):
                changed = (one.kind, one.bottleneck) != (other.kind, other.bottleneck)
                surer = abs(one.confidence - other.confidence) >= 0.15
                assert changed or surer or other.evidence["idle_s"] >= 2 * one.evidence["idle_s"]
            assert len(found) <= 8, f"{shape} {seed}: {[(one.kind, one.bottleneck) for one in found]}"


def test_a_pod_of_which_only_the_gpu_is_known_is_told_all_the_same() -> None:
    of = parts(pod("asleep", 2000))
    doubt, told = insights(run(STAGES["insights"].build("p", None), of["nvml"]))
    assert (doubt.kind, doubt.ts_ms) == ("unknown", START_MS + SPAN_MS)
    assert (told.kind, told.bottleneck, told.ts_ms) == ("idle", "idle", START_MS + 6 * SPAN_MS)
    assert told.bottleneck_confidence == 0.82, "of a minute, and it grows with the time"
    silent = STAGES["insights"].build("p", None)
    assert run(silent, of["nvml"][:2]) == [], "the other source may come any moment"
    assert insights(run(silent, of["nvml"][2:5])) == [doubt]
    assert insights(run(silent, of["nvml"][5:6])) == [told]
    assert "cpu_util_pct" not in told.evidence, "absent is not idle"


def test_a_pod_that_ends_within_seconds_is_told_as_it_is_known() -> None:
    of = parts(pod("asleep", 2000))
    short, joined = STAGES["insights"].build("p", None), STAGES["insights"].build("p", None)
    run(short, of["nvml"][:2])
    (told,) = insights(short.close())
    assert (told.kind, told.ts_ms) == ("unknown", START_MS + SPAN_MS)
    run(joined, [of["nvml"][0], of["cgroup"][0], of["nvml"][1]])
    assert joined.close() == [], "the other source is there: its half of the second span is missing"


@pytest.mark.parametrize("sources", [("nvml", "cgroup"), ("nvml",)], ids=" ".join)
def test_whoever_annotates_hears_it_twice_a_minute(sources: tuple[str, ...]) -> None:
    of = parts(pod("saturated", 2000))
    operator = STAGES["insights"].build("p", None)
    run(operator, of["pods"])
    heard: list[int] = []
    for spans in zip(*(of[source] for source in sources), strict=True):
        outs = run(operator, spans)
        if sent(outs, "pod-insights"):
            heard.append(spans[0].start_ms)
            assert (len(sent(outs, "job-insight-parts")) == 1) == ("cgroup" in sources)
    assert len(heard) > 15
    assert all(later - earlier <= 30_000 for earlier, later in pairwise(heard))
    assert heard[-1] > of["nvml"][-1].start_ms - 30_000


def test_a_pod_without_a_gpu_is_not_told_of_and_keeps_little() -> None:
    operator = STAGES["insights"].build("p", None)
    of = parts(pod("asleep", 2000))
    assert run(operator, of["cgroup"]) == []
    assert len(operator.snapshot()["join"]["waiting"]["cgroup"]) == 36
    nobody = Identity(uid="q", name="q", node="a", phase="Running", gpu_request=0)
    without = STAGES["insights"].build("q", None)
    others = parts(pod("asleep", 2000), "q")
    run(without, [InsightPart(uid="q", source="pods", pod=nobody), *others["cgroup"]])
    assert without.snapshot()["join"]["waiting"]["cgroup"] == []


def test_what_idleness_cost() -> None:
    found = insights(run(STAGES["insights"].build("p", None), in_turn(parts(pod("asleep", 2003)))))
    last = found[-1]
    assert (last.kind, last.bottleneck) == ("idle", "idle")
    hours = last.evidence["gpus"] * last.evidence["idle_s"] / 3600
    expected = 3 * hours + 0.5 * last.evidence["idle_energy_j"] / 3.6e6
    assert last.evidence["idle_cost"] == pytest.approx(expected, rel=0.01)
    free = {stage.name: stage for stage in stages(load({}))}["insights"].build("p", None)
    assert all(
        "idle_cost" not in one.evidence for one in insights(run(free, in_turn(parts(pod("asleep", 2003)))))
    )


@pytest.mark.parametrize(("gap_s", "since_s"), [(20, 0), (30, 230), (3800, 4000)])
def test_time_that_nobody_measured_is_not_idleness(gap_s: int, since_s: int) -> None:
    operator = STAGES["insights"].build("p", None)
    of = parts(pod("asleep", 2003))
    longer = [
        replace(one, start_ms=one.start_ms + (600 + gap_s) * 1000) for one in in_turn(of | {"pods": []})
    ]
    gap_ms = 1000 * gap_s
    later = {
        source: [replace(one, start_ms=one.start_ms + gap_ms) for one in those[20:]]
        for source, those in of.items()
    }
    first = {source: those[:20] for source, those in of.items()}
    found = insights(run(operator, in_turn(first) + in_turn(later | {"pods": []}) + longer))
    last = found[-1]
    assert last.bottleneck == "idle"
    assert last.ts_ms > START_MS + (200 + gap_s) * 1000, "it is told again in time"
    idle_s = (last.ts_ms - START_MS) / 1000 - since_s
    assert last.evidence["idle_s"] == pytest.approx(idle_s, rel=0.01)
    hours = last.evidence["gpus"] * idle_s / 3600
    assert last.evidence["idle_cost"] == pytest.approx(
        3 * hours + 0.5 * last.evidence["idle_energy_j"] / 3.6e6, rel=0.01
    )


@pytest.mark.parametrize("sources", [("nvml", "cgroup"), ("nvml",)], ids=" ".join)
@pytest.mark.parametrize(("gap_s", "lost"), [(90, False), (7200, True)])
def test_of_an_idle_pod_that_nobody_measures_nothing_is_known(
    gap_s: int, lost: bool, sources: tuple[str, ...]
) -> None:
    of = parts(pod("asleep", 2003))
    of = {source: those if source in (*sources, "pods") else [] for source, those in of.items()}
    later = {
        source: [replace(part, start_ms=part.start_ms + 1000 * gap_s) for part in those[20:]]
        for source, those in of.items()
    }
    told = insights(
        run(
            STAGES["insights"].build("p", None),
            [*shuffled({source: those[:20] for source, those in of.items()}, 1), *shuffled(later, 1)],
        )
    )
    silent_ms = START_MS + 20 * SPAN_MS
    during = [insight for insight in told if silent_ms < insight.ts_ms < silent_ms + 1000 * gap_s]
    assert [(insight.kind, insight.bottleneck) for insight in during] == [("unknown", "unknown")] * lost
    assert all(insight.ts_ms == silent_ms + 120_000 for insight in during), "two minutes after the last tick"
    assert told[-1].kind == "idle", "and what comes then is judged"


@pytest.mark.parametrize("seed", range(2000, 2006))
def test_the_first_record_of_a_kind_has_nothing_of_the_kind_before(seed: int) -> None:
    found = insights(run(STAGES["insights"].build("p", None), in_turn(parts(pod("ends", seed)))))
    first = next(one for one in found if one.kind == "idle")
    assert first.bottleneck in ("unknown", "idle")
    assert first.evidence.get("gpu_util_pct", 0) < 5
    assert "batches" not in (first.advice or "")
    others = [one for one in found if one.since_ms == first.since_ms]
    assert others[-1].bottleneck == "idle"


def test_a_smaller_gpu_is_not_advised_and_taken_back_with_the_load_of_a_server() -> None:
    operator = STAGES["insights"].build("p", None)
    quiet, busy = (parts(pod(shape, 2000)) for shape in ("tiny", "saturated"))
    found: list[Insight] = []
    for turn in range(6):
        for number, of in enumerate((quiet, busy)):
            first_ms = (2 * turn + number) * 24 * SPAN_MS
            moved = {s: [replace(one, start_ms=one.start_ms + first_ms) for one in of[s][:24]] for s in of}
            found += insights(run(operator, in_turn(moved | {"pods": quiet["pods"]})))
    assert found[0].kind == "unknown", "of the first ten seconds"
    assert {one.kind for one in found[1:]} == {"inference"}
    assert sum(one.bottleneck == "over_provisioned" for one in found) <= 1


def test_the_limit_of_memory_is_told_as_it_is() -> None:
    """Two gigabytes of 256 GiB: too small a share to find the limit from."""
    local = LocalPipeline(STAGES.values())
    outs: list[ProducerRecord] = []
    for second in range(320):
        ts_ms = START_MS + 1000 * second
        head = {"v": 1, "node": "a", "collector": "c", "seq": second, "ts_ms": ts_ms, "interval_ms": 1000}
        util = 4 if 200 <= second < 260 or second % 9 > 6 else 93 + second % 5
        process = {"pid": 7, "pod_uid": "p", "gpu_util_pct": util, "mem_used_bytes": 60 * 10**9}
        one = {"uuid": "G", "index": 0, "gpu_util_pct": util, "mem_copy_util_pct": util * 2 // 3,
               "mem_total_bytes": 80 * 10**9, "processes": [process]}  # fmt: skip
        box = {"id": "c", "cpu_util_pct": 1 if util == 4 else 300, "mem_used_bytes": 2 * 10**9,
               "mem_limit_bytes": 2**38}  # fmt: skip
        cgroup = {"host": {}, "pods": [{"uid": "p", "containers": [box]}]}
        for topic, payload in (("nvml-samples", {"gpus": [one]}), ("cgroup-samples", cgroup)):
            outs += local.feed(ConsumerRecord(topic, 0, second, "a", orjson.dumps(head | payload), ts_ms))
    limits = [one.evidence for one in insights(outs) if "mem_limit_bytes" in one.evidence]
    assert limits
    for evidence in limits:
        assert evidence["mem_limit_bytes"] == 2.75e11
        assert evidence["mem_limit_used_pct"] == pytest.approx(0.728, rel=0.04)


def test_a_job_is_what_its_pods_are_in_any_order() -> None:
    outs: list[ProducerRecord] = []
    for number in range(3):
        uid = f"p{number}"
        emissions = run(
            STAGES["insights"].build(uid, None), in_turn(parts(pod("saturated", 2000 + number), uid))
        )
        outs += sent(emissions, "job-insight-parts")
    results: set[ProducerRecord] = set()
    for seed in range(5):
        order = list(outs)
        random.Random(seed).shuffle(order)  # noqa: S311 - a simulation
        operator = STAGES["job-insights"].build("j", None)
        told: list[Emission] = []
        for out in order:
            operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", out.value, out.ts_ms))
            operator = STAGES["job-insights"].build("j", from_bytes(to_bytes(operator.snapshot())))
            told += operator.flush()
        assert operator.flush() == []
        results |= set(newest(told).values())
    one, _ = sorted(results, key=lambda out: out.topic)
    job = decode(Insight, one.value or b"", "insights")
    assert (one.key, job.kind, job.bottleneck) == ("job/j", "inference", "memory_bandwidth")
    assert job.evidence["pods"] == 3


def test_a_job_is_told_with_its_name_for_whoever_writes_on_it() -> None:
    who = replace(NOTHING, namespace="team", job=replace(JOB, role="worker", replica=0))
    found = newest(run(STAGES["insights"].build("p", None), in_turn(parts(pod("saturated", 2000), asks=who))))
    part = found["job-insight-parts"]
    operator = STAGES["job-insights"].build("j", None)
    operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", part.value, part.ts_ms))
    outs = newest(operator.flush())
    both = decode(JobInsight, outs["job-insights"].value or b"", "job-insights")
    assert (both.job, both.namespace) == (JOB, "team")
    assert outs["insights"].value == encode(both.insight)
    assert outs["job-insights"].ts_ms == outs["insights"].ts_ms == both.insight.ts_ms


def test_a_job_that_is_told_under_another_namespace_is_the_same_insight() -> None:
    found = newest(run(STAGES["insights"].build("p", None), in_turn(parts(pod("saturated", 2000)))))
    part = found["job-insight-parts"]
    operator = STAGES["job-insights"].build("j", None)
    operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", part.value, part.ts_ms))
    assert newest(operator.flush()).keys() == {"job-insights", "insights"}
    operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", part.value, part.ts_ms))
    assert newest(operator.flush()).keys() == {"job-insights"}, "nothing is new, but a sink may be"
    named = orjson.dumps(orjson.loads(part.value or b"") | {"namespace": "other"})
    operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", named, part.ts_ms))
    assert newest(operator.flush()).keys() == {"job-insights"}


def test_ranks_that_wait_are_an_imbalance_of_the_job() -> None:
    operator = STAGES["job-insights"].build("j", None)
    for number, power in enumerate((82.0, 38.0, 40.0)):
        plain: dict[str, Any] = {
            "v": 1, "job": {"api_version": "v1", "kind": "Job", "name": "j", "uid": "j"},
            "pod_uid": str(number), "pod_name": f"w-{number}",
            "ts_ms": 5, "insight_ms": 4, "since_ms": 3, "kind": "training",
            "confidence": 0.9, "bottleneck": "gpu", "bottleneck_confidence": 0.9, "gpus": 8,
            "rank_figures": {"gpu_util_pct": 99.0, "power_pct": power},
        }  # fmt: skip
        operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", orjson.dumps(plain), 5))
    (job,) = insights(operator.flush())
    assert (job.kind, job.bottleneck, job.evidence["rank_gap_pct"]) == ("training", "imbalance", 40)
    assert job.advice is not None
    assert job.advice.startswith("w-0 works more than w-1")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("start_ms", START_MS + 1), ("codes", "AAAA"), ("codes", "?"), ("source", "elsewhere"),
        ("uid", "other"),
    ],
)  # fmt: skip
def test_a_part_that_no_node_wrote_is_refused_and_changes_nothing(field: str, value: Any) -> None:
    operator = STAGES["insights"].build("p", None)
    before = operator.snapshot()
    bad = orjson.loads(encode(parts(pod("asleep", 2000))["nvml"][0])) | {field: value}
    with pytest.raises(DecodeError):
        operator.update(ConsumerRecord("insight-parts", 0, 0, "p", orjson.dumps(bad), 0))
    assert operator.snapshot() == before


def test_samples_become_an_insight() -> None:
    """A node's records, with a GPU that is busy in turns, an idle one, and MPS without attribution."""
    local = LocalPipeline(STAGES.values())
    outs: list[ProducerRecord] = []
    for second in range(120):
        for topic, payload in _sampled(second):
            ts_ms = START_MS + 1000 * second
            outs += local.feed(ConsumerRecord(topic, 0, second, "a", orjson.dumps(payload), ts_ms))
    found = {one.subject.pod_uid: one for one in insights(outs)}
    assert {uid: one.kind for uid, one in found.items()} == {"busy": "training", "lazy": "idle"}
    lazy = found["lazy"].evidence
    assert (lazy["gpus"], lazy["gpu_util_pct"]) == (1, 0)
    assert lazy["power_w"] == pytest.approx(70, rel=0.04)
    assert lazy["power_pct"] == pytest.approx(10, abs=0.5)
    assert lazy["cpu_util_pct"] == pytest.approx(1, rel=0.08)


def test_a_gpu_asleep_of_which_power_alone_is_measured_is_idle_and_holds_the_pod_back() -> None:
    local = LocalPipeline(STAGES.values())
    outs: list[ProducerRecord] = []
    for second in range(300):
        ts_ms = START_MS + 1000 * second
        gpu = {"uuid": "GPU-0", "index": 0, "power_w": 2.7 + 0.2 * (second % 7 == 0),
               "allocated": [{"pod_uid": "p", "namespace": "n", "pod": "p"}]}  # fmt: skip
        head = {"v": 1, "node": "a", "collector": "c", "seq": second, "ts_ms": ts_ms, "interval_ms": 1000}
        value = orjson.dumps(head | {"gpus": [gpu]})
        outs += local.feed(ConsumerRecord("nvml-samples", 0, second, "a", value, ts_ms))
    found = insights(outs)[-1]
    assert (found.kind, found.bottleneck) == ("idle", "idle")
    assert found.evidence["idle_s"] >= 60
    assert found.evidence["idle_energy_j"] == pytest.approx(2.7 * found.evidence["idle_s"], rel=0.1)


def test_utilization_is_the_mean_over_gpus_and_rules_know_the_busiest() -> None:
    """Two GPUs were given to a pod: one works and one does nothing."""
    local = LocalPipeline(STAGES.values())
    outs: list[ProducerRecord] = []
    for second in range(240):
        head = {"v": 1, "node": "a", "collector": "c", "seq": second, "ts_ms": START_MS + 1000 * second,
                "interval_ms": 1000}  # fmt: skip
        gpus = [
            {"uuid": f"GPU-{index}", "index": index, "gpu_util_pct": util, "mem_copy_util_pct": util // 3,
             "mem_total_bytes": 80 * 10**9, "mem_used_bytes": 60 * 10**9, "power_w": 70 + 5 * util,
             "power_limit_w": 700, "allocated": [{"pod_uid": "p", "namespace": "n", "pod": "p"}]}
            for index, util in enumerate((0, 90))
        ]  # fmt: skip
        pods = [{"uid": "p", "containers": [{"id": "c", "cpu_util_pct": 300, "mem_used_bytes": 10**9}]}]
        for topic, fields in (
            ("nvml-samples", {"gpus": gpus}),
            ("cgroup-samples", {"host": {}, "pods": pods}),
        ):
            ts_ms = START_MS + 1000 * second
            outs += local.feed(ConsumerRecord(topic, 0, second, "a", orjson.dumps(head | fields), ts_ms))
    found = insights(outs)[-1]
    assert (found.bottleneck, found.evidence["idle_gpus"]) == ("over_provisioned", 1)
    assert found.evidence["gpu_util_pct"] == 45


def _sampled(second: int) -> Iterator[tuple[str, dict[str, Any]]]:
    head = {"v": 1, "node": "a", "collector": "c", "seq": second, "ts_ms": START_MS + 1000 * second,
            "interval_ms": 1000}  # fmt: skip
    util = 4 if second % 9 > 6 else 93 + second % 5

    def gpu(index: int, uid: str, util: int) -> dict[str, Any]:
        process = {"pid": index + 7, "pod_uid": uid, "gpu_util_pct": util, "mem_used_bytes": 60 * 10**9}
        return {"uuid": f"GPU-{index}", "index": index, "gpu_util_pct": util, "mem_copy_util_pct": util // 3,
                "mem_total_bytes": 80 * 10**9, "power_w": 70 + 5 * util, "power_limit_w": 700, "throttle": [],
                "processes": [process]}  # fmt: skip

    shared = [{"pod_uid": uid, "namespace": "n", "pod": uid, "shared": True} for uid in ("mps-1", "mps-2")]
    third = {"uuid": "GPU-2", "index": 2, "gpu_util_pct": 50, "allocated": shared}
    yield "nvml-samples", head | {"gpus": [gpu(0, "busy", util), gpu(1, "lazy", 0), third]}
    pods = [
        {"uid": uid, "containers": [{"id": uid, "cpu_util_pct": cpu, "mem_used_bytes": 10**9,
                                     "io_read_bytes_per_s": read, "io_write_bytes_per_s": 0}]}
        for uid, cpu, read in (("busy", 300 + second % 20, 5 * 10**6), ("lazy", 1, 0), ("other", 50, 0))
    ]  # fmt: skip
    yield "cgroup-samples", head | {"host": {"cpu_util_pct": 500, "cpu_count": 64}, "pods": pods}
