"""What River models cost beside the built-in banks: CPU per tick and series, and the size of a state.

    python -m bench.bench_models [TICKS]

With the forecasts and scores that are made every ten seconds, on a utilization with a cycle and noise.
"""

import sys
import time

import numpy as np
from msgspec import msgpack

from dutycycle.contract.settings.load import load
from streams.models import models_of
from streams.operators.columns.series import Series
from streams.operators.columns.tick import Tick, make_layout
from streams.operators.models.bank import ModelBank

MODELS = {
    "Holt-Winters": "time_series.HoltWinters(alpha=0.1, beta=0.01, gamma=0.3, seasonality=20)",
    "SNARIMAX": "time_series.SNARIMAX(p=12, d=1, q=12, m=60)",
    "linear regression over 12 lags": "preprocessing.StandardScaler() | linear_model.LinearRegression()",
    "adaptive random forest over 12 lags": "forest.ARFRegressor(n_models=3)",
    "half-space trees": "preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees()",
    "one-class SVM": "preprocessing.StandardScaler() | anomaly.OneClassSVM(nu=0.1)",
    "quantile filter": "anomaly.QuantileFilter(anomaly.GaussianScorer(), q=0.995)",
    "ADWIN": "drift.ADWIN()",
    "Page-Hinkley": "drift.PageHinkley()",
    "our cycles": "streams.operators.estimators.cycle:CycleForecaster",
    "our trends": "streams.operators.estimators.trend:TrendForecaster",
}
START_MS = 1_700_000_000_000
WARM = 400


def cost(spec: str, ticks: int) -> tuple[float, int, float]:
    """Microseconds of a tick, bytes of the state, and milliseconds to store it."""
    bank = ModelBank("n", "nvml", models_of(load({}, {"models": f"m=gpu_util_pct: {spec}"})))
    layout = make_layout([Series("gpu", "g", "gpu_util_pct")], ())
    chance, spent = np.random.default_rng(1), 0.0
    for second in range(WARM + ticks):
        value = np.clip(np.array([50 + 40 * (second % 20 < 12) + chance.normal(0, 4)]), 0, 100)
        ts_ms = START_MS + 1000 * second
        began = time.process_time()
        bank.add(Tick("c", second, ts_ms, 1000, layout, value))
        if second % 10 == 0:
            bank.evaluate(ts_ms)
        spent += (time.process_time() - began) * (second >= WARM)
    began = time.process_time()
    state = msgpack.encode(bank.snapshot())
    return spent / ticks * 1e6, len(state), (time.process_time() - began) * 1e3


def main(ticks: int = 1000) -> None:
    """Print the table."""
    print("| model | µs a tick | state | ms to store it |\n| --- | --- | --- | --- |")
    for name, spec in MODELS.items():
        us, size, ms = cost(spec, ticks)
        print(f"| {name} `{spec}` | {us:.0f} | {size / 1000:.1f} kB | {ms:.1f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
