"""What is told of assessments, and when."""

from dataclasses import replace

from streams.operators.workload.debouncer import IDLE_REFRESH_S, InsightDebouncer
from streams.operators.workload.rules.advice import advice
from streams.operators.workload.rules.bottleneck import Assessment

NOW = Assessment(
    ts_ms=10_000, since_ms=0, kind="training", confidence=0.9, bottleneck="gpu", bottleneck_confidence=0.9
)


def after(spans: int, debouncer: InsightDebouncer, first: int = 1, now: Assessment = NOW) -> list[Assessment]:
    """What is told of the same assessment of so many spans."""
    said = []
    for number in range(first, first + spans):
        found = debouncer.add(replace(now, ts_ms=10_000 * number), 10_000 * (number - 1))
        said += [] if found is None else [found]
    return said


def test_a_kind_in_doubt_is_not_told_again_until_it_is_sure() -> None:
    debouncer = InsightDebouncer()
    assert len(after(10, debouncer)) == 1
    assert after(20, debouncer, 11, replace(NOW, confidence=0.59, bottleneck="none")) == []
    (found,) = after(5, debouncer, 31, replace(NOW, confidence=0.6, bottleneck="none"))
    assert (found.kind, found.confidence, found.bottleneck) == ("training", 0.6, "none")


def test_the_first_kind_is_told_at_once_and_another_when_two_judgements_agree() -> None:
    debouncer = InsightDebouncer()
    (first,) = after(1, debouncer, now=replace(NOW, kind="inference"))
    assert (first.kind, first.since_ms) == ("inference", 0)
    assert after(1, debouncer, 2) == []
    (found,) = after(1, debouncer, 3)
    assert (found.kind, found.since_ms) == ("training", 10_000)


def test_that_nothing_is_known_is_told_at_once_and_later_only_after_a_minute() -> None:
    debouncer, doubt = InsightDebouncer(), replace(NOW, kind="unknown", confidence=0.4)
    (first,) = after(1, debouncer, now=doubt)
    assert (first.kind, first.ts_ms) == ("unknown", 10_000)
    (kind,) = after(1, debouncer, 2)
    assert (kind.kind, kind.ts_ms) == ("training", 20_000)
    assert after(5, debouncer, 3, doubt) == []
    (again,) = after(1, debouncer, 8, doubt)
    assert (again.kind, again.ts_ms) == ("unknown", 80_000)


def test_that_what_holds_it_back_is_not_measured_any_more_is_told_once() -> None:
    debouncer, doubt = InsightDebouncer(), replace(NOW, kind="unknown", confidence=0.4)
    after(1, debouncer, now=doubt)
    (told,) = after(60, debouncer, 2, replace(doubt, bottleneck="unknown"))
    assert (told.kind, told.bottleneck) == ("unknown", "unknown")


def test_a_confidence_that_moved_far_is_told_again_at_most_each_ninety_seconds() -> None:
    debouncer = InsightDebouncer()
    after(1, debouncer)
    assert after(20, debouncer, 2, replace(NOW, confidence=0.8)) == []
    (fallen,) = after(20, debouncer, 22, replace(NOW, confidence=0.7))
    assert fallen == replace(NOW, ts_ms=220_000, confidence=0.7), "the kind is as old as it was"
    (risen,) = after(13, debouncer, 23, replace(NOW, confidence=0.99))
    assert risen.ts_ms == 310_000
    told = after(5, debouncer, 42, replace(NOW, confidence=0.7, bottleneck="input"))
    assert [(of.confidence, of.bottleneck) for of in told] == [(0.7, "input")], "both at once"


def test_since_when_a_pod_is_what_it_is() -> None:
    debouncer = InsightDebouncer()
    assert debouncer.began_ms("training", 0) is None
    after(5, debouncer)
    assert debouncer.began_ms("training", 50_000) == 0
    assert debouncer.began_ms("idle", 50_000) == 50_000
    after(1, debouncer, 6, replace(NOW, kind="idle"))
    assert debouncer.began_ms("idle", 60_000) == 50_000
    assert debouncer.began_ms("loading", 60_000) == 60_000
    assert debouncer.began_ms("training", 60_000) == 0, "it was doubted, and is the same"


def idle(seconds: float) -> Assessment:
    return replace(NOW, kind="idle", bottleneck="idle", evidence={"idle_s": seconds})


def test_idleness_is_told_when_it_has_doubled_or_is_another() -> None:
    debouncer = InsightDebouncer()
    (first,) = after(3, debouncer, now=idle(3 * IDLE_REFRESH_S))
    assert first.evidence == {"idle_s": 3 * IDLE_REFRESH_S}
    assert after(3, debouncer, 4, idle(5 * IDLE_REFRESH_S)) == []
    assert len(after(3, debouncer, 7, idle(6 * IDLE_REFRESH_S))) == 1
    assert after(3, debouncer, 10, idle(IDLE_REFRESH_S - 1)) == []
    assert len(after(3, debouncer, 13, idle(IDLE_REFRESH_S))) == 1


def test_what_held_a_pod_back_still_does_when_its_kind_becomes_known() -> None:
    debouncer, evidence = InsightDebouncer(), {"gpu_util_pct": 99.0}
    after(3, debouncer, now=replace(NOW, kind="unknown", confidence=0.4, evidence=evidence))
    (known,) = after(1, debouncer, 4, replace(NOW, bottleneck="unknown", evidence={"gpus": 1.0}))
    assert (known.kind, known.bottleneck, known.bottleneck_confidence) == ("training", "gpu", 0.9)
    assert known.evidence == {"gpu_util_pct": 99.0, "gpus": 1.0}
    assert known.advice == advice("gpu", "training", known.evidence)


def test_a_pod_that_was_idle_and_begins_is_held_back_by_nothing_known() -> None:
    debouncer = InsightDebouncer()
    after(3, debouncer, now=replace(NOW, kind="unknown", confidence=0.4, bottleneck="idle"))
    (begun,) = after(1, debouncer, 4, replace(NOW, bottleneck="unknown"))
    assert begun.bottleneck == "unknown"
