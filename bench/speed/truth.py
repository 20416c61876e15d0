"""What every contender has to find: the windows of 10 s of all GPUs, computed anew from the samples."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isclose
from typing import Any

import orjson

from bench.peers.fold import METRICS

WINDOW_S = 10
LATENESS_S = 10
"""Of the windows that are compared: a window is closed by a sample that is so much later than its end."""
Place = tuple[str, int]
"""A GPU's uuid, and the start of a window in milliseconds."""
Stats = tuple[float, float, float]
"""Mean, least and largest."""
Windows = dict[Place, dict[str, Stats]]


class WrongResultsError(Exception):
    """A contender did not find what it had to: what it costs says nothing."""


@dataclass(frozen=True)
class Truth:
    """The windows of a load whose last sample has ``last_ms``."""

    windows: Windows
    last_ms: int

    def closed(self, late_s: float) -> list[Place]:
        """Those that somebody has sent who waits ``late_s`` after the end of a window."""
        latest_ms = self.last_ms - 1000 * (WINDOW_S + late_s)
        return [place for place in self.windows if place[1] <= latest_ms]

    def verify(self, name: str, found: Windows, late_s: float) -> None:
        """Raises ``WrongResultsError`` where a closed window is missing, or any window differs."""
        missing = [place for place in self.closed(late_s) if place not in found]
        if missing:
            uuid, start_ms = min(missing, key=lambda place: place[1])
            raise WrongResultsError(
                f"{name}: {len(missing)} of {len(self.closed(late_s))} windows are missing, "
                f"the first of {uuid} at {start_ms}. (Bytewax closes windows by the clock, {LATENESS_S} s "
                "after the newest sample: it loses some where it is stopped for longer, as on a busy machine)"
            )
        for place, metrics in found.items():
            wanted = self.windows[place]
            for metric, stats in metrics.items():
                if not all(isclose(a, b, rel_tol=1e-9) for a, b in zip(stats, wanted[metric], strict=True)):
                    raise WrongResultsError(
                        f"{name}: {metric} of {place[0]} at {place[1]}: mean, min, max {stats}, and not "
                        f"{wanted[metric]}"
                    )


def truth(payloads: Iterable[bytes]) -> Truth:
    """Of ``nvml-samples`` in the order of time."""
    values: dict[Place, dict[str, list[float]]] = {}
    last_ms = 0
    for payload in payloads:
        sample = orjson.loads(payload)
        last_ms = max(last_ms, sample["ts_ms"])
        start_ms = sample["ts_ms"] // (1000 * WINDOW_S) * 1000 * WINDOW_S
        for gpu in sample["gpus"]:
            window = values.setdefault((gpu["uuid"], start_ms), {metric: [] for metric in METRICS})
            for metric in METRICS:
                window[metric].append(gpu[metric])
    return Truth({place: dict(_stats(window)) for place, window in values.items()}, last_ms)


def _stats(window: dict[str, list[float]]) -> Iterator[tuple[str, Stats]]:
    for metric, values in window.items():
        yield metric, (sum(values) / len(values), min(values), max(values))


def of_peer(records: Iterable[bytes]) -> Windows:
    """Windows as ``bench/peers/fold.py`` writes them."""
    return {
        (uuid, record["start_ms"]): {
            name: (one["mean"], one["min"], one["max"]) for name, one in all_.items()
        }
        for record in map(orjson.loads, records)
        for uuid, all_ in record["metrics"].items()
    }


def of_ours(records: Iterable[bytes]) -> Windows:
    """Windows of GPUs on ``window-aggregates``. A counter has no mean; its increase is not compared."""
    return {
        (record["subject"]["gpu"], record["start_ms"]): dict(_ours(record["metrics"]))
        for record in map(orjson.loads, records)
        if record["subject"]["kind"] == "gpu" and record["size_ms"] == 1000 * WINDOW_S
    }


def _ours(metrics: dict[str, Any]) -> Iterator[tuple[str, Stats]]:
    for name in METRICS:
        if "mean" in metrics[name]:
            yield name, (metrics[name]["mean"], metrics[name]["min"], metrics[name]["max"])
