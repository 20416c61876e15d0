"""Parses models that a user brings, as a setting has them."""

import re
from dataclasses import dataclass

_MODEL = re.compile(
    r"\s*(?P<name>[a-z0-9][a-z0-9_-]{0,39})\s*=\s*(?:(?P<kind>gpu|pod|node)/)?"
    r"(?P<metrics>[a-z][a-z0-9_]*(?:\s*,\s*[a-z][a-z0-9_]*)*)\s*:(?P<spec>.+)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """Describes a model. ``spec`` is an expression of River's classes, ``module:factory``, or the name of an
    entry point. The model runs for each subject of ``kind`` (None: of any) that has all of ``metrics``."""

    name: str
    kind: str | None
    metrics: tuple[str, ...]
    spec: str


def model(text: str) -> ModelSetting:
    """Parse ``NAME=[KIND/]METRIC[,METRIC]: SPEC``. Raises ``ValueError``."""
    match = _MODEL.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text.strip()[:80]}: expected NAME=METRIC: SPEC, such as "
            "hw=gpu_util_pct: time_series.HoltWinters(alpha=0.3, beta=0.1)"
        )
    metrics = tuple(metric.strip() for metric in match["metrics"].split(","))
    if len(set(metrics)) < len(metrics):
        raise ValueError(f"{match['name']}: a metric is there twice")
    return ModelSetting(match["name"], match["kind"], metrics, match["spec"].strip())
