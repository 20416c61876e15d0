"""What a running command says of itself, on the pages that it serves; their address is in its log."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from dutycycle.telemetry.endpoint import Address, AskError, ask, parse
from dutycycle.telemetry.serving import SERVING
from tests.support.waiting import wait_until

_ADDRESS = re.compile(re.escape(SERVING) + r"(\S+)")
Figures = dict[str, float]
"""By name and labels, such as ``records_taken_total{topic="pods"}``, without ``dutycycle_``."""


class Process:
    """A command, by its log: where it answers stands there, and after a restart once more."""

    def __init__(self, log: Path) -> None:
        self.log = log
        wait_until(lambda: SERVING in log.read_text(), log.read_text)
        self.address: Address = parse(_ADDRESS.findall(log.read_text())[-1])

    def healthz(self) -> tuple[int, str]:
        return ask(self.address, "/healthz")

    def readyz(self) -> tuple[int, str]:
        return ask(self.address, "/readyz")

    def is_ready(self) -> bool:
        try:
            return self.readyz()[0] == 200
        except AskError:
            return False

    def wait_ready(self) -> None:
        wait_until(self.is_ready, lambda: f"ready: {self.readyz()} {self.log.read_text()}")

    def page(self) -> str:
        status, text = ask(self.address, "/metrics")
        assert status == 200, text
        return text

    def figures(self) -> Figures:
        return {
            _name(sample.name, sample.labels): sample.value
            for family in text_string_to_metric_families(self.page())
            for sample in family.samples
        }


def _name(name: str, labels: dict[str, str]) -> str:
    inside = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return name.removeprefix("dutycycle_") + (f"{{{inside}}}" if inside else "")


def readiness(log: Path) -> str:
    """What the process that writes ``log`` says of itself: ``ready``, or why it is not."""
    return read_page(log, "readyz")


def read_page(log: Path, name: str = "metrics") -> str:
    """A page of the process that writes ``log``, as it was started last; or why there is none."""
    addresses = _ADDRESS.findall(log.read_text(errors="replace"))
    if not addresses:
        return "starting"
    try:
        return ask(parse(addresses[-1]), f"/{name}")[1]
    except AskError as error:
        return str(error)
