"""Generates arrivals as of a shared cluster of GPUs, made from a seed.

What is known of such clusters is kept: most jobs are small and most GPU time goes to large ones; durations
are spread over four orders of magnitude, and alike for the same program; programs are run again and again,
in sweeps too; a few users have most of the jobs; days and nights; runs that fail early (Weng et al., NSDI
2022; Jeon et al., ATC 2019; Hu et al., SC 2021). The figures are ours.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dutycycle.schedule.workload import WHOLE, Demand, JobTrace, TraceJob, TraceNode
from sinks.scheduling.core.similar import Template

_SHAPES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8))
"""Pods, and GPUs of each."""
_OFTEN = np.array([0.58, 0.12, 0.13, 0.12, 0.04, 0.01])
_MEDIAN_S, _SPREAD = 1200.0, 1.5
"""Of the medians of programs, which are log-normal."""
_WITHIN = 0.35
_LONGEST_S = 3 * 86_400.0
_FAILS = 0.12
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Generator:
    """Makes workloads. ``load``: GPU time asked for over all that there is, until the last arrival."""

    jobs: int = 10_000
    nodes: int = 32
    gpus_per_node: int = 8
    load: float = 0.9

    def workload(self, seed: int) -> JobTrace:
        """Return the same for the same seed."""
        chance = np.random.default_rng(seed)
        programs = [_program(chance) for _ in range(max(self.jobs // 40, 3))]
        # Which program each job is, in the order of arrival: programs come and go, and come in sweeps.
        chosen: list[int] = []
        while len(chosen) < self.jobs:
            newest = max(3, int(len(programs) * (0.1 + 0.9 * len(chosen) / self.jobs)))
            age = int(min(chance.zipf(1.3) - 1, newest - 1))
            sweep = int(chance.integers(4, 17)) if chance.random() < 0.06 else 1
            chosen += [newest - 1 - age] * sweep
        del chosen[self.jobs :]
        durations = np.empty(self.jobs)
        for number, program in enumerate(chosen):
            whole = programs[program].median_s * float(np.exp(chance.normal(0, _WITHIN)))
            if chance.random() < _FAILS:
                whole *= float(chance.uniform(0.01, 0.5))
            durations[number] = min(max(whole, 10.0), _LONGEST_S)
        gpus = np.array([programs[place].demand.gpus for place in chosen])
        asked = float((durations * gpus).sum())
        span = asked / (self.nodes * self.gpus_per_node * self.load)
        # A sweep arrives at once, all else at random, three times as often by day as by night.
        events = 1 + sum(program != other for program, other in pairwise(chosen))
        moments: list[float] = []
        while len(moments) < events:
            moment = float(chance.uniform(0, span))
            if chance.random() * 1.5 < 1 + 0.5 * np.sin(2 * np.pi * moment / _DAY_S):
                moments.append(moment)
        moments.sort()
        arrivals, at = [], 0
        for number, program in enumerate(chosen):
            if number and program != chosen[number - 1]:
                at += 1
            arrivals.append(moments[at])
        jobs = [
            TraceJob(f"job-{number}", round(float(at), 1), round(float(duration), 1), program.demand,
                program.template, program.team, "high" if chance.random() < 0.05 else "")
            for number, (at, duration, program) in enumerate(
                zip(arrivals, durations, (programs[place] for place in chosen), strict=True)
            )
        ]  # fmt: skip
        return JobTrace(sorted(jobs, key=lambda job: (job.arrival_s, job.name)), self.machines())

    def machines(self) -> list[TraceNode]:
        """Return the nodes: 16 CPUs and 128 GiB for each GPU."""
        gpus = self.gpus_per_node
        return [TraceNode(f"node-{number}", gpus, 16.0 * gpus, 128.0 * gpus) for number in range(self.nodes)]


@dataclass(frozen=True, slots=True)
class _Program:
    demand: Demand
    template: Template
    team: str
    median_s: float


def _program(chance: np.random.Generator) -> _Program:
    user = int(min(chance.zipf(1.6), 40))
    pods, gpus = _SHAPES[chance.choice(len(_SHAPES), p=_OFTEN)]
    cpu, mem = gpus * float(chance.uniform(4, 12)), gpus * float(chance.uniform(32, 96))
    median = _MEDIAN_S * float(np.exp(chance.normal(0, _SPREAD))) * (pods * gpus) ** 0.3
    template = Template(
        f"user-{user}", owner=f"{chance.integers(2**63):016x}", image=f"image-{user}-{chance.integers(3)}",
        gpus=gpus, requests=(round(cpu, 1), round(mem, 1)),
    )  # fmt: skip
    return _Program(
        Demand(pods, gpus * WHOLE, round(cpu, 1), round(mem, 1)), template, f"team-{user % 5}", median
    )
