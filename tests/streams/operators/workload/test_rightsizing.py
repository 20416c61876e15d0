"""What a pod asks for too much: sizes from its spans, and what they add to a assessment."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest

from dutycycle.contract.codec import from_plain, to_plain
from dutycycle.contract.records.pods import Pod
from streams.operators.workload.channels import (
    ABSENT_CODE,
    CGROUP_CHANNELS,
    CHANNELS,
    NVML_CHANNELS,
    SPAN_MS,
    SPAN_S,
    Codes,
)
from streams.operators.workload.rules.bottleneck import Assessment
from streams.operators.workload.rules.rightsizing import MIN_SPANS, Size, Sizer, with_sizes
from tests.support.streams.codes import quantize

GIB = 2.0**30
PUBLISHED = Assessment(
    ts_ms=1000, since_ms=0, kind="inference", confidence=0.9, bottleneck="none", bottleneck_confidence=0.6,
    evidence={"gpu_util_pct": 40, "gpus": 1},
)  # fmt: skip
SIZES = {"cpu": Size(2000, 2.1, 3), "mem": Size(3000, 5.5 * GIB, 8 * GIB)}


def pod(cpu: float | None = None, gib: float | None = None) -> Pod:
    memory = None if gib is None else gib * GIB
    return Pod(uid="p", name="n", node="a", phase="Running", cpu_request=cpu, mem_request_bytes=memory)


def span(cpu_pct: float | None, mem_mb: float = 1000.0) -> Codes:
    """Ten seconds, of which one has the most; None: nothing is known of the CPU."""
    codes = np.full((len(CHANNELS), SPAN_S), ABSENT_CODE, np.uint8)
    if cpu_pct is not None:
        values = np.full((SPAN_S, len(CGROUP_CHANNELS)), np.nan)
        values[:, list(CGROUP_CHANNELS).index("cpu_pct")] = cpu_pct / 2
        values[3, list(CGROUP_CHANNELS).index("cpu_pct")] = cpu_pct
        values[:, list(CGROUP_CHANNELS).index("mem_mb")] = mem_mb
        codes[len(NVML_CHANNELS) :] = quantize("cgroup", values).T
    return codes


def followed(spans: Iterable[float | None], sizer: Sizer | None = None, first: int = 0) -> Sizer:
    sizer = sizer or Sizer()
    for number, cpu_pct in enumerate(spans, start=first + 1):
        sizer.add(number * SPAN_MS, span(cpu_pct), PUBLISHED)
    return sizer


@pytest.mark.parametrize(
    ("cpus", "enough"),
    [(0.01, 1), (0.8, 1), (1.0, 2), (1.5, 2), (2.1, 3), (2.9, 4), (4.5, 6), (7, 12), (12, 16), (60, 96)],
)
def test_what_would_do(cpus: float, enough: float) -> None:
    size = followed([100 * cpus] * MIN_SPANS).sizes["cpu"]
    assert size.enough == enough
    assert size.most == pytest.approx(cpus, rel=0.04, abs=0.003)


@pytest.mark.parametrize(
    ("published", "spans"),
    [
        (PUBLISHED, [200.0] * (MIN_SPANS - 1)),
        (PUBLISHED, [None] * MIN_SPANS + [200.0] * (MIN_SPANS - 1)),
        (PUBLISHED, [None] * (2 * MIN_SPANS)),
        (None, [200.0] * 40),
        (replace(PUBLISHED, kind="loading"), [200.0] * 40),
        (replace(PUBLISHED, kind="idle"), [200.0] * 40),
        (replace(PUBLISHED, since_ms=26 * SPAN_MS), [200.0] * 40),
    ],
)
def test_a_start_says_nothing(published: Assessment | None, spans: Sequence[float | None]) -> None:
    sizer = Sizer()
    for number, cpu_pct in enumerate(spans, start=1):
        sizer.add(number * SPAN_MS, span(cpu_pct), published)
    assert sizer.sizes == {}


def test_a_size_grows_at_once_and_shrinks_after_an_hour() -> None:
    sizer = followed([200.0] * MIN_SPANS)
    small = sizer.sizes
    followed([210.0], sizer, MIN_SPANS)
    assert sizer.sizes is small, "three would still do"
    followed([900.0], sizer, MIN_SPANS + 1)
    assert sizer.sizes["cpu"].enough == 12
    assert sizer.sizes["cpu"].ts_ms == (MIN_SPANS + 2) * SPAN_MS
    assert sizer.sizes["mem"] is small["mem"]
    hour = 3_600_000 // SPAN_MS
    followed([200.0] * (hour - MIN_SPANS - 3), sizer, MIN_SPANS + 2)
    assert sizer.sizes["cpu"].enough == 12
    followed([200.0] * 2, sizer, hour - 1)
    assert sizer.sizes["cpu"].enough == 3


def test_what_was_used_at_the_start_counts_later() -> None:
    assert followed([900.0] + [100.0] * MIN_SPANS).sizes["cpu"].enough == 12


def test_a_restart_changes_nothing() -> None:
    chance = np.random.default_rng(5)
    spans = [None if one < 20 else float(one) for one in chance.uniform(0, 300, 500)]
    whole, again = Sizer(), Sizer()
    for number, cpu_pct in enumerate(spans, start=1):
        for sizer in (whole, again):
            sizer.add(number * SPAN_MS, span(cpu_pct), PUBLISHED)
        again = from_plain(Sizer, orjson.loads(orjson.dumps(to_plain(again))), "insight-parts")
        assert again.sizes == whole.sizes
        assert again == whole


CPUS = "asks for 16 CPUs and used at most 2.1: ask for 3"
MEMORY = "asks for 64 GiB of memory and used at most 5.5: ask for 8"


@pytest.mark.parametrize(
    ("asks", "changes", "bottleneck", "advice"),
    [
        (pod(16), {}, "over_provisioned", CPUS),
        (pod(None, 64), {}, "over_provisioned", MEMORY),
        (pod(16, 64), {}, "over_provisioned", f"{CPUS}; {MEMORY}"),
        (pod(16, 12), {}, "over_provisioned", CPUS),
        (pod(5.5, 64), {}, "over_provisioned", MEMORY),
        (pod(16), {"bottleneck": "gpu"}, "gpu", f"the GPU is the limit .*; {CPUS}"),
        (pod(16), {"bottleneck": "over_provisioned", "evidence": {"idle_gpus": 6, "gpus": 8}},
         "over_provisioned", f"6 of 8 GPUs do nothing: ask for fewer; {CPUS}"),
        (pod(None, 64), {"evidence": {"mem_limit_bytes": 7e10, "mem_limit_used_pct": 8}}, "over_provisioned",
         MEMORY),
        (pod(16, 64), {"evidence": {"cpu_throttled_pct": 3}}, "over_provisioned", MEMORY),
    ],
)  # fmt: skip
def test_a_request_that_is_too_much(asks: Pod, changes: dict[str, Any], bottleneck: str, advice: str) -> None:
    found = with_sizes(replace(PUBLISHED, **changes), SIZES, asks)
    assert found.bottleneck == bottleneck
    assert found.advice is not None
    assert re.fullmatch(advice, found.advice)
    assert (found.kind, found.since_ms) == (PUBLISHED.kind, PUBLISHED.since_ms)
    assert 0.5 <= found.bottleneck_confidence <= 0.98


@pytest.mark.parametrize(
    ("asks", "changes"),
    [
        (None, {}),
        (pod(), {}),
        (pod(5.9, 15), {}),
        (pod(3, 2), {}),
        (pod(0, 0), {}),
        (pod(16, 64), {"bottleneck": "idle"}),
        (pod(16, 64), {"bottleneck": "input"}),
        (pod(16, 64), {"bottleneck": "unknown"}),
        (pod(16, 64), {"kind": "loading"}),
        (pod(16), {"evidence": {"cpu_throttled_pct": 3}}),
    ],
)
def test_a_request_that_is_not_too_much(asks: Pod | None, changes: dict[str, Any]) -> None:
    judged = replace(PUBLISHED, **changes)
    assert with_sizes(judged, SIZES, asks) == judged


def test_small_gains_are_not_worth_a_word() -> None:
    sizes = {"cpu": Size(2000, 0.2, 1), "mem": Size(2000, 0.5 * GIB, GIB)}
    assert with_sizes(PUBLISHED, sizes, pod(2.5, 4.5)) == PUBLISHED
    assert with_sizes(PUBLISHED, sizes, pod(3, 5)) != PUBLISHED


def test_the_evidence_and_its_time() -> None:
    found = with_sizes(PUBLISHED, SIZES, pod(16, 64))
    assert found.evidence == PUBLISHED.evidence | {
        "cpu_request_cores": 16, "cpu_most_cores": 2.1, "cpu_enough_cores": 3,
        "mem_request_bytes": 68_700_000_000, "mem_most_bytes": 5_910_000_000,
        "mem_enough_bytes": 8_590_000_000,
    }  # fmt: skip
    assert found.ts_ms == 3000, "of the newest size that it rests on"
    assert with_sizes(PUBLISHED, SIZES, pod(16)).ts_ms == 2000
    assert found.bottleneck_confidence > with_sizes(PUBLISHED, SIZES, pod(7)).bottleneck_confidence
