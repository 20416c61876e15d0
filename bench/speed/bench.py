"""Where measuring is done, and what is said meanwhile."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.speed.figures import Figures
from bench.speed.size import BenchSize
from tests.support.servers.kafka.broker import OwnBroker


class StepPrinter:
    """A line for each step: what took longer than two seconds should not be silent."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __call__(self, what: str, found: object = "") -> None:
        print(f"{time.monotonic() - self._began_s:6.0f} s  {what} {found}", flush=True)


@dataclass
class Bench:
    """One core is the worker's, the others have the servers and what feeds them."""

    folder: Path
    cores: list[int]
    size: BenchSize
    say: StepPrinter
    figures: Figures

    @cached_property
    def broker(self) -> OwnBroker:
        """A real Kafka, started when it is first asked for."""
        self.say("starting Kafka")
        broker = OwnBroker()
        broker.start()
        return broker

    def close(self) -> None:
        """End what was started."""
        if "broker" in self.__dict__:
            self.broker.discard()

    @property
    def last(self) -> set[int]:
        """The core of a worker that is alone."""
        return {self.cores[-1]}

    def note(self, name: str, text: str) -> None:
        """Say on the page how something was measured."""
        self.figures.notes[name] = text

    def add(self, name: str, value: float, unit: str = "") -> None:
        """Keep a figure, and say it."""
        self.figures.add(name, value)
        self.say(f"{name}:", f"{brief(value)} {unit}")


Measurement = Callable[[Bench], None]


def brief(value: float) -> str:
    """Three digits, or all of those before the point."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
