"""What is answered at which path. A reason is one line, for whoever asks by ``curl``."""

from collections.abc import Callable
from typing import NamedTuple

from telemetry.events import Telemetry
from telemetry.metrics import CONTENT_TYPE
from telemetry.status import Status

_TEXT = "text/plain; charset=utf-8"
_LONGEST = 1000


class Page(NamedTuple):
    """An HTTP status, a content type and a body."""

    status: int
    kind: str
    body: bytes


class Pages:
    """The pages of one process."""

    def __init__(self, telemetry: Telemetry) -> None:
        metrics = telemetry.metrics
        status = telemetry.status
        self._pages: dict[str, Callable[[], Page]] = {
            "/healthz": lambda: _verdict("healthy", status.liveness_error()),
            "/readyz": lambda: _verdict(_ready(status), status.readiness_error()),
            "/metrics": lambda: Page(200, CONTENT_TYPE, metrics.page()),
        }

    def at(self, target: str) -> Page:
        """The page of a request's target; a query is ignored."""
        page = self._pages.get(target.partition("?")[0])
        return page() if page is not None else text(404, "there are " + ", ".join(self._pages))


def _verdict(good: str, wrong: str | None) -> Page:
    return text(200, good) if wrong is None else text(503, wrong)


def _ready(status: Status) -> str:
    return "ready" if status.remark is None else f"ready: {status.remark()}"


def text(status: int, line: str) -> Page:
    """One line."""
    return Page(status, _TEXT, (" ".join(line.split())[:_LONGEST] + "\n").encode())
