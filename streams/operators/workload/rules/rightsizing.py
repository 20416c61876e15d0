"""Compares what a pod asks for of CPU and host memory with the most that it used in the last hour.

``Sizer`` follows the spans of a pod and does not need to know what it asks for; ``with_sizes`` puts the two
together. So the last insight is the same, whenever the pod's requests become known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dutycycle.contract.records.pods import Pod
from streams.operators.workload.channels import ABSENT_CODE, CHANNEL_ROW, SPAN_MS, Codes, dequantize_one
from streams.operators.workload.rules.advice import advice
from streams.operators.workload.rules.bottleneck import IDLE, OVER_PROVISIONED, Assessment
from streams.operators.workload.rules.finding import NO_BOTTLENECK, UNKNOWN_BOTTLENECK
from streams.operators.workload.rules.stats import HourlyMax, three_digits

MIN_SPANS = 15
"""Spans with a known CPU before anything is said, and after a kind began: a start-up says little of a job."""
_HEADROOM = 1.25
"""Enough is this much more than the most: means of a second hide peaks, and the next hour may differ."""
_TOO_MUCH = 2.0
"""A request from this many times of enough on is too much; from twice as many on that is sure."""
_CORES, _BYTES = 1.0, float(2**30)
"""The smallest sizes: one CPU, one GiB."""
_MIN_GAIN = {"cpu": (2.0, _CORES), "mem": (4 * _BYTES, _BYTES)}
"""What a smaller request has to gain at least, and the smallest size."""
_CHANNELS = {"cpu": ("cpu_pct", 0.01), "mem": ("mem_mb", 1e6)}
"""The channel of each resource, and what turns its values into cores and bytes."""
_THROTTLED_PCT = 1.0
"""A pod that is throttled wants more than it uses."""
_BOTTLENECKS_LEFT_OUT = frozenset({IDLE, UNKNOWN_BOTTLENECK, "input"})
"""A pod that does nothing, or waits for what more CPUs might give, is not known to need few."""
_KINDS_LEFT_OUT = frozenset({"idle", "loading"})
_NOTHING = -1
"""Instead of a code, where nothing is known."""


@dataclass(frozen=True, slots=True)
class Size:
    """Holds cores or bytes: the ``most`` that was used, and what is ``enough``. Known since ``ts_ms``."""

    ts_ms: int
    most: float
    enough: float


@dataclass(slots=True)
class Sizer:
    """Keeps the most CPU and host memory that a pod used in the last hour, and the sizes that are enough.

    ``sizes``: by ``cpu`` and ``mem``, as far as known. It is another object after a size changed. ``hour``:
    the highest codes of the last hour. ``spans``: how many had a known CPU, at most ``MIN_SPANS``.
    """

    sizes: dict[str, Size] = field(default_factory=dict)
    hour: dict[str, HourlyMax] = field(default_factory=lambda: {name: HourlyMax() for name in _CHANNELS})
    spans: int = 0

    def add(self, end_ms: int, codes: Codes, published: Assessment | None) -> None:
        """Take the codes of a span, of all channels, and the pod's assessment that was published last."""
        known = bool((codes[CHANNEL_ROW["cpu_pct"]] != ABSENT_CODE).any())
        self.spans = min(self.spans + known, MIN_SPANS)
        # A first size would be a guess while the pod, or what it does now, has only begun.
        begins = (
            self.spans < MIN_SPANS
            or published is None
            or published.kind in _KINDS_LEFT_OUT
            or end_ms - published.since_ms < MIN_SPANS * SPAN_MS
        )
        for name, (channel, scale) in _CHANNELS.items():
            row = codes[CHANNEL_ROW[channel]]
            self.hour[name].add(end_ms, max(row[row != ABSENT_CODE].tolist(), default=_NOTHING))
            code, before = self.hour[name].value, self.sizes.get(name)
            if code == _NOTHING or (before is None and begins):
                continue
            most, least = dequantize_one(channel, code) * scale, _MIN_GAIN[name][1]
            # The smallest of 1, 2, 3, 4, 6, 8, 12, 16, … times the least that is not below what is needed.
            need, enough = _HEADROOM * most, least
            while enough < need:
                enough *= 2
            if enough >= 4 * least and 0.75 * enough >= need:
                enough *= 0.75
            # A size changes when another is enough, and not each time that the most moves a little.
            if before is None or before.enough != enough:
                self.sizes = {**self.sizes, name: Size(end_ms, most, enough)}


def with_sizes(judged: Assessment, sizes: Mapping[str, Size], pod: Pod | None) -> Assessment:
    """Return the assessment of a pod, with what the pod asks for too much; unchanged where nothing is, or
    nothing is known."""
    if pod is None or judged.bottleneck in _BOTTLENECKS_LEFT_OUT or judged.kind in _KINDS_LEFT_OUT:
        return judged
    requests = {"cpu": pod.cpu_request, "mem": pod.mem_request_bytes}
    if judged.evidence.get("cpu_throttled_pct", 0.0) > _THROTTLED_PCT:
        requests["cpu"] = None
    excess = {
        name: (request, size)
        for name, size in sizes.items()
        if (request := requests[name]) is not None
        and request >= _TOO_MUCH * size.enough
        and request - size.enough >= _MIN_GAIN[name][0]
    }
    if not excess:
        return judged
    bottleneck, confidence = judged.bottleneck, judged.bottleneck_confidence
    if bottleneck == NO_BOTTLENECK:
        times = max(request / size.enough for request, size in excess.values())
        bottleneck = OVER_PROVISIONED
        confidence = round(0.6 + 0.38 * min(times / _TOO_MUCH - 1, 1.0), 3)
    units = {"cpu": "cores", "mem": "bytes"}
    evidence = judged.evidence | {
        f"{name}_{what}_{units[name]}": three_digits(value)
        for name, (request, size) in excess.items()
        for what, value in (("request", request), ("most", size.most), ("enough", size.enough))
    }
    return replace(
        judged, ts_ms=max(judged.ts_ms, *(size.ts_ms for _, size in excess.values())),
        bottleneck=bottleneck, bottleneck_confidence=confidence, evidence=evidence,
        advice=advice(bottleneck, judged.kind, evidence),
    )  # fmt: skip
