"""A page of metrics for Prometheus to scrape, whose text a test changes as it goes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.servers.loopback import serve_http


class MetricsPage:
    """``text`` is what the next scrape reads, or a function that makes it then. ``None`` answers 503, as an
    exporter in trouble does."""

    def __init__(self, text: str) -> None:
        self.text: str | Callable[[], str] | None = text
        self.target = ""
        """``host:port``, as a scrape configuration wants it."""

    def answer(self) -> tuple[int, str]:
        """Make the answer to a scrape."""
        text = self.text
        return (503, "") if text is None else (200, text() if callable(text) else text)


@contextmanager
def serve_metrics(text: str) -> Iterator[MetricsPage]:
    """Serve ``text`` at ``/metrics`` on a free loopback port until the block ends."""
    page = MetricsPage(text)
    with serve_http(lambda _: page.answer()) as page.target:
        yield page
