"""Makes the simulated machine a collector: its records instead of this node's."""

from collections.abc import Sequence

from collectors.base import Outgoing, Tick
from collectors.demo.machine import DemoMachine


class DemoCollector:
    """Publishes what ``DemoMachine`` would measure at each tick. The only collector where it is used."""

    name = "demo"

    def __init__(self) -> None:
        self._machine = DemoMachine()

    def collect(self, tick: Tick) -> Sequence[Outgoing]:
        """Give the records of this tick; never fails."""
        return tuple(self._machine.measure(tick))

    def close(self) -> None:
        """Close nothing: it holds nothing."""
