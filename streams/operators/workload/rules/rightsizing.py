"""What a pod asks for of CPU and host memory, beside the most that it used in the last hour.

``Sizer`` follows the pod's spans and knows nothing of what it asks for; ``sized`` puts the two together. So
an insight is the same in the end, whenever it becomes known who the pod is.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from contract.records.pods import Pod
from streams.operators.workload.codes import ABSENT, ROWS, SPAN_MS, Codes, decode_one
from streams.operators.workload.rules.advice import advice
from streams.operators.workload.rules.bottleneck import IDLE, NONE, OVER, UNKNOWN
from streams.operators.workload.rules.figures import short
from streams.operators.workload.rules.judgement import Judgement

BLOCK_MS = 300_000
BLOCKS = 12
"""The highs are kept by five minutes, of the last hour."""
LEAST_SPANS = 15
"""Spans with figures before anything is said, and after a kind began: a start-up says little of a job."""
SPARE = 1.25
"""What would do is this much more than the most: means of a second hide peaks, and the next hour differs."""
FAR = 2.0
"""A request is told of from so many times that on; twice as much again, and it is sure."""
_CORES, _BYTES = 1.0, float(2**30)
"""Sizes begin here: one CPU, one GiB."""
_LEAST = {"cpu": (2.0, _CORES), "mem": (4 * _BYTES, _BYTES)}
"""What has to be gained at least to be worth a word, and the smallest size."""
_SCALES = {"cpu": ("cpu_pct", 0.01), "mem": ("mem_mb", 1e6)}
_THROTTLED_PCT = 1.0
"""A pod that is throttled wants more than it uses."""
_SAYS_NOTHING = frozenset({IDLE, UNKNOWN, "input"})
"""One that does nothing, or waits for what more CPUs might give, is not known to need few."""
_KINDS_LEFT_OUT = frozenset({"idle", "loading"})
_NOTHING = -1
"""Instead of a code, where nothing is known."""


@dataclass(frozen=True, slots=True)
class Size:
    """Cores or bytes: the most that was used, and what would do. Known since ``ts_ms``."""

    ts_ms: int
    most: float
    enough: float


def note(highs: list[list[int]], block: int, value: int) -> None:
    """Keep the highest of each block, [block, highest], of the last ``BLOCKS``."""
    if highs and highs[-1][0] == block:
        highs[-1][1] = max(highs[-1][1], value)
    else:
        highs.append([block, value])
    while highs[0][0] <= block - BLOCKS:
        highs.pop(0)


class Sizer:
    """The most that a pod used in the last hour, and the sizes that follow: a function of its spans."""

    def __init__(self) -> None:
        self.sizes: dict[str, Size] = {}
        self._highs: dict[str, list[list[int]]] = {name: [] for name in _SCALES}
        self._spans = 0

    def take(self, end_ms: int, codes: Codes, told: Judgement | None) -> None:
        """Take the codes of a span, all channels, and what was told last. ``sizes`` is another object after
        it if one of them changed."""
        self._spans = min(self._spans + bool((codes[ROWS["cpu_pct"]] != ABSENT).any()), LEAST_SPANS)
        begins = self._spans < LEAST_SPANS or _begins(told, end_ms)
        for name, (channel, _) in _SCALES.items():
            row = codes[ROWS[channel]]
            high = max(row[row != ABSENT].tolist(), default=_NOTHING)
            note(self._highs[name], end_ms // BLOCK_MS, high)
            if name in self.sizes or not begins:
                self._resize(name, end_ms)

    def _resize(self, name: str, end_ms: int) -> None:
        """A size is replaced when another would do: not each time that the most moves a little."""
        code = max(high for _, high in self._highs[name])
        if code == _NOTHING:
            return
        channel, scale = _SCALES[name]
        most = decode_one(channel, code) * scale
        enough = _rung(SPARE * most, _LEAST[name][1])
        if name not in self.sizes or self.sizes[name].enough != enough:
            self.sizes = {**self.sizes, name: Size(end_ms, most, enough)}

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        sizes = {name: asdict(size) for name, size in self.sizes.items()}
        highs = {name: [list(one) for one in highs] for name, highs in self._highs.items()}
        return {"sizes": sizes, "highs": highs, "spans": self._spans}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.sizes = {name: Size(**size) for name, size in plain["sizes"].items()}
        self._highs = {name: [list(one) for one in highs] for name, highs in plain["highs"].items()}
        self._spans = plain["spans"]


def _begins(told: Judgement | None, end_ms: int) -> bool:
    """Whether the pod is at its start: the first size is not taken from that."""
    if told is None or told.kind in _KINDS_LEFT_OUT:
        return True
    return end_ms - told.since_ms < LEAST_SPANS * SPAN_MS


def _rung(need: float, least: float) -> float:
    """The smallest of 1, 2, 3, 4, 6, 8, 12, 16, … times ``least`` that is not below ``need``."""
    size = least
    while size < need:
        size *= 2
    between = 0.75 * size
    return between if size >= 4 * least and between >= need else size


def sized(told: Judgement, sizes: Mapping[str, Size], pod: Pod | None) -> Judgement:
    """What was told of a pod, and what it asks for too much, if that is known."""
    if pod is None or told.bottleneck in _SAYS_NOTHING or told.kind in _KINDS_LEFT_OUT:
        return told
    asked = {"cpu": pod.cpu_request, "mem": pod.mem_request_bytes}
    if told.evidence.get("cpu_throttled_pct", 0.0) > _THROTTLED_PCT:
        asked["cpu"] = None
    much = {name: (request, size) for name, size in sizes.items() if (request := asked[name]) is not None
            and request >= FAR * size.enough and request - size.enough >= _LEAST[name][0]}  # fmt: skip
    if not much:
        return told
    bottleneck, sure = told.bottleneck, told.bottleneck_confidence
    if bottleneck == NONE:
        times = max(request / size.enough for request, size in much.values())
        bottleneck, sure = OVER, round(0.6 + 0.38 * min(times / FAR - 1, 1.0), 3)
    evidence = told.evidence | _evidence(much)
    return replace(
        told, ts_ms=max(told.ts_ms, *(size.ts_ms for _, size in much.values())),
        bottleneck=bottleneck, bottleneck_confidence=sure, evidence=evidence,
        advice=advice(bottleneck, told.kind, evidence),
    )  # fmt: skip


def _evidence(much: dict[str, tuple[float, Size]]) -> dict[str, float]:
    units = {"cpu": "cores", "mem": "bytes"}
    return {
        f"{name}_{what}_{units[name]}": short(value)
        for name, (request, size) in much.items()
        for what, value in (("request", request), ("most", size.most), ("enough", size.enough))
    }
