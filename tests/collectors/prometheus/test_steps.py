"""Goal: one sample a step says what was in the step: means, maxima, growth, and who held a GPU how long."""

from dataclasses import replace
from math import inf, nan

import pytest

from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.dcgm.fields import Vocabulary
from collectors.prometheus.identity.pods import PodIndex
from collectors.prometheus.series import ScrapedSeries, parse_matrix, samples_after, without_replicas
from collectors.prometheus.steps import StepAnswers, of_steps

UTIL, ENERGY = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
CPU = "container_cpu_usage_seconds_total"
TARGET = {"job": "dcgm", "instance": "a:9400", "Hostname": "a"}
GPU = {"gpu": "0", "UUID": "GPU-1", **TARGET}
OTHER = {"gpu": "1", "UUID": "GPU-2", **TARGET}
BERT, NEXT = {"namespace": "team", "pod": "bert-0"}, {"namespace": "team", "pod": "next-0"}
STEP_S = 60
FIRST, SECOND, THIRD = 60_000, 120_000, 180_000


def series(name: str, points: dict[int, float], **labels: str) -> ScrapedSeries:
    return ScrapedSeries({"__name__": name, **labels}, tuple(points.items()))


def test_utilization_is_the_mean_of_a_step_and_has_its_maximum() -> None:
    newest = [series(UTIL, {FIRST: 0, SECOND: 0}, **GPU)]
    answers = StepAnswers(
        means={UTIL: [series(UTIL, {FIRST: 66.7, SECOND: 0.25}, **GPU)]},
        highs={UTIL: [series(UTIL, {FIRST: 98, SECOND: 1}, **GPU)]},
    )
    reader = AnswerReader()
    found = reader.read(of_steps({"gpus": newest}, answers, STEP_S, reader.vocabulary))["gpus"]
    samples = list(samples_after(found[0], 0, 300_000))
    gpus = [reader.gpus.gpus([one], PodIndex())[0] for one in samples]
    assert [(one.gpu_util_pct, one.gpu_util_max_pct) for one in gpus] == [(66.7, 98), (0.25, 1)]


@pytest.mark.parametrize("high", [4_294_967_295, 187_431])
def test_a_value_that_no_gpu_has_spoils_the_mean_of_its_step_alone(high: float) -> None:
    answers = StepAnswers(
        means={UTIL: [series(UTIL, {FIRST: high / 5000, SECOND: 5}, **GPU)]},
        highs={UTIL: [series(UTIL, {FIRST: high, SECOND: 9}, **GPU)]},
    )
    reader = AnswerReader()
    newest = {"gpus": [series(UTIL, {FIRST: 0, SECOND: 0}, **GPU)]}
    found = reader.read(of_steps(newest, answers, STEP_S, reader.vocabulary))["gpus"]
    read = [reader.gpus.gpus([one], PodIndex()) for one in samples_after(found[0], 0, 300_000)]
    assert [[one.gpu_util_pct for one in of] for of in read] == [[], [5]]
    assert reader.gpus.impossible == {(UTIL, high): 1}


@pytest.mark.parametrize(("mean", "high"), [(inf, inf), (nan, 9), (nan, nan)])
def test_a_value_that_is_no_number_spoils_the_mean_of_its_step_alone(mean: float, high: float) -> None:
    """The step's newest value is one, but says nothing of the step."""

    def answer(first: float, second: float) -> list[ScrapedSeries]:
        metric = {"__name__": UTIL, **GPU}
        return parse_matrix([{"metric": metric, "values": [(60, str(first)), (120, str(second))]}])

    answers = StepAnswers(means={UTIL: answer(mean, 5)}, highs={UTIL: answer(high, 9)})
    reader = AnswerReader()
    found = reader.read(of_steps({"gpus": answer(0, 0)}, answers, STEP_S, reader.vocabulary))["gpus"]
    samples = [(sample.ts_ms, sample.value) for sample in samples_after(found[0], 0, 300_000)]
    assert samples == [(SECOND, 5)]
    assert reader.no_numbers == {(UTIL, f"{mean:g}"): 1}


def test_of_two_replicas_the_one_with_numbers_tells_the_step() -> None:
    def answer(first: object, second: object) -> list[ScrapedSeries]:
        return without_replicas(
            parse_matrix(
                {"metric": {"__name__": UTIL, "replica": name, **GPU}, "values": [(60, str(value))]}
                for name, value in (("a", first), ("b", second))
            )
        )

    answers = StepAnswers(means={UTIL: answer(40, nan)}, highs={UTIL: answer(90, nan)})
    reader = AnswerReader()
    found = reader.read(of_steps({"gpus": answer(0, nan)}, answers, STEP_S, reader.vocabulary))["gpus"]
    samples = [(one.ts_ms, one.value, one.high) for one in samples_after(found[0], 0, 300_000)]
    assert samples == [(FIRST, 40, 90)]
    assert reader.no_numbers == {(UTIL, "nan"): 1}


def test_a_counter_has_its_growth_in_the_step_and_else_that_between_two_steps() -> None:
    labels = {"namespace": "team", "pod": "bert-0", "container": "main"}
    newest = [series(CPU, {FIRST: 1000, SECOND: 30, THIRD: 90}, **labels)]
    answers = StepAnswers(increases={("containers", CPU): [series(CPU, {FIRST: 120, SECOND: 90}, **labels)]})
    (found,) = of_steps({"gpus": [], "containers": newest}, answers, STEP_S, Vocabulary())["containers"]
    assert [one.per_s for one in samples_after(found, 0, 300_000)] == [2, 1.5, 1]


def test_a_counter_that_reads_0_amid_a_step_has_not_grown_by_all_of_itself() -> None:
    """Prometheus takes it for a reset."""
    newest = [series(CPU, {FIRST: 1000, SECOND: 1030, THIRD: 0, 240_000: 1090}, namespace="t", pod="p")]
    grown = [series(CPU, {SECOND: 1031, THIRD: 0, 240_000: 31}, namespace="t", pod="p")]
    answers = StepAnswers(increases={("containers", CPU): grown})
    (found,) = of_steps({"gpus": [], "containers": newest}, answers, STEP_S, Vocabulary())["containers"]
    per_s = [one.per_s for one in samples_after(found, 0, 300_000)]
    assert per_s == [None, 0.5, 0, pytest.approx(31 / 60)]


def test_a_counter_that_falls_for_some_steps_and_comes_back_has_not_grown_by_all_of_itself() -> None:
    for failed in (0, 500):
        points: dict[int, float] = {FIRST: 1000, SECOND: min(1000, 2 * failed), THIRD: failed, 240_000: 1030}
        newest = [series(CPU, points, namespace="t", pod="p")]
        grown = [series(CPU, {SECOND: 0, THIRD: 5, 240_000: 530}, namespace="t", pod="p")]
        answers = StepAnswers(increases={("containers", CPU): grown})
        (found,) = of_steps({"gpus": [], "containers": newest}, answers, STEP_S, Vocabulary())["containers"]
        per_s = [one.per_s for one in samples_after(found, 0, 300_000)]
        assert per_s == [None, 0, pytest.approx(5 / 60), None], failed


def turns(
    newest: list[ScrapedSeries], counts: list[ScrapedSeries]
) -> dict[tuple[str, str, str], dict[int, float]]:
    """By metric, GPU and pod."""
    found = of_steps({"gpus": newest}, StepAnswers(counts={UTIL: counts}), STEP_S, Vocabulary())["gpus"]
    return {
        (one.labels["__name__"], one.labels["gpu"], one.labels.get("pod", "")): dict(one.points)
        for one in found
    }


def test_holders_that_replace_one_another_in_a_step_have_a_part_of_it_each() -> None:
    newest = [
        series(UTIL, {FIRST: 90, SECOND: 80}, **GPU, **BERT),
        series(UTIL, {SECOND: 20, THIRD: 30}, **GPU, **NEXT),
        series(ENERGY, {FIRST: 1, SECOND: 2}, **GPU, **BERT),
        series(ENERGY, {SECOND: 3, THIRD: 4}, **GPU, **NEXT),
        series(UTIL, {FIRST: 50, SECOND: 60, THIRD: 70}, **OTHER),
        series(ENERGY, {FIRST: 5, SECOND: 6, THIRD: 7}, **OTHER),
    ]
    counts = [
        series(UTIL, {FIRST: 4, SECOND: 1}, **GPU, **BERT),
        series(UTIL, {SECOND: 3, THIRD: 4}, **GPU, **NEXT),
        series(UTIL, {FIRST: 4, SECOND: 4, THIRD: 4}, **OTHER),
    ]
    quarter = FIRST + 15_000
    assert turns(newest, counts) == {
        (UTIL, "0", "bert-0"): {FIRST: 90, quarter: 80},
        (UTIL, "0", "next-0"): {SECOND: 20, THIRD: 30},
        (ENERGY, "0", "bert-0"): {FIRST: 1, quarter: 2},
        (ENERGY, "0", "next-0"): {SECOND: 3, THIRD: 4},
        (UTIL, "1", ""): {FIRST: 50, quarter: 60, SECOND: 60, THIRD: 70},
        (ENERGY, "1", ""): {FIRST: 5, SECOND: 6, THIRD: 7},
    }


def test_two_gpus_whose_holders_change_in_one_step_are_both_there_at_each_moment() -> None:
    newest = [
        series(UTIL, {FIRST: 90}, **GPU, **BERT),
        series(UTIL, {FIRST: 20}, **GPU, **NEXT),
        series(UTIL, {FIRST: 50}, **OTHER, **BERT),
        series(UTIL, {FIRST: 60}, **OTHER),
        series(UTIL, {FIRST: 7}, gpu="2", UUID="GPU-3", **TARGET),
    ]
    counts = [
        replace(of, points=((FIRST, count),)) for of, count in zip(newest, (1, 3, 2, 2, 4), strict=True)
    ]
    moments = 15_000, 30_000, 60_000
    found = turns(newest, counts)
    assert [sorted(found[UTIL, str(at), ""]) for at in (1, 2)] == [[60_000], [*moments]]
    assert found[UTIL, "0", "bert-0"] | found[UTIL, "0", "next-0"] == {15_000: 90, 30_000: 20, 60_000: 20}
    assert found[UTIL, "1", "bert-0"] == {15_000: 50, 30_000: 50}


def test_a_gpu_that_becomes_free_in_a_step_is_nobody_s_from_then_on() -> None:
    newest = [
        series(UTIL, {FIRST: 90, SECOND: 80}, **GPU, **BERT),
        series(UTIL, {SECOND: 0, THIRD: 0}, **GPU),
    ]
    counts = [series(UTIL, {FIRST: 4, SECOND: 2}, **GPU, **BERT), series(UTIL, {SECOND: 2, THIRD: 4}, **GPU)]
    assert turns(newest, counts)[UTIL, "0", "bert-0"] == {FIRST: 90, FIRST + 30_000: 80}


def test_a_gpu_that_is_free_again_keeps_the_order_of_its_energy_counter() -> None:
    """It was nobody's before the pod came, too. Else its counter would seem to fall, and count twice."""
    newest = [
        series(UTIL, {FIRST: 0, SECOND: 0, THIRD: 0}, **GPU),
        series(UTIL, {SECOND: 80, THIRD: 80}, **GPU, **BERT),
        series(ENERGY, {FIRST: 10, SECOND: 20, THIRD: 90}, **GPU),
        series(ENERGY, {SECOND: 50, THIRD: 80}, **GPU, **BERT),
    ]
    counts = [
        series(UTIL, {FIRST: 4, SECOND: 2, THIRD: 1}, **GPU),
        series(UTIL, {SECOND: 2, THIRD: 3}, **GPU, **BERT),
    ]
    found = turns(newest, counts)
    assert found[ENERGY, "0", ""] == {FIRST: 10, FIRST + 30_000: 20, THIRD: 90}
    assert found[ENERGY, "0", "bert-0"] == {SECOND: 50, SECOND + 45_000: 80}


def test_a_step_in_which_an_exporter_comes_or_leaves_is_as_long_as_it_was_there() -> None:
    fifth = 240_000
    newest = [
        series(name, {FIRST: 9, SECOND: 9, THIRD: 9, fifth: 9}, **GPU, **BERT) for name in (UTIL, ENERGY)
    ]
    counts = [series(UTIL, {FIRST: 1, SECOND: 3, THIRD: 4, fifth: 2}, **GPU, **BERT)]
    answers = StepAnswers(counts={UTIL: counts})
    for found in of_steps({"gpus": newest}, answers, STEP_S, Vocabulary())["gpus"]:
        samples = [(sample.ts_ms, sample.passed_ms) for sample in samples_after(found, 0, 300_000)]
        assert samples == [(FIRST, 15_000), (SECOND, 60_000), (THIRD, 60_000), (THIRD + 30_000, 30_000)]


def test_holders_that_replace_one_another_in_the_first_step_share_the_time_of_the_exporter() -> None:
    newest = [series(UTIL, {FIRST: 90}, **GPU, **BERT), series(UTIL, {FIRST: 20, SECOND: 20}, **GPU, **NEXT)]
    counts = [series(UTIL, {FIRST: 1}, **GPU, **BERT), series(UTIL, {FIRST: 1, SECOND: 4}, **GPU, **NEXT)]
    assert turns(newest, counts) == {
        (UTIL, "0", "bert-0"): {45_000: 90}, (UTIL, "0", "next-0"): {FIRST: 20, SECOND: 20}
    }  # fmt: skip


def test_pods_that_share_a_gpu_keep_the_step_together() -> None:
    newest = [series(UTIL, {FIRST: 90, SECOND: 80}, **GPU, **who) for who in (BERT, NEXT)]
    counts = [series(UTIL, {FIRST: 4, SECOND: 4}, **GPU, **who) for who in (BERT, NEXT)]
    assert turns(newest, counts) == {
        (UTIL, "0", pod): {FIRST: 90, SECOND: 80} for pod in ("bert-0", "next-0")
    }
