"""Goal: what failed is not the best, and what it had of GPUs counts all the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from dutycycle.contract.settings.load import load
from dutycycle.kube.objects import ApiServer
from dutycycle.measures.steps import Measure
from dutycycle.submit.outcome import TIMED_OUT, Outcome
from dutycycle.submit.run import Signals
from dutycycle.trial import session
from dutycycle.trial.options import TrialOptions
from dutycycle.trial.plan import Plan, Variant
from dutycycle.trial.results.text import sentence_of
from dutycycle.trial.results.verdict import TrialFigures, TrialVerdict, verdict_of
from dutycycle.trial.template import JobTemplate

OOM = Outcome(137, "failed: exit code 137 (OOMKilled) of main in pod train-x")
LASTED = Outcome(0, "ran for 3m, as --for says")
HELD = Outcome(TIMED_OUT, "not over after 30m on its nodes, which is all it may")


async def tried(outcomes: list[Outcome], folder: Path, monkeypatch: pytest.MonkeyPatch) -> TrialVerdict:
    """Trials of one GPU and more that end so, each twice as fast as the one before, after a minute."""
    upcoming = iter(outcomes)

    class Run:
        entries = ()
        pods: Mapping[str, Any] = {}
        held_s = 60.0

        def __init__(self, *_: object) -> None:
            """Everything is as it comes."""

        async def on(self, *_: object) -> Outcome:
            return next(upcoming)

    async def room(*_: object, free: bool) -> None:
        return None

    def figures(_: object, trial: Path, *__: object) -> TrialFigures:
        rate = 4.0 ** int(trial.name.removesuffix("gpu"))
        return TrialFigures({"step": Measure(rate, 0.001)}, None, None, 0)

    monkeypatch.setattr(session, "JobRun", Run)
    monkeypatch.setattr(session, "room", room)
    monkeypatch.setattr(session.TrialSession, "_figures", figures)
    pod = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    thing = {"metadata": {"name": "train"}, "spec": {"template": {"spec": pod}}}
    template = JobTemplate(thing, "train", "ml", "main", "nvidia.com/gpu", 1, 1)
    trials = session.TrialSession(
        cast("ApiServer", None), load({"DUTYCYCLE_NODE": "n"}), template, TrialOptions(), folder, Signals()
    )
    plan = Plan(tuple(Variant(gpus, 1) for gpus in range(1, len(outcomes) + 1)))
    verdict = verdict_of(await trials.run(plan), "gpu-seconds")
    assert trials.spent == sum(variant.total for variant in plan.variants)
    return verdict


@pytest.mark.parametrize(
    ("outcomes", "best"),
    [([LASTED, LASTED], "2gpu"), ([LASTED, OOM], "1gpu"), ([LASTED, HELD], "2gpu"), ([OOM, OOM], None)],
)
async def test_what_failed_is_not_the_best(
    outcomes: list[Outcome], best: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = await tried(outcomes, tmp_path, monkeypatch)
    assert (verdict.best and verdict.best.outcome.variant.name) == best
    assert [row.outcome.ended for row in verdict.rows] == [outcome.words for outcome in outcomes]
    if best is None:
        assert sentence_of(verdict).endswith("is not known: no trial ran to its end and was measured")
