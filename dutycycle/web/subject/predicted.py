"""Sets what similar pods made one expect of a job's pods beside what they asked for and used."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from dutycycle.contract.records.derived import PodPeaks
from dutycycle.words import PREDICTED
from sinks.records.jobs import read_with_ended
from sinks.scheduling.core.prediction import Prediction, predict
from sinks.scheduling.core.similar import Template
from sinks.scheduling.pods import outcome, similar_pods_of, template_of_record

_ASKED = {"cpu_cores": "cpu_request", "mem_bytes": "mem_request_bytes"}
"""The field of ``Pod`` with what was asked for, of those figures that one can ask for."""


@dataclass(slots=True)
class PredictedPods:
    """Holds pods of a job that asked for the same and of which the same was predicted.

    ``prediction``: None without similar pods. ``used``: by figure, the most of one of them; what was
    not measured is not there.
    """

    prediction: Prediction | None
    asked: Mapping[str, float | None]
    names: list[str] = field(default_factory=list)
    used: dict[str, float] = field(default_factory=dict)

    def add(self, peaks: PodPeaks) -> None:
        """Add a pod."""
        self.names.append(peaks.pod.name)
        for figure, value in outcome(peaks, None, None).figures.items():
            self.used[figure] = max(value, self.used.get(figure, value))

    def rows(self) -> list[dict[str, str | None]]:
        """Give of each figure its title, and in words what was predicted, asked for and used; None is not
        known, and what nobody can ask for is empty."""
        figures = {} if self.prediction is None else self.prediction.figures
        rows: list[dict[str, str | None]] = []
        for name, title, text in PREDICTED:
            interval, asked, used = figures.get(name), self.asked.get(name), self.used.get(name)
            share = None
            if interval is not None and interval.coverage:
                share = f"{text(interval.low)} to {text(interval.high)} in {interval.coverage:.0%} of runs"
            rows.append({
                "title": title, "predicted": None if interval is None else text(interval.middle),
                "range": share, "used": None if used is None else text(used),
                "asked": "" if name not in _ASKED else None if asked is None else text(asked),
            })  # fmt: skip
        return rows


def predicted_pods(
    url: str, job: Mapping[str, Any], namespaces: Collection[str] | None
) -> tuple[list[PredictedPods], int]:
    """Predict each of the first pods of a job from the pods like it that had ended when the job began.

    ``job``: its row as in ``JobRecord``; ``namespaces``: those whose pods may be read, None for all. Returns
    how many records could not be read, too. Raises ``DutycycleError``.
    """
    read = read_with_ended(url, job, namespaces)
    similar, predictions = similar_pods_of(read.ended), dict[Template, Prediction | None]()
    groups: list[PredictedPods] = []
    for peaks in read.pods:
        template = template_of_record(peaks.pod)
        if template not in predictions:
            predictions[template] = predict(similar.nearest(template))
        made = PredictedPods(
            predictions[template], {name: getattr(peaks.pod, of_pod) for name, of_pod in _ASKED.items()}
        )
        group = next(
            (group for group in groups if (group.prediction, group.asked) == (made.prediction, made.asked)),
            None,
        )
        if group is None:
            groups.append(group := made)
        group.add(peaks)
    return groups, read.unreadable
