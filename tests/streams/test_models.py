"""Goal: a specification is read and never run, a model that cannot be trusted is refused by its name."""

import sys
from pathlib import Path

import pytest
from river import compose, linear_model, time_series

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from streams.models import models_of


def settings(*models: str, **more: str) -> Settings:
    return load({}, {"models": ";".join(models), **more})


GOOD = {
    "a=gpu_util_pct: time_series.HoltWinters(alpha=0.3)": time_series.HoltWinters,
    "a=gpu/gpu_util_pct: river.time_series.SNARIMAX(p=2, d=1, q=2, m=3)": time_series.SNARIMAX,
    "a=power_w,temp_c: preprocessing.StandardScaler() | linear_model.LinearRegression()": compose.Pipeline,
    "a=power_w: linear_model.LinearRegression(optimizer=optim.SGD(0.005))": linear_model.LinearRegression,
}


@pytest.mark.parametrize(("text", "kind"), GOOD.items())
def test_a_specification_of_river_s_classes(text: str, kind: type) -> None:
    (model,) = models_of(settings(text)).models
    assert model.name == "a"
    assert isinstance(model.build(), kind)
    assert model.build() is not model.build()


def test_a_model_that_takes_a_seed_gets_one() -> None:
    text = "a=power_w: anomaly.HalfSpaceTrees({})"
    for given, seed, expected in (("", "7", 7), ("seed=3", "7", 3)):
        (model,) = models_of(settings(text.format(given), models_seed=seed)).models
        assert model.build().seed == expected


REFUSED = {
    "gpu_util_pct: drift.ADWIN()": "expected NAME=METRIC: SPEC",
    "a=gpu_utl: drift.ADWIN()": "model a: there is no metric gpu_utl; did you mean gpu_util_pct?",
    "a=power_w: drift.ADWN()": "there is no class drift.ADWN; did you mean ADWIN?",
    "a=power_w: drif.ADWIN()": "River has no module drif with models; did you mean drift?",
    "a=power_w: ADWIN()": "River has no module ADWIN with models",
    "a=power_w: drift.ADWIN(": "is no expression",
    "a=power_w: drift.ADWIN(dleta=1)": "unexpected keyword argument 'dleta'",
    "a=power_w: stats.Mean()": "Mean is none of River's forecasters, regressors, anomaly and drift detectors",
    "a=power_w: linear_model.LogisticRegression()": "is none of River's",
    "a=power_w: datasets.Bikes()": "River has no module datasets with models",
    "a=power_w: stream.iter_csv('/etc/passwd')": "River has no module stream with models",
    "a=power_w: __import__('os').system('x')": "is no River class",
    "a=power_w: (lambda: drift.ADWIN())()": "is no River class",
    "a=power_w: drift.ADWIN(delta=open('/etc/passwd'))": "River has no module open",
    "a=power_w: drift.ADWIN(**{'delta': 1})": "expected a River class",
    "a=power_w: [drift.ADWIN() for _ in (1,)][0]": "expected a River class",
    "a=power_w: drift.ADWIN().__class__()": "is no River class",
    "a=power_w: time_series.base.Forecaster.__subclasses__()": "there is no class",
    "a=power_w: utils.math.minkowski_distance({}, {}, 2)": "there is no class",
    "a=power_w: nobody_knows": "no entry point of dutycycle.models (there is none), and no expression",
    "a=power_w: no.such.module:build": "No module named 'no'",
    "a=power_w: os:system": "TypeError",
    "a=power_w: " + "-" * 3000 + "1": "",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items())
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(SettingError) as refused:
        models_of(settings(text))
    assert why in str(refused.value)


def test_what_a_model_has_without_using_it_may_be_of_chance() -> None:
    """A Gaussian scorer holds a generator that nobody seeds, and never draws from it."""
    (model,) = models_of(settings("a=power_w: anomaly.GaussianScorer()")).models
    assert model.name == "a"


def test_two_models_of_one_name_are_refused() -> None:
    with pytest.raises(SettingError, match="two models are called a"):
        settings("a=power_w: drift.ADWIN()", "a=power_w: drift.KSWIN()")


MODULE = """
import random
from river import base, drift


class Own(base.DriftDetector):
    chance = random.Random(1)

    def __init__(self, forgets=False, unseeded=False):
        super().__init__()
        self.total, self.forgets, self.unseeded = 0.0, forgets, unseeded

    def update(self, x):
        self.total += x + (self.chance.random() if self.unseeded else 0)
        self._drift_detected = self.total % 7 < 1

    def __getstate__(self):
        return {**vars(self), "total": 0.0} if self.forgets else vars(self)


def good():
    return Own()

def forgets():
    return Own(forgets=True)

def unseeded():
    return Own(unseeded=True)

def holds():
    detector = Own()
    detector.callback = lambda: None
    return detector

def nothing():
    return None

def breaks():
    raise RuntimeError("not today")

number = 5
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    info = tmp_path / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[dutycycle.models]\nmine = {name}:good\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def test_a_factory_and_an_entry_point(own: str) -> None:
    found = models_of(settings(f"a=power_w: {own}:good", "b=power_w: mine")).models
    assert [type(one.build()).__name__ for one in found] == ["Own", "Own"]
    with pytest.raises(SettingError, match=r"no entry point of dutycycle.models \(one of mine\)"):
        models_of(settings("a=power_w: yours"))


UNTRUSTED = {
    "forgets": "restored from its state, it says something else",
    "unseeded": "built twice, it says two things",
    "holds": "which is no part of River",
    "nothing": "NoneType is none of River's",
    "breaks": "RuntimeError: not today",
    "number": "there is no such function",
    "absent": "there is no such function",
}


@pytest.mark.parametrize(("factory", "why"), UNTRUSTED.items())
def test_a_model_that_cannot_be_trusted_is_refused_by_its_name(own: str, factory: str, why: str) -> None:
    with pytest.raises(SettingError) as refused:
        models_of(settings(f"mine=power_w: {own}:{factory}"))
    assert str(refused.value).startswith("model mine: ")
    assert why in str(refused.value)
