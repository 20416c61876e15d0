"""A page of metrics for Prometheus to scrape, whose text a test changes as it goes."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.servers.loopback import serve_http


class MetricsPage:
    """``text`` is what the next scrape reads. ``None`` answers 503, as an exporter in trouble does."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text
        self.target = ""
        """``host:port``, as a scrape configuration wants it."""


@contextmanager
def serve_metrics(text: str) -> Iterator[MetricsPage]:
    """Serve ``text`` at ``/metrics`` on a free loopback port until the block ends."""
    page = MetricsPage(text)
    with serve_http(lambda _: (503 if page.text is None else 200, page.text or "")) as page.target:
        yield page
