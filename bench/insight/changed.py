"""Changes logs of real machines as another source could have told them, and scores the kinds that are then
told: what is right of one source alone is not worth much on the next."""

import dataclasses
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec
from msgspec.structs import replace

from bench.insight.real import Replayed, TraceTruth, read_truth, trace_path
from bench.insight.report import Cell, TableReport
from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.samples import Gpu, NvmlSample
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.traces.samples import TraceSamples
from streams.local import LocalPipeline
from streams.topology import stages

COARSER = 0.9
"""A log is made coarser where its own ticks are shorter than this share of the new ones."""
LONG_S, LONG_TICKS = 120.0, 10
"""What is left of a log after a change is long if it lasts so many seconds, and so many of the new ticks: of
less, too little is seen for a kind, whatever looks at it."""


@dataclass(frozen=True)
class Change:
    """Says what is done to the samples of GPUs. ``part``: from where to where of the log's time they are
    kept, as shares. ``missing``: which share of them is left out at random. ``tick_s``: how far those are
    apart that stay; 0: as they are. ``noise``: of power, as a share, and of utilization, in hundredths."""

    name: str
    part: tuple[float, float] = (0.0, 1.0)
    missing: float = 0.0
    later_s: float = 0.0
    tick_s: float = 0.0
    noise: float = 0.0
    utilization_alone: bool = False


CHANGES = (
    Change("nothing"),
    Change("three of ten samples are missing", missing=0.3),
    Change("the first 27 % of the time are missing", part=(0.27, 1.0)),
    Change("the second half alone", part=(0.5, 1.0)),
    Change("the first half alone", part=(0.0, 0.5)),
    Change("stamps 4.3 s later", later_s=4.3),
    Change("utilization alone", utilization_alone=True),
    Change("noise of 2 % in power and of 2 points in utilization", noise=0.02),
    Change("a tick each 10 s", tick_s=10.0),
    Change("a tick each 30 s", tick_s=30.0),
)


def changed_logs(
    report: TableReport, folder: Path, jobs: int = 1, changes: Sequence[Change] = CHANGES
) -> None:
    """Add a table: of how many logs, and in which share of their time kinds are right, unknown and wrong,
    after each change; and the same of those that are long."""
    truths = {name: truth for name, truth in read_truth(folder).items() if truth.kind is not None}
    paths = [trace_path(folder, name) for name in truths]
    rows: list[list[Cell]] = []
    with ProcessPoolExecutor(jobs) as pool:
        for change in changes:
            every = pool.map(partial(kind_shares, change=change), paths, truths.values())
            shares = [
                (truth, share)
                for truth, share in zip(truths.values(), every, strict=True)
                if share is not None
            ]
            long = [share for truth, share in shares if is_long(truth, change)]
            rows.append([change.name, *_means([share for _, share in shares]), *_means(long)])
    figures = ("logs", "right %", "unknown %", "wrong %")
    heads = ["what was changed", *figures, *(f"long: {figure}" for figure in figures)]
    report.table("real_changed", "kinds of changed logs of real machines", heads, rows)


def is_long(truth: TraceTruth, change: Change) -> bool:
    """Tell whether what is left of a log is long enough for a kind to show."""
    begin, end = change.part
    return truth.len_s * (end - begin) >= max(LONG_S, LONG_TICKS * change.tick_s)


def _means(shares: Sequence[tuple[float, float, float]]) -> list[Cell]:
    """Return how many there are, and the mean of each in percent; None of none."""
    means: list[Cell] = [100 * sum(column) / len(shares) for column in zip(*shares, strict=True)]
    return [len(shares), *(means or [None] * 3)]


def kind_shares(path: Path, truth: TraceTruth, change: Change) -> tuple[float, float, float] | None:
    """Replay a changed log; the shares of its time in which the kind was right, unknown and wrong. None where
    its ticks are too far apart for the change."""
    records = list(TraceSamples([str(path)], DEFAULT_PREFIX))
    times = [record.ts_ms for record in records if _is_of_gpus(record)]
    ticks_ms = [after - before for before, after in pairwise(times)]
    if change.tick_s and ticks_ms and median(ticks_ms) > COARSER * 1000 * change.tick_s:
        return None
    begin_s, end_s = (truth.t0 + share * truth.len_s for share in change.part)
    replayed = Replayed(replace(truth, t0=begin_s + change.later_s, len_s=end_s - begin_s, series={}))
    analyses = tuple(name for name in Settings().analyses if name != "trends")  # kinds do without them
    pipeline = LocalPipeline(stages(dataclasses.replace(Settings(), analyses=analyses)))
    for record in changed(records, change, begin_s, end_s):
        replayed.take(pipeline.feed(record))
    replayed.take(pipeline.close())
    return replayed.kind_shares()


def changed(
    records: Sequence[ConsumerRecord], change: Change, begin_s: float, end_s: float
) -> Iterator[ConsumerRecord]:
    """Yield the records of a log after a change; those that are no samples of GPUs as they are."""
    chance = random.Random(change.name)  # noqa: S311 - the same at each run, and guards nothing
    tick_ms, due_ms = round(1000 * change.tick_s), 0
    for record in records:
        if not _is_of_gpus(record):
            yield record
            continue
        sample = msgspec.json.decode(record.value or b"", type=NvmlSample)
        ts_ms, interval_ms = sample.ts_ms, sample.interval_ms
        if not 1000 * begin_s <= ts_ms <= 1000 * end_s or chance.random() < change.missing:
            continue
        if tick_ms:
            if ts_ms < due_ms - interval_ms / 2:
                continue
            due_ms = (due_ms if ts_ms < due_ms + tick_ms else ts_ms) + tick_ms
            interval_ms = tick_ms
        at_ms = ts_ms + round(1000 * change.later_s)
        gpus = tuple(_changed_gpu(gpu, change, chance) for gpu in sample.gpus)
        value = encode(replace(sample, ts_ms=at_ms, interval_ms=interval_ms, gpus=gpus))
        yield replace(record, value=value, ts_ms=at_ms)


def _is_of_gpus(record: ConsumerRecord) -> bool:
    return record.topic == "nvml-samples" and record.value is not None


def _changed_gpu(gpu: Gpu, change: Change, chance: random.Random) -> Gpu:
    if change.utilization_alone:
        return Gpu(uuid=gpu.uuid, index=gpu.index, gpu_util_pct=gpu.gpu_util_pct, allocated=gpu.allocated)
    if change.tick_s or change.noise:  # what the driver says of the time within a tick is another then
        gpu = replace(gpu, util_burst=None, power_burst=None)
    if not change.noise:
        return gpu
    noisy: dict[str, float] = {}
    for metric in ("gpu_util_pct", "mem_copy_util_pct"):
        if value := getattr(gpu, metric):
            noisy[metric] = min(100, max(0, round(value + chance.gauss(0, 100 * change.noise))))
    if gpu.power_w is not None:
        noisy["power_w"] = max(0.0, gpu.power_w * (1 + chance.gauss(0, change.noise)))
    return replace(gpu, **noisy)
