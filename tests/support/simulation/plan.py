"""What a run is made of: everything follows from a seed, and each part of it can be left out."""

import argparse
import random
from dataclasses import dataclass, replace

WORKER_FAULTS = (
    "kill", "pause", "deaf", "ghost", "stop", "join", "send", "repeat", "skip", "hole", "compact",
)  # fmt: skip
"""Killed; stopped for a while; cut off from the group; killed, and what it had sent arrives when others own
its partitions; ended in order; one more for a while; a send fails; delivered twice; not delivered; offsets
without a record; the changelog is compacted."""
INPUT_FAULTS = (
    "duplicate", "reorder", "late", "drop", "skew", "jump", "reborn", "bad", "churn", "large", "evict",
)  # fmt: skip
"""Sent twice; out of order; past the allowed lateness; never sent; a clock that is off; one that jumps;
a collector starts anew; rubbish; GPUs and pods that come and go; states too large for one record;
keys that leave when they are idle."""
FAULTS = WORKER_FAULTS + INPUT_FAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. ``kind`` is ``toy`` or ``real``; ``ticks`` are those of one key; ``without`` are faults."""

    seed: int
    kind: str
    workers: int
    keys: int
    partitions: int
    ticks: int
    without: frozenset[str] = frozenset()

    def chance(self, purpose: str) -> random.Random:
        """The dice for one purpose: leaving a fault out does not change the others."""
        return random.Random(f"{self.seed}/{purpose}")  # noqa: S311 - a simulation

    def has(self, fault: str) -> bool:
        """Whether this run has that fault: each run has about half of them."""
        return fault not in self.without and self.chance(f"has {fault}").random() < 0.5

    def has_zombies(self) -> bool:
        """Whether workers may write that were replaced and do not know it."""
        return any(map(self.has, ("pause", "deaf", "ghost")))

    def faults(self) -> list[str]:
        """Those that this run has."""
        return [fault for fault in FAULTS if self.has(fault)]

    def command(self) -> str:
        """The line that replays exactly this run."""
        line = (
            f".venv/bin/python -m tests.support.simulation --kind {self.kind} --seed {self.seed} "
            f"--workers {self.workers} --keys {self.keys} --partitions {self.partitions} --ticks {self.ticks}"
        )
        return line + (f" --without {','.join(sorted(self.without))}" if self.without else "")


def planned(seed: int, kind: str, **given: int | None) -> Plan:
    """The run of a seed; ``given`` overrules what the seed would choose."""
    dice = random.Random(f"{seed}/plan")  # noqa: S311 - a simulation
    ranges = {
        "toy": {"workers": (1, 3), "keys": (1, 6), "partitions": (1, 3), "ticks": (5, 40)},
        "real": {"workers": (1, 3), "keys": (1, 2), "partitions": (1, 2), "ticks": (20, 80)},
    }
    sizes = {name: dice.randint(*span) for name, span in ranges[kind].items()}
    sizes |= {name: value for name, value in given.items() if value is not None}
    return Plan(
        seed=seed, kind=kind, workers=sizes["workers"], keys=sizes["keys"], partitions=sizes["partitions"],
        ticks=sizes["ticks"],
    )  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of a single run, as ``Plan.command`` writes them."""
    parser.add_argument("--kind", choices=["toy", "real"], default="toy")
    parser.add_argument("--seed", type=int, help="the run; without it, many of fresh seeds")
    for name in ("workers", "keys", "partitions", "ticks"):
        parser.add_argument(f"--{name}", type=int, help="default: as the seed will have it")
    parser.add_argument("--without", default="", help=f"faults to leave out, of {','.join(FAULTS)}")


def from_options(args: argparse.Namespace) -> Plan:
    """The plan that a command line asks for."""
    sizes = {name: getattr(args, name) for name in ("workers", "keys", "partitions", "ticks")}
    without = frozenset(filter(None, args.without.split(",")))
    if unknown := without - set(FAULTS):
        raise SystemExit(f"no such fault: {', '.join(sorted(unknown))}")
    return replace(planned(args.seed, args.kind, **sizes), without=without)
