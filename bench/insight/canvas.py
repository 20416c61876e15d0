"""The same look for every picture, and the same bytes for the same figures."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from PIL import Image

INK, GREY, BLUE, ORANGE, GREEN, RED = "#222222", "#9a9a9a", "#1f6fb4", "#e07b00", "#2e8b57", "#c0392b"
DPI = 80
COLOURS = 48
"""Enough for lines and text, and a third of the bytes."""
STYLE: Any = {
    "font.size": 8, "axes.titlesize": 8, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": GREY, "xtick.color": INK, "ytick.color": INK, "lines.linewidth": 0.9,
    "legend.frameon": False, "svg.hashsalt": "dutycycle", "font.family": "DejaVu Sans",
}  # fmt: skip


@contextmanager
def picture(
    path: Path, title: str, rows: int, columns: int, size: tuple[float, float]
) -> Iterator[list[Axes]]:
    """Axes, row by row, of a picture that is written to ``path`` (PNG) in the end; those not used vanish.

    ``size`` is width and height of all, in inches.
    """
    with mpl.rc_context(STYLE):
        figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        figure.suptitle(title, fontsize=10)
        axes = [one for row in grid for one in row]
        yield axes
        for one in axes:
            if not one.has_data():
                one.set_visible(False)
        drawn = BytesIO()
        figure.savefig(drawn, dpi=DPI, metadata={"Software": None})
        plt.close(figure)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(COLOURS).save(path, optimize=True)
