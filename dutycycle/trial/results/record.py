"""Tells others what trials have shown: a record on the topic ``trials``, and annotations of the Job."""

from dataclasses import dataclass

import orjson

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.insights import Trial, Trials
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import rfc3339
from dutycycle.kafka.producer import send_once
from dutycycle.kube.references import Patch
from dutycycle.measures.steps import Measure
from dutycycle.trial.results.text import figures_words
from dutycycle.trial.results.verdict import TrialVerdict
from sinks.annotations.core.keys import TRIAL_BEST, TRIAL_FIGURES

REQUEST, ASKED, STATE = "trial", "trial_asked", "trial_state"
TIES, AT = "trial_ties", "trial_at"
"""Names of annotations, after the prefix."""


@dataclass(frozen=True, slots=True)
class Whose:
    """Names the Job that was tried. ``uid``: None where it is not in the cluster."""

    namespace: str
    job: str
    uid: str | None = None


def record_of(verdict: TrialVerdict, whose: Whose, id_: str, ts_ms: int) -> Trials:
    """Return the record that is sent to the topic."""
    names = tuple(row.outcome.variant.name for row in verdict.ties)
    return Trials(
        id=id_, namespace=whose.namespace, job=whose.job, job_uid=whose.uid, ts_ms=ts_ms, goal=verdict.goal,
        unit=verdict.unit, best=None if verdict.best is None else verdict.best.outcome.variant.name,
        ties=names,
        trials=tuple(
            Trial(
                name=row.outcome.variant.name, gpus=row.outcome.variant.gpus, pods=row.outcome.variant.pods,
                placement=row.outcome.variant.placement,
                gpu_model=None if row.outcome.variant.model is None else str(row.outcome.variant.model),
                ended=row.outcome.ended[:1024], gpu_minutes=round(row.outcome.gpu_minutes, 3),
                rate_per_s=_value(row.rate), gpu_s_per_unit=_value(row.gpu_s),
                energy_j_per_unit=_value(row.joules),
                bottleneck=None if row.outcome.figures is None else row.outcome.figures.bottleneck,
                idle_gpus=None if row.outcome.figures is None else row.outcome.figures.idle_gpus,
            )
            for row in verdict.rows
        ),
    )  # fmt: skip


def annotations_of(verdict: TrialVerdict, prefix: str, ts_ms: int) -> Patch:
    """Return what is written on the Job; of what is not known, what an earlier trial wrote is taken away."""
    best = verdict.best
    each = {
        str(row.outcome.variant): figures_words(row, verdict.unit) or row.outcome.ended
        for row in verdict.rows
    }
    values = {
        TRIAL_BEST: None if best is None else str(best.outcome.variant),
        TIES: "; ".join(str(row.outcome.variant) for row in (*verdict.ties, *verdict.unsure)) or None,
        TRIAL_FIGURES: orjson.dumps(each).decode(),
        AT: rfc3339(ts_ms),
    }
    return {f"{prefix}/{name}": value for name, value in values.items()}


async def publish(record: Trials, settings: Settings) -> None:
    """Send it. Raises ``DutycycleError``."""
    key = f"{record.namespace}/{record.job}"
    await send_once(settings, "trial", [ProducerRecord("trials", key, encode(record), record.ts_ms)])


def _value(of: Measure | None) -> float | None:
    return None if of is None else of.value
