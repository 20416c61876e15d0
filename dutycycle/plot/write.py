"""Writes charts into one file: a page that can be zoomed, or a picture."""

from collections.abc import Sequence
from pathlib import Path

from dutycycle.report.charts.chart import Chart
from dutycycle.whole_file import PAGES, whole_file

PICTURES = (".png", ".svg")
_INCHES = (9.0, 3.4)


def write(charts: Sequence[Chart], title: str | None, span: tuple[int, int], out: Path) -> None:
    """Write ``charts``, one below the other. ``title``: above them all; a page without one is called after
    its charts. Raises ``DutycycleError``."""
    with whole_file(out) as path:
        if out.suffix in PAGES:
            from dutycycle.report.charts.plot import figure_of
            from dutycycle.report.page import document, shown_charts  # here, not above: only a page needs it

            heading = title or ", ".join(chart.title for chart in charts)
            figures = {chart.id: figure_of(chart, *span) for chart in charts}
            page = document(
                "charts.html", f"{heading} – Dutycycle", figures,
                title=heading, span=span, shown=shown_charts(charts),
            )  # fmt: skip
            path.write_text(page, encoding="utf-8")
        else:
            from dutycycle.report.charts.pictures import draw, new_figure, save

            with new_figure(figsize=(_INCHES[0], _INCHES[1] * len(charts)), dpi=120) as figure:
                if title is not None:
                    figure.suptitle(title)
                for place, chart in enumerate(charts):
                    draw(figure.add_subplot(len(charts), 1, place + 1), chart)
                save(figure, path)
