"""Describes the processes of a run: what they have loaded, and the steps that their training loops
reported."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from dutycycle.contract.records.processes import Loop, Process, Software
from dutycycle.traces.frames import Frame, FrameTicks, at_once
from dutycycle.words import digits

_STEP_COLUMNS = ("step_s", "samples_per_s", "steps", "seconds", "samples")
"""Two means over the steps of a tick, and what they are made of."""
_WARM_UP = 2.0
"""Ticks at the start whose steps take so many times the median are those in which a program warms up."""


@dataclass(slots=True)
class TracedProcess:
    """Holds one process of the trace. ``loop``: its last report, with the sums over all of them."""

    pod_uid: str
    pid: int
    software: Software | None = None
    loop: Loop | None = None
    frame: Frame = field(default_factory=lambda: Frame(_STEP_COLUMNS))
    name: str = ""
    """What to call it in a report."""

    def add(self, ts_ms: int, process: Process) -> None:
        """Add what one record says of it."""
        if (now := process.software) is not None:
            if self.software is not None and (self.software.data_workers or 0) > (now.data_workers or 0):
                # They come and go with each epoch: the most that there were.
                now = replace(
                    now, data_workers=self.software.data_workers,
                    data_workers_by=self.software.data_workers_by,
                )  # fmt: skip
            self.software = now
        if (loop := process.loop) is not None:
            rate = loop.samples / loop.seconds if loop.samples is not None and loop.seconds else None
            if loop.steps:
                sums = {"steps": loop.steps, "seconds": loop.seconds, "samples": loop.samples}
                self.frame.add(ts_ms, {"step_s": loop.seconds / loop.steps, "samples_per_s": rate, **sums})
            if (before := self.loop) is not None:
                samples = None
                if before.samples is not None or loop.samples is not None:
                    samples = (before.samples or 0) + (loop.samples or 0)
                longest = [seconds for seconds in (before.longest_s, loop.longest_s) if seconds is not None]
                loop = replace(
                    loop, steps=before.steps + loop.steps, seconds=before.seconds + loop.seconds,
                    samples=samples, longest_s=max(longest, default=None),
                    loss_scale=before.loss_scale if loop.loss_scale is None else loop.loss_scale,
                )  # fmt: skip
            self.loop = loop

    @property
    def step_s(self) -> float | None:
        """Return seconds that a step takes, in the median over the ticks; None where none was reported."""
        values = self.frame.between(0, 2**62)["step_s"]
        return float(np.median(values)) if len(values) else None

    def steady_ticks(self) -> FrameTicks:
        """Return the ticks with steps, without those at the start in which it warmed up."""
        ticks = self.frame.between(0, 2**62)
        step_s = ticks["step_s"]
        if not len(step_s):
            return ticks
        steady = step_s <= _WARM_UP * np.median(step_s)
        return self.frame.between(int(ticks.times[steady.argmax()]), 2**62)

    @property
    def life(self) -> tuple[int, int]:
        """Return from when to when it reported steps, of which there are some, in Unix milliseconds."""
        ticks = self.frame.between(0, 2**62)
        return int(ticks.times[0] - 1000 * ticks["seconds"][0]), int(ticks.times[-1])

    @property
    def steps_per_s(self) -> float | None:
        """Return steps by the time they took, once it is warm; None where none was reported."""
        ticks = self.steady_ticks()
        seconds = float(ticks["seconds"].sum())
        return float(ticks["steps"].sum()) / seconds if seconds else None


def most_steps(processes: Iterable[TracedProcess]) -> tuple[TracedProcess, Loop] | None:
    """Return the process that reported most steps, and the sums of its loop; None where none did."""
    loops = [
        (process, process.loop) for process in processes if process.loop is not None and process.loop.steps
    ]
    return max(loops, key=lambda pair: pair[1].steps) if loops else None


def named(
    processes: Iterable[TracedProcess], pods: Collection[str] | None, names: Mapping[str, str]
) -> list[TracedProcess]:
    """Return the processes of ``pods`` (None: of all), by rank, each with what to call it. ``names``: the
    pods'."""
    chosen = [process for process in processes if pods is None or process.pod_uid in pods]
    ranks = Counter(rank for process in chosen if (rank := _rank(process)) is not None)
    several_pods = len({process.pod_uid for process in chosen}) > 1
    for process in chosen:
        rank = _rank(process)
        if rank is not None and ranks[rank] == 1:
            process.name = f"rank {rank}"
        else:
            pod = f"{names.get(process.pod_uid, process.pod_uid)} " if several_pods else ""
            process.name = f"{pod}process {process.pid}"
    return sorted(chosen, key=lambda process: (_rank(process) is None, _rank(process) or 0, process.name))


def _rank(process: TracedProcess) -> int | None:
    return process.software.rank if process.software is not None else None


def figures(processes: Iterable[TracedProcess], cycle: tuple[str, float] | None) -> Iterator[tuple[str, str]]:
    """Name and value of what a reader looks for first, of the process that did most steps. ``cycle``: of what
    one was found from outside, and its period in seconds."""
    every = list(processes)
    most = most_steps(every)
    if most is not None:
        process, loop = most
        several = sum(each.loop is not None and each.loop.steps > 0 for each in every) > 1
        of = f" of {process.name}" if several else ""
        longest = "" if loop.longest_s is None else f", longest {loop.longest_s:.3g} s"
        yield "Steps", f"{loop.steps}{of}, {digits(per_minute(loop))} a minute, as the training reports"
        yield "Time of a step", f"{digits(process.step_s or 0.0)} s in the median{longest}"
        if cycle is not None and (rate_of_steps := process.steps_per_s) is not None:
            what, period_s = cycle
            in_cycle = f"{period_s * rate_of_steps:.2f}"
            yield "Steps in a cycle", f"{in_cycle} (the cycle of {what}, {digits(period_s)} s)"
        rates = (
            (*each.life, rate)
            for each in every
            if (rate := samples_per_s(each.loop)) is not None and len(each.frame)
        )
        if (rate_of_all := at_once(rates)) is not None:
            yield "Samples", f"{rate_of_all:.4g} a second" + (" in all" if several else "")
        if words := list(model_words(loop)):
            yield "Model", ", ".join(words)
    softwares = [
        process.software for process in every if process.software is not None and process.software.frameworks
    ]
    if softwares:
        yield "Software", ", ".join(software_words(softwares[0]))
        if started := list(start_words(softwares[0])):
            yield "Started by", ", ".join(started)


def per_minute(loop: Loop) -> float:
    """Return steps a minute while it trained."""
    return 60 * loop.steps / loop.seconds if loop.seconds else 0.0


def samples_per_s(loop: Loop | None) -> float | None:
    """Return samples a second while it trained; None where its batches have no size."""
    return loop.samples / loop.seconds if loop is not None and loop.samples and loop.seconds else None


def model_words(loop: Loop) -> Iterator[str]:
    """Yield model, parameters, dtype, batch size, loss scale: what is known of them."""
    if loop.model is not None:
        yield loop.model
    if loop.parameters is not None:
        yield f"{loop.parameters:,} parameters"
    if loop.dtype is not None:
        yield loop.dtype
    if loop.batch_size is not None:
        yield f"batches of {loop.batch_size}"
    if loop.loss_scale is not None:
        yield f"loss scale {loop.loss_scale:.6g}"


def software_words(software: Software) -> Iterator[str]:
    """Yield frameworks, CUDA, NCCL and Python with their versions: what is known of them."""
    for framework in software.frameworks or ():
        yield framework.name if framework.version is None else f"{framework.name} {framework.version}"
    for name, version in (("CUDA", software.cuda), ("NCCL", software.nccl), ("Python", software.python)):
        if version is not None:
            yield f"{name} {version}"


def start_words(software: Software) -> Iterator[str]:
    """Yield launcher, rank and data-loader workers: what is known of them."""
    if software.launcher is not None:
        yield software.launcher
    if software.rank is not None:
        of = "" if software.world_size is None else f" of {software.world_size}"
        yield f"rank {software.rank}{of}"
    if software.master_addr is not None:
        yield f"master {software.master_addr}"
    if software.data_workers:
        sure = "" if software.data_workers_by == "name" else " (by their command: likely)"
        yield f"{software.data_workers} data-loader workers{sure}"
