"""Executes one run of an experiment: a replay, what it made as a trace, and its scores."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.trace import TraceWriter
from dutycycle.experiments.plan import RESULT, PlannedRun
from dutycycle.experiments.scores.cycles import CycleScorer, read_truth
from dutycycle.experiments.scores.forecasts import ForecastScorer
from dutycycle.experiments.scores.windows import WindowScorer
from dutycycle.traces.replay import DERIVED, trace_of
from dutycycle.traces.samples import TraceSamples
from dutycycle.traces.ticks import SampleReader
from dutycycle.whole_file import whole_file
from streams.local import LocalPipeline
from streams.topology import stages

_EVERY = 200


class RunScores:
    """Feeds all scorers of a run."""

    def __init__(self, run: PlannedRun) -> None:
        self._samples = SampleReader()
        self._forecasts = ForecastScorer()
        self._windows = WindowScorer(run.settings.windows, run.settings.lateness)
        self._cycles = None if run.truth is None else CycleScorer(read_truth(run.truth))

    def add(self, outs: Iterable[ProducerRecord], record: ConsumerRecord | None = None) -> None:
        """Take what the replay made, then the sample of which it made it."""
        for out in outs:
            self._forecasts.output(out)
            self._windows.output(out)
            if self._cycles is not None:
                self._cycles.output(out)
        if record is not None:
            node, source = record.key or "", record.topic.removesuffix("-samples")
            for tick in self._samples.read(record):
                self._forecasts.tick(node, tick)
                self._windows.tick(node, source, tick)
                if self._cycles is not None:
                    self._cycles.tick(node, tick)

    def result(self) -> dict[str, Any]:
        """Return what all say."""
        return {
            "cycles": None if self._cycles is None else self._cycles.result(),
            "forecasts": self._forecasts.result(),
            "windows": self._windows.result(),
        }


def execute(run: PlannedRun, progress: Callable[[int], None]) -> None:
    """Run it; ``progress`` is told of so many further lines now and then. Files depend on the run alone."""
    run.folder.mkdir(parents=True, exist_ok=True)
    pipeline = LocalPipeline(stages(run.settings), run.settings.topic_prefix)
    paths = [trace.path for trace in run.traces]
    # Bad lines are counted where they are read.
    bad = (lambda _: None) if run.skip_bad else None
    samples = TraceSamples(paths, run.settings.topic_prefix, bad=bad)
    scores, tally, reported = RunScores(run), Counter[str](), 0
    with TraceWriter(str(run.folder / DERIVED)) as trace:
        write = trace_of(trace, run.settings.topic_prefix)

        def take(outs: list[ProducerRecord], record: ConsumerRecord | None = None) -> None:
            for out in outs:
                tally[out.topic] += 1
                write(out)
            scores.add(outs, record)

        for record in samples:
            take(pipeline.feed(record), record)
            lines = samples.tally.total()
            if lines - reported >= _EVERY:
                progress(lines - reported)
                reported = lines
        take(pipeline.close())
    samples.check()
    progress(sum(trace.lines for trace in run.traces) - reported)
    made = dict(sorted(tally.items()))
    noticed = dict(sorted((pipeline.happened | ({"bad_lines": samples.bad} if samples.bad else {})).items()))
    result = {"name": run.name, **run.head, "made": made, "noticed": noticed, "scores": scores.result()}
    with whole_file(run.folder / RESULT) as path:
        path.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
