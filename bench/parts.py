"""What a sample costs, part by part: ``python -m bench.parts t.jsonl``. With ``--choices``: what it costs
with some analyses off.

Replays a trace in process and prints microseconds of CPU time a sample. A trace: ``python -m
bench.cluster_trace --out t.jsonl --nodes 10 --seconds 300``.

The total is of a run without timers; the parts are of another run, with a timer around the public methods of
each bank. A part does not contain the parts that it calls, nor what the timers themselves cost. The first
records are replayed once before, so that no part pays for imports and compilation.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice
from statistics import median
from types import FunctionType
from typing import Any

from dutycycle.cli.garbage import collect_rarely
from dutycycle.contract.analyses import ANALYSES
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.traces.samples import TraceSamples
from streams.local import LocalPipeline
from streams.operators.columns.template import TickReader
from streams.operators.cycles.scales import CycleScales
from streams.operators.node import operator as node_operator
from streams.operators.node import records
from streams.operators.node.analysis import AnalysisBank
from streams.operators.node.gpus import NodeGpus
from streams.operators.node.operator import NodeOperator
from streams.operators.node.watermark import Timeline
from streams.operators.node.window import WindowBank
from streams.operators.node.window_records import WindowRecords
from streams.operators.peaks.job import JobOperator
from streams.operators.peaks.node import NodePeakBank
from streams.operators.peaks.pod import PodOperator
from streams.operators.peaks.tally import PeakTally
from streams.operators.trends.bank import TrendBank
from streams.operators.trends.changes import TrendDebouncer
from streams.operators.usage.bank import UsageBank
from streams.operators.workload.jobs.operator import JobInsightOperator
from streams.operators.workload.pod import PodInsightOperator
from streams.operators.workload.spans import SpanBank
from streams.runtime.keyed_operator import KeyedOperator
from streams.topology import stages

PARTS: dict[str, list[Any]] = {
    "columns": [TickReader],
    "timeline": [Timeline],
    "windows": [WindowBank],
    "peaks": [PeakTally],
    "spans": [SpanBank],
    "usage": [UsageBank],
    "peaks of the node": [NodePeakBank],
    "trends": [TrendBank, TrendDebouncer],
    "cycles": [CycleScales],
    "analysis, the rest": [AnalysisBank],
    "records": [records, WindowRecords],
    "parts of nodes": [NodeGpus],
    "node operator, the rest": [NodeOperator],
    "peaks of pods and jobs": [PodOperator, JobOperator],
    "insights": [PodInsightOperator, JobInsightOperator],
    "snapshots and keys": [KeyedOperator],
    "pipeline, the rest": [LocalPipeline],
}
"""The classes and modules whose public functions make up a part; ``decode`` is a function alone."""
WARM_UP = 2_000
"""So many records are replayed before anything is measured."""


class PartTimer:
    """Gives the time that passes to the part that runs."""

    def __init__(self) -> None:
        self._spent_ns: Counter[str] = Counter()
        self._laps: Counter[str] = Counter()
        self._running: list[str] = []
        self._since_ns = 0

    def _lap(self) -> None:
        now_ns = time.thread_time_ns()
        if self._running:
            self._spent_ns[self._running[-1]] += now_ns - self._since_ns
            self._laps[self._running[-1]] += 1
        self._since_ns = now_ns

    def spent_us(self) -> dict[str, float]:
        """By part, without what the timers cost."""
        lap_ns = _lap_ns()
        return {
            part: max(ns - lap_ns * self._laps[part], 0.0) / 1000 for part, ns in self._spent_ns.most_common()
        }

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, as a piece of ``part``."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._lap()
            self._running.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._lap()
                self._running.pop()

        return call

    def attach(self) -> None:
        """Put timers around all parts, for the rest of the process."""
        for part, owners in PARTS.items():
            for owner in owners:
                for name, one in list(vars(owner).items()):
                    if isinstance(one, FunctionType) and one.__module__ == _module(owner) and name[0] != "_":
                        setattr(owner, name, self.timed(part, one))
        decode = vars(node_operator)["decode_under_key"]
        vars(node_operator)["decode_under_key"] = self.timed("decode", decode)


def _lap_ns() -> float:
    """What a lap costs: a call of a timed function has two."""
    watch, calls = PartTimer(), 20_000
    outer = watch.timed("outer", lambda: [inner() for _ in range(calls)])
    inner = watch.timed("inner", lambda: None)
    outer()
    return sum(watch._spent_ns.values()) / sum(watch._laps.values())


def _module(owner: Any) -> str:
    return str(owner.__module__ if isinstance(owner, type) else owner.__name__)


def replay(inputs: list[ConsumerRecord], settings: Settings | None = None) -> float:
    """Microseconds of CPU time a record of a replay."""
    pipeline = LocalPipeline(stages(settings or Settings()))
    began = time.thread_time()
    for record in inputs:
        pipeline.feed(record)
    return (time.thread_time() - began) / len(inputs) * 1e6


CHOICES: tuple[Mapping[str, str], ...] = (
    {"analyses": ",".join(ANALYSES)},
    {"analyses": "windows,peaks,usage,cycles,trends,insights"},
    {"analyses": "windows,peaks,usage,cycles,trends"},
    {"analyses": "windows,peaks,usage"},
    {"analyses": "windows"},
    {"analyses": "windows", "windows_metrics": "gpu_util_pct,mem_used_bytes,power_w"},
    {"analyses": "peaks"},
    {"analyses": "usage"},
    {"analyses": "cycles"},
    {"analyses": "cycles,trends"},
)
ROUNDS = 3


def print_choices(inputs: list[ConsumerRecord]) -> None:
    """A row of a table for each choice: time in turns, the median of the rounds; sizes as they are."""
    every = [load({}, choice) for choice in CHOICES]
    times: list[list[float]] = [[] for _ in every]
    for _ in range(ROUNDS):
        for settings, of in zip(every, times, strict=True):
            of.append(replay(inputs, settings))
    print("| analyses | µs of CPU a sample | bytes of state a node | bytes of output a sample |")
    print("| --- | ---: | ---: | ---: |")
    for choice, settings, of in zip(CHOICES, every, times, strict=True):
        state, output = sizes(inputs, settings)
        names = f"`{choice['analyses']}`" if choice != CHOICES[0] else "all"
        names += "".join(f", of `{of}`" for of in [choice.get("windows_metrics")] if of)
        print(f"| {names} | {median(of):.0f} | {state:,.0f} | {output:,.0f} |")


def sizes(inputs: list[ConsumerRecord], settings: Settings) -> tuple[float, float]:
    """Bytes of packed state a node, of all stages together, and bytes of output a record of the input."""
    pipeline, output = LocalPipeline(stages(settings)), 0
    for record in inputs:
        output += sum(len(out.value or b"") for out in pipeline.feed(record))
    output += sum(len(out.value or b"") for out in pipeline.flush())
    nodes = len({record.key for record in inputs if record.topic.endswith("-samples")})
    return sum(map(len, pipeline.states())) / nodes, output / len(inputs)


def main() -> None:
    """Measure the trace of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace")
    parser.add_argument("--choices", action="store_true", help="a row for each choice of analyses")
    args = parser.parse_args()
    collect_rarely()
    inputs = list(TraceSamples([args.trace], DEFAULT_PREFIX))
    replay(list(islice(inputs, WARM_UP)))
    if args.choices:
        print_choices(inputs)
        return
    total = replay(inputs)
    watch = PartTimer()
    watch.attach()
    timed = replay(inputs)
    found = {part: us / len(inputs) for part, us in watch.spent_us().items()}
    whole = sum(found.values())
    for part, us in sorted(found.items(), key=lambda one: -one[1]):
        print(f"{us:9.1f}  {us / whole:4.0%}  {part}")
    print(f"{total:9.1f}        µs a record of {len(inputs):,}; {whole:.1f} by part, {timed:.1f} with timers")


if __name__ == "__main__":
    main()
