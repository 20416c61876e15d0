"""What is told of judgements, and when."""

from dataclasses import replace

from streams.operators.workload.hysteresis import REFRESH_S, Teller
from streams.operators.workload.rules.judgement import Judgement

NOW = Judgement(
    ts_ms=10_000, since_ms=0, kind="training", confidence=0.9, bottleneck="gpu", bottleneck_confidence=0.9
)


def after(spans: int, teller: Teller, first: int = 1, now: Judgement = NOW) -> list[Judgement]:
    """What is told of the same judgement of so many spans."""
    said = []
    for number in range(first, first + spans):
        found = teller.take(replace(now, ts_ms=10_000 * number), 10_000 * (number - 1))
        said += [] if found is None else [found]
    return said


def test_a_kind_in_doubt_is_not_told_again_until_it_is_sure() -> None:
    teller = Teller()
    assert len(after(10, teller)) == 1
    assert after(20, teller, 11, replace(NOW, confidence=0.59, bottleneck="none")) == []
    (found,) = after(5, teller, 31, replace(NOW, confidence=0.6, bottleneck="none"))
    assert (found.kind, found.confidence, found.bottleneck) == ("training", 0.6, "none")


def test_since_when_a_pod_is_what_it_is() -> None:
    teller = Teller()
    assert teller.began_ms("training", 0) is None
    after(5, teller)
    assert teller.began_ms("training", 50_000) == 0
    assert teller.began_ms("idle", 50_000) == 50_000
    after(1, teller, 6, replace(NOW, kind="idle"))
    assert teller.began_ms("idle", 60_000) == 50_000
    assert teller.began_ms("loading", 60_000) == 60_000
    assert teller.began_ms("training", 60_000) == 0, "it was doubted, and is the same"


def idle(seconds: float) -> Judgement:
    return replace(NOW, kind="idle", bottleneck="idle", evidence={"idle_s": seconds})


def test_idleness_is_told_when_it_has_doubled_or_is_another() -> None:
    teller = Teller()
    (first,) = after(3, teller, now=idle(3 * REFRESH_S))
    assert first.evidence == {"idle_s": 3 * REFRESH_S}
    assert after(3, teller, 4, idle(5 * REFRESH_S)) == []
    assert len(after(3, teller, 7, idle(6 * REFRESH_S))) == 1
    assert after(3, teller, 10, idle(REFRESH_S - 1)) == []
    assert len(after(3, teller, 13, idle(REFRESH_S))) == 1
